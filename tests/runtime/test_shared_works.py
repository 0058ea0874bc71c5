"""Long works of native loops are shared by the session's worker threads: no bit of the results depends on that."""

import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import TensorArrayError
from tagloom.kernels.scheduler.state import live_counts

from tests.support.settings import ON
from tests.support.waiting import until

BATCH, UNITS, LENGTH = 16, 128, 40


def random(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def recurrence(dtype, batch=BATCH, units=UNITS):
    """Return feeds, their values, and a recurrent network's outputs and gradients."""
    x, w = tg.placeholder(dtype, [LENGTH, batch, units]), tg.placeholder(dtype, [2 * units, 2 * units])

    def body(t, h, out):
        a, b = tg.split(tg.matmul(tg.concat([x[t], h], 1), w), 2, axis=1)
        h = tg.tanh(a) * tg.sigmoid(b) + tg.exp(-tg.square(h)) * tg.cast(0.1, dtype)
        return t + 1, h, out.write(t, h)

    start = [0, tg.zeros([batch, units], dtype), tg.TensorArray(dtype, LENGTH)]
    outputs = tg.while_loop(lambda t, *_: t < LENGTH, body, start)[2].stack()
    fetches = [outputs, *tg.gradients(tg.reduce_sum(tg.square(outputs)), [x, w])]
    given = {x: random(LENGTH, batch, units, dtype=dtype), w: random(2 * units, 2 * units, dtype=dtype) / units}
    return given, fetches


def endless(size=192):
    """Return a loop of products that does not end by itself."""
    x = tg.constant(np.eye(size, dtype=np.float32))
    return tg.while_loop(lambda i, _: i < 10**9, lambda i, y: (i + 1, tg.matmul(y, x) * 1.0), [0, tg.identity(x)])


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
async def test_results_are_the_same_with_any_number_of_threads(graph, vectors, bits, dtype):
    vectors(bits)
    given, fetches = recurrence(dtype)
    found = []
    for settings in (ON, ON.without("llvm")):
        for workers in (0, 1, 2, 3):
            async with tg.Session(graph, settings=replace(settings, workers=workers)) as session:
                for _ in range(3):
                    found.append(await session.run(fetches, given))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


async def test_two_threads_work_on_one_loop(graph):
    loop = endless()
    async with tg.Session(graph, settings=replace(ON, workers=2)) as session:
        step = asyncio.create_task(session.run(loop))
        await until(lambda: session._steps.environment.worker_pool.workers.busy == 2)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await until(lambda: session.statistics().orphaned == 0)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


async def test_several_steps_share_the_threads(graph):
    given, fetches = recurrence("float32")
    async with tg.Session(graph, settings=replace(ON, workers=2)) as session:
        wanted = await session.run(fetches, given)
        for found in await asyncio.gather(*[session.run(fetches, given) for _ in range(6)]):
            for one, same in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(one, same)


async def test_closing_a_session_ends_what_is_shared(graph):
    loop = endless()
    session = tg.Session(graph, settings=replace(ON, workers=3))
    step = asyncio.create_task(session.run(loop))
    await until(lambda: session._steps.environment.worker_pool.workers.busy >= 2)
    await session.aclose()
    with pytest.raises(tg.SessionClosed):
        await step
    assert session.statistics().orphaned == 0


async def test_an_array_whose_size_is_fixed_while_a_loop_makes_it_grow(graph):
    """A gradient array that is made meanwhile fixes the size (rule 112): no write is lost without an error."""
    started = threading.Event()
    array = tg.TensorArray("float32", 0, dynamic_size=True, clear_after_read=False, element_shape=[])
    waits = tg.py_function(lambda: np.int32(started.wait(60)), [], "int32", blocking=True)
    with tg.control_dependencies([waits]):
        size = array.grad("late").size()
    w = tg.constant(np.eye(256, dtype=np.float32))

    def body(i, y, a):
        y = tg.matmul(y, w) * 1.0
        return i + 1, y, a.write(i, tg.reduce_sum(y[0]))

    out = tg.while_loop(lambda i, *_: i < 3000, body, [0, tg.identity(w), array])[2]
    async with tg.Session(graph, settings=replace(ON, workers=2)) as session:
        step = asyncio.create_task(session.run([out.size(), size]))
        await until(lambda: session._steps.environment.worker_pool.workers.busy or step.done())
        started.set()
        with pytest.raises(TensorArrayError, match="cannot grow"):
            await step


@pytest.mark.parametrize(("bits", "size"), [(0, 400), (1 << 16, 2048)])
async def test_what_the_step_machine_cuts_better_is_left_to_it(graph, vectors, bits, size):
    """Products by BLAS, and what would keep threads for long after its step has ended."""
    vectors(bits)
    x = tg.placeholder("float32", [size, size])
    loop = tg.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, tg.reduce_sum(tg.matmul(x + y, x))), [0, 0.0])
    async with tg.Session(graph, settings=replace(ON, workers=2)) as session:
        await session.run(loop, {x: np.eye(size, dtype=np.float32)})
        (report,) = session.report().loops
    assert "several cores" in report.not_native

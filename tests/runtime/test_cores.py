"""Long kernels are done by a session's worker threads: the same results, and nothing is left behind."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.cpu.blas import load_blas
from tagloom.runtime.scheduling.worker_pool import WakeupFd, WorkerPool, _blas

from tests.support.settings import ON
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
SIZE = 192  # of matrices whose product is long enough to be left to the workers
ALWAYS = replace(ON, workers=3, offload_seconds=0.0)
NEVER = replace(ON, workers=0)


def matrix(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def run(graph, fetches, feeds, settings, trace=None):
    async def main():
        async with tg.Session(graph, settings=settings) as session:
            return await session.run(fetches, feeds, trace=trace)

    return asyncio.run(main())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("shape", [(300, 170, 130), (64, 512, 1000), (1000, 100, 65), (129, 4097, 200)])
def test_products_in_parts_are_right(dtype, transpose_a, transpose_b, shape):
    rows, inner, columns = shape
    a = matrix(*((inner, rows) if transpose_a else (rows, inner)), dtype=dtype)
    b = matrix(*((columns, inner) if transpose_b else (inner, columns)), dtype=dtype)
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder(dtype, a.shape), tg.placeholder(dtype, b.shape)
        product = tg.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    trace = tg.Trace()
    found = run(graph, product, {x: a, y: b}, ALWAYS, trace)
    wanted = (a.T if transpose_a else a).astype("float64") @ (b.T if transpose_b else b)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3 if dtype == "float32" else 1e-9)
    assert [span.stream for span in trace.spans if span.type == "MatMul"] == ["workers"]


@pytest.mark.parametrize("settings", [ALWAYS, replace(ALWAYS, fuse=False)])
def test_elementwise_work_in_parts_is_the_same_bit_for_bit(settings):
    given = matrix(700, 501)
    with tg.Graph().as_default() as graph:
        x, row = tg.placeholder("float32", given.shape), tg.placeholder("float32", [501])
        y = tg.tanh(x * 3.0 + 1.0) * tg.sigmoid(x) - x
        z = tg.sigmoid(x * row + y)
    trace = tg.Trace()
    found = run(graph, [y, z], {x: given, row: given[0]}, settings, trace)
    for ours, inline in zip(found, run(graph, [y, z], {x: given, row: given[0]}, NEVER), strict=True):
        np.testing.assert_array_equal(ours, inline)
    assert "workers" in {span.stream for span in trace.spans}


BATCH, UNITS = 64, 256


def recurrent(length):
    """A loop over products whose weights get gradients: columns are summed, products gathered."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [length, BATCH, UNITS])
        w, b = tg.placeholder("float32", [UNITS, UNITS]), tg.placeholder("float32", [UNITS])
        source = tg.TensorArray("float32", length).unstack(x)
        outputs = tg.TensorArray("float32", length)

        def body(i, h, outputs):
            h = tg.tanh(tg.matmul(h + source.read(i), w) + b)
            return i + 1, h, outputs.write(i, h)

        start = [0, tg.zeros([BATCH, UNITS]), outputs]
        result = tg.while_loop(lambda i, *_: i < length, body, start)[2].stack()
        loss = tg.reduce_mean(tg.square(result))
        return graph, [x, w, b], [result, loss, *tg.gradients(loss, [w, b])]


def values(length):
    return [matrix(length, BATCH, UNITS), matrix(UNITS, UNITS) / 16, matrix(UNITS)]


def test_a_training_step_is_the_same_with_and_without_workers():
    graph, feeds, fetches = recurrent(6)
    given = dict(zip(feeds, values(6), strict=True))
    trace = tg.Trace()
    rounding = (
        6 * np.sqrt(UNITS) * np.finfo(np.float32).eps
    )  # BLAS may round parts of a product otherwise than all of it
    for ours, inline in zip(run(graph, fetches, given, ALWAYS, trace), run(graph, fetches, given, NEVER), strict=True):
        np.testing.assert_allclose(ours, inline, rtol=1e-5, atol=rounding)
    offloaded = {span.type for span in trace.spans if span.stream == "workers"}
    assert {"MatMul", "Fused", "ProductSumEnd", "TensorArrayStack"} <= offloaded


def test_results_do_not_depend_on_timing():
    graph, feeds, fetches = recurrent(4)
    given = dict(zip(feeds, values(4), strict=True))
    first = run(graph, fetches, given, ALWAYS)
    for settings in (ALWAYS, replace(ALWAYS, offload_seconds=10.0), replace(ALWAYS, shuffle_seed=3)):
        for ours, again in zip(first, run(graph, fetches, given, settings), strict=True):
            np.testing.assert_array_equal(ours, again)


async def test_concurrent_steps_share_the_workers():
    graph, feeds, fetches = recurrent(5)
    given = dict(zip(feeds, values(5), strict=True))
    async with tg.Session(graph, settings=ALWAYS) as session:
        alone = await session.run(fetches, given)
        for results in await asyncio.gather(*(session.run(fetches, given) for _ in range(8))):
            for ours, wanted in zip(results, alone, strict=True):
                np.testing.assert_array_equal(ours, wanted)


def scans(*lengths):
    """Return a graph with scans of one row each, whose work no two threads can share, the feeds and what they are."""
    with tg.Graph().as_default() as graph:
        fed = [tg.placeholder("float64", [length]) for length in lengths]
        return (
            graph,
            [tg.cumsum(x) for x in fed],
            {x: matrix(n, dtype="float64") for x, n in zip(fed, lengths, strict=True)},
        )


@pytest.mark.parametrize(
    ("lengths", "goes"),
    [([5_000], False), ([50_000], True), ([5_000, 5_000], True)],
    ids=["alone", "alone and long", "beside another"],
)
def test_what_nobody_can_share_goes_to_a_worker_if_something_else_can_go_on(lengths, goes):
    """At about 1 ns an element 5,000 take longer than offload_seconds, 50,000 longer than ten times that."""
    graph, fetches, given = scans(*lengths)
    trace = tg.Trace()
    found = run(graph, fetches, given, replace(ON, workers=2, offload_seconds=1e-6), trace)
    for sums, x in zip(found, given.values(), strict=True):
        np.testing.assert_array_equal(sums, np.cumsum(x))
    assert ("workers" in {span.stream for span in trace.spans if span.type == "Cumsum"}) == goes


async def test_another_step_is_something_else_that_can_go_on():
    graph, fetches, given = scans(5_000)
    began = asyncio.Event()

    async def wait():
        began.set()
        await asyncio.Event().wait()

    with graph.as_default():
        waits = tg.py_function(wait, [], "bool")
    async with tg.Session(graph, settings=replace(ON, workers=2, offload_seconds=1e-6)) as session:
        other = asyncio.ensure_future(session.run(waits))
        await began.wait()
        trace = tg.Trace()
        await session.run(fetches, given, trace=trace)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
    assert [span.stream for span in trace.spans if span.type == "Cumsum"] == ["workers"]


def test_long_loops_beside_each_other_and_what_else_is_ready():
    """Each runs for some slices of the event loop's, and lets the others go first once."""
    with tg.Graph().as_default() as graph:
        start = [tg.placeholder("int64", []) for _ in range(3)]
        loops = [tg.while_loop(lambda i, _: i < 300_000, lambda i, n: (i + 1, n + i), (x, x))[1] for x in start]
        fetches = [*loops, tg.reduce_sum(tg.cumsum(tg.range(start[0], 1000)))]
    given = dict(zip(start, (np.int64(n) for n in (0, 1, 200_000)), strict=True))
    for settings in (replace(ON, llvm=False), replace(ON, llvm=False, workers=2), replace(NEVER, llvm=False)):
        found = run(graph, fetches, given, settings)
        assert found[:3] == [n + sum(range(n, 300_000)) for n in map(int, given.values())]
        assert found[3] == np.cumsum(np.arange(1000)).sum()


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.005, 0.02])
async def test_a_cancelled_step_leaves_its_kernels_to_end_on_their_own(delay):
    graph, feeds, fetches = recurrent(30)
    given = dict(zip(feeds, values(30), strict=True))
    async with tg.Session(graph, settings=ALWAYS) as session:
        step = asyncio.create_task(session.run(fetches, given))
        await asyncio.sleep(delay)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await until(lambda: session.statistics().orphaned == 0)
        assert len(await session.run(fetches, given)) == len(fetches)


async def test_an_orphaned_kernel_is_counted_and_keeps_its_arrays():
    size = 2500
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [size, size])
        y = tg.matmul(x, x)
    async with tg.Session(graph, settings=ALWAYS) as session:
        step = asyncio.create_task(session.run(y, {x: matrix(size, size)}))
        await until(lambda: session._steps.environment.worker_pool.workers.busy)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert session.statistics().orphaned == 1
        # Told by the workers, not by asking for the count.
        await until(lambda: session._steps.environment.worker_pool._wakeup is None)
        assert session.statistics().orphaned == 0


async def test_closing_waits_for_orphans():
    size = 1500
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [size, size])
        y = tg.matmul(x, x)
    session = tg.Session(graph, settings=ALWAYS)
    step = asyncio.create_task(session.run(y, {x: matrix(size, size)}))
    await until(lambda: session._steps.environment.worker_pool.workers.busy)
    await session.aclose()
    with pytest.raises(tg.SessionClosed):
        await step
    assert session.statistics().orphaned == 0


async def test_a_failing_step_takes_back_its_work():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [SIZE, SIZE])
        products = [tg.matmul(x, x + float(k)) for k in range(20)]
        broken = tg.py_function(lambda: 1 / 0, [], "float32", output_shapes=[])
    async with tg.Session(graph, settings=ALWAYS) as session:
        with pytest.raises(tg.OpError, match="division by zero"):
            await session.run([*products, broken], {x: matrix(SIZE, SIZE)})
        await until(lambda: session._steps.environment.worker_pool._wakeup is None)
        assert session.statistics().orphaned == 0
        assert len(await session.run(products, {x: matrix(SIZE, SIZE)})) == 20


async def test_a_guard_sees_what_the_workers_made():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [SIZE, SIZE])
        y = tg.matmul(x, x, name="product")
    async with tg.Session(graph, settings=ALWAYS, check_numerics=True) as session:
        with pytest.raises(tg.OpError, match="product"):
            await session.run(y, {x: np.full((SIZE, SIZE), np.inf, np.float32)})


def blas_threads():
    load_blas()
    return [controller.num_threads for controller in _blas().lib_controllers]


@pytest.mark.parametrize("check", ["blas_while_sessions_are_open", "blas_after_a_session_is_dropped"])
def test_blas_has_one_thread_while_any_session_is_open(check):
    """In a process of its own: sessions of functions, which other tests have called, hold BLAS as long as they live."""
    code = f"import asyncio; from tests.runtime import test_cores as t; asyncio.run(t.{check}())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def blas_while_sessions_are_open():
    before = blas_threads()
    with tg.Graph().as_default() as graph:
        y = tg.constant(1.0) + 1.0
    async with tg.Session(graph, settings=ALWAYS) as one:
        async with tg.Session(graph, settings=ALWAYS) as two:
            await one.run(y)
            await two.run(y)
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    async with tg.Session(graph, settings=NEVER) as session:
        await session.run(y)
        assert blas_threads() == before


async def blas_after_a_session_is_dropped():
    before = blas_threads()
    cores = WorkerPool(ALWAYS)
    cores.limit_blas()
    cores.limit_blas()
    assert set(blas_threads()) == {1}
    del cores
    assert blas_threads() == before


async def test_a_bell_rings_in_its_loop():
    rung = asyncio.Event()
    bell = WakeupFd(rung.set)
    await asyncio.to_thread(os.write, bell.descriptor, (1).to_bytes(8, "little"))
    async with asyncio.timeout(10):
        await rung.wait()
    bell.close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(bell.descriptor)


def test_no_threads_are_started_for_short_kernels():
    with tg.Graph().as_default() as graph:
        y = tg.matmul(tg.ones([8, 8]), tg.ones([8, 8]))

    async def main():
        async with tg.Session(graph, settings=replace(ALWAYS, workers=5)) as session:  # threads of its own
            await session.run(y)
            return session._steps.environment.worker_pool.workers.started

    assert asyncio.run(main()) == 0


def test_a_pool_needs_a_thread():
    with pytest.raises(ValueError, match="at least 1"):
        WorkerPool(replace(ON, workers=-1))


async def test_a_numpy_kernel_that_takes_long_is_called_in_a_thread():
    given = matrix(40, 200, 200)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", given.shape)
        y = tg.cumsum(tg.matmul(x, x), axis=0)
        z = tg.reverse(x, axis=[0])
    async with tg.Session(graph, settings=ON) as session:
        step = session.make_step([y, z], [x])
        first = await step(given)
        assert session._steps.environment.blocking_calls._line is None  # nobody knew how long it takes
        trace = tg.Trace()
        again = await step(given, trace=trace)
        streams = {span.type: span.stream for span in trace.spans}
        assert streams["MatMul"] == "awaited"
        for ours, wanted in zip(again, first, strict=True):
            np.testing.assert_array_equal(ours, wanted)
    async with tg.Session(graph, settings=ON.without("workers")) as session:
        for _ in range(2):
            await session.run(y, {x: given})
        assert session._steps.environment.blocking_calls._line is None

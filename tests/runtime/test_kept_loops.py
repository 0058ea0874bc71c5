"""Runs of small loops that are kept for other inputs, lengths and saved values: nothing of a run is seen by others."""

import asyncio
import gc
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts

from tests.runtime.native_programs import below
from tests.support.settings import ON
from tests.support.waiting import until

WAYS = {"llvm": replace(ON, specialize=0), "straight": replace(ON, specialize=0, llvm=False)}
OFF = ON.without("straight", "cluster")
LENGTHS = [5, 300, 0, 5, 1, 40, 40]


def products(n):
    x, w = tg.placeholder("float32", [4, 4]), tg.placeholder("float32", [4, 4])
    y = tg.while_loop(below(n), lambda i, a: (i + 1, a @ w), [0, x])[1]
    return [x, w], [tg.reduce_sum(y), *tg.gradients(tg.reduce_sum(y * y), [x, w])]


def elements(n):
    x, w = tg.placeholder("float64", []), tg.placeholder("float64", [])
    y = tg.while_loop(below(n), lambda i, a: (i + 1, tg.sin(a * w) + tg.cast(i, "float64")), [0, x])[1]
    return [x, w], [y, *tg.gradients(y, [x, w])]


def vectors(n):
    x, w = tg.placeholder("float64", [None]), tg.placeholder("float64", [3])

    def body(i, a, b):
        return i + 1, tg.tanh(a * w) - b, tg.cond(i % 2 == 0, lambda: b + 1.0, lambda: tg.sin(a) * b)

    y = tg.while_loop(below(n), body, [0, x, x])[1]
    return [x, w], [y, *tg.gradients(y, [x, w])]


def second_order(n):
    x, w = tg.placeholder("float64", [2]), tg.placeholder("float64", [2])
    y = tg.while_loop(below(n), lambda i, a: (i + 1, tg.sin(a) * w), [0, x])[1]
    [first] = tg.gradients(y, [x])
    return [x, w], [first, *tg.gradients(tg.reduce_sum(first * first), [x, w])]


def two_sums(n):
    x, v, w = (tg.placeholder("float64", [2, 2]) for _ in range(3))
    y = tg.while_loop(below(n), lambda i, a: (i + 1, tg.tanh(a @ v) @ w), [0, x])[1]
    return [x, v, w], tg.gradients(y, [x, v, w])


PROGRAMS = [products, elements, vectors, second_order, two_sums]


def feeds_of(inputs, count):
    """Return values for inputs, others each time."""
    random = np.random.default_rng(1)
    return [
        [(0.5 * random.standard_normal([size or 3 for size in t.shape.dims])).astype(t.dtype.numpy) for t in inputs]
        for _ in range(count)
    ]


async def results(graph, fetches, feeds, settings):
    async with tg.Session(graph, settings=settings) as session:
        return [await session.run(fetches, each) for each in feeds]


def check_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        for value, same in zip(one, other, strict=True):
            assert value.dtype == same.dtype
            np.testing.assert_array_equal(value, same)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("way", WAYS)
async def test_other_inputs_and_lengths(graph, program, way):
    n = tg.placeholder("int32", [])
    inputs, fetches = program(n)
    feeds = [
        {n: length, **dict(zip(inputs, values, strict=True))}
        for length, values in zip(LENGTHS, feeds_of(inputs, len(LENGTHS)), strict=True)
    ]
    check_same(await results(graph, fetches, feeds, WAYS[way]), await results(graph, fetches, feeds, OFF))


async def test_other_shapes(graph):
    x, w = tg.placeholder("float64", [None]), tg.placeholder("float64", [])
    y = tg.while_loop(below(9), lambda i, a: (i + 1, tg.sin(a) * w), [0, x])[1]
    fetches = [y, *tg.gradients(y, [x, w])]
    feeds = [{x: np.linspace(0.1, 1, size), w: np.array(0.1 * size + 0.5)} for size in [3, 4, 3, 1, 200, 4, 0, 3]]
    for settings in WAYS.values():
        check_same(await results(graph, fetches, feeds, settings), await results(graph, fetches, feeds, OFF))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_what_is_kept_is_small_and_goes_with_the_session(graph, program):
    n = tg.placeholder("int32", [])
    inputs, fetches = program(n)
    values = dict(zip(inputs, feeds_of(inputs, 1)[0], strict=True))
    gc.collect()
    async with tg.Session(graph, settings=WAYS["straight"]) as session:
        assert session.statistics().live_bytes == 0
        await session.run(fetches, {n: 3, **values})
        kept = session.statistics().live_bytes
        assert 0 < kept < 4096  # nothing, if no run were kept
        for length in (20_000, 3, 0, 3):
            await session.run(fetches, {n: length, **values})
            assert session.statistics().live_bytes == kept
    assert session.statistics().live_bytes == 0


async def test_several_at_once(graph):
    n = tg.placeholder("int32", [])
    inputs, fetches = products(n)
    one = np.eye(4, dtype="f4")
    feeds = [{n: 20_000 + k, inputs[0]: one * (k + 1), inputs[1]: one} for k in range(4)]
    async with tg.Session(graph, settings=replace(WAYS["straight"], workers=2)) as session:
        for _ in range(2):
            found = await asyncio.gather(*(session.run(fetches, each) for each in feeds))
            check_same(found, await results(graph, fetches, feeds, OFF))


async def test_a_run_that_gives_up_is_not_kept(graph):
    n, bad = tg.placeholder("int32", []), tg.placeholder("int32", [])
    x = tg.placeholder("float64", [3])
    y = tg.while_loop(below(n), lambda i, a: (i + 1, tg.sin(a) + tg.cast(6 // (i - bad), "float64")), [0, x])[1]
    fetches = [y, *tg.gradients(y, [x])]
    good, wrong = [{n: 20, bad: k, x: np.linspace(0, 1, 3)} for k in (-1, 12)]
    wanted = await results(graph, fetches, [good], OFF)
    async with tg.Session(graph, settings=WAYS["straight"]) as session:
        for _ in range(3):
            check_same([await session.run(fetches, good) for _ in range(4)], wanted * 4)
            with pytest.raises(tg.OpError, match="zero"):
                await session.run(fetches, wrong)
        assert session.report().loops
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


async def test_a_cancelled_run_is_not_kept(graph):
    n, x = tg.placeholder("int32", []), tg.placeholder("float64", [2])
    y = tg.while_loop(below(n), lambda i, a: (i + 1, tg.sin(a)), [0, x])[1]
    fetches = [y, *tg.gradients(y, [x])]
    feeds = {n: 50, x: np.ones(2)}
    wanted = await results(graph, fetches, [feeds], OFF)
    async with tg.Session(graph, settings=WAYS["straight"]) as session:
        for _ in range(3):
            check_same([await session.run(fetches, feeds)], wanted)
            step = asyncio.ensure_future(session.run(fetches, {**feeds, n: 5_000_000}))
            await until(lambda: session.statistics().live_bytes > 0)  # it is in the loop
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            del step
        check_same([await session.run(fetches, feeds)], wanted)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))
    async with asyncio.timeout(20):
        while session.statistics().live_bytes:  # a thread may be in a slice still
            await asyncio.sleep(0.01)
            gc.collect()  # the error's traceback has the plan, in a circle


async def test_room_is_made_for_the_iterations_that_there_are(graph):
    start, x = tg.placeholder("int32", []), tg.placeholder("float64", [4])
    y = tg.while_loop(below(1_000_000), lambda i, a: (i + 1, tg.sin(a)), [start, x])[1]
    fetches = [y, *tg.gradients(y, [x])]
    async with tg.Session(graph, settings=WAYS["straight"]) as session:
        for first in (999_990, 999_000, 999_990):
            await session.run(fetches, {start: first, x: np.ones(4)})
        assert session.statistics().peak_bytes < 500_000  # 32 MB for a million

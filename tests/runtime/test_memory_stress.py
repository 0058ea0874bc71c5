"""Many steps at once in little memory, some cancelled while they wait for it."""

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.support.many_steps import count_right, some_cancelled
from tests.support.settings import ON
from tests.support.waiting import turns, until

N = 1 << 12
SIZE = 4 * N


@pytest.fixture
def x(graph):
    return tg.placeholder("float32", [N])


def trained(x, window):
    """Return what a loop with a gradient gives, in which each iteration waits for a function."""

    async def later(i):
        await asyncio.sleep(0.0005 * (i % 3))
        return i

    def body(i, a):
        one = tg.fill([N], tg.cast(tg.py_function(later, [i], "int32", output_shapes=[]), "float32"))
        return i + 1, tg.tanh(a) + one * 0.1

    _, y = tg.while_loop(lambda i, _: i < 6, body, (0, x), parallel_iterations=window)
    return tg.gradients(tg.reduce_sum(y), [x])[0]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [9, 14, 30])
async def test_steps_share_what_there_is(graph, x, seed, limit):
    rng = random.Random(seed)
    fetch = trained(x, rng.choice([1, 3, "auto"]))
    feed = np.linspace(-1, 1, N, dtype=np.float32)
    async with tg.Session(graph, settings=replace(ON, fold=False)) as session:
        expected = await session.run(fetch, {x: feed})
    workers = rng.choice([0, None])
    seeds = rng.choice([None, seed])
    settings = replace(ON, fold=False, workers=workers, offload_seconds=0.0, shuffle_seed=seeds)
    async with tg.Session(graph, memory_limit=limit * SIZE, settings=settings) as session:
        results = await some_cancelled(session, fetch, {x: feed}, rng, 2, 0.002)
        count = count_right(results, expected, tg.DeviceMemoryError)
        assert limit < 30 or count
        del results
        async with asyncio.timeout(10):
            while session.statistics().orphaned:
                await asyncio.sleep(0.01)
        figures = session.statistics()
        assert figures.steps_running == 0
        assert figures.live_bytes < 100
        assert figures.peak_bytes <= limit * SIZE


async def test_closing_a_session_ends_parked_steps(graph, x):
    async def forever(value):
        await asyncio.sleep(100)
        return value

    kept = tg.reduce_sum((x + 1.0) * tg.py_function(forever, [tg.constant(1.0)], "float32"))
    grown = tg.reduce_sum(tg.concat([x, x], 0))
    session = tg.Session(graph, memory_limit=4 * SIZE, settings=replace(ON, workers=0))
    feed = np.ones(N, np.float32)
    first = asyncio.ensure_future(session.run(kept, {x: feed}))
    await until(lambda: session.statistics().live_bytes >= 2 * SIZE)
    second = asyncio.ensure_future(session.run(grown, {x: feed * 2}))
    await turns()
    assert not second.done()
    async with asyncio.timeout(5):
        await session.aclose()
    for step in (first, second):
        with pytest.raises(tg.SessionClosed):
            await step

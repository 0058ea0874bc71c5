"""Many steps that swap at the same time, some cancelled or late, on both tiers and both kinds of event loop."""

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
import uvloop

from tests.support.many_steps import count_right, some_cancelled
from tests.support.settings import ON
from tests.swap.loops import LOOPS, SIZE, feeds_of, gradient
from tests.swap.observing import bytes_in_tiers


async def steps_in_little_memory(graph, fetch, rng, directory):
    """Run six steps at once, of which some are ended from outside; return how many gave something."""
    feeds = feeds_of(graph)
    settings = replace(ON, fold=False, workers=rng.choice([0, None]), shuffle_seed=rng.choice([None, 1]))
    async with tg.Session(graph, swap=True, settings=settings) as session:
        expected = await session.run(fetch, feeds)
    policy = tg.SwapPolicy(threshold=rng.uniform(0.1, 1.0), host_limit=rng.choice([1, 8 * SIZE, None]), disk=directory)
    limit = rng.choice([16, 24, 40, 80]) * SIZE
    async with tg.Session(graph, memory_limit=limit, swap=policy, settings=settings) as session:
        late = {"timeout": rng.uniform(0.0, 0.05)} if rng.random() < 0.3 else {}
        results = await some_cancelled(session, fetch, feeds, rng, 3, 0.005, **late)
        count = count_right(results, expected, tg.DeviceMemoryError, tg.StepTimeout)
        del results
        await asyncio.sleep(0)  # the future that woke this task has the results
        assert session.statistics().live_bytes < 100
        assert session.statistics().peak_bytes <= limit
        assert bytes_in_tiers(session) == 0
        if limit >= 24 * SIZE:
            np.testing.assert_array_equal(await session.run(fetch, feeds, timeout=20), expected)
        return count


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_steps_at_the_same_time(graph, tmp_path, seed, factory):
    rng = random.Random(seed)
    fetch = gradient(LOOPS[rng.choice(["plain", "nested", "branching", "rows"])], window=rng.choice([1, 7, "auto"]))
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(steps_in_little_memory(graph, fetch, rng, tmp_path))

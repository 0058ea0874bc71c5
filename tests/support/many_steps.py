"""Many steps at the same time, of which some are ended from outside."""

import asyncio

import numpy as np


async def some_cancelled(session, fetch, feeds, rng, cancelled, pause, **options):
    """Run six steps at once and cancel some, at random times up to `pause` seconds apart; return what each gave."""
    steps = [asyncio.ensure_future(session.run(fetch, feeds, **options)) for _ in range(6)]
    for step in rng.sample(steps, cancelled):
        await asyncio.sleep(pause * rng.random())
        step.cancel()
    async with asyncio.timeout(30):
        return await asyncio.gather(*steps, return_exceptions=True)


def count_right(results, expected, *endings):
    """Hold results against what is expected, or how steps may end without one; return how many there are."""
    for result in results:
        if isinstance(result, np.ndarray):
            np.testing.assert_array_equal(result, expected)
        else:
            assert isinstance(result, (asyncio.CancelledError, *endings)), result
    return sum(isinstance(result, np.ndarray) for result in results)

"""A short soak; for a long one run ``python -m tests.property.soak``."""

import asyncio

from tests.property.soak import soak
from tests.support.tiers import choose


def test_rounds_lose_nothing_and_leave_nothing():
    counts, _ = asyncio.run(soak(choose(thorough=2.0, default=0.0), seed=1))
    assert counts.rounds >= 3
    assert counts.cancelled > 0
    assert counts.timed_out > 0
    assert counts.checkpoints > 0

"""A network decides by data how long each row thinks, and learns to think."""

import numpy as np

from examples.adaptive_computation import Size, draw, train

SMALL = Size(units=24, batch=64, bits=2, most=6)


async def test_it_learns_the_parity_of_bits():
    losses, right, pondered, report = await train(SMALL, 300, say=str)
    assert np.mean(losses[-10:]) < 0.2 < 0.5 < np.mean(losses[:10])
    assert right > 0.95
    assert all(1 <= steps <= SMALL.most for steps in pondered)
    assert [loop.not_native for loop in report.loops] == [None, None]


async def test_pondering_that_costs_much_is_short():
    _, _, brief, _ = await train(SMALL, 60, say=str, cost=1.0)
    _, _, long, _ = await train(SMALL, 60, say=str, cost=0.0)
    assert np.mean(brief) < np.mean(long)


def test_rows_are_odd_by_their_ones():
    bits, odd = draw(np.random.default_rng(0), SMALL)
    for row, is_odd in zip(bits, odd, strict=True):
        assert is_odd == (sum(b == 1 for b in row) % 2 == 1)
        assert sorted(row == 0) == list(row == 0)
        assert row[0] != 0

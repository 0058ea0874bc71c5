"""Gradients of random smooth programs are what finite differences say, to second order.

A difference counts only where every branch and trip count is the same at all its points. ``TAGLOOM_PROGRAMS`` sets
the number of programs, as for the executors.
"""

import asyncio

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.property.finite_differences import Tally, check_differences
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import smooth_programs

MOST_REJECTED = 0.2


@pytest.mark.rule(83, 84, 85, 86, 87, 88, 89, 91, 93, 98, 100, 113)
@batches(100)
def test_random_gradients(batch, capsys):
    tally = Tally()

    @batch_settings(100)
    @given(smooth_programs(), st.sampled_from([1, 2, 7, 32]))
    def run(program, window):
        note(f"{show(program)}\n{program!r}")
        asyncio.run(check_differences(program, window, tally))

    run()
    share = tally.rejected / tally.taken
    with capsys.disabled():
        print(f" {tally.taken} differences, {share:.1%} cross a decision ", end="")
    assert share <= MOST_REJECTED

"""Experts on devices of their own learn what they learn on one, and are computed only where they were chosen."""

import numpy as np
import tagloom as tg

from examples.mixture_of_experts import Size, percent, train

SMALL = Size(experts=3, units=8, hidden=8, batch=3, length=6)


async def test_it_learns_on_five_devices_what_it_learns_on_one():
    losses, consulted, report = await train(SMALL, 40, say=str)
    alone, consulted_alone, report_alone = await train(SMALL, 40, devices=1, say=str)
    np.testing.assert_allclose(losses, alone, rtol=1e-4)
    np.testing.assert_array_equal(consulted, consulted_alone)
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 0.2
    assert {loop.device[-5:] for loop in report.loops} == {f"CPU:{k}" for k in range(5)}
    assert report_alone.traffic == ()


async def test_an_expert_that_is_not_chosen_is_not_computed():
    trace, lines = tg.Trace(), []
    _, consulted, report = await train(SMALL, 1, say=lines.append, every=1, trace=trace)
    answers = [s for s in trace.spans if s.operation.startswith("answer") and "/" not in s.operation]
    for expert in range(SMALL.experts):
        here = [s for s in answers if s.device.endswith(f"CPU:{2 + expert}")]
        assert len(here) == SMALL.length + 1  # in the last iteration the predicate ends the loop
        assert sum(s.live for s in here) == consulted[0, expert]
    assert 0 < consulted.sum() < SMALL.experts * SMALL.length
    assert lines[0].endswith(f"experts {percent(consulted[0] / SMALL.length)}")
    assert all(t.dead for t in report.traffic)

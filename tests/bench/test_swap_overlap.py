"""Copies of saved values hide behind compute, as ``bench swap_overlap`` says, in virtual time."""

from contextlib import AsyncExitStack
from itertools import pairwise

import numpy as np
import pytest
import tagloom as tg

from bench import __main__ as command_line
from bench import lanes, protocol, swap_overlap
from bench.experiment import Experiment

pytestmark = pytest.mark.usefixtures("fast_paths")
KERNELS = {"forward": swap_overlap.FORWARD, "backward": swap_overlap.BACKWARD}


def case(share, iterations=40, mode="loop"):
    return {"mode": mode, "copy_over_compute": share, "iterations": iterations}


async def idle(share, mode="loop"):
    """Return the share of the time in which compute waits for copies, and how many values moved."""
    ideal, wanted, _ = await swap_overlap.virtual(case(share, mode=mode), swaps=False)
    seconds, got, report = await swap_overlap.virtual(case(share, mode=mode), swaps=True)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(a, b)
    return (seconds - ideal) / seconds, report.bytes_out["host"] // swap_overlap.START.nbytes


@pytest.mark.parametrize("mode", ["loop", "nested"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
async def test_copies_hide_behind_compute(share, mode):
    waited, moved = await idle(share, mode)
    assert waited < 0.02
    assert 20 <= moved <= 40 - 8  # at least 8 iterations resident


async def test_copies_that_take_longer_than_compute_show():
    assert (await idle(1.5))[0] > 0.15


async def test_without_copies_compute_is_never_idle():
    seconds, _, _ = await swap_overlap.virtual(case(0.9), swaps=False)
    assert seconds == pytest.approx(2 * 40 * swap_overlap.SECONDS)


async def test_lanes_show_copies_beside_compute():
    trace = tg.Trace()
    await swap_overlap.virtual(case(0.9), swaps=True, trace=trace)
    found = lanes.bars(trace, KERNELS)
    forward, backward = found["compute", "forward"], found["compute", "backward"]
    out, back = found["device_to_host", "copy out"], found["host_to_device", "copy in"]
    assert len(forward) == len(backward) == 40
    assert len(out) == len(back) >= 20
    for spans in found.values():
        assert all(begin + length <= after + 1e-6 for (begin, length), (after, _) in pairwise(spans))
    turn = backward[0][0]
    assert sum(begin < turn for begin, _ in out) >= len(out) - 2  # what is under way at the turn ends
    assert all(begin >= turn for begin, _ in back)
    assert all(length == pytest.approx(4.5) for _, length in [*out, *back])


async def test_events_have_a_lane_for_each_direction():
    trace = tg.Trace()
    await swap_overlap.virtual(case(0.9), swaps=True, trace=trace)
    lane = {e["args"]["name"]: e["tid"] for e in trace.events if e.get("name") == "thread_name"}
    swaps = [e for e in trace.events if e.get("cat") == "swap"]
    assert {e["tid"] for e in swaps} == {lane["device_to_host"], lane["host_to_device"]}
    assert {e["args"]["bytes"] for e in swaps} == {swap_overlap.START.nbytes}


def nothing(case, stack):
    return lambda: [np.zeros(1)]


def test_the_picture_is_drawn_in_the_place_of_the_medians(monkeypatch, tmp_path, capsys):
    effort = protocol.Effort(most_rounds=1, timing=0.001, idle=0.0)
    tiny = Experiment("tiny", (case(0.9),), {"tagloom": nothing}, "steps", picture=swap_overlap.picture)
    monkeypatch.setattr(command_line, "experiments", lambda: {"tiny": tiny})
    monkeypatch.setattr(command_line, "FULL", effort)
    assert command_line.main(["tiny", "--json", "--plot", str(tmp_path / "lanes.png")]) == 0
    assert (tmp_path / "lanes.png").stat().st_size > 5000
    assert "plot written to" in capsys.readouterr().err


async def test_the_bench_notes_virtual_time_beside_real_time():
    async with AsyncExitStack() as stack:
        step = await swap_overlap.engine(case(0.9, 20), stack, swaps=True)
        wanted = (await swap_overlap.virtual(case(0.9, 20), swaps=False))[1]
        for a, b in zip(wanted, await step(), strict=True):
            np.testing.assert_array_equal(a, b)
    (milliseconds,) = step.figures[swap_overlap.VIRTUAL]
    assert 10 <= milliseconds < 10.2
    assert step.notes()[swap_overlap.IDLE].endswith(" % in virtual time")

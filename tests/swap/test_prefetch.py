"""Saved values come back before they are read, in virtual time: also behind the end of an inner loop."""

from contextlib import AsyncExitStack

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams import LatencyDevice, VirtualClock

pytestmark = pytest.mark.usefixtures("fast_paths")
SECONDS = 0.005
X = np.linspace(-1, 1, 1 << 10, dtype=np.float32)
INNER, OUTER = 8, 5


def gradient(window):
    """Return the input, and the gradient of a loop in a loop."""
    x = tg.placeholder("float32", X.shape)

    def body(i, a):
        inner = lambda j, b: (j + 1, tg.tanh(b))  # noqa: E731
        return i + 1, tg.while_loop(lambda j, _: j < INNER, inner, [0, a], parallel_iterations=window)[1]

    y = tg.while_loop(lambda i, _: i < OUTER, body, [0, x], parallel_iterations=window)[1]
    return x, tg.gradients(y, [x])


async def step(window, room=None, share=0.9, **policy):
    """Return the gradient, how long it took and what swapped, with memory for `room` saved values."""
    with tg.Graph().as_default() as graph:
        x, fetches = gradient(window)
    limit = {} if room is None else {"memory_limit": room * X.nbytes, "swap": tg.SwapPolicy(**policy)}
    async with VirtualClock() as clock, AsyncExitStack() as stack:
        seconds = {"Tanh": SECONDS, "Fused": SECONDS}
        device = LatencyDevice("/cpu:0", seconds=seconds, bytes_per_second=X.nbytes / (share * SECONDS), clock=clock)
        await stack.enter_async_context(device)
        session = await stack.enter_async_context(
            tg.Session(graph, devices=[device], settings=tg.Settings(fuse=True), **limit)
        )
        (value,) = await session.run(fetches, {x: X})
        return value, clock.now(), session.report().swap[0] if limit else None


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize("room", [12, 16])
@pytest.mark.parametrize("window", [1, 4, 32])
async def test_inner_loops_do_not_wait_for_copies(window, room, share):
    wanted, ideal, _ = await step(window)
    value, seconds, report = await step(window, room, share)
    np.testing.assert_array_equal(value, wanted)
    assert ideal == pytest.approx(2 * INNER * OUTER * SECONDS)
    assert seconds <= 1.02 * ideal
    assert report.bytes_in["host"] == report.bytes_out["host"] >= 20 * X.nbytes


async def test_one_iteration_at_a_time_finds_all_it_reads():
    report = (await step(1, 12))[2]
    assert report.misses == 0
    assert report.hits >= 20


async def test_without_looking_ahead_each_read_waits():
    _, ideal, _ = await step(1)
    _, seconds, report = await step(1, 12, prefetch=0)
    assert report.hits == 0
    assert seconds - ideal == pytest.approx(0.9 * SECONDS * report.misses)

"""Values below the policy's minimum leave where no larger one is left to, so that a loop of small cells can go on."""

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON
from tests.swap.observing import bytes_in_tiers

TRIPS = 3000


def gradient(elements, large=0):
    """Return the gradient of a loop that saves small values, and large ones too, and what to feed."""
    x, w = tg.placeholder("float32", [elements]), tg.placeholder("float32", [elements])
    y = tg.placeholder("float32", [max(large, 1)])

    def body(i, a, b):
        return i + 1, tg.tanh(a * w), tg.tanh(b + tg.reduce_sum(a)) if large else b

    _, a, b = tg.while_loop(lambda i, *_: i < TRIPS, body, [0, x, y])
    found = tg.gradients(tg.reduce_sum(a) + tg.reduce_sum(b), [x, w])
    return found, {t: np.linspace(0.1, 1.0, t.shape[0], dtype=np.float32) for t in (x, w, y)}


async def results(graph, fetch, feeds, **options):
    """Return what is fetched, and the session's report and statistics."""
    async with tg.Session(graph, settings=ON, **options) as session:
        try:
            found = await session.run(fetch, feeds, timeout=60)
        finally:
            assert bytes_in_tiers(session) == 0
        return found, session.report(), session.statistics()


@pytest.mark.parametrize("policy", [True, tg.SwapPolicy(minimum=0), tg.SwapPolicy(minimum="1MiB", threshold=1.0)])
async def test_a_long_loop_of_small_cells(graph, policy):
    fetch, feeds = gradient(256)
    expected, _, _ = await results(graph, fetch, feeds)
    found, report, figures = await results(graph, fetch, feeds, memory_limit="500KB", swap=policy)
    np.testing.assert_array_equal(found, expected)
    assert report.swap[0].bytes_out["host"] > 1024 * TRIPS / 2
    assert figures.peak_bytes <= 500_000


async def test_large_values_leave_first(graph):
    large = 1 << 12
    fetch, feeds = gradient(256, large)
    expected, _, _ = await results(graph, fetch, feeds)
    found, report, _ = await results(graph, fetch, feeds, memory_limit="10MB", swap=True)
    np.testing.assert_array_equal(found, expected)
    moved = report.swap[0].bytes_out["host"]
    assert moved > TRIPS * 4 * large / 2
    assert moved % (4 * large) == 0


async def test_what_is_negligible_stays(graph):
    fetch, feeds = gradient(32)
    with pytest.raises(tg.DeviceMemoryError, match=r"SwapPolicy\.minimum"):
        await results(graph, fetch, feeds, memory_limit="50KB", swap=True)
    expected, _, _ = await results(graph, fetch, feeds)
    found, _, _ = await results(graph, fetch, feeds, memory_limit="50KB", swap=tg.SwapPolicy(minimum=1))
    np.testing.assert_array_equal(found, expected)


async def test_an_array_that_two_series_hold_is_counted_once(graph):
    fetch, feeds = gradient(32)
    with pytest.raises(tg.DeviceMemoryError) as caught:
        await results(graph, fetch, feeds, memory_limit="50KB")
    assert sum(allocation.bytes for allocation in caught.value.allocations) <= caught.value.live

"""Steps that swap give what they give without a limit, bit for bit, and keep to the limit."""

import asyncio
import sys
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
import uvloop

from tests.support.settings import ON
from tests.swap.loops import LOOPS, SIZE, TRIPS, feeds_of, gradient, plain
from tests.swap.observing import bytes_in_tiers, watched

EAGER = tg.SwapPolicy(threshold=0.3, minimum=1)
ROOM = {"plain": 16, "nested": 16, "branching": 16, "mapped": 50, "scanned": 90, "rows": 10, "written": 50}  # in SIZEs
MORE = 1.3 if "tests.strict_array_library.sessions" in sys.modules else 1  # kernels in Python have temporaries
SECOND = {"plain": 20, "nested": 20, "branching": 24, "mapped": 120, "written": 100}


async def unlimited(graph, fetch, feeds, settings=ON, **options):
    """Return what a step gives, and the bytes it leaves behind, in a session that is told to swap but has no limit."""
    async with tg.Session(graph, swap=True, settings=settings, **options) as session:
        found = await session.run(fetch, feeds)
        return found, session.statistics().live_bytes


def moved(swaps):
    """Return the bytes that left, by tier."""
    found = {}
    for swap in swaps:
        for tier, size in swap.counts.bytes_out.items():
            found[tier] = found.get(tier, 0) + size
    return found


async def check(graph, fetch, limit, *, policy=EAGER, settings=ON, steps=2, **options):
    """Run steps with and without swapping in little memory; return the bytes that left, by tier."""
    feeds = feeds_of(graph)
    limit = {name: int(MORE * each) for name, each in limit.items()} if isinstance(limit, dict) else int(MORE * limit)
    expected, live = await unlimited(graph, fetch, feeds, settings, **options)
    async with tg.Session(graph, memory_limit=limit, swap=False, settings=settings, **options) as session:
        with pytest.raises(tg.DeviceMemoryError):
            await session.run(fetch, feeds, timeout=20)
    with watched() as swaps:
        async with tg.Session(graph, memory_limit=limit, swap=policy, settings=settings, **options) as session:
            for _ in range(steps):
                np.testing.assert_array_equal(await session.run(fetch, feeds, timeout=20), expected, strict=True)
                figures = session.statistics()
                assert figures.live_bytes <= live  # constants on a GPU make room
                assert all(each.peak_bytes <= (each.limit_bytes or 1 << 40) for each in figures.devices.values())
                assert bytes_in_tiers(session) == 0
    return moved(swaps)


@pytest.mark.rule(104)
@pytest.mark.parametrize("window", [1, 7, 32, "auto"])
@pytest.mark.parametrize("name", LOOPS)
async def test_gradients_of_loops(graph, name, window):
    await check(graph, gradient(LOOPS[name], window=window), ROOM[name] * SIZE)


@pytest.mark.parametrize("name", SECOND)
async def test_gradients_of_gradients(graph, name):
    assert (await check(graph, gradient(LOOPS[name], 2), SECOND[name] * SIZE))["host"] > 0


async def test_a_loop_may_ask_for_it(graph):
    assert (await check(graph, gradient(plain, swap=True), 16 * SIZE, policy=None))["host"] > 0


async def test_one_that_does_not_ask_does_not_swap(graph):
    fetch = gradient(plain)
    with watched() as swaps:
        async with tg.Session(graph, memory_limit=16 * SIZE, settings=ON) as session:
            with pytest.raises(tg.DeviceMemoryError, match="swap"):
                await session.run(fetch, feeds_of(graph))
    assert swaps == []


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_event_loops(graph, factory):
    fetch = gradient(plain)
    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(check(graph, fetch, 14 * SIZE))["host"] > 0


@pytest.mark.parametrize("seed", range(4))
async def test_ready_orders_and_workers(graph, seed):
    settings = replace(ON, shuffle_seed=seed, workers=2, offload_seconds=0.0)
    await check(graph, gradient(LOOPS["branching"]), 16 * SIZE, settings=settings)


IN_PYTHON = {"native": False, "loops": False}


@pytest.mark.parametrize(
    "passes", [{"fuse": False}, {"release": False}, IN_PYTHON, {**IN_PYTHON, "workers": 2, "offload_seconds": 0.0}]
)
async def test_with_passes_switched_off(graph, passes):
    settings = replace(ON, **passes)
    assert (await check(graph, gradient(plain), 24 * SIZE, settings=settings))["host"] > 0


async def test_rows_that_are_changed_in_place(graph):
    """What is fed enters row by row; a kernel may not write into a row that is taken for what was fed."""
    settings = replace(ON, fuse=False, workers=0)
    await check(graph, gradient(LOOPS["rows"]), 20 * SIZE, settings=settings)


# ---- tiers


async def test_on_disk_alone(graph, tmp_path):
    policy = tg.SwapPolicy(threshold=0.3, host_limit=1, disk=tmp_path)
    found = await check(graph, gradient(plain), 16 * SIZE, policy=policy)
    assert found["disk"] > 0
    assert "host" not in found
    assert list(tmp_path.iterdir()) == []


async def test_in_the_hosts_memory_and_then_on_disk(graph, tmp_path):
    policy = tg.SwapPolicy(threshold=0.3, host_limit=6 * SIZE, disk=tmp_path)
    found = await check(graph, gradient(plain), 16 * SIZE, policy=policy)
    assert found["host"] > 0
    assert found["disk"] > 0


async def test_tiers_that_are_full(graph, tmp_path):
    fetch, feeds = gradient(plain), feeds_of(graph)
    policy = tg.SwapPolicy(threshold=0.3, host_limit=2 * SIZE, disk=tmp_path, disk_limit=2 * SIZE)
    async with tg.Session(graph, memory_limit=16 * SIZE, swap=policy, settings=ON) as session:
        for _ in range(2):
            with pytest.raises(tg.DeviceMemoryError):
                await session.run(fetch, feeds, timeout=20)
            assert bytes_in_tiers(session) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prefetch", [0, 1, 64, "auto"])
async def test_prefetch(graph, prefetch):
    policy = tg.SwapPolicy(threshold=0.3, prefetch=prefetch)
    await check(graph, gradient(plain), 24 * SIZE, policy=policy)


# ---- several devices, several steps


def two_devices(x, window=32):
    """Two recurrences that look at each other, each on a device of its own."""

    def body(i, a, b):
        with tg.device("/cpu:0"):
            c = tg.tanh(a * x + 0.1 * b)
        with tg.device("/cpu:1"):
            d = tg.sin(b * x + 0.1 * a)
        return i + 1, c, d

    return tg.add_n(
        tg.while_loop(lambda i, *_: i < TRIPS, body, (0, x, x), parallel_iterations=window, swap_memory=True)[1:]
    )


@pytest.mark.parametrize("window", [1, 32])
async def test_several_devices_with_limits(graph, window):
    fetch = gradient(two_devices, window=window)
    found = await check(graph, fetch, 30 * SIZE, devices=2, soft_placement=True)
    assert found["host"] > 0


async def test_a_limit_on_one_device_only(graph):
    fetch = gradient(two_devices)
    found = await check(graph, fetch, {"/cpu:1": 10 * SIZE}, devices=2, soft_placement=True)
    assert found["host"] > 0


@pytest.mark.parametrize("limit", [20, 40, 80])
async def test_steps_at_the_same_time_share_a_limit(graph, limit):
    fetch, feeds = gradient(plain), feeds_of(graph)
    expected, live = await unlimited(graph, fetch, feeds)
    async with tg.Session(graph, memory_limit=limit * SIZE, swap=EAGER, settings=ON) as session:
        steps = [session.run(fetch, feeds, timeout=20) for _ in range(4)]
        results = await asyncio.gather(*steps, return_exceptions=True)
        for result in results:
            if not isinstance(result, tg.DeviceMemoryError):
                np.testing.assert_array_equal(result, expected)
        assert any(isinstance(result, np.ndarray) for result in results)
        del results, result
        assert session.statistics().live_bytes <= live
        assert session.statistics().peak_bytes <= limit * SIZE
        assert bytes_in_tiers(session) == 0
        np.testing.assert_array_equal(await session.run(fetch, feeds), expected)


@pytest.mark.parametrize("limit", [60, 40])
async def test_two_sessions_on_one_device(graph, limit):
    from tagloom.streams import CpuDevice

    fetch, feeds = gradient(plain), feeds_of(graph)
    expected, _ = await unlimited(graph, fetch, feeds)
    async with CpuDevice("/cpu:0", limit=limit * SIZE) as device:
        options = {"devices": [device], "swap": EAGER, "settings": ON}
        async with tg.Session(graph, **options) as one, tg.Session(graph, **options) as other:
            for each in (one, other):  # their constants stay
                np.testing.assert_array_equal(await each.run(fetch, feeds, timeout=20), expected)
            for result in await asyncio.gather(*(each.run(fetch, feeds, timeout=20) for each in (one, other))):
                np.testing.assert_array_equal(result, expected)
        assert device.live_bytes == 0


def test_sync_session(graph):
    fetch, feeds = gradient(plain), feeds_of(graph)
    with tg.SyncSession(graph, swap=True, settings=ON) as session:
        expected = session.run(fetch, feeds)
    with tg.SyncSession(graph, memory_limit=16 * SIZE, swap=EAGER, settings=ON) as session:
        np.testing.assert_array_equal(session.run(fetch, feeds), expected)


async def test_a_step_in_parts(graph):
    fetch, feeds = gradient(plain), feeds_of(graph)
    expected, _ = await unlimited(graph, fetch, feeds)
    async with tg.Session(graph, memory_limit=24 * SIZE, swap=EAGER, settings=ON) as session:
        async with await session.partial_run_setup([fetch], list(feeds)) as handle:
            np.testing.assert_array_equal(await session.partial_run(handle, fetch, feeds, timeout=20), expected)
        assert bytes_in_tiers(session) == 0


@pytest.mark.usefixtures("fast_paths")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "it has no memory_limit"),
        ({"memory_limit": "1GB", "executor": "reference"}, "the reference executor does not swap"),
    ],
)
async def test_where_nothing_can_move_the_reason_is_said(graph, options, reason):
    x = tg.constant(np.ones(1000, np.float32))
    y = tg.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tg.tanh(a)), [0, x], swap_memory=True)[1]
    async with tg.Session(graph, **options) as session:
        await session.run(tg.gradients(y, [x]))
        (report,) = session.report().swap
    assert report.reason == reason

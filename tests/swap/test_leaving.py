"""Which saved values leave a device's memory, and when."""

import numpy as np
import pytest
from tagloom.kernels.scheduler.series import Series
from tagloom.streams import LatencyDevice, ManualDevice, VirtualClock

from tests.swap.manual_swapper import RESIDENT, SIZE, SWAPPED_OUT, SWAPPING_IN, SWAPPING_OUT, N, made, refuse


async def test_the_oldest_leave_first_as_soon_as_the_threshold_is_passed(rig):
    rig.push(0, 1, 2, 3, 4)
    assert rig.states() == [RESIDENT] * 5
    rig.push(5)
    assert rig.states() == [SWAPPING_OUT, *[RESIDENT] * 5]
    rig.push(6)
    assert rig.states() == [SWAPPING_OUT, SWAPPING_OUT, *[RESIDENT] * 5]
    assert rig.device.live_bytes == 7 * SIZE
    await rig.out()
    assert rig.states() == [SWAPPED_OUT, SWAPPING_OUT, *[RESIDENT] * 5]
    assert rig.device.live_bytes == 6 * SIZE
    assert rig.tiers.host.live_bytes == 2 * SIZE
    assert rig.swap.counts.bytes_out == {"host": SIZE}
    assert len(rig.wakes) == 1


async def test_what_can_not_move_is_given_back_as_it_is(rig):
    small = rig.device.contexts.run(np.zeros, 100)
    columns = rig.device.contexts.run(np.zeros, (50, 50)).T
    for value in (1, None, np.float64(3), Series(), small, columns, np.array([object()] * 1000), np.ma.zeros(N)):
        assert rig.swap.entry_for(value) is value
    assert rig.swap.counts.swappable == 0
    assert rig.swap.counts.small == 2


async def test_an_array_that_is_saved_twice_is_one_value(rig):
    array = rig.array(7)
    entry = rig.swap.entry_for(array)
    assert rig.swap.entry_for(array) is entry
    rig.series.put(0, entry)
    rig.series.put(1, entry)
    del array, entry
    rig.push(2, 3, 4, 5, 6)
    await rig.out()
    assert rig.states()[:2] == [SWAPPED_OUT, SWAPPED_OUT]
    assert rig.swap.counts.bytes_out == {"host": SIZE}
    _, one = rig.read(0, last=True)
    _, other = rig.read(1, last=True)
    await rig.back()
    assert one.result() is other.result()
    assert (rig.swap.counts.misses, rig.swap.counts.bytes_in) == (2, {"host": SIZE})


async def test_an_id_that_is_used_again_is_another_value(rig):
    rig.push(*range(6))
    await rig.out()
    for k in range(6, 30):
        rig.push(k)
        await rig.out(10)
    for k in range(30):
        array, coming = rig.read(k)
        if coming is not None:
            await rig.back()
            array = coming.result()
        assert (array == k).all()
        del array, coming


async def test_what_somebody_else_has_stays_until_it_is_let_go(rig):
    held = rig.array(0)
    rig.series.put(0, rig.swap.entry_for(held))
    rig.push(1, 2, 3, 4, 5)
    assert rig.states() == [RESIDENT, SWAPPING_OUT, *[RESIDENT] * 4]
    assert rig.swap.counts.held == 1
    del held
    rig.push(6, 7, 8)
    assert rig.states()[0] is RESIDENT  # it has gone to the end of the queue
    assert all(rig.swap.free_some() for _ in range(3))
    await rig.out(10)
    assert rig.swap.free_some()
    await rig.out(10)
    while RESIDENT in rig.states():
        assert rig.swap.free_some()
        await rig.out(10)
    assert rig.states() == [SWAPPED_OUT] * 9


async def test_views_feeds_and_variables_never_leave(rig):
    whole = rig.device.contexts.run(np.zeros, (3, N))
    feed, variable = np.ones(N), rig.array(1)
    for k, value in enumerate([whole[1], feed, variable, whole[0]]):
        rig.series.put(k, rig.swap.entry_for(value))
    del whole, feed
    for k in range(4, 10):
        rig.push(k)
        await rig.out(5)
        assert not any(state is SWAPPING_OUT for state in rig.states()[:4])
    while rig.swap.free_some():
        await rig.out(20)
    assert rig.states() == [*[RESIDENT] * 4, *[SWAPPED_OUT] * 6]
    assert variable.sum() == N


async def test_a_view_of_all_of_an_array_may_leave(rig):
    rig.series.put(0, rig.swap.entry_for(rig.array(5).reshape(10, 100)))
    rig.push(1, 2, 3, 4, 5)
    await rig.out()
    assert rig.states()[0] is SWAPPED_OUT
    _, coming = rig.read(0)
    await rig.back()
    assert coming.result().shape == (10, 100)


async def test_a_value_that_would_be_wanted_soon_stays():
    """In virtual time: a copy takes a second, so what is younger than two would be wanted before it is back."""
    async with VirtualClock() as clock:
        device = LatencyDevice(
            "/cpu:0", seconds={"DeviceToHost": 1.0, "HostToDevice": 1.0}, clock=clock, limit=10 * SIZE
        )
        rig = await made(device)
        rig.push(*range(6))  # nothing is known of copies yet
        await clock.sleep(1.0)
        assert rig.states()[0] is SWAPPED_OUT
        rig.series.put(0, np.zeros(1))
        rig.series = Series()
        for k in range(6):
            rig.push(k)
        assert rig.states() == [RESIDENT] * 6
        assert rig.swap.counts.soon == 1
        await clock.sleep(1.5)
        rig.push(6)
        assert rig.states() == [RESIDENT] * 7
        await clock.sleep(0.75)
        rig.push(7)
        assert rig.states() == [SWAPPING_OUT, SWAPPING_OUT, SWAPPING_OUT, *[RESIDENT] * 5]
        await rig.aclose()


async def test_without_room_in_a_tier_values_stay():
    rig = await made(host_limit=2 * SIZE)
    rig.push(*range(9))
    assert rig.states() == [SWAPPING_OUT, SWAPPING_OUT, *[RESIDENT] * 7]
    assert rig.swap.counts.full > 0
    await rig.out(2)
    assert not rig.swap.free_some()
    await rig.aclose()


# ---- batches


async def test_small_values_are_copied_as_one():
    """In batches of at most 1/32 of the limit, and one batch more than the threshold asks for."""
    rig = await made(ManualDevice("/cpu:0", limit=320 * SIZE))
    rig.swap._batch_bytes = 10 * SIZE
    rig.push(*range(161))
    assert rig.states().count(SWAPPING_OUT) == 11
    assert rig.device.device_to_host.statistics().waiting == 1
    array, _ = rig.read(10, last=True)  # the second batch
    assert rig.device.device_to_host.statistics().withdrawn == 1
    del array
    await rig.out(5)
    assert rig.states()[:12] == [*[SWAPPED_OUT] * 10, None, RESIDENT]
    for k in range(9, -1, -1):
        coming = rig.read(k, last=True)[1]
        await rig.back()
        assert (coming.result() == k).all()
    del coming
    await rig.aclose()


async def test_a_lot_that_fails_is_queued_as_it_was(monkeypatch):
    rig = await made(ManualDevice("/cpu:0", limit=320 * SIZE))
    rig.swap._batch_bytes = 10 * SIZE
    with monkeypatch.context() as patch:
        patch.setattr(rig.device, "copy_all_out", lambda *_, **__: rig.device.device_to_host.submit(refuse))
        rig.push(*range(161))
        await rig.out(5)
    assert len(rig.errors) == 2
    assert rig.states() == [RESIDENT] * 161
    rig.forget()
    rig.swap.free_some()
    assert rig.states().index(SWAPPING_OUT) == 10  # the batch that failed last comes first
    await rig.out()
    rig.swap.free_some()
    assert rig.states()[:11] == [SWAPPING_OUT, *[RESIDENT] * 9, SWAPPED_OUT]
    await rig.aclose()


@pytest.fixture
def few(monkeypatch):
    """Entries take the place of two arrays at a time."""
    monkeypatch.setattr("tagloom.swap.eviction._NEAR", 1)


def save(rig, k, array):
    rig.series.put(k, array)
    rig.swap.save(array, rig.series, k)


async def test_slots_hold_arrays_until_they_are_to_move(rig, few):
    for k in range(5):
        save(rig, k, rig.array(k))
    assert rig.states() == [None] * 5
    assert all(rig.read(k)[0] is rig.series.at(k) for k in range(5))
    save(rig, 5, rig.array(5))
    await rig.out()
    assert rig.states() == [SWAPPED_OUT, RESIDENT, *[None] * 4]
    assert rig.swap.counts.swappable == 6


async def test_what_was_read_for_the_last_time_or_is_in_no_series_is_passed_over(rig, few):
    save(rig, 0, rig.array(0))
    rig.read(0, last=True)
    other, rig.series = rig.series, Series()
    del other
    for k in range(6):
        save(rig, k, rig.array(k))
    await rig.out()
    assert rig.states() == [SWAPPED_OUT, *[None] * 5]


async def test_slots_that_hold_nothing_any_more_are_forgotten(rig):
    """As by the loops in a loop, each of which ends before the next one begins."""
    arrays = [rig.array(k) for k in range(3)]
    for _ in range(10_000):
        ended, rig.series = rig.series, Series()
        for k, array in enumerate(arrays):
            save(rig, k, array)
        del ended
    assert len(rig.swap._queue) < 5000
    for _ in range(10_000):
        rig.swap.entry_for(rig.array(3))
    assert len(rig.swap._queue) < 5000
    kept, rig.series = rig.series, Series()
    del arrays
    for k in range(3, 6):
        save(rig, k, rig.array(k))
    await rig.out(3)
    assert [kept.at(k).state for k in range(3)] == [SWAPPED_OUT, RESIDENT, RESIDENT], "the oldest is known"


async def test_an_array_in_two_slots_leaves_once_and_comes_back_to_both(rig):
    array = rig.array(7)
    save(rig, 0, array)
    save(rig, 1, array)
    del array
    for k in range(2, 12):
        save(rig, k, rig.array(k))
        await rig.out(10)
    assert rig.states()[:2] == [SWAPPED_OUT, SWAPPED_OUT]
    assert rig.series.at(0) is rig.series.at(1)
    _, coming = rig.read(0)
    await rig.back()
    assert (coming.result() == 7).all()


async def test_reads_of_what_has_not_moved_bring_back_what_is_behind_it(few):
    rig = await made(prefetch=3)
    for k in range(8):
        save(rig, k, rig.array(k))
        await rig.out(10)
    assert rig.states() == [*[SWAPPED_OUT] * 3, RESIDENT, *[None] * 4]
    for k in (7, 6, 5, 4):
        assert rig.read(k, last=True)[1] is None
    assert rig.states()[:3] == [SWAPPED_OUT, SWAPPING_IN, SWAPPING_IN]
    await rig.aclose()


async def test_what_is_kept_and_saved_is_one_value(rig):
    array = rig.array(7)
    save(rig, 0, array)
    rig.series.put(1, rig.swap.entry_for(array))
    save(rig, 2, array)
    rig.series.put(3, rig.swap.entry_for(array))
    del array
    for k in range(4, 14):
        save(rig, k, rig.array(k))
        await rig.out(10)
    assert rig.states()[:4] == [SWAPPED_OUT] * 4
    assert rig.tiers.host.live_bytes == rig.swap.counts.bytes_out["host"]


async def test_a_step_that_can_not_go_on_finds_what_is_in_slots_yet(rig, few):
    """Each array is in two slots, far apart, of which none is looked at before."""
    for k in (*range(5), *range(5)):
        array = rig.series.at(k) if k in rig.series.indices() else rig.array(k)
        save(rig, k + 5 * (k in rig.series.indices()), array)
        del array
    assert rig.swap.free_some()
    await rig.out(10)
    assert rig.states()[0] is rig.states()[5] is SWAPPED_OUT


async def test_what_is_empty_may_be_read(rig):
    for k in range(7):
        save(rig, k, rig.array(k))
    rig.series.put(7, rig.device.contexts.run(np.zeros, 0))
    assert rig.read(7)[0].size == 0

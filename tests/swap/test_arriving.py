"""How saved values come back: for who waits, and ahead of need."""

import numpy as np
import pytest
from tagloom.streams import ManualDevice

from tests.swap.manual_swapper import CACHED, RESIDENT, SIZE, SWAPPED_OUT, SWAPPING_IN, SWAPPING_OUT, N, gone, made


async def test_a_read_of_what_is_there():
    rig = await made()
    await gone(rig, 8)
    array, coming = rig.read(7)
    assert coming is None
    assert (array == 7).all()
    assert (rig.swap.counts.hits, rig.swap.counts.misses, rig.swap.waiting) == (0, 0, 0)
    del array
    await rig.aclose()


async def test_a_read_of_what_is_away(rig):
    await gone(rig, 8)
    array, coming = rig.read(2)
    assert array is None
    assert rig.states()[2] is SWAPPING_IN
    assert rig.swap.waiting == 1
    await rig.turn()
    assert not coming.done()
    await rig.back()
    assert (coming.result() == 2).all()
    assert rig.states()[2] is SWAPPED_OUT
    assert (rig.swap.waiting, rig.swap.counts.misses, rig.swap.counts.bytes_in) == (0, 1, {"host": SIZE})
    coming.result()[:] = -1.0  # it is the reader's alone
    _, again = rig.read(2)
    await rig.back()
    assert (again.result() == 2).all()


@pytest.mark.parametrize("step", [-1, 1])
async def test_reads_bring_back_what_is_behind_them(step):
    rig = await made(prefetch=3, threshold=0.99)
    for k in range(12):
        rig.push(k)
        rig.swap.free_some()
        await rig.out(5)
    assert rig.states() == [SWAPPED_OUT] * 12
    slots = range(11, -1, -1) if step < 0 else range(12)
    waiting = [rig.read(slots[0])[1]]
    if step > 0:
        assert {k for k, state in enumerate(rig.states()) if state is SWAPPING_IN} == {0, 11, 10, 9}  # a guess
        waiting.append(rig.read(slots[1])[1])
    read = len(waiting)
    assert {k for k, state in enumerate(rig.states()) if state is SWAPPING_IN} >= set(slots[: read + 3])
    await rig.back(10)
    for k, coming in zip(slots, waiting, strict=False):
        assert (coming.result() == k).all()
    for k in slots[read : read + 3]:
        array, coming = rig.read(k)
        assert coming is None
        assert (array == k).all()
    assert (rig.swap.counts.hits, rig.swap.counts.misses) == (3, read)
    del array, coming, waiting
    await rig.aclose()


async def test_nothing_comes_back_early_above_the_threshold():
    rig = await made(prefetch=8)
    await gone(rig, 12)
    rig.read(11)
    assert SWAPPING_IN not in rig.states()  # five are there, and no more may be
    for k in (11, 10, 9):
        rig.read(k, last=True)
    assert rig.states()[:8].count(SWAPPING_IN) == 2  # in the places of those that were read
    await rig.aclose()


async def test_a_read_without_room_does_nothing(rig):
    await gone(rig, 8)
    taken = [rig.array() for _ in range(5)]
    with pytest.raises(MemoryError):
        rig.read(0)
    assert rig.states()[0] is SWAPPED_OUT
    assert rig.swap.waiting == 0
    assert not rig.swap.copies
    del taken
    _, coming = rig.read(0)
    await rig.back()
    assert (coming.result() == 0).all()


async def test_what_was_brought_back_is_dropped_when_memory_is_short():
    rig = await made(prefetch=2, threshold=0.9)
    for k in range(6):
        rig.push(k)
        rig.swap.free_some()
        await rig.out(5)
    rig.read(5, last=True)
    await rig.back(5)
    assert rig.states() == [SWAPPED_OUT, SWAPPED_OUT, SWAPPED_OUT, CACHED, CACHED, None]
    live = rig.device.live_bytes
    assert rig.swap.free_some()
    assert [rig.series.at(k).state for k in (3, 4)] == [SWAPPED_OUT, CACHED]  # the one that is needed last
    assert rig.device.live_bytes == live - SIZE
    assert rig.swap.free_some()
    assert not rig.swap.free_some()
    await rig.turn()
    assert len(rig.wakes) >= 2
    await rig.aclose()


async def test_relief_moves_what_otherwise_would_stay(rig):
    rig.push(0, 1, 2)
    assert rig.states() == [RESIDENT] * 3
    assert rig.swap.free_some()
    assert rig.states() == [SWAPPING_OUT, RESIDENT, RESIDENT]
    assert rig.swap.free_some()  # that copy is awaited first
    assert rig.states() == [SWAPPING_OUT, RESIDENT, RESIDENT]
    await rig.out()
    assert rig.wakes
    assert rig.swap.free_some()
    assert rig.states() == [SWAPPED_OUT, SWAPPING_OUT, RESIDENT]


async def test_relief_looks_behind_many_that_can_not_leave():
    rig = await made(ManualDevice("/cpu:0", limit=200 * SIZE), threshold=1.0)
    held = [rig.array(k) for k in range(100)]
    for k, array in enumerate(held):
        rig.series.put(k, rig.swap.entry_for(array))
    del array
    rig.push(100)
    assert rig.swap.free_some()
    assert rig.states() == [*[RESIDENT] * 100, SWAPPING_OUT]
    held.clear()
    await rig.aclose()


async def test_a_last_read_takes_back_a_copy_that_has_not_begun(rig):
    rig.push(*range(7))
    assert rig.states()[:2] == [SWAPPING_OUT, SWAPPING_OUT]
    array, coming = rig.read(1, last=True)
    assert coming is None
    assert (array == 1).all()
    assert rig.device.device_to_host.statistics().withdrawn == 1
    running, _ = rig.read(0, last=True)  # this one has begun
    assert rig.device.device_to_host.statistics().withdrawn == 1
    await rig.out()
    assert (running == 0).all()
    assert rig.errors == []
    assert rig.tiers.host.live_bytes == 0
    del array, running
    assert rig.device.live_bytes == 5 * SIZE


# ---- rows of feeds


async def test_what_is_lent_comes_in_and_needs_not_go_out(rig):
    feed = np.arange(3.0 * N).reshape(3, N)
    assert rig.swap.keeps_on_host(feed)
    assert not rig.swap.keeps_on_host(rig.array().reshape(10, 100))
    assert rig.swap.keeps_on_host(np.zeros((3, 1), np.int8))
    assert not rig.swap.keeps_on_host(np.zeros(()))
    for k in range(3):
        rig.series.put(k, rig.swap.wrap_host_row(feed[k]))
    assert rig.states() == [SWAPPED_OUT] * 3
    assert rig.device.live_bytes == 0
    _, coming = rig.read(1, last=True)
    await rig.back()
    array = coming.result()
    np.testing.assert_array_equal(array, feed[1])
    assert not array.flags.writeable  # it is known to be what was fed
    rig.series.put(3, rig.swap.entry_for(array))
    del array, coming
    assert rig.swap.free_some()
    assert rig.series.at(3).state is SWAPPED_OUT
    assert rig.device.live_bytes == 0
    assert rig.swap.counts.bytes_out == {}
    _, coming = rig.read(3)
    await rig.back()
    np.testing.assert_array_equal(coming.result(), feed[1])
    assert rig.swap.counts.bytes_in == {"feed": 2 * SIZE}

"""StepSwap by itself: which values leave and when, how they come back, and what failing copies do."""

import asyncio
import errno
import gc
import os

import numpy as np
import pytest
import tagflow as tg
from tagflow.kernels.scheduler.series import Series
from tagflow.streams import CpuDevice, LatencyDevice, ManualDevice, VirtualClock
from tagflow.swap.entry import Entry, State
from tagflow.swap.step import StepSwap
from tagflow.swap.tiers import Tiers

N = 1000
SIZE = 8 * N
RESIDENT, LEAVING, AWAY, ARRIVING, BACK = State


class Rig:
    """A StepSwap on a device with room for ten arrays, and a series of what it keeps."""

    def __init__(self, device, **fields):
        self.device = device
        self.policy = tg.SwapPolicy(**{"threshold": 0.5, "prefetch": 0} | fields)
        self.tiers = Tiers(self.policy, device.clock)
        self.swap = StepSwap(device, self.tiers, self.policy, device.name)
        self.swap._lot = 0  # each value is copied by itself
        self.errors, self.wakes = [], []
        self.swap.fail = self.errors.append
        self.swap.wake = lambda: self.wakes.append(None)
        self.series = Series()

    def array(self, k=0):
        return self.device.contexts.run(np.full, N, float(k))

    def push(self, *numbers):
        for k in numbers:
            self.series.put(k, self.swap.keep(self.array(k)))

    def states(self):
        return [getattr(self.series.at(k), "state", None) for k in self.series.indices()]

    def read(self, k, last=False):
        """Read a slot as the step machine does."""
        found = self.swap.read(self.series, k, last)
        if last:
            self.series.put(k, np.zeros(1))
        return found

    async def turn(self):
        """Let the callbacks of what has ended run."""
        for _ in range(4):
            await asyncio.sleep(0)

    async def out(self, count=1):
        self.device.device_to_host.release(count)
        await self.turn()

    async def back(self, count=1):
        self.device.host_to_device.release(count)
        await self.turn()

    def forget(self):
        """Let go of errors: their frames have what was copied by work that was done where it was submitted."""
        self.errors.clear()
        gc.collect()

    async def aclose(self):
        self.swap.close()
        if isinstance(self.device, ManualDevice):
            self.device.release_all()
        await self.swap.settle()
        await self.turn()  # the one that woke the test has its future
        self.series = None
        gc.collect()
        assert self.tiers.host.live_bytes == self.tiers.staging.live_bytes == 0
        assert self.tiers.disk is None or self.tiers.disk.live_bytes == 0
        await self.tiers.aclose()
        await self.device.aclose()
        assert self.device.live_bytes == 0


@pytest.fixture
async def rig():
    """A Rig on a manual device."""
    rig = Rig(ManualDevice("/cpu:0", limit=10 * SIZE + 100))
    yield rig
    await rig.aclose()


async def made(device=None, **fields):
    return Rig(device or ManualDevice("/cpu:0", limit=10 * SIZE + 100), **fields)


# ---- what leaves


async def test_the_oldest_leave_first_as_soon_as_the_threshold_is_passed(rig):
    rig.push(0, 1, 2, 3, 4)
    assert rig.states() == [RESIDENT] * 5
    rig.push(5)
    assert rig.states() == [LEAVING, *[RESIDENT] * 5]
    rig.push(6)
    assert rig.states() == [LEAVING, LEAVING, *[RESIDENT] * 5]
    assert rig.device.live_bytes == 7 * SIZE
    await rig.out()
    assert rig.states() == [AWAY, LEAVING, *[RESIDENT] * 5]
    assert rig.device.live_bytes == 6 * SIZE
    assert rig.tiers.host.live_bytes == 2 * SIZE
    assert rig.swap.counts.bytes_out == {"host": SIZE}
    assert len(rig.wakes) == 1


async def test_what_can_not_move_is_given_back_as_it_is(rig):
    small = rig.device.contexts.run(np.zeros, 100)
    columns = rig.device.contexts.run(np.zeros, (50, 50)).T
    for value in (1, None, np.float64(3), Series(), small, columns, np.array([object()] * 1000), np.ma.zeros(N)):
        assert rig.swap.keep(value) is value
    assert rig.swap.counts.kept == 0
    assert rig.swap.counts.small == 2


async def test_an_array_that_is_saved_twice_is_one_value(rig):
    array = rig.array(7)
    entry = rig.swap.keep(array)
    assert rig.swap.keep(array) is entry
    assert rig.swap.counts.kept == 1
    rig.series.put(0, entry)
    rig.series.put(1, entry)
    del array, entry
    rig.push(2, 3, 4, 5, 6)
    await rig.out()
    assert rig.states()[:2] == [AWAY, AWAY]
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
    rig.series.put(0, rig.swap.keep(held))
    rig.push(1, 2, 3, 4, 5)
    assert rig.states() == [RESIDENT, LEAVING, *[RESIDENT] * 4]
    assert rig.swap.counts.held == 1
    del held
    rig.push(6, 7, 8)
    assert rig.states()[0] is RESIDENT  # it has gone to the end of the queue
    assert all(rig.swap.relieve() for _ in range(3))
    await rig.out(10)
    assert rig.swap.relieve()
    await rig.out(10)
    while RESIDENT in rig.states():
        assert rig.swap.relieve()
        await rig.out(10)
    assert rig.states() == [AWAY] * 9


async def test_views_feeds_and_variables_never_leave(rig):
    whole = rig.device.contexts.run(np.zeros, (3, N))
    feed, variable = np.ones(N), rig.array(1)
    for k, value in enumerate([whole[1], feed, variable, whole[0]]):
        rig.series.put(k, rig.swap.keep(value))
    del whole, feed
    for k in range(4, 10):
        rig.push(k)
        await rig.out(5)
        assert not any(state is LEAVING for state in rig.states()[:4])
    while rig.swap.relieve():
        await rig.out(20)
    assert rig.states() == [*[RESIDENT] * 4, *[AWAY] * 6]
    assert variable.sum() == N


async def test_a_view_of_all_of_an_array_may_leave(rig):
    rig.series.put(0, rig.swap.keep(rig.array(5).reshape(10, 100)))
    rig.push(1, 2, 3, 4, 5)
    await rig.out()
    assert rig.states()[0] is AWAY
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
        assert rig.states()[0] is AWAY
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
        assert rig.states() == [LEAVING, LEAVING, LEAVING, *[RESIDENT] * 5]
        await rig.aclose()


async def test_without_room_in_a_tier_values_stay():
    rig = await made(host_limit=2 * SIZE)
    rig.push(*range(9))
    assert rig.states() == [LEAVING, LEAVING, *[RESIDENT] * 7]
    assert rig.swap.counts.full > 0
    await rig.out(2)
    assert not rig.swap.relieve()
    await rig.aclose()


# ---- what comes back


async def gone(rig, count):
    """Save so many values and let all leave but the last five."""
    for k in range(count):
        rig.push(k)
        await rig.out(5)
    assert rig.states() == [*[AWAY] * (count - 5), *[RESIDENT] * 5]


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
    assert rig.states()[2] is ARRIVING
    assert rig.swap.waiting == 1
    await rig.turn()
    assert not coming.done()
    await rig.back()
    assert (coming.result() == 2).all()
    assert rig.states()[2] is AWAY
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
        rig.swap.relieve()
        await rig.out(5)
    assert rig.states() == [AWAY] * 12
    slots = range(11, -1, -1) if step < 0 else range(12)
    waiting = [rig.read(slots[0])[1]]
    if step > 0:
        assert ARRIVING not in rig.states()[1:]  # a loop reads backwards unless it is seen not to
        waiting.append(rig.read(slots[1])[1])
    read = len(waiting)
    assert {k for k, state in enumerate(rig.states()) if state is ARRIVING} == set(slots[: read + 3])
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
    assert ARRIVING not in rig.states()  # five are there, and no more may be
    for k in (11, 10, 9):
        rig.read(k, last=True)
    assert rig.states()[:8].count(ARRIVING) == 2  # in the places of those that were read
    await rig.aclose()


async def test_a_read_without_room_does_nothing(rig):
    await gone(rig, 8)
    taken = [rig.array() for _ in range(5)]
    with pytest.raises(MemoryError):
        rig.read(0)
    assert rig.states()[0] is AWAY
    assert rig.swap.waiting == 0
    assert rig.swap._copies == {}
    del taken
    _, coming = rig.read(0)
    await rig.back()
    assert (coming.result() == 0).all()


async def test_what_was_brought_back_is_dropped_when_memory_is_short():
    rig = await made(prefetch=2, threshold=0.9)
    for k in range(6):
        rig.push(k)
        rig.swap.relieve()
        await rig.out(5)
    rig.read(5, last=True)
    await rig.back(5)
    assert rig.states() == [AWAY, AWAY, AWAY, BACK, BACK, None]
    live = rig.device.live_bytes
    assert rig.swap.relieve()
    assert [rig.series.at(k).state for k in (3, 4)] == [AWAY, BACK]  # the one that is needed last
    assert rig.device.live_bytes == live - SIZE
    assert rig.swap.relieve()
    assert not rig.swap.relieve()
    await rig.turn()
    assert len(rig.wakes) >= 2
    await rig.aclose()


async def test_relief_moves_what_otherwise_would_stay(rig):
    rig.push(0, 1, 2)
    assert rig.states() == [RESIDENT] * 3
    assert rig.swap.relieve()
    assert rig.states() == [LEAVING, RESIDENT, RESIDENT]
    assert rig.swap.relieve()  # that copy is awaited first
    assert rig.states() == [LEAVING, RESIDENT, RESIDENT]
    await rig.out()
    assert rig.wakes
    assert rig.swap.relieve()
    assert rig.states() == [AWAY, LEAVING, RESIDENT]


async def test_relief_looks_behind_many_that_can_not_leave():
    rig = await made(ManualDevice("/cpu:0", limit=200 * SIZE), threshold=1.0)
    held = [rig.array(k) for k in range(100)]
    for k, array in enumerate(held):
        rig.series.put(k, rig.swap.keep(array))
    del array
    rig.push(100)
    assert rig.swap.relieve()
    assert rig.states() == [*[RESIDENT] * 100, LEAVING]
    held.clear()
    await rig.aclose()


async def test_a_last_read_takes_back_a_copy_that_has_not_begun(rig):
    rig.push(*range(7))
    assert rig.states()[:2] == [LEAVING, LEAVING]
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


# ---- what is dropped on the way


async def test_values_that_are_dropped_while_they_leave_and_arrive(rig):
    rig.push(*range(7))
    rig.series.put(0, np.zeros(1))  # has begun to leave
    rig.series.put(1, np.zeros(1))
    await rig.out(2)
    assert rig.tiers.host.live_bytes == 0
    assert rig.device.live_bytes == 5 * SIZE
    rig.push(7)
    await rig.out()
    _, coming = rig.read(2, last=True)
    await rig.back()
    assert (coming.result() == 2).all()
    assert rig.tiers.host.live_bytes == 0


async def test_a_reader_that_gives_up(rig):
    await gone(rig, 8)
    _, coming = rig.read(0)
    _, other = rig.read(0)
    coming.cancel()
    await rig.back()
    assert (other.result() == 0).all()
    _, alone = rig.read(1)
    alone.cancel()
    await rig.back()
    assert rig.states()[1] is BACK
    assert rig.swap.waiting == 0
    array, _ = rig.read(1)
    assert (array == 1).all()


async def test_closing_takes_back_what_has_not_begun(rig):
    rig.push(*range(9))
    assert rig.states()[:4] == [LEAVING] * 4
    rig.swap.close()
    settling = asyncio.ensure_future(rig.swap.settle())
    await rig.turn()
    assert not settling.done()
    assert rig.states()[:4] == [LEAVING, *[RESIDENT] * 3]
    await rig.out()
    await settling
    assert rig.states()[:4] == [AWAY, *[RESIDENT] * 3]
    assert not rig.swap.relieve()
    assert rig.states()[:4] == [AWAY, *[RESIDENT] * 3]
    assert rig.errors == []
    assert rig.wakes == []


# ---- what fails


def refuse(*_, **__):
    raise OSError(errno.EIO, "the bus is broken")


async def test_a_copy_out_that_fails_leaves_the_value_where_it_was(rig, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rig.device, "copy_all_out", lambda *_, **__: rig.device.device_to_host.submit(refuse))
        rig.push(*range(6))
        await rig.out()
    (error,) = rig.errors
    assert isinstance(error, tg.SwapError)
    assert (
        error.what
        == "a saved value of 7.81 KiB could not be copied out of the device's memory: [Errno 5] the bus is broken"
    )
    assert (error.device, error.wanted) == ("/cpu:0", "a copy of float64[1000]")
    assert error.got == "OSError: [Errno 5] the bus is broken"
    assert "allow more memory" in error.hint
    assert rig.states()[0] is RESIDENT
    array, _ = rig.read(0)
    assert (array == 0).all()
    del array
    del error
    rig.forget()
    rig.push(6)
    await rig.out(5)
    assert rig.states()[:2] == [AWAY, AWAY]


async def test_a_copy_in_that_fails_tells_who_waits(rig, monkeypatch):
    await gone(rig, 8)
    with monkeypatch.context() as patch:
        patch.setattr(rig.device, "copy_all_in", lambda *_, **__: rig.device.host_to_device.submit(refuse))
        waiting = [rig.read(0)[1] for _ in range(2)]
        await rig.back()
    for each in waiting:
        assert isinstance(each.exception(), tg.SwapError)
        assert "could not be copied back" in str(each.exception())
    assert rig.errors == []
    assert rig.states()[0] is AWAY
    assert rig.swap.waiting == 0
    _, coming = rig.read(0)
    await rig.back()
    assert (coming.result() == 0).all()


async def disk_rig(tmp_path, **fields):
    return await made(CpuDevice("/cpu:0", limit=10 * SIZE + 100), host_limit=1, disk=tmp_path, **fields)


async def settled(rig):
    await rig.turn()
    while rig.swap._copies:
        await asyncio.sleep(0.001)


async def test_values_on_disk(tmp_path):
    rig = await disk_rig(tmp_path)
    for k in range(9):
        rig.push(k)
        await settled(rig)
    assert rig.states() == [*[AWAY] * 4, *[RESIDENT] * 5]
    assert rig.tiers.disk.live_bytes == 4 * SIZE
    assert rig.tiers.staging.live_bytes == rig.tiers.host.live_bytes == 0
    for k in (3, 2, 1, 0):
        _, coming = rig.read(k, last=True)
        assert (await coming == k).all()
    del coming
    await rig.turn()
    assert rig.tiers.disk.live_bytes == 0
    assert rig.swap.counts.bytes_in == {"disk": 4 * SIZE}
    assert (rig.series.get(8) == 8).all()
    await rig.aclose()


async def test_a_value_can_be_read_while_it_is_written_to_the_disk(tmp_path, monkeypatch):
    rig = await disk_rig(tmp_path)
    go = asyncio.Event()
    loop, pwrite = asyncio.get_running_loop(), os.pwrite

    def slow(*args):
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)
        return pwrite(*args)

    monkeypatch.setattr(os, "pwrite", slow)
    rig.push(*range(6))
    while rig.states()[0] is not AWAY:
        await asyncio.sleep(0.001)
    _, coming = rig.read(0, last=True)
    assert (await coming == 0).all()
    assert rig.tiers.staging.live_bytes == SIZE
    del coming
    go.set()
    await settled(rig)
    assert rig.tiers.disk.live_bytes == rig.tiers.staging.live_bytes == 0
    await rig.aclose()


async def test_a_value_that_can_not_be_written_stays_in_the_hosts_memory(tmp_path, monkeypatch):
    rig = await disk_rig(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        rig.push(*range(6))
        await settled(rig)
    (error,) = rig.errors
    assert "could not be written to the file of swapped values" in error.what
    assert rig.states()[0] is AWAY
    _, coming = rig.read(0)
    assert (await coming == 0).all()
    del coming
    await rig.aclose()


async def test_closing_ends_reads_of_the_disk_as_well(tmp_path, monkeypatch):
    rig = await disk_rig(tmp_path)
    for k in range(12):
        rig.push(k)
        await settled(rig)
    waiting = [rig.read(k)[1] for k in range(4)]
    rig.swap.close()
    await rig.swap.settle()
    for stream in (rig.tiers.disk.reading, rig.tiers.disk.writing, *rig.device.streams):
        counts = stream.statistics()
        assert counts.waiting == counts.running == 0
    for each in waiting:
        each.cancel() or each.exception()
    del waiting, each
    await rig.aclose()


# ---- rows of feeds


async def test_what_is_lent_comes_in_and_needs_not_go_out(rig):
    feed = np.arange(3.0 * N).reshape(3, N)
    assert rig.swap.is_foreign(feed)
    assert not rig.swap.is_foreign(rig.array())
    for k in range(3):
        rig.series.put(k, rig.swap.lend(feed[k]))
    assert rig.states() == [AWAY] * 3
    assert rig.device.live_bytes == 0
    _, coming = rig.read(1, last=True)
    await rig.back()
    array = coming.result()
    np.testing.assert_array_equal(array, feed[1])
    assert not array.flags.writeable  # it is known to be what was fed
    rig.series.put(3, rig.swap.keep(array))
    del array, coming
    assert rig.swap.relieve()
    assert rig.series.at(3).state is AWAY
    assert rig.device.live_bytes == 0
    assert rig.swap.counts.bytes_out == {}
    _, coming = rig.read(3)
    await rig.back()
    np.testing.assert_array_equal(coming.result(), feed[1])
    assert rig.swap.counts.bytes_in == {"feed": 2 * SIZE}


# ---- lots


async def test_small_values_are_copied_as_one():
    """In lots of at most 1/32 of the limit, and one lot more than the threshold asks for."""
    rig = await made(ManualDevice("/cpu:0", limit=320 * SIZE))
    rig.swap._lot = 10 * SIZE
    rig.push(*range(161))
    assert rig.states().count(LEAVING) == 11
    assert rig.device.device_to_host.statistics().waiting == 1
    array, _ = rig.read(10, last=True)  # the second lot
    assert rig.device.device_to_host.statistics().withdrawn == 1
    del array
    await rig.out(5)
    assert rig.states()[:12] == [*[AWAY] * 10, None, RESIDENT]
    for k in range(9, -1, -1):
        coming = rig.read(k, last=True)[1]
        await rig.back()
        assert (coming.result() == k).all()
    del coming
    await rig.aclose()


async def test_a_lot_that_fails_is_queued_as_it_was(monkeypatch):
    rig = await made(ManualDevice("/cpu:0", limit=320 * SIZE))
    rig.swap._lot = 10 * SIZE
    with monkeypatch.context() as patch:
        patch.setattr(rig.device, "copy_all_out", lambda *_: rig.device.device_to_host.submit(refuse))
        rig.push(*range(161))
        await rig.out(5)
    assert len(rig.errors) == 2
    assert rig.states() == [RESIDENT] * 161
    rig.forget()
    rig.swap.relieve()
    assert rig.states().index(LEAVING) == 10  # the lot that failed last comes first
    await rig.out()
    rig.swap.relieve()
    assert rig.states()[:11] == [LEAVING, *[RESIDENT] * 9, AWAY]
    await rig.aclose()

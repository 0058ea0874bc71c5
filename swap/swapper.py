"""Swapping of the values saved by a step on a device: their choice, their copies out, and copies in before the reads.

Loops read saved values in the reverse order of saving, so the value saved first is needed last: the oldest leaves
first. After the read of a slot, the next slots in the direction of reading come back. See docs/design/0012-swap.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import ref

from ..kernels.memory.saved_slots import SavedSlots
from ..kernels.scheduler.series import Series
from ..streams.capabilities import SwapSupport
from ..streams.contract import Memory
from ..streams.event import Event
from .copies import SwapCopies, SwapIn, SwapOut, do_nothing, in_batches
from .counts import SwapCounts
from .disk import Extent
from .entry import Array, State, SwapEntry
from .eviction import EvictionQueue
from .policy import NEGLIGIBLE, SwapPolicy
from .prefetch import Prefetcher
from .tiers import Tiers

_LOOKS = 64  # values examined by a push for some able to leave
_BATCHES = 32  # batches of copies in a limit: a batch has at most this fraction of the limit's bytes


class StepSwapper:
    """Swapper of a step's saved values on a device; the step machine reports saves and reads here.

    Parameters
    ----------
    device : SwapSupport
        A device with a limit.
    tiers : Tiers
        Tiers of the session.
    policy : SwapPolicy
    name : str
        Name of the device in the step.

    Attributes
    ----------
    copies : SwapCopies
        Copies under way; the step's execution sets their callbacks.
    counts : SwapCounts
    save : callable
        Called with value, series and index after a loop has saved the value; the slot receives a SwapEntry before the
        value moves.
    note_read : callable
        Called likewise at the read of a slot with a plain array.
    waiting : int
        Number of reads waiting for a copy.
    """

    def __init__(self, device: SwapSupport, tiers: Tiers, policy: SwapPolicy, name: str) -> None:
        pool, limit, counted = device.pool, device.limit, device.contexts.pool
        assert pool is not None
        assert counted is not None
        assert limit is not None
        assert isinstance(policy.minimum, int)
        self.counts: SwapCounts = SwapCounts(name, limit)
        self.copies: SwapCopies = SwapCopies(self.counts)
        self.waiting: int = 0
        self._device, self._tiers = device, tiers
        self._pool: Memory = pool
        self._goal = int(policy.threshold * limit)
        self._minimum = policy.minimum
        self._batch_bytes = limit // _BATCHES
        self._slots = SavedSlots(
            counted,
            device.buffer,
            policy.minimum,
            NEGLIGIBLE,
            self._goal,
            self.counts,
            device.clock.now,
            self._swap_out,
            self._prefetch_after,
        )
        self.save, self.note_read = self._slots.save, self._slots.note_read
        self._queue = EvictionQueue(device, self._slots, self._slots.queue, self._fetch_now)
        self._small = EvictionQueue(device, self._slots, self._slots.small, self._fetch_now)
        self._cached: dict[int, ref[SwapEntry]] = {}  # unread values by the entry's id, in the order of arrival
        self._prefetcher = Prefetcher(policy, self._batch_bytes, device.clock)
        self._closed = False

    def entry_for(self, value: Any) -> Any:
        """Return the content for an element of a TensorArray: an entry if the value may move, else the value."""
        if not self._slots.is_swappable(value):
            return value
        entry = self._queue.add(value)
        self._slots.look()
        return entry

    def save_host_backed(self, value: object, series: Series, index: int) -> None:
        """Call `save` for an array copied from rows in host memory; do nothing for other values."""
        if self._queue.find_origin(value) is not None:
            self.save(value, series, index)

    def keeps_on_host(self, rows: Array) -> bool:
        """Return True if rows stay in host memory until their reads; small rows only if kernels can read them there."""
        if rows.ndim == 0 or self._pool.counts(rows):
            return False
        return self._device.arrays is None or rows.nbytes >= max(1, len(rows)) * self._minimum

    def wrap_host_row(self, row: Array) -> Any:
        """Return an entry for a row in host memory; the row itself if too small, or of objects."""
        if row.nbytes < self._minimum or row.dtype.hasobject:
            return row
        entry = SwapEntry(row, self._device.clock.now(), self._fetch_now)
        entry.begin_on_host()
        return entry

    def read(self, series: Series | Any, index: int, last: bool) -> tuple[Array | None, asyncio.Future[Array] | None]:
        """Return the array in a slot, or a future of the array.

        Parameters
        ----------
        series : Series or ArrayStorage
        index : int
            Index of a slot, or of an element.
        last : bool
            Whether the slot is emptied now.

        Raises
        ------
        MemoryError
            If there is no room for the array; then the state is unchanged.
        """
        entry = series.at(index)
        if type(entry) is not SwapEntry:
            self.note_read(entry, series, index)
            return entry, None
        waiter = None
        array = entry.array
        if array is None:
            waiter = self._await_copy_in(entry)
            self.counts.misses += 1
        else:
            self._device.charge(array)
        if entry.state is State.CACHED:
            self.counts.hits += 1
            # The reader alone then has the array. At a last read it stays CACHED, as another series may have the entry.
            if not last:
                self._cached.pop(id(entry), None)
                entry.enter_state(State.SWAPPED_OUT, location=entry.location)
        elif entry.state is State.SWAPPING_OUT and last and entry.copy is not None:
            entry.copy.withdraw()  # the value will not be read again
        self._prefetch_after(series, index)
        return array, waiter

    def _prefetch_after(self, series: Series | Any, index: int) -> None:
        """Begin to copy in the values expected after the read of a slot."""
        self._prefetcher.note_read(series, index)
        self.prefetch()

    def free_some(self) -> bool:
        """Free memory for a step that cannot proceed otherwise; return True if some was freed, or will be."""
        if self._closed:  # all memory is freed soon
            return False
        while self._cached:  # popitem takes the latest arrival, which is needed last
            entry = self._cached.popitem()[1]()
            if entry is not None and entry.state is State.CACHED:
                entry.enter_state(State.SWAPPED_OUT, location=entry.location)
                self._schedule_wake()
                return True
        return bool(self.copies) or self._swap_out(forced=True)

    @contextmanager
    def count_stalled_time(self) -> Iterator[None]:
        """Count the time inside the context as time in which the step could only wait for copies."""
        began = self._device.clock.now()
        try:
            yield
        finally:
            self.counts.stalled_seconds += self._device.clock.now() - began

    def close(self) -> None:
        """Withdraw the copies that have not begun, and begin no others."""
        self._closed = True
        self.copies.close()
        self._queue.clear()
        self._small.clear()
        self._cached.clear()
        self._prefetcher.clear()

    async def drain(self) -> None:
        """Wait until no copy is under way."""
        await self.copies.drain()
        self.counts.tiers = self._tiers.bytes_by_tier

    # ---- out

    def _swap_out(self, forced: bool = False) -> bool:
        """Begin to swap values out until use is below the threshold: large values, and small ones without any large.

        Parameters
        ----------
        forced : bool
            For a step that cannot proceed otherwise: consider all values, also those soon read again, and stop at the
            first large value whose memory is freed, or after a batch of small values.

        Returns
        -------
        bool
            Whether memory was freed, or will be.
        """
        for queue, least in ((self._queue, 1), (self._small, self._batch_bytes)):
            if self._evict_values(queue, least if forced else None):
                return True
            if queue and not forced:
                return False
        return False

    def _evict_values(self, queue: EvictionQueue, least: int | None) -> bool:
        """Begin to swap out a queue's values, oldest first, until `least` bytes leave or use is below the threshold."""
        bytes_freed, is_stuck, staying = 0, False, []  # freed now, or by the end of a copy
        leaving: list[SwapOut] = []
        goal = self._goal - self._batch_bytes  # a batch below the threshold, so that not every push begins a copy
        if least is not None:
            queue.make_entries()
        # The queue can hold thousands of values with other owners, and this runs at every push above the threshold: so
        # a push examines only a few. Values with other owners go to the end, where later pushes find them.
        for _ in range(min(len(queue), _LOOKS) if least is None else len(queue)):
            # Bytes on their way out count as free; otherwise each push until the end of the copy would send more out.
            is_below_goal = self._pool.used_bytes - self._slots.leaving <= goal
            has_enough = is_below_goal if least is None else bytes_freed >= max(1, least)
            if has_enough:
                break
            entry = queue.take_oldest()
            # The slot was emptied, or a read has dealt with the value; a value that is away has no memory to free.
            if entry is None or entry.state not in (State.RESIDENT, State.CACHED):
                continue
            if not self._device.is_sole_owner(entry):
                queue.append(entry)
                self.counts.held += 1
                continue
            if entry.state is State.CACHED:
                entry.enter_state(State.SWAPPED_OUT, location=entry.location)
                self._schedule_wake()
                bytes_freed += entry.size
            elif (
                not is_stuck
                and (least is not None or not self._returns_soon(entry))
                and self._reserve_location(entry, leaving)
            ):
                bytes_freed += entry.size
            else:
                # All later values are younger and return sooner, and a full tier is full for them as well. They keep
                # their places; but a CACHED value among them needs no copy and can still be dropped.
                is_stuck = True
                staying.append(entry)
        queue.put_back(staying)
        for batch in in_batches(leaving, self._batch_bytes):
            self._copy_out(batch)
        return bytes_freed > 0

    def _queue_of(self, entry: SwapEntry) -> EvictionQueue:
        return self._queue if entry.size >= self._minimum else self._small

    def _returns_soon(self, entry: SwapEntry) -> bool:
        """Return True if copies out and in would outlast the time to the next read, which is about the value's age."""
        soon = self._device.clock.now() - entry.saved_at < 2 * self._prefetcher.copy_seconds
        self.counts.soon += soon
        return soon

    def _reserve_location(self, entry: SwapEntry, leaving: list[SwapOut]) -> bool:
        """Reserve a location for a value and add both to `leaving`; return False if no tier has room."""
        extent = None
        block = self._tiers.host.take(self._device, entry.shape, entry.dtype)
        if block is None:
            extent = None if self._tiers.disk is None else self._tiers.disk.take(entry.size)
            if extent is None:
                self.counts.full += 1
                return False
            block = self._tiers.take_staging(self._device, entry.shape, entry.dtype, entry.size)
            if block is None:  # not counted as full: `_finish_write` tries again once staging memory is free
                return False
        self._slots.leaving += entry.size
        leaving.append((entry, block, extent))
        return True

    def _copy_out(self, batch: list[SwapOut]) -> None:
        pairs = [(entry.array, block) for entry, block, _ in batch]
        event = self._device.copy_all_out(pairs, after=self._device.compute_barrier())
        for entry, _, _ in batch:
            entry.enter_state(State.SWAPPING_OUT, array=entry.array, copy=event)
        self.copies.call_when_ended(event, partial(self._finish_copy_out, batch, self._device.clock.now()))

    def _finish_copy_out(self, batch: list[SwapOut], submitted: float, event: Event[Any]) -> None:
        """Drop the arrays on the device after a copy out; keep them if the copy failed."""
        self._slots.leaving -= sum(entry.size for entry, _, _ in batch)
        if event.error is None:
            self._prefetcher.note_duration(submitted, event)
            moved = [("host" if extent is None else "disk", entry) for entry, _, extent in batch]
            self.copies.count_moved("device_to_host", self.counts.bytes_out, moved, event)
            for entry, block, extent in batch:
                entry.enter_state(State.SWAPPED_OUT, location=block)
                self._prefetcher.note_swapped_out(entry)
                if extent is not None and not self._closed:
                    self._write_to_disk(entry, block, extent)
        else:
            for entry, _, _ in batch:
                entry.enter_state(State.RESIDENT, array=entry.array)
            self._queue_of(batch[0][0]).put_back([entry for entry, _, _ in batch])
            self.copies.report_error(event.error, batch[0][0], "could not be copied out of the device's memory")
        batch.clear()
        self.copies.wake()

    def _write_to_disk(self, entry: SwapEntry, block: Array, extent: Extent) -> None:
        disk = self._tiers.disk
        assert disk is not None
        event = disk.write(block, extent)
        self.copies.call_when_ended(event, partial(self._finish_write, entry))

    def _finish_write(self, entry: SwapEntry, event: Event[Any]) -> None:
        """Keep a written value in the file alone; after a failed write the value stays in host memory."""
        if event.error is None:
            entry.location = event.take()
            self.copies.show("disk", "disk", entry.size, event)
        else:
            self.copies.report_error(event.error, entry, "could not be written to the file of swapped values")
        if self._pool.used_bytes - self._slots.leaving > self._goal and not self._closed:
            self._swap_out()  # values may have stayed for want of staging memory, which is free again
        self.copies.wake()

    # ---- in

    def _await_copy_in(self, entry: SwapEntry) -> asyncio.Future[Array]:
        """Return a future for a swapped-out value, begin its copy in if necessary; MemoryError without room."""
        if entry.state is State.SWAPPED_OUT:
            self._copy_in([(entry, self._device.allocate(entry.shape, entry.dtype))])
        waiter: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        entry.waiters.append(waiter)
        self.waiting += 1
        return waiter

    def prefetch(self) -> None:
        """Begin to copy in the values to be read next, up to the threshold and as far as there is room."""
        wanted = self._prefetcher.wanted
        if not wanted:  # the usual case
            return
        batch: list[SwapIn] = []
        while wanted:
            entry = wanted[0]()
            if entry is not None and entry.state is State.SWAPPED_OUT:
                target = self._allocate_ahead(entry)
                if target is None:
                    break
                batch.append((entry, target))
            wanted.popleft()
        for copies in in_batches(batch, self._batch_bytes):
            with suppress(MemoryError):  # of the host, for values in the file
                self._copy_in(copies)

    def _allocate_ahead(self, entry: SwapEntry) -> Array | None:
        """Return memory for a value ahead of its read; None if there is no room."""
        if self._closed or self._pool.used_bytes + entry.size > self._goal:
            return None
        array: Array | None = self._device.allocate_unreserved(entry.shape, entry.dtype)
        return array

    def _copy_in(self, batch: list[SwapIn]) -> None:
        reads: list[Event[Any]] = []
        pairs = [(self._find_source(entry, reads), target) for entry, target in batch]
        event = self._device.copy_all_in(pairs, after=reads)
        for entry, _ in batch:
            entry.enter_state(State.SWAPPING_IN, location=entry.location, copy=event)
        self.copies.call_when_ended(event, partial(self._finish_copy_in, batch, self._device.clock.now()))

    def _find_source(self, entry: SwapEntry, reads: list[Event[Any]]) -> Array:
        """Return the host array to copy a value from; for a value in the file add the event of its read to `reads`.

        Raises
        ------
        MemoryError
            If the host has no memory for a value in the file.
        """
        if not isinstance(entry.location, Extent):
            array: Array = entry.location
            return array
        disk = self._tiers.disk
        assert disk is not None
        block = self._tiers.staging.take(self._device, entry.shape, entry.dtype)
        if block is None:
            raise MemoryError(f"the host has no room for {entry.size} bytes from the file of swapped values")
        reads.append(disk.read(entry.location, block))
        self.copies.call_when_ended(reads[-1], do_nothing)
        return block

    def _finish_copy_in(self, batch: list[SwapIn], submitted: float, event: Event[Any]) -> None:
        """Hand copied values to their waiting reads, or pass the error of the copy to the reads."""
        if event.error is None:
            self._prefetcher.note_duration(submitted, event)
            moved = [(_tier_name(entry), entry) for entry, _ in batch]
            self.copies.count_moved("host_to_device", self.counts.bytes_in, moved, event)
        has_waiters = False
        batch.reverse()  # the value read first is handed over first; `pop` drops the batch's references on the way
        while batch:
            entry, array = batch.pop()
            has_waiters = self._hand_over(entry, array, event.error) or has_waiters
        if has_waiters:
            self.copies.wake()

    def _hand_over(self, entry: SwapEntry, array: Array, error: BaseException | None) -> bool:
        """Hand a copied value, or the error of its copy, to the waiting reads; return True if there are any."""
        self.waiting -= len(entry.waiters)
        waiters, entry.waiters = [waiter for waiter in entry.waiters if not waiter.done()], []
        if error is not None:
            entry.enter_state(State.SWAPPED_OUT, location=entry.location)
            for waiter in waiters:
                if self._closed:  # the reads themselves have ended
                    waiter.cancel()
                else:
                    waiter.set_exception(self.copies.make_error(error, entry, "could not be copied back"))
            return bool(waiters)
        if entry.host_backed:
            self._queue.note_origin(array, entry.location)
        entry.enter_state(State.CACHED, array=array, location=entry.location)
        for waiter in waiters:
            waiter.set_result(array)
        if waiters:  # only the readers keep the array: its memory is freed when they drop it
            entry.enter_state(State.SWAPPED_OUT, location=entry.location)
        else:
            self._cached[id(entry)] = ref(entry)
        return bool(waiters)

    def _fetch_now(self, entry: SwapEntry, into: Array | None) -> Array:
        """Copy a swapped-out value at once into an array of the device's library, by default a new array."""
        if (xp := self._device.arrays) is None:
            return self._tiers.read_now(entry, into)
        array: Array = xp.asarray(self._tiers.host_array(entry))
        if into is None:
            return array
        into[...] = array
        return into

    def _schedule_wake(self) -> None:
        # Not called directly: pushes come from within the step machine, which must not be entered again.
        asyncio.get_running_loop().call_soon(self.copies.wake)


def _tier_name(entry: SwapEntry) -> str:
    return "feed" if entry.host_backed else "disk" if isinstance(entry.location, Extent) else "host"

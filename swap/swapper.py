"""The saved values of one step on one device: which move, when, and how they come back in time.

Loops save in one order and read in the other, so what was saved first is needed last: it leaves first. What a reader
will want next are the slots behind the one it reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from ..base.errors import SwapError
from ..base.sizes import format_size
from ..kernels.cpu.saved import SavedSlots
from ..kernels.scheduler.series import Series
from ..streams.capabilities import SwapSupport
from ..streams.contract import Memory
from ..streams.event import DeviceClosed, Event, Withdrawn
from .counts import SwapCounts
from .disk import Extent
from .entry import Array, State, SwapEntry
from .eviction import EvictionQueue
from .policy import SwapPolicy
from .prefetch import Prefetcher
from .tiers import Tiers

_LOOKS = 64  # values that are looked at for one that can leave
_BATCHES = 32  # a batch that is copied as one has at most one of so many parts of the limit
Leaving = tuple[SwapEntry, Array, Extent | None]  # a value, where it goes in the host's memory, and then in the file
Arriving = tuple[SwapEntry, Array]  # a value and where it goes
Moving = TypeVar("Moving", Leaving, Arriving)


class StepSwapper:
    """What a step machine tells of its saved values, and asks for.

    Parameters
    ----------
    device : SwapSupport
        With a limit.
    tiers : Tiers
        The session's.
    policy : SwapPolicy
    name : str
        Of the device, as the step knows it.

    Attributes
    ----------
    counts : SwapCounts
    save : callable
        Called with value, series and index of what a loop has saved: there will be a SwapEntry in its place when it
        is to move.
    note_read : callable
        Called likewise with what is read and has no SwapEntry.
    wake : callable
        Called when memory was given back, or something may go on.
    fail : callable
        Called with the error of a copy that nobody waits for.
    show : callable
        Called with stream, tier, bytes and event of each copy that has ended well.
    waiting : int
        Reads that wait for a copy.
    """

    def __init__(self, device: SwapSupport, tiers: Tiers, policy: SwapPolicy, name: str) -> None:
        pool, limit, counted = device.pool, device.limit, device.contexts.pool
        assert pool is not None
        assert counted is not None
        assert limit is not None
        assert isinstance(policy.minimum, int)
        self.counts = SwapCounts(name, limit)
        self.wake: Callable[[], None] = _nothing
        self.fail: Callable[[BaseException], None] = _nothing
        self.show: Callable[[str, str, int, Event[Any]], None] = _nothing
        self._device, self._tiers, self._policy = device, tiers, policy
        self._pool: Memory = pool
        self._goal = int(policy.threshold * limit)
        self._minimum = policy.minimum
        self._batch_bytes = limit // _BATCHES
        self._slots = SavedSlots(
            counted,
            device.buffer,
            policy.minimum,
            self._goal,
            self.counts,
            device.clock.now,
            self._move_out,
            self._look_ahead,
        )
        self.save, self.note_read = self._slots.save, self._slots.note_read
        self._saved = EvictionQueue(device, self._slots, self._fetch)
        self._back: dict[int, ref[SwapEntry]] = {}  # by the entry's id, in the order of arrival: not read yet
        self._ahead = Prefetcher(policy, self._batch_bytes, device.clock)
        self._copies: dict[Event[Any], Callable[[Event[Any]], None]] = {}  # under way, and what comes after
        self.waiting = 0
        self._closed = False

    def entry_for(self, value: Any) -> Any:
        """Return what an element is to hold: a SwapEntry that may move, or the value itself."""
        if not self._slots.is_swappable(value):
            return value
        entry = self._saved.add(value)
        self._slots.look()
        return entry

    def save_host_backed(self, value: Any, series: Series, index: int) -> None:
        """Do what `save` does for a value that came from the host's memory, and nothing for others."""
        if self._saved.origin(value) is not None:
            self.save(value, series, index)

    def keeps_on_host(self, rows: Array) -> bool:
        """Say whether rows stay in the host's memory; small ones only where kernels can read them there."""
        if rows.ndim == 0 or self._pool.counts(rows):
            return False
        return self._device.arrays is None or rows.nbytes >= max(1, len(rows)) * self._minimum

    def wrap_host_row(self, row: Array) -> Any:
        """Return a SwapEntry for what is in the host's memory and stays there, if it may be swapped at all."""
        if row.nbytes < self._minimum or row.dtype.hasobject:
            return row
        entry = SwapEntry(row, self._device.clock.now(), self._fetch)
        entry.begin_on_host()
        return entry

    def read(self, series: Series | Any, index: int, last: bool) -> tuple[Array | None, asyncio.Future[Array] | None]:
        """Return the array in a slot, or else what gives it.

        Parameters
        ----------
        series : Series or ArrayStorage
        index : int
            Of a slot, or an element.
        last : bool
            Whether the slot is emptied now.

        Raises
        ------
        MemoryError
            If there is no room for it; then nothing has been done.
        """
        entry = series.at(index)
        if type(entry) is not SwapEntry:
            self.note_read(entry, series, index)
            return entry, None
        waiter = None
        array = entry.array
        if array is None:
            waiter = self._await(entry)
            self.counts.misses += 1
        else:
            self._device.charge(array)
        if entry.state is State.CACHED:
            self.counts.hits += 1
            if not last:  # who reads it alone has it then; a last one may be saved by another series as well
                self._back.pop(id(entry), None)
                entry.become(State.SWAPPED_OUT, location=entry.location)
        elif entry.state is State.SWAPPING_OUT and last and entry.copy is not None:
            entry.copy.withdraw()
        self._look_ahead(series, index)
        return array, waiter

    def _look_ahead(self, series: Series | Any, index: int) -> None:
        """Begin to bring back what is behind a slot that is read."""
        self._ahead.read(series, index)
        self.prefetch()

    def free_some(self) -> bool:
        """Give memory back, since a step can not go on without; say whether some was, or will be."""
        if self._closed:  # all of it is given back soon
            return False
        while self._back:
            entry = self._back.popitem()[1]()
            if entry is not None and entry.state is State.CACHED:
                entry.become(State.SWAPPED_OUT, location=entry.location)
                self._schedule_wake()
                return True
        return bool(self._copies) or self._move_out(forced=True)

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Count the time as one in which the step could only wait for copies."""
        began = self._device.clock.now()
        try:
            yield
        finally:
            self.counts.stalled_seconds += self._device.clock.now() - began

    def close(self) -> None:
        """Take back the copies that have not begun; move nothing any more."""
        self._closed = True
        self.wake = self.fail = self.show = _nothing
        for event in list(self._copies):
            event.withdraw()
        self._saved.clear()
        self._back.clear()
        self._ahead.clear()

    async def drain(self) -> None:
        """Wait until no copy is under way."""
        while self._copies:
            await next(iter(self._copies)).over()
            await asyncio.sleep(0)  # its callback comes first
        self.counts.tiers = self._tiers.figures

    def _move_out(self, forced: bool = False) -> bool:
        """Begin to move values until use is below the threshold, or only one; say whether any is on its way."""
        begun, stuck, staying = False, False, []
        leaving: list[Leaving] = []
        goal = self._goal - self._batch_bytes
        if forced:
            self._saved.gather()
        for _ in range(len(self._saved) if forced else min(len(self._saved), _LOOKS)):
            if (begun and forced) or (not forced and self._pool.live_bytes - self._slots.leaving <= goal):
                break
            entry = self._saved.oldest()
            if entry is None or entry.state not in (State.RESIDENT, State.CACHED):
                continue
            if not self._device.is_sole_owner(entry):
                self._saved.append(entry)
                self.counts.held += 1
                continue
            if entry.state is State.CACHED:
                entry.become(State.SWAPPED_OUT, location=entry.location)
                self._schedule_wake()
                begun = True
            elif not stuck and (forced or not self._returns_soon(entry)) and self._reserve_location(entry, leaving):
                begun = True
            else:  # those behind it can only be dropped, where they are somewhere else as well
                stuck = True
                staying.append(entry)
        self._saved.put_back(staying)
        for batch in self._batches(leaving):
            self._leave(batch)
        return begun

    def _batches(self, moving: list[Moving]) -> Iterator[list[Moving]]:
        """Yield what is copied as one: so much that it is worth the calls, so little that memory is soon back."""
        batch: list[Moving] = []
        size = 0
        for each in moving:
            if batch and size + each[0].size > self._batch_bytes:
                yield batch
                batch, size = [], 0
            batch.append(each)
            size += each[0].size
        if batch:
            yield batch

    def _returns_soon(self, entry: SwapEntry) -> bool:
        """Whether a value would be wanted before it could be out and back: about as long from now as it is old."""
        soon = self._device.clock.now() - entry.saved_at < 2 * self._ahead.seconds
        self.counts.soon += soon
        return soon

    def _reserve_location(self, entry: SwapEntry, leaving: list[Leaving]) -> bool:
        """Add a value to those that leave; say whether a tier has room for it."""
        extent = None
        block = self._tiers.host.take(self._device, entry.shape, entry.dtype)
        if block is None:
            extent = None if self._tiers.disk is None else self._tiers.disk.take(entry.size)
            if extent is None:
                self.counts.full += 1
                return False
            block = self._tiers.stage(self._device, entry.shape, entry.dtype, entry.size)
            if block is None:
                return False
        self._slots.leaving += entry.size
        leaving.append((entry, block, extent))
        return True

    def _leave(self, batch: list[Leaving]) -> None:
        """Begin to copy values out."""
        pairs = [(entry.array, block) for entry, block, _ in batch]
        event = self._device.copy_all_out(pairs, after=self._device.compute_barrier())
        for entry, _, _ in batch:
            entry.become(State.SWAPPING_OUT, array=entry.array, copy=event)
        self._follow(event, partial(self._left, batch, self._device.clock.now()))

    def _follow(self, event: Event[Any], call: Callable[[Event[Any]], None]) -> None:
        """Have something called when a copy has ended.

        The event does not know what: a thread that has just ended it would keep the value for a moment more.
        """
        self._copies[event] = call
        event.add_done_callback(self._ended)

    def _ended(self, event: Event[Any]) -> None:
        self._copies.pop(event)(event)
        if not self._copies:
            self.wake()

    def _left(self, batch: list[Leaving], asked: float, event: Event[Any]) -> None:
        """Let go of what is in the device's memory, or keep it if it could not be copied."""
        self._slots.leaving -= sum(entry.size for entry, _, _ in batch)
        if event.error is None:
            self._ahead.measure(asked, event)
            self._count(
                "device_to_host", self.counts.bytes_out, [(_tier_of(extent), e) for e, _, extent in batch], event
            )
            for entry, block, extent in batch:
                entry.become(State.SWAPPED_OUT, location=block)
                self._ahead.left(entry)
                if extent is not None and not self._closed:
                    self._write(entry, block, extent)
        else:
            for entry, _, _ in batch:
                entry.become(State.RESIDENT, array=entry.array)
            self._saved.put_back([entry for entry, _, _ in batch])
            self._complain(event.error, batch[0][0], "could not be copied out of the device's memory")
        batch.clear()
        self.wake()

    def _count(
        self, stream: str, total: dict[str, int], moved: Sequence[tuple[str, SwapEntry]], event: Event[Any]
    ) -> None:
        """Count values that were copied as one."""
        sizes: dict[str, int] = {}
        for tier, entry in moved:
            sizes[tier] = sizes.get(tier, 0) + entry.size
        for tier, size in sizes.items():
            total[tier] = total.get(tier, 0) + size
            self.show(stream, tier, size, event)
        self.counts.timed(event)

    def _write(self, entry: SwapEntry, block: Array, extent: Extent) -> None:
        disk = self._tiers.disk
        assert disk is not None
        event = disk.write(block, extent)
        self._follow(event, partial(self._written, entry))

    def _written(self, entry: SwapEntry, event: Event[Any]) -> None:
        """Keep a value in the file alone; where it could not be written it stays in the host's memory."""
        if event.error is None:
            entry.location = event.take()
            self.show("disk", "disk", entry.size, event)
        else:
            self._complain(event.error, entry, "could not be written to the file of swapped values")
        if self._pool.live_bytes - self._slots.leaving > self._goal and not self._closed:
            self._move_out()
        self.wake()

    def _await(self, entry: SwapEntry) -> asyncio.Future[Array]:
        """Return a future for a value that is away; MemoryError if there is no room for it."""
        if entry.state is State.SWAPPED_OUT:
            self._bring([(entry, self._device.allocate(entry.shape, entry.dtype))])
        waiter: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        entry.waiters.append(waiter)
        self.waiting += 1
        return waiter

    def _bring(self, batch: list[Arriving]) -> None:
        """Begin to copy values in."""
        reads: list[Event[Any]] = []
        pairs = [(self._source(entry, reads), target) for entry, target in batch]
        event = self._device.copy_all_in(pairs, after=reads)
        for entry, _ in batch:
            entry.become(State.SWAPPING_IN, location=entry.location, copy=event)
        self._follow(event, partial(self._arrived, batch, self._device.clock.now()))

    def _source(self, entry: SwapEntry, reads: list[Event[Any]]) -> Array:
        """Return what a value is copied from; if that is read from the disk first, add the event of it to `reads`.

        Fails with MemoryError where the host has no memory for that.
        """
        if not isinstance(entry.location, Extent):
            return entry.location  # type: ignore[no-any-return]
        disk = self._tiers.disk
        assert disk is not None
        block = self._tiers.staging.take(self._device, entry.shape, entry.dtype)
        if block is None:
            raise MemoryError(f"the host has no room for {entry.size} bytes from the file of swapped values")
        reads.append(disk.read(entry.location, block))
        self._follow(reads[-1], _nothing)
        return block

    def _arrived(self, batch: list[Arriving], asked: float, event: Event[Any]) -> None:
        """Hand values to those who wait for them, or tell them why they could not come."""
        if event.error is None:
            self._ahead.measure(asked, event)
            self._count("host_to_device", self.counts.bytes_in, [(_tier(entry), entry) for entry, _ in batch], event)
        wanted = False
        batch.reverse()  # what is read first is handed over first
        while batch:
            entry, array = batch.pop()
            wanted = self._hand_over(entry, array, event.error) or wanted
        if wanted:
            self.wake()

    def _hand_over(self, entry: SwapEntry, array: Array, error: BaseException | None) -> bool:
        """Give a value that has arrived to those who wait for it; say whether anybody does."""
        self.waiting -= len(entry.waiters)
        waiters, entry.waiters = [each for each in entry.waiters if not each.done()], []
        if error is not None:
            entry.become(State.SWAPPED_OUT, location=entry.location)
            for waiter in waiters:
                if self._closed:  # nobody asks any more
                    waiter.cancel()
                else:
                    waiter.set_exception(self._error(error, entry, "could not be copied back"))
            return bool(waiters)
        if entry.host_backed:
            self._saved.remember(array, entry.location)
        entry.become(State.CACHED, array=array, location=entry.location)
        for waiter in waiters:
            waiter.set_result(array)
        if waiters:
            entry.become(State.SWAPPED_OUT, location=entry.location)
        else:
            self._back[id(entry)] = ref(entry)
        return bool(waiters)

    def prefetch(self) -> None:
        """Begin to bring back what will be read next, up to the threshold, as far as there is room by now."""
        wanted = self._ahead.wanted
        if not wanted:  # as a rule
            return
        batch: list[Arriving] = []
        while wanted:
            entry = wanted[0]()
            if entry is not None and entry.state is State.SWAPPED_OUT:
                target = self._spare(entry)
                if target is None:
                    break
                batch.append((entry, target))
            wanted.popleft()
        for each in self._batches(batch):
            with suppress(MemoryError):  # of the host, for what is in the file
                self._bring(each)

    def _spare(self, entry: SwapEntry) -> Array | None:
        """Return memory for a value that nobody asks for yet; None if there is no room."""
        if self._closed or self._pool.live_bytes + entry.size > self._goal:
            return None
        found: Array | None = self._device.allocate_unreserved(entry.shape, entry.dtype)
        return found

    def _fetch(self, entry: SwapEntry, into: Array | None) -> Array:
        """Copy a value that is away, at once."""
        if (xp := self._device.arrays) is not None:
            found: Array = xp.asarray(self._read_now(entry, None))
            if into is None:
                return found
            into[...] = found
            return into
        return self._read_now(entry, np.empty(entry.shape, entry.dtype) if into is None else into)

    def _read_now(self, entry: SwapEntry, into: Array | None) -> Array:
        """Copy a value that is away to the host's memory, or return what it is in there."""
        if into is None and not isinstance(entry.location, Extent):
            return entry.location  # type: ignore[no-any-return]
        into = np.empty(entry.shape, entry.dtype) if into is None else into
        if isinstance(entry.location, Extent):
            assert self._tiers.disk is not None
            self._tiers.disk.read_now(entry.location, into)
        else:
            np.copyto(into, entry.location)
        return into

    def _schedule_wake(self) -> None:
        asyncio.get_running_loop().call_soon(self.wake)

    def _complain(self, error: BaseException, entry: SwapEntry, what: str) -> None:
        """Fail the step, unless the copy was taken back."""
        if not self._closed and not isinstance(error, (Withdrawn, DeviceClosed)):
            self.fail(self._error(error, entry, what))

    def _error(self, error: BaseException, entry: SwapEntry, what: str) -> BaseException:
        found = SwapError(
            f"a saved value of {format_size(entry.size)} {what}: {error}",
            device=self.counts.device,
            wanted=f"a copy of {entry.dtype}{list(entry.shape)}",
            got=f"{type(error).__name__}: {error}",
            hint="nothing is lost but this step; make room where SwapPolicy(disk=...) points to, or allow more memory",
        )
        found.__cause__ = error
        return found


def _tier_of(extent: Extent | None) -> str:
    return "host" if extent is None else "disk"


def _tier(entry: SwapEntry) -> str:
    return "feed" if entry.host_backed else "disk" if isinstance(entry.location, Extent) else "host"


def _nothing(*_: object) -> None:
    """Do nothing."""

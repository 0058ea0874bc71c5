"""The values that one step has saved on one device, in their order, and which of them may move."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary, ref

from ..kernels.cpu.saved import SavedSlots
from ..kernels.scheduler.series import Series
from ..streams.capabilities import SwapSupport
from .entry import Array, State, SwapEntry

_NEAR = 32  # values in front whose arrays are in no slot; what an iteration saves twice it saves at about the same time
Slot = tuple[ref[Series], int, float]  # that holds an array without a SwapEntry yet, and when it was saved


class EvictionQueue:
    """A queue of saved values, what was saved first in front.

    Parameters
    ----------
    device : SwapSupport
    slots : SavedSlots
        What was saved last, without Entries yet.
    fetch : callable
        That of a SwapEntry.
    """

    def __init__(
        self, device: SwapSupport, slots: SavedSlots, fetch: Callable[[SwapEntry, Array | None], Array]
    ) -> None:
        self._device, self._slots, self._fetch = device, slots, fetch
        self._known: WeakValueDictionary[int, SwapEntry] = WeakValueDictionary()  # by the id of the resident array
        self._front: deque[ref[SwapEntry]] = deque()  # what is looked at next
        self._queue: deque[ref[SwapEntry] | Slot] = slots.queue  # what is behind it
        self._origins: dict[int, tuple[ref[Array], Array]] = {}  # array id -> the array, the rows it is a copy of

    def __len__(self) -> int:
        return len(self._front) + len(self._queue)

    def add(self, array: Array) -> SwapEntry:
        """Append a value and return its SwapEntry."""
        entry, is_new = self._entry(array, self._device.clock.now())
        if is_new:
            self.append(entry)
        return entry

    def append(self, entry: SwapEntry) -> None:
        """Look at a value again when all others were looked at."""
        self._queue.append(ref(entry))

    def put_back(self, entries: Sequence[SwapEntry]) -> None:
        """Put values to the front again, in the order in which they were taken."""
        self._front.extendleft(map(ref, reversed(entries)))

    def oldest(self) -> SwapEntry | None:
        """Take the first value; None if it is no more."""
        if len(self._front) < _NEAR:
            self.gather(2 * _NEAR)
        return self._front.popleft()() if self._front else None

    def gather(self, count: int | None = None) -> None:
        """Give the next slots, or all, their Entries: an array that is in two of them is held by neither."""
        for _ in range(min(len(self._queue), len(self._queue) if count is None else count)):
            each = self._queue.popleft()
            found = self._replaced(*each) if isinstance(each, tuple) else each
            if found is not None:
                self._front.append(found)

    def _replaced(self, where: ref[Series], index: int, when: float) -> ref[SwapEntry] | None:
        """Put a SwapEntry in the place of an array; None if it is no more, or has a place in the queue already."""
        series = where()
        array: Any = None if series is None else series.at(index)
        if series is None or type(array) is not self._device.buffer:
            return None
        entry, is_new = self._entry(array, when)
        series.put(index, entry)
        return ref(entry) if is_new else None

    def remember(self, array: Array, location: Array) -> None:
        """Note where an array came from, as long as it lives: if it is saved it need not be copied out.

        It stays what it is, as no kernel may write its result there; where that can not be forbidden nothing is noted.
        """
        if not self._device.make_readonly(array):
            return
        number, origins = id(array), self._origins
        origins[number] = ref(array, lambda _: origins.pop(number, None)), location

    def clear(self) -> None:
        """Look at none of them any more."""
        self._front.clear()
        self._queue.clear()

    def _entry(self, array: Array, saved_at: float) -> tuple[SwapEntry, bool]:
        """Return the SwapEntry of an array, one also if it was saved twice, and whether it is new."""
        entry = self._known.get(id(array))
        if entry is not None and entry.array is array:
            return entry, False
        self._slots.has_moved = True
        entry = self._known[id(array)] = SwapEntry(array, saved_at, self._fetch)
        location = self.origin(array)
        if location is not None:
            entry.host_backed = True
            entry.become(State.CACHED, array=array, location=location)
        return entry, True

    def origin(self, array: Any) -> Array | None:
        """Return what of the host's memory an array is a copy of, if that is known."""
        known, location = self._origins.get(id(array), (None, None))
        return location if known is not None and known() is array else None

"""Order of eviction: the values saved by a step on a device, oldest first.

See docs/design/0012-swap.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary, ref

from ..kernels.memory.saved_slots import SavedSlots
from ..kernels.scheduler.series import Series
from ..streams.capabilities import SwapSupport
from .entry import Array, State, SwapEntry

_NEAR = 32  # entries made ahead; two slots of an iteration with the same array are about this close in the queue
Slot = tuple[ref[Series], int, float]  # a slot with a plain array: its series, its index, the time of saving


class EvictionQueue:
    """Queue of saved values, oldest first.

    Its first part holds values with a SwapEntry; the rest are slots with plain arrays, as noted by the C code. A slot
    receives an entry only when its turn comes: most steps never need entries.

    Parameters
    ----------
    device : SwapSupport
    slots : SavedSlots
        Its `has_moved` is set with the first entry, as values may move from then on.
    notes : collections.deque
        Slots noted by `slots`, either the large or the small values, without entries so far.
    fetch : callable
        The `fetch` of each SwapEntry.
    """

    def __init__(
        self,
        device: SwapSupport,
        slots: SavedSlots,
        notes: deque[Any],
        fetch: Callable[[SwapEntry, Array | None], Array],
    ) -> None:
        self._device, self._slots, self._fetch = device, slots, fetch
        self._known: WeakValueDictionary[int, SwapEntry] = WeakValueDictionary()  # by the id of the resident array
        self._front: deque[ref[SwapEntry]] = deque()  # taken next
        self._queue: deque[ref[SwapEntry] | Slot] = notes  # taken after the front
        self._origins: dict[int, tuple[ref[Array], Array]] = {}  # array id -> the array, its source rows

    def __len__(self) -> int:
        return len(self._front) + len(self._queue)

    def add(self, array: Array) -> SwapEntry:
        """Append a value and return its entry."""
        entry, is_new = self._find_or_make_entry(array, self._device.clock.now())
        if is_new:
            self.append(entry)
        return entry

    def append(self, entry: SwapEntry) -> None:
        """Put a value at the end of the queue."""
        self._queue.append(ref(entry))

    def put_back(self, entries: Sequence[SwapEntry]) -> None:
        """Return values to the front, in the order in which they were taken."""
        self._front.extendleft(map(ref, reversed(entries)))

    def take_oldest(self) -> SwapEntry | None:
        """Take the first value; None if the queue is empty, or the value is gone."""
        if len(self._front) < _NEAR:
            self.make_entries(2 * _NEAR)
        return self._front.popleft()() if self._front else None

    def make_entries(self, count: int | None = None) -> None:
        """Put entries into the next `count` slots, or all.

        Two slots with the same array share an entry; until both hold the entry, a slot keeps the array in use.
        """
        for _ in range(min(len(self._queue), len(self._queue) if count is None else count)):
            item = self._queue.popleft()
            entry_ref = self._replace_by_entry(*item) if isinstance(item, tuple) else item
            if entry_ref is not None:
                self._front.append(entry_ref)

    def _replace_by_entry(self, where: ref[Series], index: int, when: float) -> ref[SwapEntry] | None:
        """Replace a slot's array by an entry; return None if the array is gone, or in the queue already."""
        series = where()
        array: Any = None if series is None else series.at(index)
        if series is None or type(array) is not self._device.buffer:
            return None
        entry, is_new = self._find_or_make_entry(array, when)
        series.put(index, entry)
        return ref(entry) if is_new else None

    def note_origin(self, array: Array, location: Array) -> None:
        """Note the rows of host memory from which an array was copied: a saved value from there needs no copy out.

        The rows stay valid only while no kernel writes into the array, so the array is made read-only. Without device
        support for this nothing is noted.
        """
        if not self._device.make_readonly(array):
            return
        number, origins = id(array), self._origins
        origins[number] = ref(array, lambda _: origins.pop(number, None)), location

    def clear(self) -> None:
        """Remove all values; none is evicted any more."""
        self._front.clear()
        self._queue.clear()

    def _find_or_make_entry(self, array: Array, saved_at: float) -> tuple[SwapEntry, bool]:
        """Return an array's entry, shared by all slots of the array, and True if the entry is new."""
        entry = self._known.get(id(array))
        if entry is not None and entry.array is array:
            return entry, False
        self._slots.has_moved = True
        entry = self._known[id(array)] = SwapEntry(array, saved_at, self._fetch)
        location = self.find_origin(array)
        if location is not None:
            entry.host_backed = True
            entry.enter_state(State.CACHED, array=array, location=location)
        return entry, True

    def find_origin(self, array: object) -> Array | None:
        """Return the rows of host memory from which an array was copied, if known."""
        known, location = self._origins.get(id(array), (None, None))
        return location if known is not None and known() is array else None  # the id may have been used again

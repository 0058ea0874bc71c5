"""A map staging area: elements by key, whose components may arrive, and leave, one after another."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ....base.errors import OpError
from ....kernels.core.async_result import AsyncResult
from ....kernels.memory.pool import Pool
from ....kernels.queues.queue_base import Taken
from ....kernels.queues.queue_lines import Attempt, Line
from ....ops.queues.elements import Element, ElementSpec
from ....ops.queues.saved import components_of, state_read
from ....ops.support.shared import SharedResource
from ..figures import KeyedStatistics
from .map_entries import Entry, Indices, Part, key_and_components, nbytes_of_components, saved_entries, serial_of


class MapSpec(NamedTuple):
    """Components, bounds and order of a map staging area; areas with one shared name need equal specifications.

    Attributes
    ----------
    elements : ElementSpec
    capacity : int
        Largest number of complete elements; 0 for no bound.
    memory_limit : int
        Largest number of bytes; 0 for no bound.
    ordered : bool
        True if the smallest key leaves first, otherwise the earliest complete element.
    """

    elements: ElementSpec
    capacity: int
    memory_limit: int
    ordered: bool


class PutAt(Attempt):
    """A put of components of a key's element; needs one place, or none for a part of the components."""

    __slots__ = ("entry", "key", "nbytes")

    def __init__(self, operation: str, key: int, entry: Entry, places: int) -> None:
        super().__init__(operation, places)
        self.key: int = key
        self.entry: Entry = entry
        self.nbytes: int = nbytes_of_components(entry)


class TakeAt(Attempt):
    """A take, or peek, of components of the element of a key, or of any key; `found` is the key promised to it."""

    __slots__ = ("found", "indices", "key")

    def __init__(self, operation: str, key: int | None, indices: Indices) -> None:
        super().__init__(operation)
        self.key: int | None = key
        self.indices: Indices = indices
        self.found: int | None = None


class MapStorage(SharedResource):
    """The elements of a map staging area in one session, and the waiting puts, takes and peeks.

    Used on the loop's thread only. An element is promised to the take woken for it: the element stays until this take
    goes on, out of reach of other takes.

    Attributes
    ----------
    name : str
    spec : MapSpec
    whole : OrderedDict
        Elements which were complete once, by key, in order of their completion.
    incomplete : dict
        Elements with missing components, by key.
    later : dict
        Complete elements of a key which arrived again before an earlier element of the key was returned, the earliest
        first; they follow when the element in `whole` is taken.
    nbytes : int
        Bytes of all components.
    putters, takers, peekers : Line
        The waiting puts, takes and peeks.
    """

    __slots__ = (
        "_keys",
        "_oldest",
        "_promised",
        "_serials",
        "_takes",
        "later",
        "incomplete",
        "name",
        "nbytes",
        "peekers",
        "putters",
        "spec",
        "takers",
        "whole",
    )

    def __init__(self, name: str, spec: MapSpec) -> None:
        self.name: str = name
        self.spec: MapSpec = spec
        self.whole: OrderedDict[int, Entry] = OrderedDict()
        self.incomplete: dict[int, Entry] = {}
        self.later: dict[int, list[Entry]] = {}
        self.nbytes: int = 0
        # Each put waits for room of its own, and each take for a key of its own: none waits for the first in line.
        self.putters: Line[PutAt] = Line(lambda _: None, in_order=False)
        self.takers: Line[TakeAt] = Line(lambda _: None, in_order=False)
        self.peekers: Line[TakeAt] = Line(lambda _: None)
        self._keys: list[int] = []  # keys of `whole`, ascending; empty unless `spec.ordered`
        self._promised: set[int] = set()
        self._serials: int = 0
        self._takes: int = 0  # number of takes; those before `_oldest` took elements replaced by a restore
        self._oldest: int = 0

    # ---- what every resource has

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return f"elements of map staging area {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the components of all elements."""
        entries = [*self.whole.values(), *chain(*self.later.values()), *self.incomplete.values()]
        return [value for entry in entries for value in list(entry.values())]

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting puts, takes and peeks with an error."""
        for line in (self.putters, self.takers, self.peekers):
            line.fail(lambda _: error)

    async def aclose(self) -> None:
        """Release all elements."""
        self._set_elements([], [])

    def statistics(self) -> KeyedStatistics:
        """Return the area's statistics."""
        spec, takers = self.spec, len(self.takers) + len(self.peekers)
        return KeyedStatistics(
            self.size,
            len(self.incomplete),
            spec.capacity or None,
            self.nbytes,
            spec.memory_limit or None,
            len(self.putters),
            takers,
            False,
        )

    def snapshot(self) -> Any:
        """Return the elements, each as key, numbers of its components, and components."""
        entries = [(key, each) for key, entry in self.whole.items() for each in (entry, *self.later.get(key, ()))]
        # Places of the elements of which a take has already taken components.
        rest = {i for i, (_, entry) in enumerate(entries) if len(entry) < len(self.spec.elements.dtypes)}
        saved: dict[str, Any] = {"whole": saved_entries([each for i, each in enumerate(entries) if i not in rest])}
        if rest:  # with their places among all elements
            saved["partly_taken"] = [(i, *each) for i, each in enumerate(saved_entries(entries)) if i in rest]
        return {**saved, "incomplete": saved_entries(self.incomplete.items())}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which replaces the elements with the saved ones."""
        with state_read(saved, {"whole", "incomplete"}, f"map staging area '{self.name}'", {"partly_taken"}) as saved:
            whole, incomplete = (
                [self._restore_element(*each) for each in saved[kind]] for kind in ("whole", "incomplete")
            )
            if any(len(entry) != len(self.spec.elements.dtypes) for _, entry in whole):
                raise ValueError("components of a whole element are missing")
            # Ascending places: each insertion finds all elements in front of its place present.
            for place, *each in saved.get("partly_taken", ()):
                whole.insert(int(place), self._restore_element(*each))

        def replace_elements() -> None:
            self._set_elements(whole, incomplete)
            self.serve()

        return replace_elements

    def _restore_element(self, key: int, indices: list[int], components: list[Any]) -> tuple[int, Entry]:
        return int(key), Entry(zip(indices, components_of(components, indices, self.spec.elements, self.name)))

    def _set_elements(self, whole: Sequence[tuple[int, Entry]], incomplete: Sequence[tuple[int, Entry]]) -> None:
        """Replace the elements; earlier takes cannot return theirs any longer."""
        self.whole, self.incomplete, self.later = OrderedDict(), dict(incomplete), {}
        for key, entry in whole:
            self._serials += 1
            entry.serial = self._serials
            # A later element of the key waits in `later`, as it did before the snapshot.
            if key in self.whole:
                self.later.setdefault(key, []).append(entry)
            else:
                self.whole[key] = entry
        self._keys = sorted(self.whole) if self.spec.ordered else []
        self.nbytes = sum(value.nbytes for value in self.arrays())
        self._oldest = self._takes

    # ---- what operations do

    @property
    def size(self) -> int:
        """Number of complete elements."""
        return len(self.whole) + sum(map(len, self.later.values()))

    def put(
        self, components: Sequence[Any], key: int, indices: Indices, operation: str, pool: Pool | None = None
    ) -> AsyncResult | None:
        """Put components of an element in, or return an AsyncResult which waits for room.

        A part of the components waits for memory only, and overtakes puts which wait for a place: a take may need it.

        Raises
        ------
        OpError
            If a component is present already, or has another shape, or exceeds the memory limit alone.
        """
        elements = self.spec.elements
        chosen = ElementSpec(tuple(elements.dtypes[i] for i in indices), tuple(elements.shapes[i] for i in indices))
        entry = Entry(zip(indices, chosen.checked(components, operation, pool), strict=True))
        put = PutAt(operation, key, entry, places=int(len(indices) == len(elements.dtypes)))
        self._check_put(put)
        # A put in need of a place queues after the waiting puts; a part may overtake them.
        if self._has_place_for(put) and self._has_memory_for(put) and not (put.need and self.putters):
            self._add_components(put)
            self.serve()
            return None
        return self.putters.join(put, self._go_on_putting, self._give_up_putting)

    def take(self, key: int | None, indices: Indices, operation: str) -> Any:
        """Take components of the element of a key, or of the next element; or return an AsyncResult which waits.

        Returns
        -------
        Taken, or AsyncResult of one
            The result is the key and the components.

        Raises
        ------
        OpError
            If a component was taken before.
        """
        take = TakeAt(operation, key, indices)
        take.found = self._find_key(take)
        if take.found is not None:
            return self._take_components(take)
        return self.takers.join(take, self._go_on_taking, self._give_up_taking)

    def peek(self, key: int, indices: Indices, operation: str) -> Any:
        """Return components of the element of a key, as soon as it is complete; nothing is taken."""
        peek = TakeAt(operation, key, indices)
        return self._components_for(peek, key) if key in self.whole else self.peekers.look(peek)

    def clear(self) -> None:
        """Release all elements, complete or not, except promised ones."""
        # `_set_elements` refuses returns of earlier takes; clearing the area must not.
        oldest = self._oldest
        self._set_elements([(key, entry) for key, entry in self.whole.items() if key in self._promised], [])
        self._oldest = oldest
        self.serve()

    # ---- serving

    def serve(self) -> None:
        """Wake all puts, takes and peeks which can go on."""
        self._serve_putters()
        # Takes wait for different keys: none delays another.
        for take in self.takers.alive() if self.takers else ():
            take.found = self._find_key(take)
            if take.found is not None:
                self._promised.add(take.found)
                self.takers.wake(take)
        for peek in self.peekers.alive() if self.peekers else ():
            if peek.key is not None and peek.key in self.whole:
                self._answer_peek(peek, peek.key)

    def _serve_putters(self) -> None:
        """Wake the puts with room: puts without need of a place overtake those short of one, not of memory."""
        has_place = True
        for put in self.putters.alive() if self.putters else ():
            if put.need and not (has_place := has_place and self._has_place_for(put)):
                continue
            if not self._has_memory_for(put):
                if self._will_fit(put):
                    break
                continue
            self.putters.wake(put)

    def _will_fit(self, put: PutAt) -> bool:
        """Return True if a put may have room later; end its wait if its element has grown too large meanwhile."""
        try:
            self._check_put(put)
        except OpError as error:
            self.putters.end(put, error)
            return False
        return True

    def _answer_peek(self, peek: TakeAt, key: int) -> None:
        try:
            self.peekers.end(peek, result=self._components_for(peek, key))
        except OpError as error:
            self.peekers.end(peek, error)

    def _find_key(self, take: TakeAt) -> int | None:
        """Return the key of the element for a take, or None."""
        if take.key is None:
            # Ordered areas go by keys, others by the order of completion.
            return next((key for key in self._keys or self.whole if key not in self._promised), None)
        return take.key if take.key in self.whole and take.key not in self._promised else None

    def _has_place_for(self, put: PutAt) -> bool:
        capacity = self.spec.capacity
        # Woken puts have not added their elements yet, but the places are theirs.
        return not put.need or capacity <= 0 or self.size + self.putters.promised < capacity

    def _has_memory_for(self, put: PutAt) -> bool:
        limit = self.spec.memory_limit
        return limit <= 0 or self.nbytes + sum(p.nbytes for p in self.putters.woken) + put.nbytes <= limit

    def _go_on_putting(self, put: PutAt) -> None:
        """Finish a woken put: check again, as other puts of the key may have come first."""
        # Leave first: from here on the components themselves count, and no longer the promise.
        self.putters.leave(put)
        try:
            if put.error is not None:
                raise put.error
            self._check_put(put)
            self._add_components(put)
        finally:
            self.serve()

    def _give_up_putting(self, put: PutAt) -> None:
        self.putters.leave(put)
        self.serve()

    def _go_on_taking(self, take: TakeAt) -> Taken:
        """Finish a woken take with the element promised to it."""
        self.takers.leave(take)
        self._promised.discard(_promised_to(take))
        try:
            if take.error is not None:
                raise take.error
            # A restore has replaced the elements between the waking and this turn.
            if take.found not in self.whole:
                raise OpError(
                    f"map staging area '{self.name}' was restored while somebody waited",
                    operation=take.operation,
                    hint="restore between steps",
                )
            return self._take_components(take)
        finally:
            self.serve()

    def _give_up_taking(self, take: TakeAt) -> None:
        # A take that was woken, and given up before its turn, frees its promise.
        if self.takers.leave(take):
            self._promised.discard(_promised_to(take))
        self.serve()

    # ---- elements

    def _add_components(self, put: PutAt) -> None:
        """Add components to the element of a key; a complete element moves to `whole`."""
        self.nbytes += put.nbytes
        entry = Entry(self.incomplete.pop(put.key, {}) | put.entry)
        if len(entry) < len(self.spec.elements.dtypes):
            self.incomplete[put.key] = entry
            return
        self._serials += 1
        entry.serial = self._serials
        self._insert_whole(put.key, entry)

    def _insert_whole(self, key: int, entry: Entry) -> None:
        """Insert a complete element at the place of its serial, before later elements of its key."""
        there = self.whole.get(key)
        if there is not None:
            first, *others = sorted([there, entry, *self.later.get(key, ())], key=serial_of)
            self.later[key] = others
            if first is there:
                return
            # An older element was returned: it takes the key's place, and `there` now waits in `later`.
            del self.whole[key]
            entry = first
        elif self.spec.ordered:
            insort(self._keys, key)
        # Only a returned element needs the sort: a newly complete element has the highest serial.
        is_last = not self.whole or next(reversed(self.whole.values())).serial < entry.serial
        self.whole[key] = entry
        if not is_last:
            self.whole = OrderedDict(sorted(self.whole.items(), key=lambda item: item[1].serial))

    def _take_components(self, take: TakeAt) -> Taken:
        """Take components of the element of a key; an element without components leaves."""
        key = _promised_to(take)
        components = self._components_for(take, key)
        entry = self.whole[key]
        for i in take.indices:
            self.nbytes -= entry.pop(i).nbytes
        part = Part(key, entry.serial, dict(zip(take.indices, components, strict=True)))
        if not entry:
            self._remove_empty(key)
        self._takes += 1
        self.serve()
        return Taken([part], key_and_components, self._put_back, self._takes - 1)

    def _remove_empty(self, key: int) -> None:
        """Remove the empty element of a key; the next element of the key may follow."""
        del self.whole[key]
        if self.spec.ordered:
            del self._keys[bisect_left(self._keys, key)]
        if key in self.later:
            following, *others = self.later.pop(key)
            if others:
                self.later[key] = others
            self._insert_whole(key, following)

    def _put_back(self, parts: list[Part], number: int) -> None:
        """Undo a take, unless a restore has replaced the elements since."""
        if number < self._oldest:
            return
        (part,) = parts
        self.nbytes += nbytes_of_components(part.components)
        here = [self.whole[part.key]] if part.key in self.whole else []
        # An element with other components left is still there, and gets the part back.
        for entry in (*here, *self.later.get(part.key, ())):
            if entry.serial == part.serial:
                entry.update(part.components)
                break
        # The element had left with its last component: make it anew, with its serial as its place in the order.
        else:
            self._insert_whole(part.key, Entry(part.components, part.serial))
        self.serve()

    def _components_for(self, take: TakeAt, key: int) -> Element:
        """Return components of the element of a key; OpError if they were taken before."""
        entry = self.whole[key]
        gone = [i for i in take.indices if i not in entry]
        if gone:
            raise OpError(
                f"a component of key {key} was taken out of map staging area '{self.name}' before",
                wanted=f"components {sorted(entry)}, which are left",
                got=gone,
                operation=take.operation,
                hint="take each component once; peek leaves it there",
            )
        return tuple([entry[i] for i in take.indices])

    def _check_put(self, put: PutAt) -> None:
        """Raise OpError if a component is present already, or will never have room."""
        begun = self.incomplete.get(put.key)  # may coexist with a complete element which was returned meanwhile
        if begun is not None:
            twice = [i for i in put.entry if i in begun]
        else:
            twice = list(put.entry) if put.key in self.whole else []
        if twice:
            raise OpError(
                f"key {put.key} is in map staging area '{self.name}' already",
                wanted="a key, or a component of it, that is not there",
                got=f"components {twice} of key {put.key}",
                operation=put.operation,
                hint="take the element of a key before it is put again, or use another key",
            )
        size = put.nbytes + (0 if begun is None else nbytes_of_components(begun))
        if 0 < self.spec.memory_limit < size:
            raise OpError(
                f"an element is larger than map staging area '{self.name}'",
                wanted=f"at most {self.spec.memory_limit} bytes",
                got=f"{size} bytes",
                operation=put.operation,
                hint="make it with a larger memory_limit",
            )


def _promised_to(take: TakeAt) -> int:
    assert take.found is not None
    return take.found

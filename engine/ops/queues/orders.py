"""Orders in which queues return elements: first in first out, smallest first, shuffled."""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...kernels.queues.queue_rings import Ring
from ..support.copies import LARGE
from .elements import Element, ElementSpec, nbytes_of
from .numbers import Numbers
from .saved import elements_of, rows_of

MANY = 2048  # elements moved at once, one object each
_MASK = (1 << 64) - 1


class FirstInFirstOut:
    """Elements in order of arrival; returned elements find their place by their numbers."""

    __slots__ = ("_number", "held")

    def __init__(self) -> None:
        self.held: deque[tuple[int, Element]] = deque()
        self._number: int = 0

    def __len__(self) -> int:
        return len(self.held)

    def push(self, element: Element) -> None:
        """Append an element."""
        self.held.append((self._number, element))
        self._number += 1

    def available(self, closed: bool) -> int:
        """Return the number of elements which may be taken now."""
        return len(self.held)

    def pop(self) -> Any:
        """Take the next element, as an entry for `element` and `give_back`."""
        return self.held.popleft()

    def pop_many(self, count: int) -> list[Any]:
        """Take the next elements, as entries of one or several elements."""
        return [self.pop() for _ in range(count)]

    def element(self, entry: Any) -> Element:
        """Return the element of an entry."""
        element: Element = entry[1]
        return element

    def elements_of(self, entries: Iterable[Any]) -> list[Element]:
        """Return the elements of entries."""
        return [self.element(entry) for entry in entries]

    def nbytes_of(self, entries: Iterable[Any]) -> int:
        """Return the number of bytes of the entries' elements."""
        return sum(nbytes_of(self.element(entry)) for entry in entries)

    def only(self, entries: list[Any]) -> Element:
        """Return the element of the only entry."""
        return self.element(entries[0])

    def batch(self, entries: list[Any], spec: ElementSpec, padded: bool) -> Element:
        """Return the entries' elements stacked along a new first axis, as `ElementSpec.batch`; slow for many."""
        return spec.batch(entries, self.element, padded)

    def is_large(self, entries: list[Any]) -> bool:
        """Return True if stacking the entries into a batch is slow."""
        return len(entries) > MANY or self.nbytes_of(entries) >= LARGE

    def give_back(self, entries: list[Any]) -> None:
        """Put entries back in their places, among other returned entries (rule 128)."""
        # `held` is in order of numbers: only elements in front of the last returned one have to move.
        entries = sorted(entries, key=_number_of_entry)
        while entries and self.held and self.held[0][0] < entries[-1][0]:
            insort(entries, self.held.popleft(), key=_number_of_entry)
        self.held.extendleft(reversed(entries))

    def elements(self) -> Iterable[Element]:
        """Return the elements, in order of leaving where the order is known."""
        return [element for _, element in list(self.held)]

    def arrays(self) -> Iterable[Any]:
        """Return the arrays whose memory holds the elements."""
        return [value for element in self.elements() for value in element]

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return sum(value.nbytes for value in self.arrays())

    def state(self) -> list[int]:
        """Return the numbers, besides the elements, which determine the next element."""
        return []

    def prepared(self, saved: Any, state: Any, spec: ElementSpec, queue: str) -> Callable[[], None]:
        """Return a callable which sets the elements and the state of a snapshot; GraphError if they do not fit."""
        wanted = len(self.state())
        if not isinstance(state, list) or [type(each) for each in state] != [int] * wanted:
            raise GraphError(
                f"what was saved of queue '{queue}' is of a queue of another order",
                wanted=f"a list of {wanted} numbers",
                got=state,
                hint="make the queue as it was when it was saved",
            )
        return partial(self.set_state, elements_of(saved, spec, queue), state)

    def set_state(self, elements: Iterable[Element], state: list[int]) -> None:
        """Replace the elements and the state with those of a snapshot."""
        self.held.clear()
        for element in elements:
            self.push(element)


def _number_of_entry(entry: tuple[int, Element]) -> int:
    return entry[0]


class InRing(FirstInFirstOut):
    """Elements of a fixed size in order of arrival, in one block of memory.

    Parameters
    ----------
    ring : Ring
        Kernels in C also push elements to the ring and pop elements from it.
    """

    __slots__ = ("_numbers", "ring")

    def __init__(self, ring: Ring) -> None:
        self.ring: Ring = ring
        self._numbers: Numbers = Numbers()

    def __len__(self) -> int:
        return self.ring.length

    def push(self, element: Element) -> None:
        """Append a copy of an element."""
        self.ring.push(element)

    def available(self, closed: bool) -> int:
        """Return the number of elements which may be taken now."""
        return self.ring.length

    def pop(self) -> Any:
        """Take the next element and its number."""
        # `ring.left` tells how many elements kernels in C have taken since the last call.
        (numbers,) = self._numbers.take(1, self.ring.left)
        return self.ring.pop(), numbers

    def pop_many(self, count: int) -> list[Any]:
        """Take the next elements; consecutive numbers form one entry of rows."""
        if count == 1:
            return [self.pop()]
        # Consecutive elements leave as rows of arrays, without an object for each.
        pop, pop_rows = self.ring.pop, self.ring.pop_rows
        return [
            (pop() if len(each) == 1 else pop_rows(len(each)), each)
            for each in self._numbers.take(count, self.ring.left)
        ]

    def element(self, entry: Any) -> Element:
        """Return the element of an entry with a single element."""
        element: Element = entry[0]
        return element

    def elements_of(self, entries: Iterable[Any]) -> list[Element]:
        """Return the elements of entries."""
        found: list[Element] = []
        for values, numbers in entries:
            found += [values] if len(numbers) == 1 else self._elements_of_rows(values)
        return found

    def nbytes_of(self, entries: Iterable[Any]) -> int:
        """Return the number of bytes of the entries' elements."""
        return sum(map(nbytes_of, (values for values, _ in entries)))

    def batch(self, entries: list[Any], spec: ElementSpec, padded: bool) -> Element:
        """Return the entries' elements stacked along a new first axis."""
        # A single entry of rows is the batch already, without a copy.
        if len(entries) == 1 and len(entries[0][1]) > 1:
            rows: Element = entries[0][0]
            return rows
        parts = [_rows_of_entry(*entry) for entry in entries]
        return tuple(map(np.concatenate, zip(*parts, strict=True))) if parts else self.ring.pop_rows(0)

    def is_large(self, entries: list[Any]) -> bool:
        """Return True if making a batch of the entries is slow; a single entry needs no copy."""
        return len(entries) > 1 and self.nbytes_of(entries) >= LARGE

    def give_back(self, entries: list[Any]) -> None:
        """Put entries back in their places, among other returned entries (rule 128)."""
        for values, numbers in reversed(entries):
            in_front = self._numbers.give_back(numbers, self.ring.left)
            # A ring only takes elements back at its head: lift those in front of the place, then put them back.
            before = self.ring.pop_rows(in_front)
            self.ring.put_back(_rows_of_entry(values, numbers), len(numbers))
            self.ring.put_back(before, in_front)

    def elements(self) -> Iterable[Element]:
        """Return copies of the elements, in order of leaving."""
        return self._elements_of_rows(self.ring.rows())

    def arrays(self) -> Iterable[Any]:
        """Return the ring's memory."""
        return list(self.ring.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, not of the ring's free places."""
        return self.ring.length * sum(column.strides[0] for column in self.ring.columns)

    def prepared(self, saved: Any, state: Any, spec: ElementSpec, queue: str) -> Callable[[], None]:
        """Return a callable which sets the elements and the state of a snapshot; an error if they do not fit."""
        # Rows enter the ring in one call of C; other formats element by element.
        rows = rows_of(saved, spec, queue)
        if rows is None or state != []:
            return super().prepared(saved, state, spec, queue)
        # Counted now, because a wrong shape has to fail before anything is replaced.
        return partial(self._set_rows, rows, spec.count(rows, queue))

    def _set_rows(self, rows: list[Any], count: int) -> None:
        self._clear_ring()
        self.ring.push_rows(rows, 0, count)

    def set_state(self, elements: Iterable[Element], state: list[int]) -> None:
        """Replace the elements with those of a snapshot."""
        self._clear_ring()
        for element in elements:
            self.push(element)

    def _clear_ring(self) -> None:
        self.ring.clear()
        self._numbers.forget(self.ring.left)

    def _elements_of_rows(self, rows: Sequence[Any]) -> list[Element]:
        for column in rows:
            # The elements are views of these rows.
            column.flags.writeable = False
        return [tuple(column[i, ...] for column in rows) for i in range(len(rows[0]))]


def _rows_of_entry(values: Element, numbers: range) -> Sequence[Any]:
    """Return the elements of an entry as rows of arrays."""
    return values if len(numbers) > 1 else [value[np.newaxis] for value in values]


class SmallestFirst(FirstInFirstOut):
    """Elements by their first component; equal elements in order of arrival."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Element]] = []
        self._count: int = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, element: Element) -> None:
        """Insert an element."""
        self._count += 1
        # The arrival number decides between equals, and keeps heapq from comparing arrays.
        heapq.heappush(self._heap, (int(element[0]), self._count, element))

    def available(self, closed: bool) -> int:
        """Return the number of elements which may be taken now."""
        return len(self._heap)

    def pop(self) -> Any:
        """Take the smallest element."""
        return heapq.heappop(self._heap)

    def element(self, entry: Any) -> Element:
        """Return the element of an entry."""
        element: Element = entry[2]
        return element

    def give_back(self, entries: list[Any]) -> None:
        """Put entries back; their numbers keep them before their equals."""
        for entry in entries:
            heapq.heappush(self._heap, entry)

    def elements(self) -> Iterable[Element]:
        """Return the elements, the smallest first."""
        return [entry[2] for entry in sorted(self._heap, key=lambda entry: entry[:2])]

    def set_state(self, elements: Iterable[Element], state: list[int]) -> None:
        """Replace the elements with those of a snapshot."""
        self._heap = []
        for element in elements:
            self.push(element)


class Shuffled(FirstInFirstOut):
    """Elements in an order drawn from a seed: each draw is a function of the seed and the draw's number alone."""

    __slots__ = ("_draws", "_in", "_least", "_seed")

    def __init__(self, seed: int, least: int) -> None:
        self._in: list[Element] = []
        self._seed: int = seed
        self._least: int = least
        self._draws: int = 0

    def __len__(self) -> int:
        return len(self._in)

    def push(self, element: Element) -> None:
        """Insert an element."""
        self._in.append(element)

    def available(self, closed: bool) -> int:
        """Return the number of elements which may be taken: those above the minimum for mixing, or all if `closed`."""
        return len(self._in) if closed else max(0, len(self._in) - self._least)

    def pop(self) -> Any:
        """Take a random element, with its place; the last element moves to the place."""
        # 64 random bits times the length, shifted: a place in range without a division.
        place = _random_bits(self._seed, self._draws) * len(self._in) >> 64
        self._draws += 1
        element, last = self._in[place], self._in.pop()
        if place < len(self._in):
            self._in[place] = last
        return place, element

    def element(self, entry: Any) -> Element:
        """Return the element of an entry."""
        element: Element = entry[1]
        return element

    def give_back(self, entries: list[Any]) -> None:
        """Put entries back in their places (or the last place, in a shorter queue); the number of draws stays."""
        # In reverse order of leaving, so that each exchange undoes the exchange of its `pop`.
        for place, element in reversed(entries):
            self._in.append(element)
            place = min(place, len(self._in) - 1)
            self._in[place], self._in[-1] = self._in[-1], self._in[place]

    def elements(self) -> Iterable[Element]:
        """Return the elements."""
        return list(self._in)

    def state(self) -> list[int]:
        """Return the number of draws, in a list."""
        return [self._draws]

    def set_state(self, elements: Iterable[Element], state: list[int]) -> None:
        """Replace the elements and the number of draws with those of a snapshot."""
        self._in = list(elements)
        (self._draws,) = state


def _random_bits(seed: int, number: int) -> int:
    """Return 64 random bits for a number: SplitMix64 (Steele, Lea, Flood 2014)."""
    # The generator's state after `number` + 1 steps, computed at once: a draw depends on no earlier draw.
    x = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)

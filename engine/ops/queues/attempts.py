"""Those who wait at a queue: what they put, what they take and have gathered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .elements import Element
from .line import Attempt


@dataclass(slots=True)
class Rows:
    """Elements that are rows of arrays, from `start` on."""

    columns: Element
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Put(Attempt):
    """One who puts elements; the `need` that have not entered are in `elements`."""

    __slots__ = ("elements", "need")

    def __init__(self, operation: str, elements: Iterable[Element] | Rows) -> None:
        super().__init__(operation)
        self.elements: deque[Element] | Rows = elements if isinstance(elements, Rows) else deque(elements)
        self.need: int = len(self.elements)


class Closing(Put):
    """One who closes the queue behind those who put before."""

    __slots__ = ()


class Take(Attempt):
    """One who takes `count` elements, or fewer from a closed queue; all but `need` are `gathered`, as entries."""

    __slots__ = ("count", "gathered", "many", "need", "up_to")

    def __init__(self, operation: str, count: int, many: bool, up_to: bool) -> None:
        super().__init__(operation)
        self.count: int = count
        self.many: bool = many
        self.up_to: bool = up_to
        self.gathered: list[Any] = []
        self.need: int = count

    def let_go(self) -> list[Any]:
        """Return what is gathered, which is gathered no longer."""
        entries, self.gathered, self.need = self.gathered, [], self.count
        return entries


@dataclass(slots=True, eq=False)
class Taken:
    """What one has taken: entries of the queue's order, until it has what is made of them.

    Attributes
    ----------
    entries : list
    make : callable
        ``make(entries)`` returns the components, or the batch; any thread may call it.
    put_back : callable
        ``put_back(entries, number)`` puts them to where they were.
    number : int
        How many took something before, where the order in which it comes back depends on that.
    is_long : bool
        Whether making them takes long.
    """

    entries: list[Any]
    make: Callable[[list[Any]], Element]
    put_back: Callable[[list[Any], int], object]
    number: int
    is_long: bool = False

    def result(self) -> Element:
        """Return what was taken; if it can not be made it goes back."""
        try:
            return self.make(self.entries)
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Put what was taken to where it was, in order: who took it has not got it. Once is enough."""
        entries, self.entries = self.entries, []
        if entries:
            self.put_back(entries, self.number)

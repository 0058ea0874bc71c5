"""Elements of map staging areas, and the parts taken of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Indices = tuple[int, ...]


class Entry(dict[int, Any]):
    """The components of an element, by number.

    Attributes
    ----------
    serial : int
        Number of the element in order of completion; 0 for an incomplete element.
    """

    __slots__ = ("serial",)
    serial: int

    def __init__(self, components: Any = (), serial: int = 0) -> None:
        super().__init__(components)
        self.serial = serial


class Part(NamedTuple):
    """Components taken of an element."""

    key: int
    serial: int
    components: dict[int, Any]


def nbytes_of_components(components: dict[int, Any]) -> int:
    """Return the number of bytes of components."""
    return sum(value.nbytes for value in components.values())


def serial_of(entry: Entry) -> int:
    """Return the serial of an element, the sort key."""
    return entry.serial


def key_and_components(parts: list[Part]) -> tuple[Any, ...]:
    """Return the result of a take: the key and the components."""
    (part,) = parts
    return np.int64(part.key), *part.components.values()


def saved_entries(entries: Iterable[tuple[int, Entry]]) -> list[tuple[int, list[int], list[Any]]]:
    """Return entries in a snapshot's format: key, numbers of the components, components."""
    return [(key, list(entry), list(entry.values())) for key, entry in entries]

"""The elements of map staging areas, and what is taken of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Indices = tuple[int, ...]


class Entry(dict[int, Any]):
    """The components of an element by their numbers.

    Attributes
    ----------
    serial : int
        Counts the elements that have become whole; of one that has not, 0.
    """

    __slots__ = ("serial",)
    serial: int

    def __init__(self, components: Any = (), serial: int = 0) -> None:
        super().__init__(components)
        self.serial = serial


class Part(NamedTuple):
    """Components that were taken of an element."""

    key: int
    serial: int
    components: dict[int, Any]


def nbytes_of_components(components: dict[int, Any]) -> int:
    """Return the bytes of components."""
    return sum(value.nbytes for value in components.values())


def serial_of(entry: Entry) -> int:
    """Return by what elements are in order."""
    return entry.serial


def key_and_components(parts: list[Part]) -> tuple[Any, ...]:
    """Return what a take gives."""
    (part,) = parts
    return np.int64(part.key), *part.components.values()


def saved_entries(entries: Iterable[tuple[int, Entry]]) -> list[tuple[int, list[int], list[Any]]]:
    """Return entries as a snapshot has them: key, numbers of the components, and these."""
    return [(key, list(entry), list(entry.values())) for key, entry in entries]

"""Objects beside a session, such as Checkpointers, whose statistics the session includes."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import ref


class StatisticsSource(Protocol):
    """Interface of an object with statistics."""

    def statistics(self) -> Any:
        """Return the statistics as a frozen dataclass, from any thread."""
        ...


class StatisticsRegistry:
    """Objects with statistics, by kind and name, held weakly: a dead object has no statistics."""

    def __init__(self) -> None:
        self._known: list[tuple[str, str, ref[StatisticsSource]]] = []

    def add(self, kind: str, name: str, teller: StatisticsSource) -> None:
        """Include an object, once; objects of the same kind and name get numbers."""
        # Dead objects leave the list here, as nothing else tells of their end.
        self._known = [each for each in self._known if each[2]() is not None]
        if not any(each() is teller and kind == known for known, _, each in self._known):
            self._known.append((kind, name, ref(teller)))

    def statistics(self, others: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the statistics of all living objects, by kind and name, added to `others`."""
        found = others
        for kind, name, reference in self._known:
            if (teller := reference()) is not None:
                figures = found.setdefault(kind, {})
                figures[_free_name(name, figures)] = teller.statistics()
        return found


def _free_name(name: str, taken: dict[str, Any]) -> str:
    chosen, number = name, 1
    while chosen in taken:
        number += 1
        chosen = f"{name} ({number})"
    return chosen

"""What stands beside a session and tells statistics of itself, as a Checkpointer does."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import ref


class TellsStatistics(Protocol):
    """What has figures."""

    def statistics(self) -> Any:
        """Return them as a frozen dataclass, from any thread."""


class Tellers:
    """Those who tell, by kind and name. They are held weakly: who is no more tells nothing."""

    def __init__(self) -> None:
        self._known: list[tuple[str, str, ref[TellsStatistics]]] = []

    def add(self, kind: str, name: str, teller: TellsStatistics) -> None:
        """Include one, once; of several of one name the later ones get a number."""
        self._known = [each for each in self._known if each[2]() is not None]
        if not any(each() is teller and kind == known for known, _, each in self._known):
            self._known.append((kind, name, ref(teller)))

    def statistics(self, others: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return what all tell, by kind and name, beside what others do."""
        found = others
        for kind, name, reference in self._known:
            if (teller := reference()) is not None:
                figures = found.setdefault(kind, {})
                figures[_free(name, figures)] = teller.statistics()
        return found


def _free(name: str, taken: dict[str, Any]) -> str:
    chosen, number = name, 1
    while chosen in taken:
        number += 1
        chosen = f"{name} ({number})"
    return chosen

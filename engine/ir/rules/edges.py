"""Rules about values that cross the border of a graph: see `engine/ir/graph.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feedable:
    """The value comes, or may come, from outside the graph."""


@dataclass(frozen=True, slots=True)
class Fetchable:
    """The result is a handle, and a step may return the handle."""


@dataclass(frozen=True, slots=True)
class WarnsUnused:
    """A result without uses is probably a mistake, in a type without other effects.

    Attributes
    ----------
    text : str
        The warning: the problem, and the remedy.
    """

    text: str

"""Spans of operation instances, kept in a ring."""

from typing import Any

class Recorder:
    """A ring of spans written by any number of steps."""

    def __init__(self, capacity: int) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def recorded(self) -> int:
        """Number of spans ever recorded, including spans overwritten by later ones."""

    @property
    def steps(self) -> list[tuple[Any, int]]:
        """Plan and number of each step which has joined."""

    def join(self, plan: Any, number: int) -> int:
        """Register a step by its plan and number; return the index carried by its spans."""

    def add(
        self,
        step: int,
        node: int,
        path: str,
        iteration: int,
        begin: int,
        end: int,
        *,
        dead: bool,
        awaited: bool,
        holdings: tuple[int, int] = (-1, -1),
    ) -> None:
        """Record a span; times in nanoseconds, `holdings` as (bytes, iterations), -1 for unknown."""

    def rows(self) -> list[tuple[int, int, str, int, int, int, bool, int, int, int]]:
        """Return the spans kept, in the order in which they ended."""

"""A value for each iteration of a loop."""

from collections.abc import Callable
from typing import Any

class Series:
    """Values by slot number; slots never written are empty."""

    cursor: int
    parent: Series | None
    first: int
    count: int
    rows: Any
    num_rows: int
    rows_there: Any

    def __len__(self) -> int: ...
    def put(self, index: int, value: Any) -> None:
        """Write a slot, replacing its value; IndexError if the index is negative."""

    def keep_rows(
        self,
        rows: Any,
        count: int,
        is_written: Any = None,
        is_written_there: Any = None,
        copy: Any = None,
        call: Callable[..., Any] | None = None,
    ) -> None:
        """Hold rows of an array of another library, from which all slots are made at the first read."""

    def part(self, first: int, count: int) -> Series:
        """Return a series of `count` of the slots, from slot `first` on."""

    def get(self, index: int) -> Any:
        """Return the value of a slot, or None for a slot never written."""

    def at(self, index: int) -> Any:
        """Return the value of a slot, for a stored array its SwappableArray, or None if the slot was never written."""

    def indices(self) -> list[int]:
        """Return the numbers of the slots written, in order."""

"""Exact counts, and a limit, for a device whose arrays are another library's."""

from collections.abc import Callable
from typing import Any

from .pool import Pool

class Charge:
    """Bytes of a device's memory that count as long as this lives."""

    @property
    def nbytes(self) -> int:
        """How many."""

class ByteCounter(Pool):
    """Counts the memory of a device, which others take and free; `find` gives the Charge of an array."""

    def __init__(self, find: Callable[[Any], Charge | None], limit: int | None = None) -> None: ...
    def charge(self, nbytes: int, what: str = ...) -> Charge:
        """Count so many bytes as long as what is returned lives; MemoryError if there is no room."""

    def refuse(self, nbytes: int) -> None:
        """Note that there was no memory for bytes that the limit would leave room for, and that count no longer."""

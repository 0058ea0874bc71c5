"""Exact counts, and a limit, for a device whose arrays are another library's."""

from collections.abc import Callable
from typing import Any

from .pool import Pool

class Charge:
    """Bytes of a device's memory that count as long as this lives."""

    @property
    def nbytes(self) -> int:
        """Number of bytes."""

class ByteCounter(Pool):
    """Counts the memory of a device that a library allocates and frees; `find` returns the Charge of an array."""

    def __init__(self, find: Callable[[Any], Charge | None], limit: int | None = None) -> None: ...
    def charge(self, nbytes: int, what: str = ...) -> Charge:
        """Count bytes on the account of the running instance as long as the returned Charge lives; MemoryError without
        room.
        """

    def refuse(self, nbytes: int) -> None:
        """Note that there was no memory for bytes within the limit, whose charge has been dropped."""

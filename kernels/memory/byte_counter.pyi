"""Exact counts, and a limit, for a device whose arrays are another library's."""

from collections.abc import Callable
from typing import Any

from .pool import Pool

class Charge:
    """Bytes of a device's memory, counted as long as the Charge lives."""

    @property
    def nbytes(self) -> int:
        """Number of bytes."""

class ByteCounter(Pool):
    """Counts the memory of a device, allocated and freed by a library; `find` returns the Charge of an array."""

    def __init__(self, find: Callable[[Any], Charge | None], limit: int | None = None) -> None: ...
    def charge(self, nbytes: int, what: str = ...) -> Charge:
        """Count bytes on the account of the running instance as long as the returned Charge lives; MemoryError without
        room.
        """

    def refuse(self, nbytes: int) -> None:
        """Note a failed allocation within the limit, whose charge has been dropped."""

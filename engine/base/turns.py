"""A fair lock for state changed by threads, for readers and writers on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Turns in the order of requests, each begun when the previous turn has ended."""

    __slots__ = ("_count", "_lock")

    def __init__(self) -> None:
        self._count = 0  # turns in progress or requested
        self._lock: asyncio.Lock | None = None

    @property
    def taken(self) -> bool:
        """True if a turn is in progress or requested."""
        return self._count > 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, which lasts until the end of the block."""
        # Counted before the wait, so that `taken` includes requests.
        self._count += 1
        try:
            self._lock = self._lock or asyncio.Lock()
            async with self._lock:
                yield
        finally:
            self._count -= 1
            if not self._count:
                self._lock = None  # an asyncio.Lock belongs to an event loop, and the next turn may be of another

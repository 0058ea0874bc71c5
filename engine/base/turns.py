"""Turns at state that threads change, for whoever reads or changes it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Turns, each begun when the one before it has ended, in the order in which they were asked for."""

    __slots__ = ("_count", "_lock")

    def __init__(self) -> None:
        self._count = 0  # that have not ended
        self._lock: asyncio.Lock | None = None

    @property
    def taken(self) -> bool:
        """Whether somebody has a turn, or waits for one."""
        return self._count > 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the end of the block."""
        self._count += 1
        try:
            self._lock = self._lock or asyncio.Lock()
            async with self._lock:
                yield
        finally:
            self._count -= 1
            if not self._count:
                self._lock = None  # the next may be of another event loop

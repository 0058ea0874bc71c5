"""Waiting: taking turns on an event loop, and outlasting what must end before anything else may happen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary


class TimeSlices:
    """Shares one event loop among all steps that run on it.

    However many steps there are, together they take one slice of time in each turn of the loop, first come first
    served; whoever comes when the slice is used up waits. So the host application's lag does not grow with the
    number of steps, and a step that ends within the slice never waits at all.
    """

    __slots__ = ("_end", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._end = 0.0  # of the open slice; 0 when the loop has turned since the last one

    def take(self, seconds: float) -> float | None:
        """Return for how long the caller may run now, `seconds` at most; None if it has to wait."""
        if not self._end:
            self._open(seconds)
            return seconds
        left = 0.0 if self._waiting else self._end - monotonic()
        return min(left, seconds) if left > 0.0 else None

    async def wait(self, seconds: float) -> float:
        """Wait until the caller may run; return for how long, `seconds` at most.

        A bare yield comes first: a scope that cancels again and again spares tasks whose future is done, and would
        otherwise find a lone step's future done each time it looks.
        """
        await asyncio.sleep(0)
        mine = self.take(seconds)
        if mine is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return seconds if mine is None else mine

    def _open(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        asyncio.get_running_loop().call_soon(self._turned)

    def _turned(self) -> None:
        self._end = 0.0
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._open(0.0)  # the waiter's alone; and after its wake-up, so that the next one wakes a turn later
                return


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, TimeSlices] = WeakKeyDictionary()


def time_slices_of(loop: asyncio.AbstractEventLoop) -> TimeSlices:
    """Return the turns of a loop, the same for all sessions on it."""
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = TimeSlices()
    return turns


async def wait_shielded(pending: Callable[[], Collection[asyncio.Future[Any]]]) -> None:
    """Wait until `pending` returns nothing; a cancellation meanwhile is raised then, not before.

    The first cancellation is the one that is raised: scopes recognise their own by its message.
    """
    cancellation = None
    while futures := pending():
        try:
            await asyncio.wait(futures)
        except asyncio.CancelledError as error:
            cancellation = cancellation or error
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            del cancellation  # the traceback refers to this frame

"""Waiting: taking turns on an event loop, and outlasting what must end before anything else may happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

from ...kernels.scheduler.time_slices import TimeSlices

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

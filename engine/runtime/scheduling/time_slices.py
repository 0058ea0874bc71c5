"""Turns on an event loop, the same for all sessions on it."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from ...kernels.scheduler.time_slices import TimeSlices

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, TimeSlices] = WeakKeyDictionary()


def time_slices_of(loop: asyncio.AbstractEventLoop) -> TimeSlices:
    """Return the turns of a loop, the same for all sessions on it."""
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = TimeSlices()
    return turns

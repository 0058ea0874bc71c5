"""Time slices of an event loop, shared by all sessions on the loop."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from ...kernels.scheduler.time_slices import TimeSlices

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, TimeSlices] = WeakKeyDictionary()


def time_slices_of(loop: asyncio.AbstractEventLoop) -> TimeSlices:
    """Return the time slices of a loop, shared by all sessions on the loop."""
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = TimeSlices()
    return turns

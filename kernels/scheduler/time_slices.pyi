"""Turns of steps on an event loop."""

import asyncio
from collections import deque

class TimeSlices:
    """Time slices shared by the steps of an event loop.

    Together all steps take one slice of time in each turn of the loop, first come first served; a step coming after the
    slice is used up waits. So the host application's lag does not grow with the number of steps, and a step ending
    within the slice never waits at all.
    """

    waiting: deque[asyncio.Future[None]]  # of the steps that wait for their turn
    def take(self, seconds: float) -> float | None:
        """Return for how long the caller may run now, `seconds` at most; None if the caller has to wait."""

    async def wait(self, seconds: float) -> float:
        """Wait until the caller may run; return for how long, `seconds` at most."""

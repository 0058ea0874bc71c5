"""Ways to wait that depend on no clock: for a condition, and for turns of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LIMIT = 60  # seconds after which a condition will not come true


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true; TimeoutError after a minute."""
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.001)


def until_in_thread(condition: Callable[[], object]) -> None:
    """Hold this thread until a condition is true; TimeoutError after a minute."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition did not come true")
        time.sleep(0.001)


async def turns(count: int = 200) -> None:
    """Let the event loop turn so often that all that can go on without a thread or a timer has done so."""
    for _ in range(count):
        await asyncio.sleep(0)

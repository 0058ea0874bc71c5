"""Waits not cut short by cancellation, for futures which must end first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any


async def wait_shielded(pending: Callable[[], Collection[asyncio.Future[Any]]], seconds: float | None = None) -> None:
    """Wait until `pending` returns nothing, or for some seconds; raise a cancellation during the wait afterwards.

    The first cancellation is raised: scopes recognise their own cancellation by its message.
    """
    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    cancellation = None
    while futures := pending():
        left = None if until is None else until - loop.time()
        if left is not None and left <= 0:
            break
        try:
            await asyncio.wait(futures, timeout=left)
        except asyncio.CancelledError as error:
            # Kept for later: the futures have to end first, so the wait goes on.
            cancellation = cancellation or error
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            del cancellation  # the traceback refers to this frame


def cancel_once(task: asyncio.Future[Any]) -> None:
    """Cancel a task unless cancellation was requested before: a second request would interrupt the task's cleanup."""
    if not (isinstance(task, asyncio.Task) and task.cancelling()):
        task.cancel()

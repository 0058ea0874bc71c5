"""Threads for functions that block: what can not be interrupted finishes in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

_logger = logging.getLogger("tagflow")


class BlockingCalls:
    """Calls functions in threads, each in its caller's context; call it as ``calls(function, *args)``.

    Threads are started when first needed. A call whose future is cancelled is taken out of the queue if it has not
    begun; else it runs on, its result is dropped, and until then it is an orphan.

    Parameters
    ----------
    count : int
        How many calls run at once; the others queue.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._calls: dict[Future[Any], asyncio.Future[Any]] = {}  # not ended, with who waits for them

    def __call__(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call a function in a thread; the result is a future of the running loop."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "tagflow-blocking")
        call = self._pool.submit(copy_context().run, _call, function, *args)
        future = asyncio.wrap_future(call, loop=asyncio.get_running_loop())
        self._calls[call] = future
        call.add_done_callback(self._calls.pop)
        return future

    @property
    def orphaned(self) -> int:
        """How many calls still run that nobody waits for."""
        return sum(future.cancelled() and call.running() for call, future in list(self._calls.items()))

    def shutdown(self) -> None:
        """Start no more calls; threads end with those that run."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def aclose(self, seconds: float) -> None:
        """Start no more calls, and wait for those that run, at most for `seconds`; then a warning is logged."""
        if self._pool is None:
            return
        self.shutdown()
        running = [asyncio.wrap_future(call) for call in list(self._calls) if call.running()]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*running, return_exceptions=True)
        except TimeoutError:
            _logger.warning("a session is closed while %d blocking functions still run", self.orphaned)
        if not any(call.running() for call in list(self._calls)):
            # The threads are on their way out; what their last calls held is let go of when they have ended.
            self._pool.shutdown(wait=True)


def _call(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except StopIteration as error:  # a future can not hold it
        raise RuntimeError("a blocking function raised StopIteration") from error

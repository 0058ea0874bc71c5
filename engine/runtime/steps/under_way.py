"""Calls in threads that several callers may wait for: each is made once, by whoever asks first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, TypeVar

from ...base.forks import building
from ...base.source_lines import note_caller

T = TypeVar("T")


class UnderWay(Generic[T]):
    """Calls that have not ended, by key; used on one event loop.

    A call belongs to none of its callers: a caller that is cancelled leaves it to the others.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, Future[T]] = {}

    def get(self, key: Hashable) -> Future[T] | None:
        """Return the call of a key, if one is under way."""
        return self._calls.get(key)

    def begin(self, key: Hashable, function: Callable[[], T], deliver: Callable[[Future[T]], None]) -> Future[T]:
        """Return the call of a key: the one under way, or a new one in a thread of the event loop's executor.

        Parameters
        ----------
        key : hashable
        function : callable
            Called in the thread.
        deliver : callable
            Called with the call that has ended, on the event loop, before those who wait for it go on.
        """
        found = self._calls.get(key)
        if found is not None:
            return found
        loop = asyncio.get_running_loop()
        call: Future[T] = Future()
        context = copy_context()
        note_caller(context)
        self._calls[key] = call
        try:
            loop.run_in_executor(None, context.run, _carry_out, call, function)
        except BaseException:  # the event loop has no threads any longer
            del self._calls[key]
            raise

        def end() -> None:
            # Not earlier: whoever asks in between finds the call, and so its result.
            self._calls.pop(key, None)
            if not call.cancelled():
                deliver(call)

        def ended(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the event loop is closed: nobody waits
                loop.call_soon_threadsafe(end)

        call.add_done_callback(ended)
        return call


def _carry_out(call: Future[T], function: Callable[[], T]) -> None:
    """Call a function and put what comes of it into `call`, unless that was cancelled before."""
    if not call.set_running_or_notify_cancel():
        return
    try:
        with building():
            result = function()
    except BaseException as error:
        call.set_exception(error)
    else:
        call.set_result(result)


def is_being_cancelled() -> bool:
    """Return True if the running task itself is cancelled, not the future that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

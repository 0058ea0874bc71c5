"""Calls in threads shared by several waiting callers: each is begun once, by the first caller."""

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
    """Unfinished calls, by key; used on a single event loop.

    A call belongs to none of its callers: a cancelled caller leaves the call to the others.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, Future[T]] = {}

    def get(self, key: Hashable) -> Future[T] | None:
        """Return the call of a key; None if no such call is under way."""
        return self._calls.get(key)

    def begin(self, key: Hashable, function: Callable[[], T], deliver: Callable[[Future[T]], None]) -> Future[T]:
        """Return the call of a key: the call under way, or a new call in a thread of the event loop's executor.

        Parameters
        ----------
        key : hashable
        function : callable
            Called in the thread.
        deliver : callable
            Called with the ended call, on the event loop, before its waiting callers go on.
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
            loop.run_in_executor(None, lambda: context.run(_carry_out, call, function))
        except BaseException:  # the loop's executor has been shut down
            del self._calls[key]
            raise

        def end() -> None:
            # Here and not when the function returns: a new caller in between still shares this call and its result.
            self._calls.pop(key, None)
            if not call.cancelled():
                deliver(call)

        def schedule_end(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the event loop is closed: nobody waits
                loop.call_soon_threadsafe(end)

        call.add_done_callback(schedule_end)
        return call


def _carry_out(call: Future[T], function: Callable[[], T]) -> None:
    """Call a function and set its result or error in `call`, unless `call` was cancelled before."""
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
    """Return True if the running task itself is cancelled, and not the future awaited by the task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

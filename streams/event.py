"""Events: points on streams, pending or done, with a result or an error; any loop may await them.

See docs/design/0010-streams.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ..base.errors import TagloomError

if TYPE_CHECKING:
    from .contract import Stream

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop


class Withdrawn(TagloomError):
    """Error of work that was withdrawn before it began."""


class DeviceClosed(TagloomError):
    """Error of work whose device was closed before it began."""


class Event(Generic[T]):
    """The point on a stream at which a piece of work is done; the contract states its guarantees.

    Parameters
    ----------
    stream : Stream, optional
        Stream of the work.
    kind : str
        Type of the operation.

    Attributes
    ----------
    nbytes : int
        Bytes moved by a copy, once begun.
    began, ended : float or None
        Seconds by the device's clock; None before, and `began` also for work that never began.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_done",
        "_error",
        "_listeners",
        "_lock",
        "_result",
        "_traceback",
        "began",
        "ended",
        "kind",
        "nbytes",
        "stream",
    )

    def __init__(self, stream: Stream | None = None, kind: str = "") -> None:
        self.stream: Stream | None = stream
        self.kind: str = kind
        self.nbytes: int = 0
        self.began: float | None = None
        self.ended: float | None = None
        self._lock = Lock()  # guards the two lists until the event is done
        self._done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._traceback: Any = None
        self._calls: list[tuple[Callable[[Event[T]], object], Loop, Context]] = []
        self._listeners: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        state = "pending" if not self._done else "done" if self._error is None else f"failed: {self._error!r}"
        return f"<Event {self.kind or 'marker'} on {getattr(self.stream, 'name', None)}, {state}>"

    @property
    def done(self) -> bool:
        """True once the work has ended, well or not."""
        return self._done

    @property
    def error(self) -> BaseException | None:
        """Error of failed work; None for pending or successful work."""
        return self._error if self._done else None

    @property
    def failing(self) -> bool:
        """True if an error was noted, even before the event is done; read by streams."""
        return self._error is not None

    def result(self) -> T:
        """Return the result of the work, or raise its error.

        Raises
        ------
        asyncio.InvalidStateError
            If the event is pending.
        """
        if not self._done:
            raise asyncio.InvalidStateError(f"{self!r}: await it first")
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)  # without frames of earlier raises
        return cast(T, self._result)

    def take(self) -> T:
        """Return the result, as `result` does, and drop it from the event.

        Waiting coroutines, and the thread that ends the event, may keep the event alive a moment longer. A caller who
        counts bytes takes the result to be its only owner.
        """
        result = self.result()
        self._result = None
        return result

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            call = partial(_wake_waiter, waiter)
            self.add_done_callback(call)
            try:
                yield from waiter
            finally:
                self.remove_done_callback(call)
        return self.result()

    def add_done_callback(self, call: Callable[[Event[T]], object]) -> None:
        """Schedule `call` with the event on the running loop once the event is done, or soon if already done.

        The call runs in a copy of the present context, and is skipped if the loop is closed by then.
        """
        loop, context = asyncio.get_running_loop(), copy_context()
        with self._lock:
            if not self._done:
                self._calls.append((call, loop, context))
                return
        loop.call_soon(call, self, context=context)

    def remove_done_callback(self, call: Callable[[Event[T]], object]) -> int:
        """Remove a callback; return how many of its additions were pending."""
        with self._lock:
            remaining = [entry for entry in self._calls if entry[0] != call]
            removed = len(self._calls) - len(remaining)
            self._calls = remaining
        return removed

    async def over(self) -> None:
        """Wait until the work has ended, well or not."""
        done: Event[None] = Event()
        if self.listen(done.finish):
            await done

    def withdraw(self) -> bool:
        """Take the work back unless begun; return True on success."""
        return self.stream is not None and self.stream.withdraw(self)

    def listen(self, call: Callable[[], object]) -> bool:
        """Register `call` for the thread that ends the event; return False without effect if the event is done.

        Used by streams. The call must return at once and raise nothing.
        """
        with self._lock:
            if not self._done:
                self._listeners.append(call)
            return not self._done

    def note(self, result: T | None = None, error: BaseException | None = None) -> None:
        """Store the result or error of the work, to be visible once the event is done; called by streams."""
        self._result, self._error = result, error
        self._traceback = error and error.__traceback__

    def finish(self, result: T | None = None, error: BaseException | None = None, at: float | None = None) -> None:
        """Mark the event as done; called by streams, once, without holding a lock that a listener takes.

        Parameters
        ----------
        result : object
        error : BaseException, optional
            Error of the work. Without result and error, those stored by `note` stay.
        at : float, optional
            Seconds by the device's clock.
        """
        if result is not None or error is not None:
            self.note(result, error)
        self.ended = at
        # `_done` comes last: threads read it without the lock, and then read result, error and `ended`.
        with self._lock:
            self._done = True
            calls, self._calls = self._calls, []
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        for call, loop, context in calls:
            call_on(loop, call, self, context=context)


def call_on(loop: Loop, call: Callable[..., object], *args: object, context: Context | None = None) -> None:
    """Schedule a call on a loop, from any thread; skip the call if the loop is closed."""
    if asyncio._get_running_loop() is loop:
        loop.call_soon(call, *args, context=context)
        return
    try:
        loop.call_soon_threadsafe(call, *args, context=context)
    except RuntimeError:  # no check beforehand: the loop could be closed between check and call
        if not loop.is_closed():
            raise


def _wake_waiter(waiter: asyncio.Future[None], _: Event[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)

"""Events: points on streams, done or not yet, with a result or an error, awaited by any loop.

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
    """The point on a stream at which a piece of work is done; see the contract for what it promises.

    Parameters
    ----------
    stream : Stream, optional
        Where the work is.
    kind : str
        Type of the operation.

    Attributes
    ----------
    nbytes : int
        Bytes moved, if it is a copy that has begun.
    began, ended : float or None
        Seconds by the device's clock; None before, and `began` also if the work never did.
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
        """Whether the work has ended, well or not."""
        return self._done

    @property
    def error(self) -> BaseException | None:
        """What the work failed with; None if it did not, or not yet."""
        return self._error if self._done else None

    @property
    def failing(self) -> bool:
        """For streams: whether it was noted to fail."""
        return self._error is not None

    def result(self) -> T:
        """Return what the work returned, or raise what it failed with.

        Raises
        ------
        asyncio.InvalidStateError
            If it is not done.
        """
        if not self._done:
            raise asyncio.InvalidStateError(f"{self!r}: await it first")
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)  # without the frames of those who raised it before
        return cast(T, self._result)

    def take(self) -> T:
        """Return the result, as `result` does, and forget it.

        The thread that has just ended the event may hold the event for a moment longer, and coroutines hold it as long
        as they wait. Who counts bytes takes the result, and is then the only one who holds that.
        """
        result = self.result()
        self._result = None
        return result

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            call = partial(_wake, waiter)
            self.add_done_callback(call)
            try:
                yield from waiter
            finally:
                self.remove_done_callback(call)
        return self.result()

    def add_done_callback(self, call: Callable[[Event[T]], object]) -> None:
        """Have `call` called with the event by the running loop once the event is done, soon if it is.

        It runs in a copy of the present context. If the loop is closed by then it is not called.
        """
        loop, context = asyncio.get_running_loop(), copy_context()
        with self._lock:
            if not self._done:
                self._calls.append((call, loop, context))
                return
        loop.call_soon(call, self, context=context)

    def remove_done_callback(self, call: Callable[[Event[T]], object]) -> int:
        """Forget a callback; return how often it had been added and not been called for yet."""
        with self._lock:
            kept = [entry for entry in self._calls if entry[0] != call]
            removed = len(self._calls) - len(kept)
            self._calls = kept
        return removed

    async def over(self) -> None:
        """Wait until the work has ended, well or not."""
        done: Event[None] = Event()
        if self.listen(done.finish):
            await done

    def withdraw(self) -> bool:
        """Take the work back if it has not begun; say whether it was."""
        return self.stream is not None and self.stream.withdraw(self)

    def listen(self, call: Callable[[], object]) -> bool:
        """For streams: have `call` called in the thread that ends the event, at once; False if the event is done.

        The call must return at once and raise nothing.
        """
        with self._lock:
            if not self._done:
                self._listeners.append(call)
            return not self._done

    def note(self, result: T | None = None, error: BaseException | None = None) -> None:
        """For streams: keep the result or error of the work until the event is done and shows it."""
        self._result, self._error = result, error
        self._traceback = error and error.__traceback__

    def finish(self, result: T | None = None, error: BaseException | None = None, at: float | None = None) -> None:
        """For streams: let the event be done. Call it once, without a lock that a listener may want.

        Parameters
        ----------
        result : object
        error : BaseException, optional
            What the work failed with. With neither, what was noted.
        at : float, optional
            Seconds by the device's clock.
        """
        if result is not None or error is not None:
            self.note(result, error)
        self.ended = at
        with self._lock:
            self._done = True
            calls, self._calls = self._calls, []
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        for call, loop, context in calls:
            call_on(loop, call, self, context=context)


def call_on(loop: Loop, call: Callable[..., object], *args: object, context: Context | None = None) -> None:
    """Have something called by a loop, from any thread; not at all if the loop is closed."""
    if asyncio._get_running_loop() is loop:
        loop.call_soon(call, *args, context=context)
        return
    try:
        loop.call_soon_threadsafe(call, *args, context=context)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _wake(waiter: asyncio.Future[None], _: Event[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)

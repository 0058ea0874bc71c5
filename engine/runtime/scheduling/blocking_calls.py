"""Threads for blocking functions, which nothing can interrupt: they finish in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any

from ...base.errors import SessionClosed
from ...base.forks import strand_in_children
from ...ops.support.context import LongCall
from ...streams.contract import Clock
from ..devices.simulated_time import hold_clocks
from .call_threads import CallLine, CallThreads

_logger = logging.getLogger("tagloom")


def _closed_error() -> SessionClosed:
    return SessionClosed("the session was closed before a thread had begun", hint="await all that uses a session first")


class BlockingCalls:
    """Caller of functions in threads, each in the context of its caller: ``calls(function, *args)``.

    Threads are started when first needed. Cancelling the future of a call withdraws a call that has not begun; a call
    that has begun runs on as an orphan until its end, and its result is dropped.

    Parameters
    ----------
    threads : CallThreads or int
        Shared threads, which another object ends; or the number of own threads, which end with this object.
    name : str
        Prefix of the names of own threads.

    Attributes
    ----------
    clocks : sequence of Clock
        Clocks free to jump, held from a call to its outcome, because a call takes real time.
    """

    def __init__(self, threads: CallThreads | int, name: str = "tagloom-blocking") -> None:
        self._is_shared = isinstance(threads, CallThreads)
        self._threads = threads if isinstance(threads, CallThreads) else CallThreads(threads, name)
        self._line: CallLine | None = None  # from the first call on
        self._calls: dict[Future[None], _Call] = {}  # not ended
        self.clocks: Sequence[Clock] = ()
        strand_in_children(self)

    def strand(self, _: int) -> None:
        """Start with new threads in a child process; calls under way belong to the parent."""
        if not self._is_shared:
            self._threads.begin_anew()
        self._line, self._calls = None, {}

    def __call__(self, function: Callable[..., Any], *args: Any) -> LongCall:
        """Call a function in a thread; return a future of the running loop."""
        if self._line is None:
            self._line = CallLine()
        if self._line.is_closed:
            raise _closed_error()
        future = _CallFuture(loop=asyncio.get_running_loop())
        call = _Call(function, args, future)
        try:
            ended = self._threads.call(self._line, call.run)
        except RuntimeError as error:  # the session of the threads was dropped, or the interpreter ends
            raise _closed_error() from error
        self._calls[ended] = call
        ended.add_done_callback(self._calls.pop)
        call.bind(ended)
        future.ended = ended
        if self.clocks:
            holding = ExitStack()
            holding.enter_context(hold_clocks(self.clocks))
            future.add_done_callback(lambda _: holding.close())
        return future

    @property
    def pending(self) -> int:
        """Number of calls that have not ended."""
        return len(self._calls)

    @property
    def orphaned(self) -> int:
        """Number of running calls whose future was cancelled."""
        return sum(call.is_given_up and ended.running() for ended, call in list(self._calls.items()))

    def shutdown(self) -> None:
        """Start no more calls; own threads end after their running calls."""
        if self._line is None and not self._is_shared:
            return
        self._line = self._line or CallLine()
        self._line.is_closed = True
        for ended in list(self._calls):
            ended.cancel()
        if not self._is_shared:
            self._threads.shutdown()

    async def aclose(self, seconds: float | None) -> None:
        """Start no more calls and wait for running calls, at most `seconds` if not None; then log a warning."""
        self.shutdown()
        running = [asyncio.wrap_future(ended) for ended in list(self._calls) if ended.running()]
        if running:
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*running, return_exceptions=True)
            except TimeoutError:
                _logger.warning("a session is closed while %d blocking functions still run", self.orphaned)
        if not self._is_shared:
            # The threads end by themselves; but only their end releases the objects of their last calls.
            self._threads.join()


class _CallFuture(LongCall):
    """Future of a call's result.

    Attributes
    ----------
    ended : concurrent.futures.Future
        The call in the threads' queue.
    """

    ended: Future[None]

    def withdraw(self) -> bool:
        """Withdraw the call from the queue and cancel this future; return False, doing nothing, if it has begun."""
        return self.ended.cancel() and self.cancel()


class _Call:
    """A call: the function and arguments for the thread, and the future of the caller.

    `asyncio.wrap_future` would do, but leaves a cycle that keeps the result, perhaps a large array, until the garbage
    is collected. Here only the future holds the result after the call, and nothing holds the arguments.

    Attributes
    ----------
    is_given_up : bool
        True if the future was cancelled.
    """

    __slots__ = ("_args", "_error", "_function", "_future", "_loop", "_result", "is_given_up")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]) -> None:
        self._function: Callable[..., Any] | None = copy_context().run
        self._args: tuple[Any, ...] | None = (function, *args)
        self._result: Any = None
        self._error: BaseException | None = None
        self._future: asyncio.Future[Any] | None = future
        self._loop = future.get_loop()
        self.is_given_up = False

    def bind(self, ended: Future[None]) -> None:
        """Cancel the call in the thread's queue with the future, and the other way round."""

        def forward_cancellation(future: asyncio.Future[Any]) -> None:
            self.is_given_up = future.cancelled()
            if self.is_given_up:
                ended.cancel()

        def return_cancellation(ended: Future[None]) -> None:
            if ended.cancelled():
                self._call_on_loop(self._refuse_call)

        if self._future is not None:  # the call may have ended already
            self._future.add_done_callback(forward_cancellation)
        ended.add_done_callback(return_cancellation)

    def run(self) -> None:
        """Call the function, in the thread."""
        assert self._function is not None
        assert self._args is not None
        try:
            self._result = self._function(*self._args)
        except StopIteration as error:  # no future can hold a StopIteration
            self._error = RuntimeError("a blocking function raised StopIteration")
            self._error.__cause__ = error
        except BaseException as error:
            self._error = error
        self._function = self._args = None  # before the caller resumes, so that it is the only holder of the arguments
        self._call_on_loop(self._deliver_outcome)

    def _deliver_outcome(self) -> None:
        """Set the outcome of the future, on the loop's thread."""
        result, error, future = self._result, self._error, self._future
        self._result = self._error = self._future = None
        if future is None or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _refuse_call(self) -> None:
        """Set an error of the future: the threads have ended before the call began."""
        if self._future is not None and not self._future.done():
            self._future.set_exception(_closed_error())
            self._future.exception()  # retrieved, as perhaps nobody awaits it: asyncio would log the error
        self._function = self._args = self._future = None

    def _call_on_loop(self, what: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            self._result = self._error = None  # the loop is closed: nobody waits

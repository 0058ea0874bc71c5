"""Threads for functions that block: what can not be interrupted finishes in the background."""

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
from ..devices.simulated_time import held
from .call_threads import CallLine, CallThreads

_logger = logging.getLogger("tagloom")


def _closed() -> SessionClosed:
    return SessionClosed("the session was closed before a thread had begun", hint="await all that uses a session first")


class BlockingCalls:
    """Calls functions in threads, each in its caller's context; call it as ``calls(function, *args)``.

    Threads are started when first needed. A call whose future is cancelled is taken out of the queue if it has not
    begun; else it runs on, its result is dropped, and until then it is an orphan.

    Parameters
    ----------
    threads : CallThreads or int
        The threads, which others may use as well and end; or how many of its own it has, which end with it.
    name : str
        Beginning of the names of threads of its own.

    Attributes
    ----------
    clocks : sequence of Clock
        Held from a call to its outcome, as it takes real time: those that are free to jump.
    """

    def __init__(self, threads: CallThreads | int, name: str = "tagloom-blocking") -> None:
        self._is_shared = isinstance(threads, CallThreads)
        self._threads = threads if isinstance(threads, CallThreads) else CallThreads(threads, name)
        self._line: CallLine | None = None  # from the first call on
        self._calls: dict[Future[None], _Call] = {}  # not ended
        self.clocks: Sequence[Clock] = ()
        strand_in_children(self)

    def strand(self, _: int) -> None:
        """Begin with new threads in a child process; calls that are under way belong to the parent."""
        if not self._is_shared:
            self._threads.begin_anew()
        self._line, self._calls = None, {}

    def __call__(self, function: Callable[..., Any], *args: Any) -> LongCall:
        """Call a function in a thread; the result is a future of the running loop."""
        if self._line is None:
            self._line = CallLine()
        if self._line.is_closed:
            raise _closed()
        future = _CallFuture(loop=asyncio.get_running_loop())
        call = _Call(function, args, future)
        try:
            ended = self._threads.call(self._line, call.run)
        except RuntimeError as error:  # its session was dropped, or the interpreter ends
            raise _closed() from error
        self._calls[ended] = call
        ended.add_done_callback(self._calls.pop)
        call.bind(ended)
        future.ended = ended
        if self.clocks:
            holding = ExitStack()
            holding.enter_context(held(self.clocks))
            future.add_done_callback(lambda _: holding.close())
        return future

    @property
    def pending(self) -> int:
        """How many calls have not ended."""
        return len(self._calls)

    @property
    def orphaned(self) -> int:
        """How many calls still run that nobody waits for."""
        return sum(call.is_given_up and ended.running() for ended, call in list(self._calls.items()))

    def shutdown(self) -> None:
        """Start no more calls; threads of its own end with those that run."""
        if self._line is None and not self._is_shared:
            return
        self._line = self._line or CallLine()
        self._line.is_closed = True
        for ended in list(self._calls):
            ended.cancel()
        if not self._is_shared:
            self._threads.shutdown()

    async def aclose(self, seconds: float | None) -> None:
        """Start no more calls and wait for those that run, at most for `seconds` if given; then a warning is logged."""
        self.shutdown()
        running = [asyncio.wrap_future(ended) for ended in list(self._calls) if ended.running()]
        if running:
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*running, return_exceptions=True)
            except TimeoutError:
                _logger.warning("a session is closed while %d blocking functions still run", self.orphaned)
        if not self._is_shared:
            # The threads are on their way out; what their last calls held is let go of when they have ended.
            self._threads.join()


class _CallFuture(LongCall):
    """What a call will return.

    Attributes
    ----------
    ended : concurrent.futures.Future
        The call in the threads' queue.
    """

    ended: Future[None]

    def withdraw(self) -> bool:
        """Take the call out of the queue, which cancels this; say no, with nothing done, if it has begun."""
        return self.ended.cancel() and self.cancel()


class _Call:
    """One call: what the thread has to do, and the future of who waits for it.

    `asyncio.wrap_future` would do, but it leaves a cycle that keeps the result, perhaps a large array, until the
    garbage is collected. Here nothing but the future holds the result when it is there, and nothing the arguments.

    Attributes
    ----------
    is_given_up : bool
        Whether nobody waits for it any longer.
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
        """Let the call in the thread's queue and the future be cancelled with each other."""

        def forward(future: asyncio.Future[Any]) -> None:
            self.is_given_up = future.cancelled()
            if self.is_given_up:
                ended.cancel()

        def back(ended: Future[None]) -> None:
            if ended.cancelled():
                self._tell(self._refuse)

        if self._future is not None:  # it may be over already
            self._future.add_done_callback(forward)
        ended.add_done_callback(back)

    def run(self) -> None:
        """Call the function, in the thread."""
        assert self._function is not None
        assert self._args is not None
        try:
            self._result = self._function(*self._args)
        except StopIteration as error:  # a future can not hold it
            self._error = RuntimeError("a blocking function raised StopIteration")
            self._error.__cause__ = error
        except BaseException as error:
            self._error = error
        self._function = self._args = None  # before the loop goes on
        self._tell(self._deliver)

    def _deliver(self) -> None:
        """Hand the outcome over, on the loop's thread."""
        result, error, future = self._result, self._error, self._future
        self._result = self._error = self._future = None
        if future is None or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _refuse(self) -> None:
        """Tell who waits that the threads have ended before the call began."""
        if self._future is not None and not self._future.done():
            self._future.set_exception(_closed())
            self._future.exception()  # seen, as perhaps nobody waits any longer
        self._function = self._args = self._future = None

    def _tell(self, what: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            self._result = self._error = None  # the loop is closed: nobody waits

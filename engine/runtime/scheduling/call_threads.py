"""Threads that call functions for several users, such as sessions, one call of each user in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import RLock

from ...kernels.scheduler.workers import ask_for_long_slices


class CallLine:
    """Waiting calls of a user, in the order of their arrival.

    Attributes
    ----------
    is_closed : bool
        True if the user calls nothing any more.
    """

    __slots__ = ("calls", "is_closed")

    def __init__(self) -> None:
        self.calls: deque[tuple[Future[None], Callable[[], None]]] = deque()
        self.is_closed: bool = False


class CallThreads:
    """Threads for the calls of several users, served in turn: a call of each user with a waiting line.

    Parameters
    ----------
    count : int
        Number of calls that run at once; the others stand in their lines.
    name : str
        Beginning of the threads' names.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self.begin_anew()

    def begin_anew(self) -> None:
        """Start without threads and calls: in the constructor, and in a child process, which inherits neither."""
        self._executor: ThreadPoolExecutor | None = None
        self._turns: deque[CallLine] = deque()  # lines with calls, each once
        self._running = 0
        self._is_shut_down = False
        self._lock = RLock()  # reentrant: a garbage collection while it is held may end a user, which cancels its calls

    def call(self, line: CallLine, function: Callable[[], None]) -> Future[None]:
        """Call a function, which must not raise, when the turn of its line comes; return the future of its end.

        Raises
        ------
        RuntimeError
            If the threads are shutting down.
        """
        ended: Future[None] = Future()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("the threads are shutting down")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._count, self._name, ask_for_long_slices)
            # A submission stands for the next call, whichever that will be: there are as many submissions as calls. Its
            # thread cannot look for a call before this one is in line, because it waits for the lock.
            self._executor.submit(self._call_next)
            if not line.calls:
                self._turns.append(line)
            line.calls.append((ended, function))
        return ended

    def _call_next(self) -> None:
        """Call the first function of the next line, in a thread."""
        with self._lock:
            line = self._turns.popleft()
            ended, function = line.calls.popleft()
            if line.calls:
                self._turns.append(line)
            # A call cancelled in line has a submission too, which ends here.
            if not ended.set_running_or_notify_cancel():
                return
            self._running += 1
        try:
            function()
        finally:
            with self._lock:
                self._running -= 1
            ended.set_result(None)

    def shutdown(self) -> None:
        """End the threads after their running calls; waiting calls have been cancelled before."""
        self._is_shut_down = True
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def join(self) -> None:
        """Wait until the threads have ended, unless a call is still running."""
        if self._executor is not None and not self._running:
            self._executor.shutdown(wait=True)

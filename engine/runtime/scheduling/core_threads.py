"""Threads for long kernels, shared by all sessions of the process with the same number of threads.

The first session opens them and the last session closes them; they start with the first long kernel. See
docs/design/0046-sessions-that-share.md.
"""

from __future__ import annotations

from threading import RLock

from ...base.forks import when_forked
from ...kernels.scheduler.workers import WorkerThreads
from .call_threads import CallThreads

_open: dict[int, CoreThreads] = {}  # by the number of threads
_lock = RLock()  # a garbage collection inside may drop a session, which releases its threads


class CoreThreads:
    """Threads for kernels in C, a thread for each core, and as many threads for kernels written in Python.

    Parameters
    ----------
    count : int
        Number of threads of each kind.

    Attributes
    ----------
    workers : WorkerThreads
        Threads without Python.
    calls : CallThreads
        Threads for Python kernels that only compute: no kernel waits for another kernel.
    users : int
        Number of sessions using the threads.
    """

    def __init__(self, count: int) -> None:
        self.count: int = count
        self.workers: WorkerThreads = WorkerThreads(count)
        self.calls: CallThreads = CallThreads(count, "tagloom-kernel")
        self.users: int = 0

    def release(self, wait: bool = True) -> None:
        """Note that a session has stopped using the threads; end them with the last session.

        Parameters
        ----------
        wait : bool, optional
            Wait until the threads for Python kernels have ended. Finalizers must not wait: the garbage collector runs
            anywhere, also in those threads, and in code that holds locks which an ending thread takes.
        """
        with _lock:
            self.users -= 1
            if self.users:
                return
            if _open.get(self.count) is self:
                del _open[self.count]
        # Outside of the lock: a garbage collection in an ending thread may release another session, which locks.
        self.calls.shutdown()
        self.workers.close()
        if wait:
            self.calls.join()

    def begin_anew(self) -> None:
        """Start again without threads and work, in a child process."""
        self.workers.begin_anew()
        self.calls.begin_anew()


def open_core_threads(count: int) -> CoreThreads:
    """Return the threads shared by all sessions with `count` threads, to be released once by the calling session."""
    with _lock:
        while True:
            found = _open.get(count)
            if found is None:
                found = _open[count] = CoreThreads(count)
            found.users += 1
            # Else a garbage collection, anywhere above, has dropped the last session and closed these threads.
            if _open.get(count) is found:
                return found


def _begin_anew(_: int) -> None:
    global _lock
    _lock = RLock()  # a thread of the parent may have held the old lock, and never releases it here
    for each in list(_open.values()):
        each.begin_anew()


when_forked(_begin_anew)

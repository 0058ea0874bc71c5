"""Threads for long kernels, which all sessions of the process share that want equally many.

The first session opens them and the last one closes them; they start with the first kernel that takes long.
See docs/design/0046-sessions-that-share.md.
"""

from __future__ import annotations

from threading import RLock

from ...base.forks import when_forked
from ...kernels.scheduler.workers import WorkerThreads
from .call_threads import CallThreads

_open: dict[int, CoreThreads] = {}  # by the number of threads
_lock = RLock()  # a garbage collection inside may drop a session, which releases its threads


class CoreThreads:
    """As many threads as cores for kernels in C, and as many for those written in Python.

    Parameters
    ----------
    count : int
        Number of threads of each kind.

    Attributes
    ----------
    workers : WorkerThreads
        Threads without Python.
    calls : CallThreads
        Threads that call Python kernels which only compute: none of them waits for another.
    users : int
        Number of sessions that have them open.
    """

    def __init__(self, count: int) -> None:
        self.count: int = count
        self.workers: WorkerThreads = WorkerThreads(count)
        self.calls: CallThreads = CallThreads(count, "tagloom-kernel")
        self.users: int = 0

    def release(self) -> None:
        """Note that a session does not use them any more; with the last one they end."""
        with _lock:
            self.users -= 1
            if self.users:
                return
            if _open.get(self.count) is self:
                del _open[self.count]
        self.calls.shutdown()
        self.workers.close()
        self.calls.join()

    def begin_anew(self) -> None:
        """Have no threads and no work, in a child process."""
        self.workers.begin_anew()
        self.calls.begin_anew()


def open_core_threads(count: int) -> CoreThreads:
    """Return the threads of all sessions that want so many, for a session that releases them once."""
    with _lock:
        while True:
            found = _open.get(count)
            if found is None:
                found = _open[count] = CoreThreads(count)
            found.users += 1
            if _open.get(count) is found:  # else a collection has just dropped the last session that had them
                return found


def _begin_anew(_: int) -> None:
    global _lock
    _lock = RLock()  # a thread of the parent may have held the other one
    for each in list(_open.values()):
        each.begin_anew()


when_forked(_begin_anew)

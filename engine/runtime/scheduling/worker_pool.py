"""The cores of the machine: a session's share of the worker threads, and BLAS limited to a single thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import finalize

from ...base.forks import when_forked
from ...base.settings import Settings
from ...kernels.cpu.blas import is_blas_loaded, on_load_of_blas
from ...kernels.scheduler.workers import Workers
from .blocking_calls import BlockingCalls
from .core_threads import CoreThreads, open_core_threads

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


class WorkerPool:
    """A session's share of the machine's cores, in addition to the event loop's core.

    The threads are shared by all sessions of the process with as many threads; the work in them belongs to its session.

    Parameters
    ----------
    settings : Settings
        Number of threads (``workers``), and duration from which a kernel is offloaded (``offload_seconds``).

    Attributes
    ----------
    workers : Workers or None
        Workers of the session, started with the first long kernel; None if the event loop does all work.
    calls : BlockingCalls or None
        Caller of long kernels written in Python, in as many threads.
    """

    def __init__(self, settings: Settings) -> None:
        count = usable_cores() if settings.workers is None else settings.workers
        self.workers: Workers | None = None
        self.calls: BlockingCalls | None = None
        self._threads: CoreThreads | None = None
        self._drop_threads: finalize[Any, Any] | None = None
        if count:
            self._threads = threads = open_core_threads(count)
            self._drop_threads = finalize(self, threads.release, wait=False)
            self._drop_threads.atexit = False  # kernels may still work on arrays of the ending interpreter
            self.workers = Workers(threads.workers, settings.offload_seconds)
            self.calls = BlockingCalls(threads.calls)
        self._wakeup: WakeupFd | None = None  # readable when an orphan has ended
        self._closers: list[asyncio.Event] = []  # events of `aclose` calls that wait for the last orphan
        self._wakeup_to_close: WakeupFd | None = None  # readable when these should look again
        self._give_back: finalize[Any, Any] | None = None

    @property
    def orphaned(self) -> int:
        """Number of running kernels whose step has ended."""
        calls = 0 if self.calls is None else self.calls.orphaned
        return calls + self._orphaned_work

    @property
    def _orphaned_work(self) -> int:
        return 0 if self.workers is None else self.workers.orphaned

    def limit_blas(self) -> None:
        """Limit BLAS to a single thread until `aclose`: large products are divided among the workers instead.

        Two teams of threads on the same cores would wait for each other, and BLAS's own threads spin while waiting.
        """
        if self.workers is not None and self._give_back is None:
            _one_blas_thread.hold()
            self._give_back = finalize(self, _one_blas_thread.release)

    def release_orphans(self) -> None:
        """Release the arrays of orphaned kernels at their end; without a running loop, at the next call."""
        if self._wakeup is None and self._orphaned_work and asyncio._get_running_loop() is not None:
            self._wakeup = WakeupFd(self._listen)
            self._listen()

    def _listen(self) -> None:
        """Release ended orphans, and stop listening after the last orphan."""
        if self.workers is not None and self._wakeup is not None and not self.workers.notify(self._wakeup.descriptor):
            self._wakeup.close()
            self._wakeup = None

    def strand(self) -> None:
        """Continue without threads, in a child forked from the process whose threads do the session's work."""
        if self.workers is not None:
            self.workers.strand()
        self._release_threads()

    def _release_threads(self) -> None:
        """Release the threads, once."""
        if self._threads is not None and self._drop_threads is not None and self._drop_threads.detach():
            self._threads.release()

    def _tell_closers(self) -> None:
        for ended in self._closers:
            ended.set()

    async def aclose(self) -> None:
        """Wait for the session's orphans, and release threads and BLAS; several calls may wait at once."""
        if self._wakeup is not None:
            self._wakeup.close()
            self._wakeup = None
        ended = asyncio.Event()
        if not self._closers and self._orphaned_work:
            self._wakeup_to_close = WakeupFd(self._tell_closers)
        self._closers.append(ended)
        try:
            if self.calls is not None:
                await self.calls.aclose(None)
            while (wakeup := self._wakeup_to_close) and self.workers and self.workers.notify(wakeup.descriptor):
                await ended.wait()
                ended.clear()
        finally:
            self._closers.remove(ended)
            if self._wakeup_to_close is not None and not self._closers:
                self._wakeup_to_close.close()
                self._wakeup_to_close = None
            self.workers = None
            self._release_threads()
            if self._give_back is not None:
                self._give_back()


class WakeupFd:
    """A file descriptor that wakes the running event loop when any thread writes to the descriptor.

    Parameters
    ----------
    call : callable
        Called on the loop each time.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        if hasattr(os, "eventfd"):
            self._reader = self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._reader, self.descriptor = os.pipe()
            os.set_blocking(self._reader, False)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._ring)

    def _ring(self) -> None:
        os.read(self._reader, 8)
        self._call()

    def close(self) -> None:
        """Stop listening; no thread may write any more."""
        if not self._loop.is_closed():
            self._loop.remove_reader(self._reader)
        for descriptor in {self._reader, self.descriptor}:
            os.close(descriptor)


class _OneBlasThread:
    """Limit of the kernels' BLAS, once loaded, to a single thread as long as there are holders."""

    def __init__(self) -> None:
        self._lock = RLock()  # a garbage collection inside may drop a session, which releases
        self._holders = 0
        self._limit: Any = None

    def hold(self) -> None:
        with self._lock:
            self._holders += 1
            # Else `limit_if_held` is called when a product loads BLAS, so that no session loads it in vain.
            if is_blas_loaded():
                self._limit_if_held()

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            self._give_back_if_unheld()

    def limit_if_held(self) -> None:
        """Limit the BLAS being loaded to a single thread if there are holders."""
        with self._lock:
            self._limit_if_held()

    def _limit_if_held(self) -> None:
        if self._holders and self._limit is None:
            self._limit = _blas().limit(limits=1)
            self._give_back_if_unheld()  # a garbage collection above may have dropped the last holder

    def _give_back_if_unheld(self) -> None:
        if self._holders == 0 and self._limit is not None:
            limit, self._limit = self._limit, None
            limit.restore_original_limits()

    def forget_threads(self, _: int) -> None:
        """Replace the lock in a child process, where no thread of the parent will release the old lock."""
        self._lock = RLock()


_one_blas_thread = _OneBlasThread()
on_load_of_blas(_one_blas_thread.limit_if_held)
when_forked(_one_blas_thread.forget_threads)


@cache
def _blas() -> ThreadpoolController:
    """Return a controller of SciPy's own BLAS, which must be loaded; of all loaded BLAS libraries if SciPy has none."""
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas")
    own = [c.filepath for c in found.lib_controllers if "scipy" in Path(c.filepath).parent.name]
    return found.select(filepath=own) if own else found


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""The CPU as a device, with a thread for each stream while there is work."""

from __future__ import annotations

from threading import Condition, Thread
from typing import Any, SupportsIndex

from .contract import Clock
from .host import HostDevice
from .queued import QueuedStream, StreamOp

LINGER = 1.0  # seconds that a thread waits for more work before it ends; the next work starts another


class ThreadStream(QueuedStream):
    """A stream whose work is done by a single thread, started by the first work.

    Parameters
    ----------
    name : str
    clock : Clock
        Held as long as there is work able to proceed.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._change = Condition(self._lock)
        self._thread: Thread | None = None
        self._active = False  # whether the clock is held

    def strand(self, parent: int) -> None:
        super().strand(parent)
        self._change, self._thread = Condition(self._lock), None
        if self._active:
            self._active = False
            self.clock.release()

    def _advance_queue(self) -> None:
        """Hold the clock and wake the thread, or start it; nothing for a closed stream without a thread."""
        with self._change:
            if self._closed and self._thread is None:
                return
            if not self._active:
                self._active = True
                self.clock.hold()
            if self._thread is None:
                self._thread = Thread(target=self._run_thread, name=f"tagloom {self.name}", daemon=True)
                self._thread.start()
            self._change.notify()

    def _run_thread(self) -> None:
        """Do work until none has come for `LINGER` seconds."""
        while (op := self._wait_for_work()) is not None:
            self._perform_op(op)
            del op  # else the local would keep the work's objects alive during the wait for the next

    def _wait_for_work(self) -> StreamOp | None:
        """Wait for work; None if the thread should end."""
        with self._change:
            patient = True
            while (op := self._pop_ready_op()) is None:
                self._release_clock()
                if self._closed or not patient:
                    # Under the lock: later work starts another thread, and earlier work was found by `_pop_ready_op`.
                    self._thread = None
                    return None
                patient = self._change.wait(LINGER)
            self._running = op
            return op

    def _release_clock(self) -> None:
        if self._active:
            self._active = False
            self.clock.release()

    def _perform_op(self, op: StreamOp) -> None:
        if (error := op.failed_event_error) is not None:
            self._end_op(op, self.clock.now(), error)
            return
        op.event.began = self.clock.now()
        op.run_work()
        self._end_op(op, self.clock.now())

    def join(self) -> None:
        """Wait until the thread of a closed stream has ended."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()


class CpuDevice(HostDevice[ThreadStream]):
    """The CPU, or a share of it with separate memory.

    The compute stream is for work to be done in a thread; kernels called on the loop's thread need no event.

    Parameters
    ----------
    name : str
        "/job:localhost/task:0/device:CPU:0".
    limit, clock, pool, most_cached
        See :class:`HostDevice`.
    """

    def __init__(self, name: str, *, limit: SupportsIndex | str | None = None, **options: Any) -> None:
        super().__init__(name, ThreadStream, limit=limit, **options)

    def _join_stream(self, stream: ThreadStream) -> None:
        stream.join()

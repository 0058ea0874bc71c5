"""What a CUDA device is made of, apart from its face: the thread that has the context, and all that lives in it.

No object of pycuda is let go by any other thread, as those end the process or leak when their context is not current.
The thread refers to the core and nobody's device: a device that is dropped ends its thread.
"""

from __future__ import annotations

from threading import Condition, Lock, Thread
from typing import Any

from ..contract import Clock
from ..event import Event
from .driver import PageLocks, load_driver, translated
from .memory import Block, BlockPool
from .stream import CudaOrder, CudaStream, wait_for

STREAMS = ("compute", "host_to_device", "device_to_host")


class Core:
    """A primary context with three streams and two pools, and the thread that enqueues their work.

    Parameters
    ----------
    name : str
        Of the device.
    index : int
        The driver's.
    clock : Clock
        Held while there is work that can go on.
    limit : int or None
        Bytes that may be in use on the device.
    most_cached, most_pinned : int
        Bytes of free blocks kept on the device, and of page-locked ones on the host.

    Attributes
    ----------
    memory, host : BlockPool
        On the device, and page-locked.
    marks, marks_lock
        Events of pycuda's that are not in use. One is recorded anew only when no other device can be about to have a
        stream wait for what it was.
    closed : Event
        Done when nothing is left.
    """

    def __init__(
        self, name: str, index: int, clock: Clock, *, limit: int | None, most_cached: int, most_pinned: int
    ) -> None:
        self.name, self.index, self.clock = name, index, clock
        self.driver: Any = load_driver()
        self.context: Any = None
        self.marks: list[Any] = []
        self.marks_lock = Lock()
        self.closed: Event[None] = Event()
        self._change = Condition()
        self._woken = self._stopping = self._active = False
        self.streams = tuple(CudaStream(f"{name}/{stream}", self) for stream in STREAMS)
        lacking, locks = self.driver.MemoryError, PageLocks(self.driver)
        self.memory = BlockPool(
            f"the memory of {name}", self.driver.mem_alloc, _free, lacking, limit=limit, most_cached=most_cached
        )
        self.host = BlockPool(
            f"page-locked memory for {name}", locks.make, locks.free, self.driver.Error, most_cached=most_pinned
        )
        opened: Event[None] = Event()
        self._thread = Thread(target=self._serve, args=[opened], name=f"tagflow {name}", daemon=True)
        self._thread.start()
        wait_for(opened)
        opened.result()

    def wake(self) -> None:
        """Have the thread see whether something can be enqueued; returns at once."""
        with self._change:
            if not (self._active or self._stopping):
                self._active = True
                self.clock.hold()
            self._woken = True
            self._change.notify()

    def stop(self) -> None:
        """Drop what was not enqueued, wait for the rest and end the thread; returns at once."""
        for stream in self.streams:
            stream.close()
        with self._change:
            self._stopping = self._woken = True
            self._change.notify()

    def join(self) -> None:
        """Wait for the thread of a core that has closed."""
        self._thread.join()

    def translated(self, error: BaseException, what: str) -> BaseException:
        """Return an error of pycuda's as one of ours."""
        return translated(self.driver, error, what)

    # ---- called by the thread

    def perform(self, order: CudaOrder) -> list[Block]:
        """Do a piece of work; return the memory that was given back meanwhile."""
        self.memory.detain()
        try:
            order.perform()
        finally:
            blocks = self.memory.detained()
        event = order.event
        if event.failing:
            error: Any = event._error
            event.note(error=self.translated(error, f"{event.stream and event.stream.name}: {event.kind or 'work'}"))
        return blocks

    def mark(self, stream: Any) -> Any:
        """Record an event behind what was enqueued."""
        with self.marks_lock:
            mark = self.marks.pop() if self.marks else None
        if mark is None:
            flags = self.driver.event_flags
            mark = self.driver.Event(flags.DISABLE_TIMING | flags.BLOCKING_SYNC)
        return mark.record(stream)

    def _serve(self, opened: Event[None]) -> None:
        try:
            self._open()
        except BaseException as error:
            self._shut()
            opened.finish(error=self.translated(error, f"{self.name} can not be opened"))
            return
        opened.finish()
        del opened
        while self._wait():
            self._enqueue_all()
            self.memory.trim()
            self.host.trim()
        try:
            self._shut()
        except BaseException as error:
            self.closed.finish(error=self.translated(error, f"{self.name} can not be closed"))
        else:
            self.closed.finish()

    def _enqueue_all(self) -> None:
        """Enqueue in turn, until no stream has anything that can be."""
        moved = True
        while moved:
            moved = False
            for stream in self.streams:
                moved = stream.proceed() or moved

    def _open(self) -> None:
        context = self.driver.Device(self.index).retain_primary_context()
        context.push()
        self.context = context
        for stream in self.streams:
            stream.start()

    def _wait(self) -> bool:
        """Wait until something may be enqueued; False at the end."""
        with self._change:
            while not self._woken:
                self._rest()
                self._change.wait()
            self._woken = False
            return not self._stopping

    def _rest(self) -> None:
        if self._active and all(stream.idle for stream in self.streams):
            self._active = False
            self.clock.release()

    def _shut(self) -> None:
        for stream in self.streams:
            stream.stop()
        self.marks.clear()
        if self.context is not None:
            self.memory.close()
            self.host.close()
            self.context.pop()
            self.context.detach()
            self.context = None
        with self._change:
            self._rest()


def _free(allocation: Any) -> None:
    allocation.free()

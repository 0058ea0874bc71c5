"""Core of a CUDA device: the thread with the context, and everything in the context.

See docs/design/0014-cuda.md.

Only this thread drops objects of pycuda: without their context being current they end the process or leak. The thread
refers to the core and never to the device, so a dropped device ends its thread.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any, NamedTuple
from weakref import WeakSet

from numpy.typing import DTypeLike

from ...base.forks import strand_in_children
from ..contract import Clock
from ..event import DeviceClosed, Event
from .driver import PageLocks, load_driver, translate_error
from .memory import Allocator, Block, BlockPool, CudaBuffer
from .stream import CudaStream, CudaStreamOp, wait_for

LAST_WAIT = 10.0  # seconds for a device to end its work when the interpreter ends
STREAMS = ("compute", "host_to_device", "device_to_host")


class MemoryBounds(NamedTuple):
    """Bounds of the memory of a device.

    Attributes
    ----------
    limit : int or None
        Bytes that may be in use on the device.
    most_cached, most_pinned : int
        Bytes of free blocks kept on the device, and of free page-locked blocks kept on the host.
    """

    limit: int | None
    most_cached: int
    most_pinned: int


class Core:
    """Primary context of a GPU with three streams and two pools, and the thread that enqueues their work.

    Parameters
    ----------
    name : str
        Name of the device.
    index : int
        Number of the GPU in the driver's count.
    clock : Clock
        Held while a stream has work that can go on, so that virtual time does not jump until it is done.
    bounds : MemoryBounds
    cupy : module or None
        Library that computes on the device.

    Attributes
    ----------
    memory, host : BlockPool
        Memory of the device, and page-locked memory of the host.
    markers, markers_lock
        Free pycuda events, and their lock. Other streams begin to wait for an event under this lock, while the event is
        in use; so a free event can be recorded again.
    closed : Event
        Done when the thread has released everything.
    """

    def __init__(self, name: str, index: int, clock: Clock, bounds: MemoryBounds, cupy: Any) -> None:
        self.name, self.index, self.clock, self._cupy = name, index, clock, cupy
        self.driver: Any = load_driver()
        self.context: Any = None
        self.markers: list[Any] = []
        self.markers_lock = Lock()
        self.closed: Event[None] = Event()
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # False to end; finalizers may put at any time
        self._lock = Lock()  # guards the fields below
        self._holds_clock = False
        self._ended = False
        self.streams = compute, *_ = tuple(CudaStream(f"{name}/{stream}", self) for stream in STREAMS)
        in_context, locks = self._in_context, PageLocks(self.driver)
        self.memory: BlockPool = BlockPool(
            f"the memory of {name}",
            Allocator(in_context(self.driver.mem_alloc), in_context(_free_allocation), self.driver.MemoryError),
            limit=bounds.limit,
            most_cached=bounds.most_cached,
            next_marker=lambda: compute.next_marker,
        )
        self.host: BlockPool = BlockPool(
            f"page-locked memory for {name}",
            Allocator(in_context(locks.allocate_locked), in_context(locks.unlock_pages), self.driver.Error),
            most_cached=bounds.most_pinned,
        )
        opened: Event[None] = Event()
        self._thread = Thread(target=self._run_thread, args=[opened], name=f"tagloom {name}", daemon=True)
        _cores.add(self)
        strand_in_children(self)
        self._thread.start()
        wait_for(opened)
        opened.result()

    def strand(self, _: int) -> None:
        """Close in a child process, where the driver's context is unusable and the thread is absent."""
        self.markers_lock, self._lock, self._ended = Lock(), Lock(), True
        for stream in self.streams:
            stream.refuse_work()

    def wake(self) -> None:
        """Make the thread look for work to enqueue; returns at once."""
        with self._lock:
            if self._ended:
                return
            if not self._holds_clock:
                self._holds_clock = True
                self.clock.hold()
            self._wakes.put(True)  # within the lock, so that `_release_clock` cannot miss the wake

    def stop(self) -> None:
        """Drop work not enqueued yet, and make the thread wait for the rest and end; returns at once."""
        for stream in self.streams:
            stream.close()
        self.stop_in_thread()

    def stop_in_thread(self) -> None:
        """Do as `stop`, but entirely in the thread: for finalizers, which may run while any lock is held."""
        self._wakes.put(False)

    def join(self, seconds: float | None = None) -> None:
        """Wait for the thread of a stopped core, for so many seconds at most."""
        self._thread.join(seconds)

    def translate_error(self, error: BaseException, what: str) -> BaseException:
        """Return the tagloom error for a pycuda error."""
        return translate_error(self.driver, error, what)

    def make_buffer(self, shape: tuple[int, ...], dtype: DTypeLike) -> CudaBuffer:
        """Return a new buffer; in any thread. See :meth:`CudaDevice.allocate`."""
        try:
            return CudaBuffer(self.memory, shape, dtype)
        except self.driver.Error as error:
            raise self.translate_error(error, f"{self.name}: no memory available") from error

    def push_context(self) -> None:
        """Make the context current in this thread, until `pop_context`; DeviceClosed if the context has ended."""
        if self.context is None:
            raise DeviceClosed(f"{self.name} was closed", hint="close a device after the work it is to do")
        self.context.push()

    def pop_context(self) -> None:
        """Make the context current that was current before `push_context`."""
        self.driver.Context.pop()

    def _in_context(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wrap a driver call, so that any thread may make the call until the context ends."""

        def call_in_context(argument: Any) -> Any:
            if get_ident() == self._thread.ident:
                return call(argument)
            self.push_context()
            try:
                return call(argument)
            finally:
                self.pop_context()

        return call_in_context

    # ---- called by the thread

    def run_op(self, op: CudaStreamOp) -> list[Block]:
        """Do a piece of work; return the blocks released meanwhile, which enqueued work may still use."""
        self.memory.detain_blocks()
        try:
            op.run_work()
        finally:
            blocks = self.memory.take_detained()
        event = op.event
        if event.failing:
            error: Any = event._error  # `event.error` shows nothing before the event is done
            event.note(
                error=self.translate_error(error, f"{event.stream and event.stream.name}: {event.kind or 'work'}")
            )
        return blocks

    def record_marker(self, stream: Any) -> Any:
        """Record a CUDA event after the work enqueued so far on a stream."""
        with self.markers_lock:
            marker = self.markers.pop() if self.markers else None
        if marker is None:
            flags = self.driver.event_flags
            marker = self.driver.Event(flags.DISABLE_TIMING | flags.BLOCKING_SYNC)
        return marker.record(stream)

    def _run_thread(self, opened: Event[None]) -> None:
        """Open the context, enqueue work until told to end, release everything; for the core's thread."""
        try:
            self._open_context()
        except BaseException as error:
            self._release_all()
            opened.finish(error=self.translate_error(error, f"{self.name} cannot be opened"))
            return
        opened.finish()
        del opened
        try:
            self._serve_wakes()
            self._release_all()
        except BaseException as error:  # none is known; but waiters must not wait for ever
            for stream in self.streams:
                stream.close()
            self.closed.finish(error=self.translate_error(error, f"{self.name} has ended"))
        else:
            self.closed.finish()

    def _serve_wakes(self) -> None:
        """Enqueue work after each wake, until told to end."""
        while self._wait_for_wake():
            self._enqueue_all()
            self.memory.trim()
            self.host.trim()

    def _enqueue_all(self) -> None:
        """Enqueue from each stream in turn, until no stream has work able to proceed."""
        has_enqueued = True
        while has_enqueued:
            has_enqueued = False
            for stream in self.streams:
                has_enqueued = stream.enqueue_next() or has_enqueued

    def _open_context(self) -> None:
        """Retain the GPU's primary context in this thread and start the streams."""
        if self._cupy is not None:
            # CUDA's runtime now retains the primary context as well, so CuPy's objects in it outlive this device.
            self._cupy.cuda.Device(self.index).use()
        context = self.driver.Device(self.index).retain_primary_context()
        context.push()
        self.context = context
        for stream in self.streams:
            stream.open_driver_stream()

    def _wait_for_wake(self) -> bool:
        """Wait until a stream may have work to enqueue, for several wakes at once; return False when told to end."""
        if all(stream.is_idle for stream in self.streams):
            self._release_clock()
        going_on = self._wakes.get()
        while going_on and not self._wakes.empty():
            going_on = self._wakes.get()
        return going_on

    def _release_clock(self, ended: bool = False) -> None:
        """Release the clock unless a wake has come meanwhile; `ended` refuses further wakes."""
        with self._lock:
            self._ended = ended
            if self._holds_clock and (ended or self._wakes.empty()):
                self._holds_clock = False
                self.clock.release()

    def _release_all(self) -> None:
        """Stop the streams, free both pools and release the context."""
        # Streams first: their threads have the context current, and work under way uses the blocks.
        for stream in self.streams:
            stream.close()
            stream.end_driver_stream()
        self.markers.clear()
        if self.context is not None:
            self.memory.close()
            self.host.close()
            self.context.pop()
            self.context.detach()
            self.context = None
        self._release_clock(ended=True)


_cores: WeakSet[Core] = WeakSet()  # cores with a thread that may still run


@atexit.register
def _end_all() -> None:
    """End the threads of open devices: pycuda ends the process when a thread goes with its context."""
    for core in list(_cores):
        core.stop()
    for core in list(_cores):
        core.join(LAST_WAIT)


def _free_allocation(allocation: Any) -> None:
    allocation.free()

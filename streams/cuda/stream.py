"""Streams of a GPU: the device's thread calls work, which enqueues; a thread of the stream waits for the end.

See docs/design/0014-cuda.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from ..contract import StreamStatistics
from ..event import Event
from ..queued import QueuedStream, StreamOp

if TYPE_CHECKING:
    from .core import Core
    from .memory import Block

T = TypeVar("T")
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: other libraries' work on the default stream holds up nothing here


def wait_for(event: Event[Any]) -> None:
    """Block this thread until an event is done, well or not."""
    told = Lock()
    told.acquire()
    if event.listen(told.release):
        told.acquire()


class CudaEvent(Event[T]):
    """The point on a CUDA stream at which a piece of work is done.

    Attributes
    ----------
    core : Core
        Core of its device.
    enqueued : bool
        Whether the work was called and the device knows all of the work.
    """

    __slots__ = ("_enqueued_listeners", "_marker", "core", "enqueued")

    def __init__(self, stream: CudaStream, kind: str) -> None:
        super().__init__(stream, kind)
        self.core: Core = stream.core
        self.enqueued: bool = False
        # pycuda's event recorded after the work, until the work is done; guarded by the core's markers_lock
        self._marker: Any = None
        self._enqueued_listeners: list[Callable[[], object]] = []  # guarded by the lock of the event

    def listen_enqueued(self, call: Callable[[], object]) -> bool:
        """Register `call` for the moment when the work is enqueued or has ended; return False if already so."""
        with self._lock:
            if not (self.enqueued or self._done):
                self._enqueued_listeners.append(call)
            return not (self.enqueued or self._done)

    def enqueued_result(self) -> T:
        """Return the future result of enqueued work, or raise its error."""
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        return self._result  # type: ignore[return-value]

    def note_enqueued(self, marker: Any, known: bool) -> None:
        """Note that the work was enqueued, and tell waiting streams.

        Parameters
        ----------
        marker : pycuda.driver.Event or None
            Event recorded after the work; None if nothing was enqueued.
        known : bool
            Whether the device knows all of the work. If the host does a part, other streams must wait for the end.
        """
        self._marker = marker
        if known:
            with self._lock:
                self.enqueued = True
            self._tell_enqueued()

    def _tell_enqueued(self) -> None:
        with self._lock:
            listeners, self._enqueued_listeners = self._enqueued_listeners, []
        for call in listeners:
            call()

    def make_wait(self, stream: CudaStream) -> None:
        """Make a stream of any device wait for the work, unless done (``cuStreamWaitEvent``)."""
        with self.core.markers_lock:
            if self._marker is not None and self.stream is not stream:
                stream.inner.wait_for_event(self._marker)

    def wait_for_device(self) -> None:
        """Block until the device has done the work; for the thread that ends the event."""
        if self._marker is not None:
            self._marker.synchronize()

    def recycle_marker(self) -> None:
        """Return the marker to the core, for another event."""
        with self.core.markers_lock:
            if self._marker is not None:
                self.core.markers.append(self._marker)
                self._marker = None

    def finish(self, result: T | None = None, error: BaseException | None = None, at: float | None = None) -> None:
        super().finish(result, error, at)
        self._tell_enqueued()


class CudaStreamOp(StreamOp):
    """A piece of work for a CUDA stream.

    Attributes
    ----------
    ahead : bool
        Whether the work may be called once events of `after` are enqueued on CUDA streams; the device then waits.
    then : callable or None
        Host's part of the work: called with the result when the device is done, returns another result.
    blocks : list of Block
        Blocks given back during the call, which enqueued work may still use.
    number : int
        Number of the marker after the work, counted by stream; 0 without a marker.
    """

    __slots__ = ("ahead", "blocks", "number", "then")

    def __init__(self, *fields: Any, ahead: bool, then: Callable[[Any], Any] | None) -> None:
        super().__init__(*fields)
        self.ahead, self.then = ahead, then
        self.blocks: list[Block] = []
        self.number: int = 0

    def must_wait(self, call: Callable[[], object]) -> bool:
        # As in `StreamOp`, but work that may be enqueued ahead waits for a CUDA event only until the event's work is
        # enqueued: the device does the rest. Any event that wakes the stream leads here. So an event asked before is
        # only looked at; asking it again would register one more call each time.
        while self._seen < len(self.after):
            event = self.after[self._seen]
            asks = event.listen_enqueued if self.ahead and isinstance(event, CudaEvent) else event.listen
            if self._asked == self._seen:
                if not (event.done or (self.ahead and getattr(event, "enqueued", False))):
                    return True
            elif asks(call):
                self._asked = self._seen
                return True
            self._seen += 1
        return False

    def finish_on_host(self) -> None:
        """Do the host's part of the work."""
        event = self.event
        if self.then is None or event.failing:
            return
        try:
            event.note(self.then(event._result))
        except BaseException as error:
            event.note(error=error)

    def drop_references(self) -> None:
        super().drop_references()
        self.then = None

    @property
    def failed_event_error(self) -> BaseException | None:
        return next((e._error for e in self.after if e.failing), None)


class CudaStream(QueuedStream):
    """A stream of a GPU.

    Attributes
    ----------
    core : Core
        Core of its device.
    inner : pycuda.driver.Stream
        Stream of the driver, for the device's thread only.
    """

    def __init__(self, name: str, core: Core) -> None:
        super().__init__(name, core.clock)
        self.core = core
        self.inner: Any = None
        self._change = Condition(self._lock)
        self._under_way: deque[CudaStreamOp] = deque()  # enqueued and not ended, in order
        self._telling = False  # whether an op has left `_under_way` and its waiters are being told
        self._ending = False  # whether the waiting thread is to end
        self._free = float("-inf")  # when the last work ended, in seconds by the clock
        self._last_recorded = self._last_passed = 0  # numbers of markers
        self._thread: Thread | None = None

    @property
    def handle(self) -> int:
        """Handle of the driver's stream."""
        return int(self.inner.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return version and handle, for other libraries: ``cupy.cuda.Stream.from_external(stream)``."""
        return 0, self.handle

    @property
    def next_marker(self) -> int:
        """Number of the next marker, which will follow all work enqueued so far."""
        return self._last_recorded + 1

    def submit(
        self,
        work: Callable[[], T] | None = None,
        *,
        after: Iterable[Event[Any]] = (),
        uses: Iterable[object] = (),
        kind: str = "",
        nbytes: int | Callable[[], int] = 0,
        ahead: bool = False,
        then: Callable[[T], T] | None = None,
    ) -> Event[T]:
        """Add work to the end of the queue; see :meth:`Stream.submit`.

        Parameters
        ----------
        ahead : bool
            Promise that the work only enqueues, without looking at results or bytes of the events in `after`. The work
            is then called as soon as CUDA devices' work in `after` is enqueued, and the GPU waits instead of the host.
        then : callable, optional
            Called in another thread with the work's result when the device is done; returns the event's result. The
            call must not use the driver.
        """
        event: CudaEvent[T] = CudaEvent(self, kind)
        self._add_op(CudaStreamOp(event, work, after, uses, nbytes, self.clock.now(), ahead=ahead, then=then))
        return event

    def statistics(self) -> StreamStatistics:
        with self._lock:
            running = len(self._under_way) + (self._running is not None)
            counts = len(self._waiting), running, self._done, self._failed, self._withdrawn, self._nbytes
            return StreamStatistics(*counts, self._busy_seconds)

    def close(self) -> Event[Any] | None:
        last = super().close()  # the event of work being enqueued, which is later than all under way
        with self._lock:
            return last or (self._under_way[-1].event if self._under_way else None)

    @property
    def is_idle(self) -> bool:
        """True if nothing is under way and all waiters were told."""
        with self._lock:
            return not (self._under_way or self._running or self._telling)

    # ---- called by the device's thread

    def open_driver_stream(self) -> None:
        """Open the driver's stream and start the waiting thread."""
        self.inner = self.core.driver.Stream(_NON_BLOCKING)
        self._thread = Thread(target=self._run_waiting_thread, name=f"tagloom {self.name}", daemon=True)
        self._thread.start()

    def end_driver_stream(self) -> None:
        """Wait for work under way, end the waiting thread and drop the driver's stream."""
        with self._change:
            self._ending = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join()
        if self.inner is not None:
            self._synchronize_inner()
        self.inner = None

    def _synchronize_inner(self) -> None:
        """Wait for work enqueued by other libraries, without markers; a failed device does no more work."""
        with suppress(self.core.driver.Error):
            self.inner.synchronize()

    def make_wait(self, stream: CudaStream, number: int) -> None:
        """Make another stream of the device wait until this stream has passed the marker `number`."""
        if number <= self._last_passed:
            return
        with self._lock:
            event: Any = next((op.event for op in self._under_way if op.number >= number), None)
        if event is not None:
            event.make_wait(stream)
            return
        # No work under way has this marker or a later one: record another, after all kernels enqueued so far.
        marker = self._record_marker()
        try:
            stream.inner.wait_for_event(marker)
        finally:
            with self.core.markers_lock:
                self.core.markers.append(marker)

    def _record_marker(self) -> Any:
        """Record a marker; it follows the last use of all blocks given back so far."""
        self.core.memory.collect_returned()
        self._last_recorded += 1
        return self.core.record_marker(self.inner)

    def enqueue_next(self) -> bool:
        """Enqueue the first piece of work unless it must wait; return True if work was enqueued."""
        with self._lock:
            op = self._pop_ready_op()
            self._running = op
        if op is None:
            return False
        assert isinstance(op, CudaStreamOp)
        event: Any = op.event
        event.note_enqueued(self._enqueue_op(op), known=op.then is None)
        del event
        with self._change:
            self._running = None
            self._under_way.append(op)
            self._change.notify()
        return True

    def _advance_queue(self) -> None:
        self.core.wake()

    def _enqueue_op(self, op: CudaStreamOp) -> Any:
        """Call the work; return the marker after it, None if nothing was enqueued."""
        if (error := op.failed_event_error) is not None:
            op.event.note(error=error)
            return None
        op.event.began = self.clock.now()
        try:
            for event in op.after:
                if isinstance(event, CudaEvent):
                    event.make_wait(self)
            op.blocks = self.core.run_op(op)
            op.number = self.next_marker
            return self._record_marker()  # no local: a traceback of failed work may keep this frame
        except self.core.driver.Error as failure:
            op.event.note(error=self.core.translate_error(failure, f"{self.name}: enqueuing {op.event.kind or 'work'}"))
            op.number = 0
            return None

    # ---- called by the waiting thread

    def _run_waiting_thread(self) -> None:
        self.core.context.push()
        try:
            while (op := self._wait_for_oldest()) is not None:
                self._end_when_done(op)
                del op
        finally:
            self.core.driver.Context.pop()

    def _wait_for_oldest(self) -> CudaStreamOp | None:
        """Wait until work is under way and return the oldest; None at the end."""
        with self._change:
            while not self._under_way:
                if self._ending:
                    return None
                self._change.wait()
            return self._under_way[0]

    def _end_when_done(self, op: CudaStreamOp) -> None:
        """Wait until the device has done a piece of work, and end it."""
        event: Any = op.event
        error: BaseException | None = None
        try:
            event.wait_for_device()
        except self.core.driver.Error as failure:
            error = self.core.translate_error(failure, f"{self.name}: {event.kind or 'work'} failed on the device")
        # The device has done the work of all events in `after`, but the threads of their streams may not have ended
        # them yet. Events must end in the order of their dependences, so wait for them.
        for other in op.after:
            wait_for(other)
        if error is None:
            self._last_passed = max(self._last_passed, op.number)
            op.finish_on_host()
        if event.began is not None:
            event.began = max(event.began, self._free, op.ready_time)
            error = error or op.failed_event_error
        now = self._free = self.clock.now()
        event.recycle_marker()
        self.core.memory.release_blocks(op.blocks)
        with self._lock:
            self._under_way.popleft()
            self._telling = True
        self._end_op(op, now, error)
        self._telling = False
        if self.is_idle:
            self.core.wake()  # waiting work was told by the event; this releases the clock and trims the pools

"""Streams of a GPU: the device's thread calls the work, which enqueues; a thread of the stream waits for the end.

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
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: what others do on the default stream holds up nobody


def wait_for(event: Event[Any]) -> None:
    """Let this thread wait until an event is done, well or not."""
    told = Lock()
    told.acquire()
    if event.listen(told.release):
        told.acquire()


class CudaEvent(Event[T]):
    """The point on a CUDA stream at which a piece of work is done.

    Attributes
    ----------
    core : Core
        Of its device.
    enqueued : bool
        Whether the work was called, so that the device knows what it is to do.
    """

    __slots__ = ("_enqueued_listeners", "_marker", "core", "enqueued")

    def __init__(self, stream: CudaStream, kind: str) -> None:
        super().__init__(stream, kind)
        self.core: Core = stream.core
        self.enqueued: bool = False
        self._marker: Any = (
            None  # pycuda's event, recorded behind the work, until that is done; guarded by the core's markers_lock
        )
        self._enqueued_listeners: list[Callable[[], object]] = []  # guarded by the lock of the event

    def listen_enqueued(self, call: Callable[[], object]) -> bool:
        """Have `call` called when the work was enqueued or has ended; False if it has been already."""
        with self._lock:
            if not (self.enqueued or self._done):
                self._enqueued_listeners.append(call)
            return not (self.enqueued or self._done)

    def enqueued_result(self) -> T:
        """Return the result that the event will have, or raise what it fails with, once it was enqueued."""
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        return self._result  # type: ignore[return-value]

    def begin(self, marker: Any, known: bool) -> None:
        """Note that the work was enqueued, and tell the streams that wait for that.

        Parameters
        ----------
        marker : pycuda.driver.Event or None
            Recorded behind the work; None if nothing was enqueued.
        known : bool
            Whether the device knows all of the work; else (the host has a part in it) others must wait for its end.
        """
        self._marker = marker
        if known:
            with self._lock:
                self.enqueued = True
            self._tell()

    def _tell(self) -> None:
        with self._lock:
            listeners, self._enqueued_listeners = self._enqueued_listeners, []
        for call in listeners:
            call()

    def make_wait(self, stream: CudaStream) -> None:
        """Let a stream of any device wait for the work, unless that is done (``cuStreamWaitEvent``)."""
        with self.core.markers_lock:
            if self._marker is not None and self.stream is not stream:
                stream.inner.wait_for_event(self._marker)

    def wait(self) -> None:
        """Wait until the device has done the work; for the thread that ends it."""
        if self._marker is not None:
            self._marker.synchronize()

    def recycle_marker(self) -> None:
        """Let the marker be used for another event."""
        with self.core.markers_lock:
            if self._marker is not None:
                self.core.markers.append(self._marker)
                self._marker = None

    def finish(self, result: T | None = None, error: BaseException | None = None, at: float | None = None) -> None:
        super().finish(result, error, at)
        self._tell()


class CudaStreamOp(StreamOp):
    """A piece of work for a CUDA stream.

    Attributes
    ----------
    ahead : bool
        Whether it is called when what it waits for is enqueued on CUDA streams; the device does the waiting then.
    then : callable or None
        Gets the result when the device is done, and returns another one; the host's part of the work.
    blocks : list of Block
        Memory given back while it was called, which what it enqueued may still use.
    number : int
        Of the marker behind it among all of its stream; 0 if there is none.
    """

    __slots__ = ("ahead", "blocks", "number", "then")

    def __init__(self, *fields: Any, ahead: bool, then: Callable[[Any], Any] | None) -> None:
        super().__init__(*fields)
        self.ahead, self.then = ahead, then
        self.blocks: list[Block] = []
        self.number: int = 0

    def waits(self, call: Callable[[], object]) -> bool:
        # As in `StreamOp`, but work that may be enqueued ahead waits for a CUDA event only until that one's work is
        # enqueued: the device does the rest. This is called whenever the stream is woken, by whatever event. So for an
        # event that was asked before, its state is looked at; asking again would register one more call each time.
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

    def complete(self) -> None:
        """Do the host's part of the work."""
        event = self.event
        if self.then is None or event.failing:
            return
        try:
            event.note(self.then(event._result))
        except BaseException as error:
            event.note(error=error)

    def forget(self) -> None:
        super().forget()
        self.then = None

    @property
    def obstacle(self) -> BaseException | None:
        return next((e._error for e in self.after if e.failing), None)


class CudaStream(QueuedStream):
    """A stream of a GPU.

    Attributes
    ----------
    core : Core
        Of its device.
    inner : pycuda.driver.Stream
        For the device's thread only.
    """

    def __init__(self, name: str, core: Core) -> None:
        super().__init__(name, core.clock)
        self.core = core
        self.inner: Any = None
        self._change = Condition(self._lock)
        self._under_way: deque[CudaStreamOp] = deque()  # enqueued and not ended, in order
        self._telling = False  # whether one is just being ended
        self._ending = False  # whether the waiting thread is to end
        self._free = float("-inf")  # when the last work ended, in seconds by the clock
        self._last_recorded = self._last_passed = 0  # numbers of markers
        self._thread: Thread | None = None

    @property
    def handle(self) -> int:
        """The driver's."""
        return int(self.inner.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return version and handle, as other libraries ask for them: ``cupy.cuda.Stream.from_external(stream)``."""
        return 0, self.handle

    @property
    def next_marker(self) -> int:
        """Number of the marker that will be behind all that was enqueued so far."""
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
            Say that the work only enqueues, and looks neither at results nor at bytes of what it waits for. Then it is
            called as soon as that is enqueued, if it is work of CUDA devices, and the GPU waits instead of the host.
        then : callable, optional
            Called in another thread with the work's result when the device is done; returns the event's result. It
            must not call the driver.
        """
        event: CudaEvent[T] = CudaEvent(self, kind)
        self._add(CudaStreamOp(event, work, after, uses, nbytes, self.clock.now(), ahead=ahead, then=then))
        return event

    def statistics(self) -> StreamStatistics:
        with self._lock:
            running = len(self._under_way) + (self._running is not None)
            counts = len(self._waiting), running, self._done, self._failed, self._withdrawn, self._nbytes
            return StreamStatistics(*counts, self._busy_seconds)

    def close(self) -> Event[Any] | None:
        last = super().close()  # of what is being enqueued, and so behind all others
        with self._lock:
            return last or (self._under_way[-1].event if self._under_way else None)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, and who waited for it was told."""
        with self._lock:
            return not (self._under_way or self._running or self._telling)

    # ---- called by the device's thread

    def start(self) -> None:
        """Open the stream and begin to wait for its work."""
        self.inner = self.core.driver.Stream(_NON_BLOCKING)
        self._thread = Thread(target=self._serve, name=f"tagloom {self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for what is under way and give back what the stream is made of."""
        with self._change:
            self._ending = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join()
        if self.inner is not None:
            self._finish()
        self.inner = None

    def _finish(self) -> None:
        """Wait for work that other libraries have enqueued, without markers; a device that has failed does no more."""
        with suppress(self.core.driver.Error):
            self.inner.synchronize()

    def make_wait(self, stream: CudaStream, number: int) -> None:
        """Let another stream of the device wait until this one has passed a marker of that number."""
        if number <= self._last_passed:
            return
        with self._lock:
            event: Any = next((op.event for op in self._under_way if op.number >= number), None)
        if event is not None:
            event.make_wait(stream)
            return
        marker = self._record_marker()
        try:
            stream.inner.wait_for_event(marker)
        finally:
            with self.core.markers_lock:
                self.core.markers.append(marker)

    def _record_marker(self) -> Any:
        """Record a marker; what is given back from now on is behind the next one."""
        self.core.memory.collect()
        self._last_recorded += 1
        return self.core.record_marker(self.inner)

    def proceed(self) -> bool:
        """Enqueue the first piece of work, if it need not wait; say whether there was one."""
        with self._lock:
            op = self._next()
            self._running = op
        if op is None:
            return False
        assert isinstance(op, CudaStreamOp)
        event: Any = op.event
        event.begin(self._enqueue(op), known=op.then is None)
        del event
        with self._change:
            self._running = None
            self._under_way.append(op)
            self._change.notify()
        return True

    def _look(self) -> None:
        self.core.wake()

    def _enqueue(self, op: CudaStreamOp) -> Any:
        """Call the work; return the marker behind it, None if there is nothing to wait for."""
        if (error := op.obstacle) is not None:
            op.event.note(error=error)
            return None
        op.event.began = self.clock.now()
        try:
            for event in op.after:
                if isinstance(event, CudaEvent):
                    event.make_wait(self)
            op.blocks = self.core.perform(op)
            op.number = self.next_marker
            return self._record_marker()  # no local: the frame of what failed may keep this one
        except self.core.driver.Error as failure:
            op.event.note(error=self.core.translated(failure, f"{self.name}: enqueuing {op.event.kind or 'work'}"))
            op.number = 0
            return None

    # ---- called by the waiting thread

    def _serve(self) -> None:
        self.core.context.push()
        try:
            while (op := self._oldest()) is not None:
                self._see_to(op)
                del op
        finally:
            self.core.driver.Context.pop()

    def _oldest(self) -> CudaStreamOp | None:
        """Wait for something to wait for; None at the end."""
        with self._change:
            while not self._under_way:
                if self._ending:
                    return None
                self._change.wait()
            return self._under_way[0]

    def _see_to(self, op: CudaStreamOp) -> None:
        """Wait until the device has done a piece of work, and end it."""
        event: Any = op.event
        error: BaseException | None = None
        try:
            event.wait()
        except self.core.driver.Error as failure:
            error = self.core.translated(failure, f"{self.name}: {event.kind or 'work'} failed on the device")
        # The device has done the work that this one waited for; the threads of other streams may not know yet. Events
        # end in the order of their dependences, so wait for them.
        for other in op.after:
            wait_for(other)
        if error is None:
            self._last_passed = max(self._last_passed, op.number)
            op.complete()
        if event.began is not None:
            event.began = max(event.began, self._free, op.ready)
            error = error or op.obstacle
        now = self._free = self.clock.now()
        event.recycle_marker()
        self.core.memory.release(op.blocks)
        with self._lock:
            self._under_way.popleft()
            self._telling = True
        self._end(op, now, error)
        self._telling = False
        if self.idle:
            self.core.wake()  # what waits was told by the event; this is for the clock, and for memory to be trimmed

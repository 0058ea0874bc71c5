"""Streams that queue work in this process until its beginning. See docs/design/0010-streams.md."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from traceback import clear_frames
from typing import Any, TypeVar

from ..base.forks import strand_in_children
from .contract import Clock, Stream, StreamStatistics
from .event import DeviceClosed, Event, Withdrawn

T = TypeVar("T")


class StreamOp:
    """A piece of work on a stream, with the events and objects needed until its own event is done.

    Attributes
    ----------
    event : Event
        Done when the work is.
    work : callable or None
    after : tuple of Event
        Events to be done before the work begins.
    uses : tuple
        Objects kept alive until the work has ended.
    submitted : float
        Seconds by the device's clock.
    """

    __slots__ = ("_asked", "_seen", "after", "event", "nbytes", "submitted", "uses", "work")

    def __init__(
        self,
        event: Event[Any],
        work: Callable[[], Any] | None,
        after: Iterable[Event[Any]],
        uses: Iterable[object],
        nbytes: int | Callable[[], int],
        submitted: float,
    ) -> None:
        self.event: Event[Any] = event
        self.nbytes = nbytes
        self.work = work
        self.after = tuple(after)
        self.uses = tuple(uses)
        self.submitted: float = submitted
        self._seen = 0  # leading events of `after` that are done
        self._asked = -1  # index of the event that has `call` as a listener, so that none gets it twice

    def must_wait(self, call: Callable[[], object]) -> bool:
        """Return True if the work must wait for an event of `after`, which then calls `call` when done."""
        while self._seen < len(self.after):
            event = self.after[self._seen]
            if not event.done and (self._asked == self._seen or event.listen(call)):
                self._asked = self._seen
                return True
            self._seen += 1
        return False

    @property
    def ready_time(self) -> float:
        """Time at which the work could begin, after submission and all events of `after`; seconds by the clock."""
        return max([self.submitted, *(e.ended for e in self.after if e.ended is not None)])

    @property
    def failed_event_error(self) -> BaseException | None:
        """Error of the first failed event of `after`, or None."""
        return next((e.error for e in self.after if e.error is not None), None)

    def run_work(self) -> None:
        """Do the work; only the event holds the result, so a caller of `take` is its only owner."""
        event = self.event
        try:
            event.nbytes = self.nbytes if isinstance(self.nbytes, int) else self.nbytes()
            if self.work is not None:
                event.note(self.work())
        except BaseException as error:
            clear_frames(error.__traceback__)  # frames and error form a cycle, which would keep the work's objects
            event.note(error=error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))

    def drop_references(self) -> None:
        """Drop the work and all objects kept alive for it."""
        self.work, self.after, self.uses, self.nbytes = None, (), (), 0


class QueuedStream(Stream):
    """A stream that queues work in this process; subclasses begin and run work in `_advance_queue`.

    Parameters
    ----------
    name : str
    clock : Clock
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self._lock = Lock()  # guards the fields below; never held while an event is finished
        self._waiting: deque[StreamOp] = deque()
        self._running: StreamOp | None = None
        self._closed = False
        self._done = self._failed = self._withdrawn = self._nbytes = 0
        self._busy_seconds = 0.0
        strand_in_children(self)

    def strand(self, _: int) -> None:
        """Start with an empty queue in a child process: queued and running work is the parent's."""
        self._lock = Lock()
        self._waiting.clear()
        self._running = None

    def refuse_work(self) -> None:
        """Close in a child process: refuse further work and discard the queue."""
        self._lock = Lock()
        self._closed = True
        self._waiting.clear()

    @abstractmethod
    def _advance_queue(self) -> None:
        """Begin work able to proceed, or wake the thread for this; called in any thread, returns at once."""

    def submit(
        self,
        work: Callable[[], T] | None = None,
        *,
        after: Iterable[Event[Any]] = (),
        uses: Iterable[object] = (),
        kind: str = "",
        nbytes: int | Callable[[], int] = 0,
    ) -> Event[T]:
        event: Event[T] = Event(self, kind)
        self._add_op(StreamOp(event, work, after, uses, nbytes, self.clock.now()))
        return event

    def _add_op(self, op: StreamOp) -> None:
        with self._lock:
            if self._closed:
                raise self._closed_error()
            self._waiting.append(op)
        self._advance_queue()

    def withdraw(self, event: Event[Any]) -> bool:
        with self._lock:
            op = next((op for op in self._waiting if op.event is event), None)
            if op is None:
                return False
            self._waiting.remove(op)
        # Without the lock: finishing the event calls listeners, which may take the lock in `_advance_queue`.
        self._drop_op(op, Withdrawn(f"work on {self.name} was withdrawn before it began", hint="submit it anew"))
        self._advance_queue()
        return True

    def statistics(self) -> StreamStatistics:
        with self._lock:
            running = int(self._running is not None)
            counts = len(self._waiting), running, self._done, self._failed, self._withdrawn, self._nbytes
            return StreamStatistics(*counts, self._busy_seconds)

    def close(self) -> Event[Any] | None:
        """Drop the work that has not begun and refuse more; return the running work's event, to be awaited."""
        with self._lock:
            self._closed = True
            dropped, self._waiting = self._waiting, deque()
            running = self._running
        error = self._closed_error()  # made once: all events of dropped work share the error
        for op in dropped:
            self._drop_op(op, error)
        self._advance_queue()
        return None if running is None else running.event

    def _closed_error(self) -> DeviceClosed:
        return DeviceClosed(f"the device of {self.name} was closed", hint="close a device after the work it is to do")

    def _pop_ready_op(self) -> StreamOp | None:
        """Take the first piece of work unless it must wait; the caller holds the lock."""
        if not self._waiting or self._waiting[0].must_wait(self._advance_queue):
            return None
        return self._waiting.popleft()

    def _drop_op(self, op: StreamOp, error: BaseException) -> None:
        """End work that never began, with an error."""
        with self._lock:
            self._withdrawn += 1
        op.drop_references()
        op.event.finish(error=error, at=self.clock.now())

    def _end_op(self, op: StreamOp, at: float, error: BaseException | None = None) -> None:
        """End work that was performed, or prevented by `error`, at a time in seconds by the clock."""
        event = op.event
        with self._lock:
            self._running = None
            self._busy_seconds += 0.0 if event.began is None else at - event.began
            if error is None and not event.failing:
                self._done, self._nbytes = self._done + 1, self._nbytes + event.nbytes
            else:
                self._failed += 1
        op.drop_references()  # before any waiter is told, as the contract demands of buffers
        event.finish(error=error, at=at)

"""Simulated devices for tests and experiments: work takes a stated time without a core, or waits for a release.

See docs/design/0010-streams.md, "Time is computed, not measured".

The loop's thread does the work at its beginning, and the work counts as done when its time is over. Copies between
streams, the memory and its limit are real; only time is simulated.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any, SupportsIndex, TypeVar

from ..base.errors import TagloomError
from .capabilities import SimulatedTime
from .contract import Clock
from .distributions import Time, draw_duration, mean_duration
from .event import Event, Loop, call_on
from .host import HostDevice
from .queued import QueuedStream, StreamOp

T = TypeVar("T")


class InjectedError(TagloomError):
    """Error that a device was told to fail with."""


class SimulatedStream(QueuedStream):
    """A stream that does its work on the loop's thread; `_schedule_end` of subclasses decides when work counts as done.

    Work begins at the time when the stream was free, the work submitted and the events of `after` done, however late
    the loop was.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._free = float("-inf")  # when the last work ended, in seconds by the clock
        self._loop: Loop | None = None
        self._thread = 0  # the loop's
        self._proceeding = False

    @abstractmethod
    def _schedule_end(self, event: Event[Any], began: float) -> None:
        """Arrange a call of `_finish_running`, on the loop's thread, with the time of the work's end."""

    def submit(
        self,
        work: Callable[[], T] | None = None,
        *,
        after: Iterable[Event[Any]] = (),
        uses: Iterable[object] = (),
        kind: str = "",
        nbytes: int | Callable[[], int] = 0,
    ) -> Event[T]:
        loop = get_running_loop()
        if loop is not self._loop:
            self._switch_loop(loop)
        return super().submit(work, after=after, uses=uses, kind=kind, nbytes=nbytes)

    def _switch_loop(self, loop: Loop) -> None:
        """Serve another loop; raise if the previous loop still has work here."""
        busy = self._running is not None or self._waiting
        if busy and self._loop is not None and not self._loop.is_closed():
            raise TagloomError(
                f"{self.name} serves one loop at a time, and another one waits for it",
                hint="await its events first, or give each loop a device of its own",
            )
        self._loop, self._thread = loop, threading.get_ident()
        if busy:  # work left by a closed loop; the clock brings its own pending calls along
            self.clock.call_at(self.clock.now(), self._begin_ready_work)

    def _advance_queue(self) -> None:
        if self._thread == threading.get_ident():
            self._begin_ready_work()
        elif self._loop is not None:
            call_on(self._loop, self._begin_ready_work)

    def _begin_ready_work(self) -> None:
        """Begin work in order until work takes time, must wait, or is used up."""
        if self._proceeding:  # further down the stack, whose loop takes this work as well
            return
        self._proceeding = True
        try:
            while self._running is None and (op := self._pop_with_lock()) is not None:
                self._begin_op(op)
        finally:
            self._proceeding = False

    def _pop_with_lock(self) -> StreamOp | None:
        with self._lock:
            return self._pop_ready_op()

    def _begin_op(self, op: StreamOp) -> None:
        """Do a piece of work and leave its end to `_schedule_end`; after a failed event in `after` end at once."""
        began = max(self._free, op.ready_time)
        self._running = op
        if (error := op.failed_event_error) is not None:
            self._finish_running(began, error)
            return
        op.event.began = began
        op.run_work()
        self._schedule_end(op.event, began)

    def _finish_running(self, at: float, error: BaseException | None = None) -> None:
        """End the running work at a time in seconds by the clock, and begin the next."""
        op = self._running
        assert op is not None
        self._free = at
        self._end_op(op, at, error)
        self._begin_ready_work()


class LatencyStream(SimulatedStream):
    """A stream whose work takes a stated time.

    Parameters
    ----------
    name : str
    clock : Clock
    seconds : callable
        Called with kind and bytes of a piece of work.
    failure : callable, optional
        Called with the kind; returns the error with which the work ends, or None.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        seconds: Callable[[str, int], float],
        failure: Callable[[str], BaseException | None] = lambda kind: None,
    ) -> None:
        super().__init__(name, clock)
        self._seconds = seconds
        self._draw_failure = failure

    def _schedule_end(self, event: Event[Any], began: float) -> None:
        seconds, failure = self._seconds(event.kind, event.nbytes), self._draw_failure(event.kind)
        if seconds == 0.0:
            self._finish_running(began, failure)
        else:
            self.clock.call_at(began + seconds, partial(self._finish_running, began + seconds, failure))


class ManualStream(SimulatedStream):
    """A stream whose work ends on release."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._released = 0.0  # pieces of work that may still end

    def release(self, count: float = 1) -> None:
        """Allow so many pieces of work to end, the running piece first, then later ones; ``inf`` for all."""
        self._released += count
        if self._running is not None:
            self._end_if_released()

    def _schedule_end(self, event: Event[Any], began: float) -> None:
        self._end_if_released()

    def _end_if_released(self) -> None:
        if self._released >= 1:
            self._released -= 1
            self._finish_running(self.clock.now())


class LatencyDevice(HostDevice[LatencyStream], SimulatedTime):
    """A device whose work takes a stated time and no core.

    Parameters
    ----------
    name : str
    seconds : mapping of str to float or Distribution
        Duration of work by kind: a type of operation, "HostToDevice" or "DeviceToHost". Other kinds take no time.
    bytes_per_second : float
        Rate of moving bytes, whose time is added to the duration.
    failures : mapping of str to float
        Probability, by kind, of work failing with InjectedError when its time is over.
    seed : int
        Seed of random draws; devices of different names draw different times from the same seed.
    limit, clock, pool, most_cached
        See :class:`HostDevice`. Devices in the same virtual time share a clock.
    """

    def __init__(
        self,
        name: str,
        *,
        seconds: Mapping[str, Time] | None = None,
        bytes_per_second: float = float("inf"),
        failures: Mapping[str, float] | None = None,
        seed: int = 0,
        limit: SupportsIndex | str | None = None,
        **options: Any,
    ) -> None:
        self._table = dict(seconds or {})
        self._rate = bytes_per_second
        self._failures = dict(failures or {})
        self._random = Random(f"{seed} {name}")
        stream = partial(LatencyStream, seconds=self.seconds, failure=self._draw_failure)
        super().__init__(name, stream, limit=limit, **options)

    def seconds(self, kind: str, nbytes: int = 0) -> float:
        """Return the duration of a piece of work, newly drawn from a distribution."""
        return draw_duration(self._table.get(kind, 0.0), self._random) + nbytes / self._rate

    def models_time(self, kind: str, nbytes: int = 0) -> bool:
        return mean_duration(self._table.get(kind, 0.0)) + nbytes / self._rate > 0 or kind in self._failures

    def _draw_failure(self, kind: str) -> BaseException | None:
        if kind not in self._failures or self._random.random() >= self._failures[kind]:
            return None
        return InjectedError(
            f"{kind} fails on {self.name}, as it was made to", hint="this device is for tests: see its failures="
        )


class ManualDevice(HostDevice[ManualStream], SimulatedTime):
    """A device whose work ends when a test releases it: ``device.compute.release(1)``.

    Work begins as on any device: the first piece of a stream runs until its release. Closing releases running work.

    Parameters
    ----------
    name : str
    limit, clock, pool, most_cached
        See :class:`HostDevice`.
    """

    def __init__(self, name: str, *, limit: SupportsIndex | str | None = None, **options: Any) -> None:
        super().__init__(name, ManualStream, limit=limit, **options)

    def models_time(self, kind: str, nbytes: int = 0) -> bool:
        return True

    def release_all(self) -> None:
        """Allow all work to end from now on."""
        for stream in self.streams:
            stream.release(float("inf"))

    async def aclose(self) -> None:
        for stream in self.streams:
            stream.close()
        self.release_all()
        await super().aclose()

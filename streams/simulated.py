"""Devices that take a stated time without using a core, or wait to be released: for tests and experiments.

See docs/design/0010-streams.md, "Time is computed, not measured".

Their work is done by the loop's thread at the moment it begins, and counts as done when its time is over. Copies
between streams are real, as is the memory with its limit; only the time is made up.
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
from .distributions import Time, mean, sample
from .event import Event, Loop, call_on
from .host import HostDevice
from .queued import QueuedStream, StreamOp

T = TypeVar("T")


class InjectedError(TagloomError):
    """What a device was made to fail with."""


class SimulatedStream(QueuedStream):
    """A stream that does its work on the loop's thread; when the work counts as done is up to `_begun`.

    Work begins at the time when the stream was free, the work submitted and the events of `after` done, however late
    the loop noticed that.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._free = float("-inf")  # when the last work ended, in seconds by the clock
        self._loop: Loop | None = None
        self._thread = 0  # the loop's
        self._proceeding = False

    @abstractmethod
    def _begun(self, event: Event[Any], began: float) -> None:
        """Have `_finish` called, on the loop's thread, with the time at which the work ends."""

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
            self._move(loop)
        return super().submit(work, after=after, uses=uses, kind=kind, nbytes=nbytes)

    def _move(self, loop: Loop) -> None:
        """Serve another loop."""
        busy = self._running is not None or self._waiting
        if busy and self._loop is not None and not self._loop.is_closed():
            raise TagloomError(
                f"{self.name} serves one loop at a time, and another one waits for it",
                hint="await its events first, or give each loop a device of its own",
            )
        self._loop, self._thread = loop, threading.get_ident()
        if busy:  # work that the last loop did not live to end; the clock's calls come along
            self.clock.call_at(self.clock.now(), self._proceed)

    def _look(self) -> None:
        if self._thread == threading.get_ident():
            self._proceed()
        elif self._loop is not None:
            call_on(self._loop, self._proceed)

    def _proceed(self) -> None:
        if self._proceeding:  # further down the stack, where the loop there takes this work as well
            return
        self._proceeding = True
        try:
            while self._running is None and (op := self._pop()) is not None:
                self._begin(op)
        finally:
            self._proceeding = False

    def _pop(self) -> StreamOp | None:
        with self._lock:
            return self._next()

    def _begin(self, op: StreamOp) -> None:
        began = max(self._free, op.ready)
        self._running = op
        if (error := op.obstacle) is not None:
            self._finish(began, error)
            return
        op.event.began = began
        op.perform()
        self._begun(op.event, began)

    def _finish(self, at: float, error: BaseException | None = None) -> None:
        """End the work that runs, with the time in seconds by the clock, and begin the next."""
        op = self._running
        assert op is not None
        self._free = at
        self._end(op, at, error)
        self._proceed()


class LatencyStream(SimulatedStream):
    """A stream whose work takes a stated time.

    Parameters
    ----------
    name : str
    clock : Clock
    seconds : callable
        Gets the kind and the bytes of a piece of work.
    failure : callable, optional
        Gets the kind; returns what the work fails with when its time is over, or None.
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
        self._failure = failure

    def _begun(self, event: Event[Any], began: float) -> None:
        seconds, failure = self._seconds(event.kind, event.nbytes), self._failure(event.kind)
        if seconds == 0.0:
            self._finish(began, failure)
        else:
            self.clock.call_at(began + seconds, partial(self._finish, began + seconds, failure))


class ManualStream(SimulatedStream):
    """A stream whose work ends when it is released."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._released = 0.0  # pieces of work that may still end

    def release(self, count: float = 1) -> None:
        """Let so many pieces of work end: what is running, then those behind it as they come; ``inf`` for all."""
        self._released += count
        if self._running is not None:
            self._let_end()

    def _begun(self, event: Event[Any], began: float) -> None:
        self._let_end()

    def _let_end(self) -> None:
        if self._released >= 1:
            self._released -= 1
            self._finish(self.clock.now())


class LatencyDevice(HostDevice[LatencyStream], SimulatedTime):
    """A device that takes a stated time and no core.

    Parameters
    ----------
    name : str
    seconds : mapping of str to float or Distribution
        What a piece of work takes by its kind, a type of operation, "HostToDevice" or "DeviceToHost"; others take none.
    bytes_per_second : float
        What moves bytes takes so much longer.
    failures : mapping of str to float
        How probable it is, by its kind, that a piece of work fails with InjectedError when its time is over.
    seed : int
        Of what is drawn: devices of different names draw different times by the same seed.
    limit, clock, pool, most_cached
        See :class:`HostDevice`. Devices that are to be seen in the same virtual time share a clock.
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
        stream = partial(LatencyStream, seconds=self.seconds, failure=self._failure)
        super().__init__(name, stream, limit=limit, **options)

    def seconds(self, kind: str, nbytes: int = 0) -> float:
        """Return what a piece of work takes; drawn anew if that is by chance."""
        return sample(self._table.get(kind, 0.0), self._random) + nbytes / self._rate

    def models_time(self, kind: str, nbytes: int = 0) -> bool:
        return mean(self._table.get(kind, 0.0)) + nbytes / self._rate > 0 or kind in self._failures

    def _failure(self, kind: str) -> BaseException | None:
        if kind not in self._failures or self._random.random() >= self._failures[kind]:
            return None
        return InjectedError(
            f"{kind} fails on {self.name}, as it was made to", hint="this device is for tests: see its failures="
        )


class ManualDevice(HostDevice[ManualStream], SimulatedTime):
    """A device whose work ends when a test says so: ``device.compute.release(1)``.

    Work begins as on any device: the first of a stream is running until it is released. Closing releases what runs.

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
        """Let all work end from now on."""
        for stream in self.streams:
            stream.release(float("inf"))

    async def aclose(self) -> None:
        for stream in self.streams:
            stream.close()
        self.release_all()
        await super().aclose()

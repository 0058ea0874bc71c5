"""Clocks: the real time of an event loop, and virtual time, which jumps to the next call once the loop is idle."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from threading import Lock
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from ..base.errors import TagloomError
from ..base.forks import strand_in_children
from .contract import Clock, Timer
from .event import Loop, call_on

Call = Callable[[], object]
_EARLY = 0.0015  # seconds by which a loop's timer may be late (its resolution is a millisecond), with a margin


class Timers:
    """Queue of calls by time; calls of equal times keep the order of their addition."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._number = count()

    def add_call(self, when: float, call: Call) -> Timer:
        timer = Timer(when, next(self._number), call)
        heapq.heappush(self._heap, timer)
        return timer

    @property
    def next_time(self) -> float | None:
        """The earliest time of a call, None if there is no call."""
        while self._heap and self._heap[0].call is None:
            heapq.heappop(self._heap)
        return self._heap[0].when if self._heap else None

    def call_next(self) -> None:
        """Remove the earliest entry and make its call."""
        if (call := heapq.heappop(self._heap).call) is not None:
            call()


class LoopClock(Clock):
    """Real time (``time.monotonic``), with calls by timers of the running event loop.

    Timers of a loop have a resolution of milliseconds. So the clock sets its timer early and keeps the loop turning
    until the time has come; other callbacks of the loop delay a call only by their own length. All calls due by then
    are made in the order of their times, so delays do not add up for a caller who derives each time from the previous
    time, not from `now`.
    """

    def __init__(self) -> None:
        self._timers = Timers()
        self._loop: Loop | None = None
        self._armed: asyncio.Handle | None = None
        self._due = 0.0  # the time that `_armed` waits for

    def now(self) -> float:
        return time.monotonic()

    def call_at(self, when: float, call: Call) -> Timer:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._switch_loop(loop)
        timer = self._timers.add_call(when, call)
        self._set_timer()
        return timer

    def hold(self) -> None:
        """Do nothing: real time does not jump."""

    def release(self) -> None:
        """Do nothing."""

    def _switch_loop(self, loop: Loop) -> None:
        """Serve another loop, which also makes the calls left over by a closed loop."""
        if self._loop is not None and not self._loop.is_closed() and self._timers.next_time is not None:
            raise TagloomError(
                "a clock serves one loop at a time, and another one waits for it",
                hint="give each loop devices with a clock of their own",
            )
        self._loop, self._armed = loop, None

    def _set_timer(self) -> None:
        """Set a timer shortly before the earliest call, unless a timer for that time or earlier is set."""
        due = self._timers.next_time
        if due is None or self._loop is None or (self._armed is not None and self._due <= due):
            return
        if self._armed is not None:
            self._armed.cancel()
        self._due = due
        # Within the margin `call_soon` polls: each turn of the loop comes back here by way of `_make_due_calls`.
        left = due - self.now() - _EARLY
        self._armed = (
            self._loop.call_later(left, self._make_due_calls)
            if left > 0
            else self._loop.call_soon(self._make_due_calls)
        )

    def _make_due_calls(self) -> None:
        self._armed = None
        try:
            while (due := self._timers.next_time) is not None and due <= self.now():
                self._timers.call_next()
        finally:  # also after a call that raised: the remaining calls still need a timer
            self._set_timer()


class VirtualClock(Clock):
    """Time that stands still until it jumps to the next due call.

    Within ``async with`` it jumps whenever the running loop has nothing ready, so an asyncio program passes its waits
    at once, in the order of time. Otherwise each call of `advance` is a jump.

    Parameters
    ----------
    start : float
        Seconds.

    Examples
    --------
    >>> async def two_minutes():
    ...     async with VirtualClock() as clock:
    ...         await clock.sleep(120)
    ...         return clock.now()
    >>> asyncio.run(two_minutes())
    120.0
    """

    _driven: WeakSet[Loop] = WeakSet()  # loops with a clock: two clocks would keep each other from seeing an idle loop

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._timers = Timers()
        self._lock = Lock()
        self._held = 0  # guarded by the lock
        self._loop: Loop | None = None
        self._turn: asyncio.Handle | None = None
        strand_in_children(self)

    def strand(self, _: int) -> None:
        """Detach from the parent's loop in a child process, where another loop may drive the clock."""
        self._lock, self._loop, self._turn = Lock(), None, None

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, call: Call) -> Timer:
        timer = self._timers.add_call(when, call)
        self._schedule_jump()
        return timer

    def advance(self) -> bool:
        """Jump to the time of the next call and make all calls due by then; False if there are none.

        Calls with a time in the past are made now: time does not run backwards.
        """
        due = self._timers.next_time
        if due is None:
            return False
        self._now = max(self._now, due)
        while (due := self._timers.next_time) is not None and due <= self._now:
            self._timers.call_next()
        return True

    def hold(self) -> None:
        with self._lock:
            self._held += 1

    def release(self) -> None:
        with self._lock:
            self._held -= 1
            free = self._held == 0
        # Without the lock, and by the loop: any thread may release, but only the loop's thread may jump.
        if free and (loop := self._loop) is not None:
            call_on(loop, self._schedule_jump)

    async def __aenter__(self) -> Self:
        loop: Any = asyncio.get_running_loop()
        if not hasattr(loop, "_ready"):
            raise TagloomError(
                "this event loop does not show whether it has something to do",
                wanted="an event loop of asyncio's own",
                got=type(loop).__name__,
                hint="run it with asyncio.run, or call advance() by hand",
            )
        if loop in self._driven:
            raise TagloomError("another virtual clock has this loop", hint="share one clock between all devices")
        self._driven.add(loop)
        self._loop = loop
        self._schedule_jump()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        self._driven.discard(self._loop)
        self._loop = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _schedule_jump(self) -> None:
        if self._loop is not None and self._turn is None:
            self._turn = self._loop.call_soon(self._jump_if_idle)

    def _jump_if_idle(self) -> None:
        """Jump if the loop is idle: it has just polled, and only this clock's next callback is ready.

        Without calls, or while real work is under way, no further callback is scheduled; `call_at` and `release`
        schedule the next.
        """
        self._turn = None
        if self._held or self._timers.next_time is None:
            return
        self._schedule_jump()
        # asyncio has no public way to ask whether callbacks are ready; `__aenter__` refuses loops without `_ready`.
        if len(self._loop._ready) == 1:  # type: ignore[union-attr]
            self.advance()

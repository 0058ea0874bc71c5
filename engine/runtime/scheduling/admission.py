"""Admission: a session's limit of concurrent steps, and the order of waiting steps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic

from ...base.errors import GraphError, Overloaded, TagloomError
from ...base.source_lines import Source, user_source
from .priorities import current_priority

_RECENT = 16  # latest departures, whose rate determines `retry_after` of a refused caller
_SOON = 1e-3  # seconds; smallest `retry_after`


@dataclass(eq=False, slots=True)
class Place:
    """A place of a running step.

    Attributes
    ----------
    admission : Admission
    name : str
        Name of the step.
    is_held : bool
        True until the place is released.
    """

    admission: Admission
    name: str
    is_held: bool = True

    def hide(self) -> None:
        """Remove the place from this context: steps begun from here on do not count as run by the place's step."""
        _places.set(tuple(place for place in _places.get() if place is not self))


# Places of the steps whose functions have called this, outermost first.
_places: ContextVar[tuple[Place, ...]] = ContextVar("tagloom_places", default=())


class Admission:
    """A limited number of places, with a waiting line by priority and, among equals, by arrival.

    No step overtakes a step of the same priority, and a step that gives up leaves the order of the others unchanged. So
    the k-th step in line is admitted when k steps before it have left or given up, unless steps of higher priority
    come.

    Parameters
    ----------
    limit : int
        Number of places.
    seconds : float
        Longest wait; 0 refuses at once.

    Attributes
    ----------
    refused : int
        Number of refused steps, after the longest wait.
    waited : float
        Total seconds of waiting so far.

    Raises
    ------
    GraphError
        If `limit` is less than 1.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        if limit < 1:
            raise GraphError(
                "max_steps must be positive",
                wanted="at least 1, or None for no limit",
                got=limit,
                hint="leave max_steps out to admit all",
            )
        self.refused: int = 0
        self.waited: float = 0.0
        self._limit = limit
        self._seconds = seconds
        self._admitted = 0
        self._lines: dict[int, dict[asyncio.Future[None], None]] = {}  # by priority, in the order of arrival
        self._since = 0.0  # time.monotonic() of the latest departure, or of taking the last free place
        self._intervals: deque[float] = deque(maxlen=_RECENT)  # seconds between departures while no place was free

    @property
    def waiting(self) -> int:
        """Number of waiting steps."""
        return self._ahead_of(None)

    async def enter(self, name: str) -> Place:
        """Wait for a place and take it; calls in this context from now on count as calls of its step.

        Parameters
        ----------
        name : str
            Name of the step.

        Returns
        -------
        Place
            The place, to be released by `leave` in any task.

        Raises
        ------
        Overloaded
            After the longest wait.
        """
        if self._admitted < self._limit and not self._lines:
            self._take_place()
        else:
            await self._wait_in_line(user_source())
        place = Place(self, name)
        _places.set((*_places.get(), place))
        return place

    def leave(self, place: Place) -> None:
        """Release a place."""
        place.is_held = False
        place.hide()
        self._free_place()

    def close(self, make_error: Callable[[], TagloomError]) -> None:
        """End the waits of all steps, each with an error of its own."""
        for waiter in [waiter for line in self._lines.values() for waiter in line]:
            if _is_open(waiter):
                waiter.set_exception(make_error())

    async def _wait_in_line(self, source: Source | None) -> None:
        """Stand in line until a place is free; raise Overloaded after the longest wait."""
        if self._seconds <= 0:
            raise self._make_refusal(source)
        loop, since = asyncio.get_running_loop(), monotonic()
        waiter, level = loop.create_future(), current_priority()
        self._lines.setdefault(level, {})[waiter] = None
        timer = loop.call_later(self._seconds, self._refuse_waiter, waiter, source)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._free_place()  # cancelled in the turn in which the place was given: the next step gets it
            raise
        finally:
            self.waited += monotonic() - since
            timer.cancel()
            self._leave_line(waiter, level)
            del waiter  # the traceback of its error refers to this frame

    def _take_place(self) -> None:
        self._admitted += 1
        if self._admitted == self._limit:
            self._since = monotonic()

    def _free_place(self) -> None:
        """Free a place and pass free places on to the first open waiters, by priority."""
        if self._admitted == self._limit:
            self._note_interval(monotonic())
        self._admitted -= 1
        while self._lines and self._admitted < self._limit:
            level = max(self._lines)
            waiter = next(iter(self._lines[level]))
            self._leave_line(waiter, level)
            # A waiter that has given up, or whose event loop was closed, would never release the place.
            if _is_open(waiter):
                waiter.set_result(None)
                self._take_place()

    def _leave_line(self, waiter: asyncio.Future[None], level: int) -> None:
        line = self._lines.get(level)
        if line is not None and waiter in line:
            del line[waiter]
            if not line:
                del self._lines[level]

    def _ahead_of(self, level: int | None) -> int:
        """Return the number of waiting steps before a newcomer of priority `level`; of all waiting steps for None."""
        lines = [line for found, line in self._lines.items() if level is None or found >= level]
        return sum(not waiter.done() for line in lines for waiter in line)

    def _note_interval(self, now: float) -> None:
        passed, self._since = now - self._since, now
        self._intervals.append(passed)

    def _refuse_waiter(self, waiter: asyncio.Future[None], source: Source | None) -> None:
        if not waiter.done():
            waiter.set_exception(self._make_refusal(source))

    def _make_refusal(self, source: Source | None) -> Overloaded:
        """Return the Overloaded error of a step, with another hint for a step run by a function of a step."""
        self.refused += 1
        outer = [place.name for place in _places.get() if place.admission is self and place.is_held]
        got, hint = (
            "none",
            "try again after error.retry_after seconds, or raise max_steps or Settings.admission_seconds",
        )
        if outer:
            got = f"none, but the step of {outer[-1]}, a function of which asks for this one, has a place itself"
            hint = "let max_steps be larger by the steps that functions of steps run, or run them in another session"
        return Overloaded(
            f"{self._limit} steps are running and {self.waiting} waiting",
            source=source,
            wanted=f"a place within {self._seconds} s",
            got=got,
            retry_after=self._retry_after(),
            hint=hint,
        )

    def _retry_after(self) -> float:
        """Return the seconds until the line before a newcomer should be gone, at the rate of the latest departures.

        The longest of the recent intervals is left out, because a compilation may have caused it. The time since the
        latest departure counts as another interval if longer than the average.
        """
        passed, known = monotonic() - self._since, sorted(self._intervals)
        if len(known) > 2:
            known.pop()
        if not known:  # nobody has left yet: the running steps have been running for at least so long
            interval = passed / self._limit
        else:
            interval = sum(known) / len(known)
            if passed > interval:
                interval = (sum(known) + passed) / (len(known) + 1)
        return max(interval * max(self._ahead_of(current_priority()), 1), _SOON)


def _is_open(waiter: asyncio.Future[None]) -> bool:
    return not waiter.done() and not waiter.get_loop().is_closed()

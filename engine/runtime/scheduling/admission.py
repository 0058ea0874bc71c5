"""Admission: how many steps of a session run at once, and who is next."""

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

_RECENT = 16  # steps that left last, by which a refused caller is told when to come again
_SOON = 1e-3  # seconds; the least that a refused caller is told to stay away


@dataclass(eq=False, slots=True)
class Place:
    """A place that was taken.

    Attributes
    ----------
    admission : Admission
    name : str
        Who has it.
    is_held : bool
        Whether it was not given back yet.
    """

    admission: Admission
    name: str
    is_held: bool = True

    def hide(self) -> None:
        """Let what is called from here on not be taken for what who has the place calls."""
        _places.set(tuple(place for place in _places.get() if place is not self))


_places: ContextVar[tuple[Place, ...]] = ContextVar("tagloom_places", default=())  # of those who called this, in turn


class Admission:
    """Lets a limited number in at once, the others by their priority, and among equals in the order they came.

    Nobody overtakes one of the same priority, and whoever gives up leaves the places of the others as they are. So the
    k-th in line is let in when k of those before it have left or given up, unless higher ones come.

    Parameters
    ----------
    limit : int
        How many are let in at once.
    seconds : float
        Longest wait; 0 refuses at once.

    Attributes
    ----------
    refused : int
        How many had waited too long.
    waited : float
        Seconds that all together have waited so far.

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
        self._lines: dict[int, dict[asyncio.Future[None], None]] = {}  # by priority, in the order they came
        self._since = 0.0  # when the last one left, or the last free place was taken
        self._intervals: deque[float] = deque(maxlen=_RECENT)  # between those that left last, while no place was free

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._ahead_of(None)

    async def enter(self, name: str) -> Place:
        """Wait for a place, and take it; whatever is called by who has it knows of it.

        Parameters
        ----------
        name : str
            Who comes.

        Returns
        -------
        Place
            To be given back, in any task.

        Raises
        ------
        Overloaded
            After the longest wait.
        """
        if self._admitted < self._limit and not self._lines:
            self._take_place()
        else:
            await self._wait(user_source())
        place = Place(self, name)
        _places.set((*_places.get(), place))
        return place

    def leave(self, place: Place) -> None:
        """Give a place back."""
        place.is_held = False
        place.hide()
        self._free_place()

    def close(self, make_error: Callable[[], TagloomError]) -> None:
        """Send all who wait away, each with an error of its own."""
        for waiter in [waiter for line in self._lines.values() for waiter in line]:
            if _is_open(waiter):
                waiter.set_exception(make_error())

    async def _wait(self, source: Source | None) -> None:
        if self._seconds <= 0:
            raise self._refusal(source)
        loop, since = asyncio.get_running_loop(), monotonic()
        waiter, level = loop.create_future(), current_priority()
        self._lines.setdefault(level, {})[waiter] = None
        timer = loop.call_later(self._seconds, self._refuse, waiter, source)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._free_place()  # cancelled when the place was given already: it goes to the next
            raise
        finally:
            self.waited += monotonic() - since
            timer.cancel()
            self._forget(waiter, level)
            del waiter  # an error of it refers to this frame

    def _take_place(self) -> None:
        self._admitted += 1
        if self._admitted == self._limit:
            self._since = monotonic()

    def _free_place(self) -> None:
        if self._admitted == self._limit:
            self._note_interval(monotonic())
        self._admitted -= 1
        while self._lines and self._admitted < self._limit:
            level = max(self._lines)
            waiter = next(iter(self._lines[level]))
            self._forget(waiter, level)
            if _is_open(waiter):
                waiter.set_result(None)
                self._take_place()

    def _forget(self, waiter: asyncio.Future[None], level: int) -> None:
        line = self._lines.get(level)
        if line is not None and waiter in line:
            del line[waiter]
            if not line:
                del self._lines[level]

    def _ahead_of(self, level: int | None) -> int:
        """Return how many wait that a newcomer of a priority would come after; all for None."""
        lines = [line for found, line in self._lines.items() if level is None or found >= level]
        return sum(not waiter.done() for line in lines for waiter in line)

    def _note_interval(self, now: float) -> None:
        passed, self._since = now - self._since, now
        self._intervals.append(passed)

    def _refuse(self, waiter: asyncio.Future[None], source: Source | None) -> None:
        if not waiter.done():
            waiter.set_exception(self._refusal(source))

    def _refusal(self, source: Source | None) -> Overloaded:
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
        """Return the seconds in which the line before a newcomer should be gone, at the rate of those that left last.

        The longest of the recent intervals is left out, as it may be that of a step that was compiled. The time since
        the last one left counts as one interval more where it is longer than they are.
        """
        passed, known = monotonic() - self._since, sorted(self._intervals)
        if len(known) > 2:
            known.pop()
        if not known:  # nobody has left yet: all that run have at least been running for so long
            interval = passed / self._limit
        else:
            interval = sum(known) / len(known)
            if passed > interval:
                interval = (sum(known) + passed) / (len(known) + 1)
        return max(interval * max(self._ahead_of(current_priority()), 1), _SOON)


def _is_open(waiter: asyncio.Future[None]) -> bool:
    return not waiter.done() and not waiter.get_loop().is_closed()

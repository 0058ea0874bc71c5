"""One step that is run again and again, until what it takes from ends."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ...base.errors import GraphError, QueueClosed, SessionClosed, TagloomError
from ...base.waiting import cancel_once, wait_shielded
from ...streams.contract import Clock
from .feeds import AwaitedFeeds, DrawnFeeds
from .timeouts import check_seconds

T = TypeVar("T")

_log = logging.getLogger("tagloom")
_NEVER_AGAIN = (GraphError, SessionClosed)  # it would be the same again


@dataclass(frozen=True, slots=True)
class RunnerStatistics:
    """What a runner has done.

    Attributes
    ----------
    name : str
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
        Restarting is waiting for that.
    steps : int
        That were done.
    restarts : int
    step_seconds : float
        What its steps took together, those that failed too.
    last_error : str or None
        What went wrong last.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     count = tg.Variable(0)
    ...     init, add = count.initializer, count.assign_add(1)
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         await session.run(init)
    ...         async with tg.runners(session) as group:
    ...             runner = group.add(add, name="add", times=3)
    ...         return group.statistics()[0].steps
    >>> asyncio.run(main())
    3
    """

    name: str
    state: str
    steps: int
    restarts: int
    step_seconds: float
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a runner goes on behind an error, and after how long.

    Attributes
    ----------
    most : float
    first, longest : float
        Seconds before the first one, which double from each to the next, and the most.
    """

    most: float
    first: float
    longest: float

    def __post_init__(self) -> None:
        check_seconds(self.first, "backoff")
        check_seconds(self.longest, "longest_backoff")
        if not self.most >= 0:
            raise GraphError(
                "restarts is no number of restarts", wanted="0 or more", got=self.most, hint="math.inf for always"
            )

    def seconds(self, number: int) -> float:
        """Return how long to wait before a restart, counted from 0."""
        return min(self.longest, math.ldexp(self.first, min(number, 1000))) if self.first else 0.0


class Runner:
    """A step that is run again and again, as `Runners.add` makes it.

    Attributes
    ----------
    name : str
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
    steps : int
        That were done.
    values : structure of numpy.ndarray
        What the last of them fetched.
    error : Exception or None
        What went wrong last.
    drains : bool
        Whether it goes on when its group is asked to end, until what it takes from ends.
    abandoned : bool
        Whether all its group was cancelled, so that it closes nothing.
    unfed : list
        The feeds that it has drawn from an iterable for its last step, if that has failed or was cancelled.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     count = tg.Variable(0)
    ...     init, add = count.initializer, count.assign_add(1)
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         await session.run(init)
    ...         async with tg.runners(session) as group:
    ...             runner = group.add(add, name="add", times=3)
    ...         return runner, int(runner.values)
    >>> asyncio.run(main())
    (<Runner add, ended: 3 steps>, 3)
    """

    def __init__(
        self,
        name: str,
        step: Callable[[Any], Awaitable[Any]],
        *,
        feeds: Iterator[Any] | AsyncIterator[Any],
        times: int | None,
        every: float | None,
        restarts: Restarts,
        optional: bool | Callable[[Runner], bool],
        until: Callable[[], bool] | None,
        drains: bool,
        on_step: Callable[[Any], object] | None,
        on_end: Callable[[Runner], object] | None,
        clock: Clock,
    ) -> None:
        self.name: str = name
        self.state: str = "running"
        self.steps: int = 0
        self.values: Any = None
        self.error: Exception | None = None
        self.drains: bool = drains
        self.abandoned: bool = False
        self.task: asyncio.Task[None] | None = None
        self.unfed: list[Any] = []
        self._step = step
        self._feeds = feeds
        self._times = math.inf if times is None else times
        self._every = every
        self._policy = restarts
        self._restarts = 0
        self._optional = optional
        self._until = until or (lambda: False)
        self._on_step = on_step
        self._on_end = on_end
        self._clock = clock
        self._seconds = 0.0
        self._fed: list[Any] = []  # the feeds of the next step, if they are drawn
        self._is_given = False  # these, to a step that has not succeeded
        self._is_stepping = False  # or about to: a cancellation of it alone is of a step
        self._is_cancelled = False  # it alone
        self._stopped = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Runner {self.name}, {self.state}: {self.steps} steps>"

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, and has closed what it closes."""
        return self.task is not None and self.task.done()

    def stop(self) -> None:
        """Ask it to end behind the step that it is in."""
        self._stopped.set()

    def cancel(self) -> None:
        """End it at once, with the step that it is in; what it closes is closed, and the others go on."""
        self._stopped.set()
        if self._is_stepping and self.task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self.task.cancel()

    def abandon(self) -> None:
        """End it at once, as all of its group: nothing is closed."""
        self.abandoned = True
        self._stopped.set()
        if self.task is not None:
            self._is_cancelled = True
            cancel_once(self.task)

    def attach(self, task: asyncio.Task[None]) -> None:
        """Note the `task` that it runs in."""
        self.task = task
        task.add_done_callback(self._end)

    def _end(self, _: object) -> None:
        """Note that its task is over; it has not begun if it was cancelled before."""
        if self.state in ("running", "restarting"):
            self.state = "cancelled"

    async def wait(self) -> None:
        """Wait until it has ended, and has closed what it closes."""
        assert self.task is not None
        await asyncio.wait([self.task])

    def statistics(self) -> RunnerStatistics:
        """Return a snapshot of what it has done."""
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return RunnerStatistics(self.name, self.state, self.steps, self._restarts, self._seconds, error)

    async def run(self) -> None:
        """Do its steps until it ends; raise what it fails with, unless the others are to go on."""
        try:
            await self._repeat()
            self.state = "ended"
        except asyncio.CancelledError as error:
            self._heed_cancellation(error)
        except Exception as error:
            self._fail(error)
            if not (self._optional(self) if callable(self._optional) else self._optional):
                raise
            _log.warning("runner '%s' has failed, the others go on", self.name, exc_info=error)
        if self._on_end is not None and not self.abandoned:
            await finished(self._on_end(self))

    def _heed_cancellation(self, error: asyncio.CancelledError) -> None:
        """Raise the cancellation of the group or the program again; an error where something of a step raised it."""
        task = asyncio.current_task()
        assert task is not None
        if not task.cancelling():
            failure = _unasked(error, "a step")
            self._fail(failure)
            raise failure from error
        self.state = "cancelled"
        if not self._is_cancelled or task.uncancel():
            raise error

    async def _repeat(self) -> None:
        self._is_stepping = True
        try:
            while await self._goes_on():
                begin = self._clock.now()
                try:
                    if not await self._step_once():
                        return
                except Exception as error:
                    await self._before_restart(error)
                else:
                    if self._every is not None and self.steps < self._times:
                        await self._pause_until(begin + self._every)
        finally:
            self._is_stepping = False
            self._give_back()

    async def _goes_on(self) -> bool:
        """Draw the feeds of the next step; say whether there is to be one.

        What was drawn for a step that failed is fed again before the runner heeds a stop.
        """
        if self.steps >= self._times or (self._stopped.is_set() and not self._has_drawn):
            return False
        if not self._fed and not await self._has_feeds():
            return False
        return not self._until()

    @property
    def _has_drawn(self) -> bool:
        """True if elements of an iterable were drawn and not fed; a mapping is fed to any number of steps."""
        return bool(self._fed) and isinstance(self._feeds, DrawnFeeds | AwaitedFeeds)

    async def _step_once(self) -> bool:
        """Do a step; say whether what it takes from or puts into goes on, which is not asked of `on_step`."""
        begin, self._is_given = self._clock.now(), True
        try:
            self.values = await self._step(self._fed[0])
        except QueueClosed:
            return False
        finally:
            self._seconds += self._clock.now() - begin
        self._fed.clear()
        self._is_given = False
        self.steps += 1
        if self._on_step is not None:
            await finished(self._on_step(self.values))
        return True

    async def _has_feeds(self) -> bool:
        """Draw the feeds of the next step; say whether there are any."""
        try:
            if isinstance(self._feeds, Iterator):
                self._fed.append(next(self._feeds))
            else:
                self._fed += await self._unless_stopped(_next(self._feeds)) or []
        except StopIteration:
            return False
        return bool(self._fed)

    async def _before_restart(self, error: Exception) -> None:
        """Wait before another attempt; raise the error if there is to be none."""
        if self._restarts >= self._policy.most or isinstance(error, _NEVER_AGAIN):
            raise error
        self.error, self.state = error, "restarting"
        _log.info("runner '%s' begins again behind an error", self.name, exc_info=error)
        seconds = self._policy.seconds(self._restarts)
        self._restarts += 1
        await self._pause_until(self._clock.now() + seconds)
        self.state = "running"

    async def _pause_until(self, when: float) -> None:
        """Wait until a time has come, or it is asked to stop; one that was asked before waits until the time."""
        if when <= self._clock.now():
            await asyncio.sleep(0)
        elif self._stopped.is_set():
            await self._clock.sleep(when - self._clock.now())
        else:
            await self._unless_stopped(self._clock.sleep(when - self._clock.now()))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for what something gives, or until it is asked to stop; nothing is left of it then.

        It is asked to end once, and waited for however often this is cancelled; what it gives all the same is returned.
        """
        done, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait([done, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (done, stopped):
                each.cancel()
            await wait_shielded(lambda: [each for each in (done, stopped) if not each.done()])
        if done.cancelled() and self._stopped.is_set():
            return None
        return _result_of(done, "an async iterable of feeds")

    def _give_back(self) -> None:
        """Return drawn elements to the iterable; note those that a step was given, as it may have used them."""
        if isinstance(self._feeds, DrawnFeeds | AwaitedFeeds):
            if self._is_given:
                self.unfed += self._fed
            else:
                self._feeds.returned.extendleft(self._fed)
        self._fed.clear()

    def _fail(self, error: Exception) -> None:
        again = f", restarted {self._restarts} times" if self._restarts else ""
        error.add_note(f"in runner '{self.name}', behind {self.steps} steps{again}")
        self.error, self.state = error, "failed"


async def _next(feeds: AsyncIterator[Any]) -> list[Any]:
    """Return the next feeds, in a list; an empty one at the end, as a task can not raise what says so."""
    async for each in feeds:
        return [each]
    return []


async def finished(found: Any) -> None:
    """Wait for what a function of the user has begun, if it is async."""
    if isinstance(found, Awaitable):
        await found


def _result_of(ended: asyncio.Future[T], what: str) -> T:
    """Return the result of a task of its own; an error where it was cancelled by something in it."""
    try:
        return ended.result()
    except asyncio.CancelledError as error:
        raise _unasked(error, what) from error


def _unasked(error: asyncio.CancelledError, what: str) -> TagloomError:
    return TagloomError(
        f"{what} of a runner was cancelled, and not by who runs it",
        wanted="a result, or an error",
        got=repr(error),
        hint="catch CancelledError where a function awaits a task that others cancel",
    )

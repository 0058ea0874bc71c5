"""Runners: steps that are run again and again, until their source ends."""

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
from ..scheduling.timeouts import check_seconds
from .feeds import AwaitedFeeds, DrawnFeeds

T = TypeVar("T")

_log = logging.getLogger("tagloom")
_NEVER_AGAIN = (GraphError, SessionClosed)  # a restarted step would fail again


@dataclass(frozen=True, slots=True)
class RunnerStatistics:
    """Counts and state of a runner.

    Attributes
    ----------
    name : str
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
        A restarting runner waits for its restart.
    steps : int
        Number of steps that succeeded.
    restarts : int
    step_seconds : float
        Total time of the runner's steps, including failed steps.
    last_error : str or None
        The latest error.

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
    """Limits of a runner's restarts after errors.

    Attributes
    ----------
    most : float
        Largest number of restarts.
    first, longest : float
        Seconds before the first restart, which double from one restart to the next, and their upper bound.
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
        """Return the seconds to wait before restart `number`, counted from 0."""
        # Bounded, as 2.0 ** number overflows; 1000 doublings exceed any finite `longest` in practice.
        return min(self.longest, math.ldexp(self.first, min(number, 1000))) if self.first else 0.0


@dataclass(frozen=True, slots=True)
class RunnerPolicy:
    """Begins and ends of a runner's steps; see `Runners.add`.

    Attributes
    ----------
    times : int or None
        Number of steps; None without a limit.
    every : float or None
        Seconds from the beginning of a step to that of the next.
    restarts : Restarts
    optional : bool or callable
        True if the runner may fail alone; a function decides when the runner has failed.
    until : callable or None
        Called before each step; the runner ends when the result is True.
    drains : bool
        True to go on after a stop of the group until the source ends.
    on_step : callable or None
        Called with the values of each step.
    on_end : callable or None
        Called with the runner after its end.
    """

    times: int | None
    every: float | None
    restarts: Restarts
    optional: bool | Callable[[Runner], bool]
    until: Callable[[], bool] | None
    drains: bool
    on_step: Callable[[Any], object] | None
    on_end: Callable[[Runner], object] | None


class Runner:
    """A step that is run again and again; made by `Runners.add`.

    Attributes
    ----------
    name : str
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
    steps : int
        Number of steps that succeeded.
    values : structure of numpy.ndarray
        Fetched values of the last of these steps.
    error : Exception or None
        The latest error.
    drains : bool
        True if a stop of the group does not stop the runner, which goes on until its source ends.
    abandoned : bool
        True if the whole group was cancelled, so that the runner closes nothing.
    unfed : list
        Feeds drawn from an iterable for the last step, if that step failed or was cancelled.

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
        feeds: Iterator[Any] | AsyncIterator[Any],
        policy: RunnerPolicy,
        clock: Clock,
    ) -> None:
        self.name: str = name
        self.state: str = "running"
        self.steps: int = 0
        self.values: Any = None
        self.error: Exception | None = None
        self.drains: bool = policy.drains
        self.abandoned: bool = False
        self.task: asyncio.Task[None] | None = None
        self.unfed: list[Any] = []
        self._step = step
        self._feeds = feeds
        self._policy = policy
        self._times = math.inf if policy.times is None else policy.times
        self._restarts = 0
        self._clock = clock
        self._seconds = 0.0
        self._drawn_feeds: list[Any] = []  # one element: the feeds drawn for the next step; else empty
        self._is_fed = False  # these feeds were passed to a step that has not succeeded
        self._is_stepping = False  # from the first draw to the last step: `cancel` may interrupt the task
        self._is_cancelled = False  # by `cancel` or `abandon`; False if only the program cancelled the task
        self._stopped = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Runner {self.name}, {self.state}: {self.steps} steps>"

    @property
    def has_ended(self) -> bool:
        """True if the runner has ended and has closed its queues."""
        return self.task is not None and self.task.done()

    def stop(self) -> None:
        """Ask the runner to end after its present step."""
        self._stopped.set()

    def cancel(self) -> None:
        """End the runner and its present step at once; its queues are closed, and the other runners go on."""
        self._stopped.set()
        if self._is_stepping and self.task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self.task.cancel()

    def abandon(self) -> None:
        """End the runner at once, together with its whole group: nothing is closed."""
        self.abandoned = True
        self._stopped.set()
        if self.task is not None:
            self._is_cancelled = True
            cancel_once(self.task)

    def attach(self, task: asyncio.Task[None]) -> None:
        """Note the `task` in which the runner runs."""
        self.task = task
        task.add_done_callback(self._note_end)

    def _note_end(self, _: object) -> None:
        """Note the end of the task, which never began if cancelled before."""
        if self.state in ("running", "restarting"):
            self.state = "cancelled"

    async def wait(self) -> None:
        """Wait until the runner has ended and has closed its queues."""
        assert self.task is not None
        await asyncio.wait([self.task])

    def statistics(self) -> RunnerStatistics:
        """Return a snapshot of the runner's counts."""
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return RunnerStatistics(self.name, self.state, self.steps, self._restarts, self._seconds, error)

    async def run(self) -> None:
        """Run steps until the runner ends; raise its error, unless the runner is optional for its group."""
        try:
            await self._repeat_steps()
            self.state = "ended"
        except asyncio.CancelledError as error:
            self._handle_cancellation(error)
        except Exception as error:
            self._note_failure(error)
            optional = self._policy.optional
            if not (optional(self) if callable(optional) else optional):
                raise
            _log.warning("runner '%s' has failed, the others go on", self.name, exc_info=error)
        if self._policy.on_end is not None and not self.abandoned:
            await await_result(self._policy.on_end(self))

    def _handle_cancellation(self, error: asyncio.CancelledError) -> None:
        """Re-raise a cancellation by the group or the program; raise a TagloomError if a step raised CancelledError."""
        task = asyncio.current_task()
        assert task is not None
        # Nobody cancelled the task: the CancelledError came out of a function of the step.
        if not task.cancelling():
            failure = _stray_cancellation_error(error, "a step")
            self._note_failure(failure)
            raise failure from error
        self.state = "cancelled"
        # Swallow the cancellation of `cancel` alone; if the program has cancelled the task too, that one counts.
        if not self._is_cancelled or task.uncancel():
            raise error

    async def _repeat_steps(self) -> None:
        """Run steps until there are no more, with restarts after errors and pauses between begins."""
        self._is_stepping = True
        try:
            while await self._draw_for_next_step():
                begin = self._clock.now()
                try:
                    if not await self._step_once():
                        return
                except Exception as error:
                    await self._wait_for_restart(error)
                else:
                    # A runner that was stopped during the step has no next step to pause for.
                    if self._policy.every is not None and self.steps < self._times and not self._stopped.is_set():
                        await self._pause_until(begin + self._policy.every)
        finally:
            self._is_stepping = False
            self._return_feeds()

    async def _draw_for_next_step(self) -> bool:
        """Draw the feeds of the next step, unless already drawn; return False if there is no next step.

        Feeds drawn for a failed step are fed again before the runner obeys a stop, so that no element is lost.
        """
        if self.steps >= self._times or (self._stopped.is_set() and not self._has_drawn):
            return False
        if not self._drawn_feeds and not await self._draw_feeds():
            return False
        return self._policy.until is None or not self._policy.until()

    @property
    def _has_drawn(self) -> bool:
        """True if elements of an iterable were drawn and not fed; a mapping is fed to any number of steps."""
        return bool(self._drawn_feeds) and isinstance(self._feeds, DrawnFeeds | AwaitedFeeds)

    async def _step_once(self) -> bool:
        """Run a step; return False if a queue of the step is closed. A QueueClosed of `on_step` is an error."""
        begin, self._is_fed = self._clock.now(), True
        try:
            self.values = await self._step(self._drawn_feeds[0])
        except QueueClosed:
            return False
        finally:
            self._seconds += self._clock.now() - begin
        self._drawn_feeds.clear()
        self._is_fed = False
        self.steps += 1
        if self._policy.on_step is not None:
            await await_result(self._policy.on_step(self.values))
        return True

    async def _draw_feeds(self) -> bool:
        """Draw the feeds of the next step; return False if there are none."""
        try:
            if isinstance(self._feeds, Iterator):
                self._drawn_feeds.append(next(self._feeds))
            else:
                self._drawn_feeds += await self._unless_stopped(_next_feeds(self._feeds)) or []
        except StopIteration:
            return False
        return bool(self._drawn_feeds)

    async def _wait_for_restart(self, error: Exception) -> None:
        """Wait before another attempt; raise the error if no restart is left, or a restart would fail again."""
        if self._restarts >= self._policy.restarts.most or isinstance(error, _NEVER_AGAIN):
            raise error
        self.error, self.state = error, "restarting"
        _log.info("runner '%s' begins again after an error", self.name, exc_info=error)
        seconds = self._policy.restarts.seconds(self._restarts)
        self._restarts += 1
        await self._pause_until(self._clock.now() + seconds)
        self.state = "running"

    async def _pause_until(self, when: float) -> None:
        """Wait until a time or a request to stop.

        A request made before the call does not shorten the wait: after an error the runner feeds drawn elements again,
        in spite of a stop, and must not do so at once.
        """
        if when <= self._clock.now():
            await asyncio.sleep(0)  # other tasks get a turn even if the runner is late
        elif self._stopped.is_set():
            await self._clock.sleep(when - self._clock.now())
        else:
            await self._unless_stopped(self._clock.sleep(when - self._clock.now()))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a coroutine, or None if a request to stop comes first.

        A stopped or cancelled wait cancels the coroutine once and waits for its end, despite further cancellations; a
        result that comes all the same is returned.
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

    def _return_feeds(self) -> None:
        """Return drawn elements to the iterable; keep in `unfed` those passed to a step, perhaps used."""
        if isinstance(self._feeds, DrawnFeeds | AwaitedFeeds):
            if self._is_fed:
                self.unfed += self._drawn_feeds
            else:
                self._feeds.returned.extendleft(self._drawn_feeds)
        self._drawn_feeds.clear()

    def _note_failure(self, error: Exception) -> None:
        again = f", restarted {self._restarts} times" if self._restarts else ""
        error.add_note(f"in runner '{self.name}', after {self.steps} steps{again}")
        self.error, self.state = error, "failed"


async def _next_feeds(feeds: AsyncIterator[Any]) -> list[Any]:
    """Return the next feeds in a list, which is empty at the end: a task cannot raise StopAsyncIteration."""
    async for each in feeds:
        return [each]
    return []


async def await_result(result: Any) -> None:
    """Await the result of a user's function, if awaitable."""
    if isinstance(result, Awaitable):
        await result


def _result_of(ended: asyncio.Future[T], what: str) -> T:
    """Return the result of a runner's own task; raise an error if something inside cancelled the task."""
    try:
        return ended.result()
    except asyncio.CancelledError as error:
        raise _stray_cancellation_error(error, what) from error


def _stray_cancellation_error(error: asyncio.CancelledError, what: str) -> TagloomError:
    return TagloomError(
        f"{what} of a runner was cancelled, and not by its group",
        wanted="a result, or an error",
        got=repr(error),
        hint="catch CancelledError where a function awaits a task that others cancel",
    )

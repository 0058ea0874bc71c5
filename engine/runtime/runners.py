"""Steps of one graph that run beside each other, each again and again, in a task group: OSDI'16, Figure 1.

What TensorFlow's Coordinator and queue runners do with threads. A runner ends when what it takes from is closed and
empty, and closes what it feeds; so a pipeline ends stage by stage, behind the last element.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol

from ..base import nest
from ..base.errors import GraphError, QueueClosed, StepTimeout
from ..base.waiting import wait_shielded
from ..ir.operation import Operation
from ..streams.clock import LoopClock
from ..streams.contract import Clock
from .runner_ends import Ends
from .scheduling.feeds import Feeds, SharedFeeds
from .scheduling.runner import Restarts, Runner, RunnerStatistics
from .scheduling.timeouts import check_seconds
from .session import Session
from .steps.queue_uses import uses_of

_log = logging.getLogger("tagloom")
_ENTER = "async with tagloom.runners(session) as group: group.add(...)"


class HasClose(Protocol):
    """A queue, as far as runners close it."""

    shared_name: str

    def close(self) -> Operation:
        """Return an operation that closes it behind what is in."""


def runners(session: Session, *, drain: float | bool = False, clock: Clock | None = None) -> Runners:
    """Return a group of runners: steps of a session that run beside each other, each again and again.

    The block of ``async with`` ends when all runners have ended. One that waits for room in a queue ends, when the
    block is over, as soon as those of its group that took from the queue have ended. If one fails, or the block does,
    or the task is cancelled, all others are cancelled, and nothing of them is left when the block is over.

    Parameters
    ----------
    session : Session
    drain : float or bool
        What `Runners.stop` does unless it says otherwise.
    clock : Clock, optional
        By which intervals, waits before a restart and `drain` count; the event loop's by default.

    Returns
    -------
    Runners
        Enter it by ``async with``, and add runners.

    Raises
    ------
    GraphError
        If it is no `Session`, or `drain` is no time.
    Exception
        At the end of the block: what a runner failed with, with a note that names it; an ExceptionGroup if several did.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     numbers, squares = tg.FIFOQueue(2, "int32", shapes=[[]]), tg.FIFOQueue(2, "int32", shapes=[[]])
    ...     x = tg.placeholder("int32", [])
    ...     read, square = numbers.enqueue(x), squares.enqueue(tg.square(numbers.dequeue()))
    ...     total = tg.Variable(0)
    ...     add = total.assign_add(squares.dequeue())
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         await session.run(total.initializer)
    ...         async with tg.runners(session) as group:
    ...             group.add(read, feeds=({x: i} for i in range(5)), closes=numbers)
    ...             group.add(square, closes=squares)
    ...             group.add(add)
    ...         return int(await session.run(total))
    >>> asyncio.run(main())
    30
    """
    return Runners(session, drain=drain, clock=clock)


class Runners:
    """Runners of a session, as `runners` makes them; they end with the block of ``async with``.

    Parameters
    ----------
    session, drain, clock
        As of `runners`.

    Attributes
    ----------
    session : Session
    clock : Clock
    unfed : list
        When the block is over: feeds that were drawn from iterables, and that no step which succeeded was fed. A step
        that was cancelled, or has failed, may have used them in part.

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
    ...         return group
    >>> asyncio.run(main())
    <Runners: add ended>
    """

    def __init__(self, session: Session, *, drain: float | bool = False, clock: Clock | None = None) -> None:
        if not isinstance(session, Session):
            raise GraphError(
                "runners are tasks of an asyncio program, so their session is awaited",
                wanted="a tagloom.Session",
                got=repr(session),
                hint="async with tagloom.Session(graph) as session, and asyncio.run around it",
            )
        self.session: Session = session
        self._drain = _checked(drain)
        self.clock: Clock = clock or LoopClock()
        self._tasks: asyncio.TaskGroup | None = None
        self._runners: dict[str, Runner] = {}
        self._closings: dict[str, Operation] = {}  # operations that close queues, by the name that these share
        self._feeding: Counter[str] = Counter()  # how many runners have still to end before each is run
        self._feeds = SharedFeeds()
        self._ends = Ends(session)
        self.unfed: list[Any] = []
        self._is_draining = False  # it was asked to stop, or
        self._is_cancelled = False  # all were cancelled: so are those added later
        self._timer: Any = None  # until runners that have not ended by themselves are cancelled

    def __repr__(self) -> str:
        return f"<Runners: {', '.join(f'{name} {each.state}' for name, each in self._runners.items()) or 'none'}>"

    async def __aenter__(self) -> Runners:
        self._is_draining = self._is_cancelled = False
        self._tasks = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        only: BaseException | None = None
        ending = None if error is not None else asyncio.ensure_future(self._ends.watch())
        try:
            await self._tasks.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if len(group.exceptions) != 1:
                raise
            only = group.exceptions[0]
        finally:
            self._tasks = None
            if self._timer is not None:
                self._timer.cancel()
            if ending is not None:
                ending.cancel()
            tasks = [each.task for each in self._runners.values() if each.task is not None]
            await wait_shielded(lambda: [each for each in tasks if not each.done()])
            self._collect_unfed(only is None and error is None)
            await self._feeds.aclose()
        if only is not None and only is not error:  # what the block itself raised goes on by itself
            try:
                raise only
            finally:
                del only, error  # its traceback refers to this frame

    def add(
        self,
        fetches: Any,
        *,
        name: str | None = None,
        feeds: Feeds = None,
        times: int | None = None,
        every: float | None = None,
        closes: HasClose | Operation | Iterable[HasClose | Operation] = (),
        restarts: float = 0,
        backoff: float = 0.1,
        longest_backoff: float = 30.0,
        optional: bool | Callable[[Runner], bool] = False,
        until: Callable[[], bool] | None = None,
        drains: bool | None = None,
        timeout: float | None = None,
        on_step: Callable[[Any], object] | None = None,
        on_end: Callable[[Runner], object] | None = None,
    ) -> Runner:
        """Run a step again and again from now on, beside the others.

        It ends when a queue that it takes from, or puts into, is closed (QueueClosed), when its feeds have ended, after
        `times` steps, or when it is asked to stop.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name; or callable
            What each step fetches; or an async function, which is called instead, with the feeds if there are any.
        name : str, optional
            What errors and statistics call it; by default that of the first fetch, or of the function.
        feeds : mapping, or iterable or async iterable of mappings, optional
            What each step is fed; the runner ends with the iterable, which several may share. What a step that failed
            was fed is fed again. Async generators are closed with the group's block.
        times : int, optional
            Number of steps.
        every : float, optional
            Seconds from the beginning of a step to that of the next; a step that takes longer is followed at once.
        closes : queue, Operation, or iterable of them
            Closed, behind what is in, as soon as the last runner that names it has ended.
        restarts : int or float
            How often it goes on after an error, ``math.inf`` for always. An error of the program (GraphError), and a
            session that is closed, are not tried again.
        backoff, longest_backoff : float
            Seconds before the first restart, twice as many before each that follows, and the most.
        optional : bool or callable
            Whether the others go on when it has failed: then it has ended, with a warning in the log. A function is
            asked then, with the runner.
        until : callable, optional
            Asked before each step: True ends it.
        drains : bool, optional
            Whether it goes on at `stop` until what it takes from ends; by default if its fetches take from a queue that
            steps feed. A Dataset and `from_async` are sources: they need not end.
        timeout : float, optional
            Seconds after which a step ends with StepTimeout, as for `Session.run`.
        on_step : callable, optional
            Called with what each step has fetched; may be an async function.
        on_end : callable, optional
            Called with the runner when it has ended, in whatever way, unless all are cancelled; may be an async
            function. It comes before its queues are closed.

        Returns
        -------
        Runner

        Raises
        ------
        GraphError
            If there is a runner of this name, an option is out of range, or this is outside of the group's block.
        """
        if self._tasks is None:
            raise GraphError("a runner was added outside of its group's block", wanted=_ENTER, hint="add it in there")
        step = self._step(fetches, feeds is not None, timeout)
        name = name or _name_of(fetches)
        if name in self._runners and not self._runners[name].has_ended:
            raise GraphError(f"there is a runner '{name}' already", hint="give each a name=")
        if every is not None:
            check_seconds(every, "every")
        keys = self._closing(closes)
        uses = None if callable(fetches) else uses_of(self.session.graph, fetches)
        if drains is None:
            drains = uses is not None and bool(uses.takes)
        runner = Runner(
            name,
            step,
            feeds=self._feeds.iterator(feeds),
            times=_count(name, "times", times),
            every=every,
            restarts=Restarts(restarts, backoff, longest_backoff),
            optional=optional,
            until=until,
            drains=drains,
            on_step=on_step,
            on_end=on_end,
            clock=self.clock,
        )
        self._runners[name] = runner
        self.session.include_statistics("runners", name, runner)
        self._feeding.update(keys)
        task = asyncio.get_running_loop().create_task(self._run(runner, keys), name=f"runner {name}")
        runner.attach(task)
        guard = self._tasks.create_task(_guard(runner, task), name=f"guard of runner {name}")
        guard.add_done_callback(lambda _: None if task.done() else runner.abandon())  # cancelled before it began
        self._ends.add(runner, uses)
        self._heed_stop(runner)
        return runner

    def stop(self, drain: float | bool | None = None) -> None:
        """Ask all runners to end; the group's block then ends as well.

        This holds for those too that are added later: they end without a step, or, while others drain, go on as these.

        Parameters
        ----------
        drain : float or bool, optional
            True: those that take from no queue that steps feed end behind the step that they are in, and the queues
            that they feed are closed behind what is in; the others go on until that is used up. A number: so for so
            many seconds at most. False or 0: all are cancelled. By default what the group was made with.
        """
        drain = self._drain if drain is None else _checked(drain)
        if drain is False or drain == 0:
            self._cancel()
            return
        self._is_draining = True
        for each in self._runners.values():
            self._heed_stop(each)
        if self._timer is not None:
            self._timer.cancel()
        if drain is not True:
            self._timer = self.clock.call_at(self.clock.now() + drain, self._cancel)

    @property
    def runners(self) -> tuple[Runner, ...]:
        """The runners, in the order in which they were added."""
        return tuple(self._runners.values())

    def statistics(self) -> tuple[RunnerStatistics, ...]:
        """Return a snapshot of what the runners have done, in the order in which they were added."""
        return tuple(each.statistics() for each in self._runners.values())

    def _collect_unfed(self, is_told: bool) -> None:
        """Note the feeds that were drawn and that nobody was fed; log that where the group has not failed."""
        self.unfed += [each for runner in self._runners.values() for each in runner.unfed]
        self.unfed += self._feeds.take_unfed()
        if self.unfed and is_told:
            _log.warning(
                "%d feeds were drawn from iterables and not fed, as their runners ended before: see group.unfed",
                len(self.unfed),
            )

    def _cancel(self) -> None:
        self._is_cancelled = True
        for each in self._runners.values():
            self._heed_stop(each)

    def _heed_stop(self, runner: Runner) -> None:
        if self._is_cancelled:
            runner.abandon()
        elif self._is_draining and not runner.drains:
            runner.stop()

    def _step(self, fetches: Any, is_fed: bool, timeout: float | None) -> Callable[[Any], Awaitable[Any]]:
        """Return what does one step with its feeds."""
        if callable(fetches):
            call = fetches if is_fed else lambda _: fetches()
            return call if timeout is None else _within(call, timeout)
        session = self.session
        return lambda feeds: session.run(fetches, feeds, timeout=timeout)

    def _closing(self, closes: Any) -> list[str]:
        """Return the keys of what a runner closes, whose operations are built if they are not there yet."""
        listed = [closes] if isinstance(closes, Operation) or hasattr(closes, "close") else list(closes)
        keys = []
        for each in listed:
            key = each.name if isinstance(each, Operation) else each.shared_name
            if key not in self._closings:
                with self.session.graph.as_default():
                    self._closings[key] = each if isinstance(each, Operation) else each.close()
            keys.append(key)
        return keys

    async def _run(self, runner: Runner, keys: list[str]) -> None:
        await runner.run()
        for key in keys:
            self._feeding[key] -= 1
            if not self._feeding[key] and not runner.abandoned:
                with suppress(QueueClosed):  # somebody else has closed it
                    await self.session.run(self._closings[key])


async def _guard(runner: Runner, task: asyncio.Task[None]) -> None:
    """Stand for a runner in the task group, which may cancel more than once: the runner is asked to end once.

    So what its functions, and generators that feed it, do at their end is done to its end.
    """
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        runner.abandon()
        await wait_shielded(lambda: [] if task.done() else [task])
        if not task.cancelled():
            task.result()
        raise
    if not task.cancelled():
        task.result()


def _name_of(fetches: Any) -> str:
    first = next(iter(nest.flatten(fetches)), fetches)
    return str(getattr(first, "name", None) or getattr(first, "__name__", None) or first)


def _within(call: Callable[[Any], Awaitable[Any]], timeout: float) -> Callable[[Any], Awaitable[Any]]:
    """Return an async function that raises StepTimeout where another has not ended in time."""
    check_seconds(timeout)

    async def limited(feeds: Any) -> Any:
        limit = asyncio.timeout(None if timeout == math.inf else timeout)
        try:
            async with limit:
                return await call(feeds)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise StepTimeout(
                f"a function did not end within {timeout} s",
                wanted=f"at most {timeout} s",
                hint="give its runner a longer timeout=, or look at what it waits for",
            ) from error

    return limited


def _checked(drain: float | bool) -> float | bool:
    if not isinstance(drain, bool):
        check_seconds(drain, "drain")
    return drain


def _count(name: str, option: str, value: int | None) -> int | None:
    if value is not None and value < 0:
        raise GraphError(
            f"runner '{name}': {option} is no number of steps", wanted="0 or more", got=value, hint="leave it out"
        )
    return value

"""Groups of concurrent steps of one graph, each run again and again by a task: OSDI'16, Figure 1.

Tasks do the work of the threads of TensorFlow's Coordinator and queue runners. A runner ends when its source queue is
closed and empty, and then closes the queues that its `closes` names; so a pipeline ends stage by stage, after the last
element.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, cast

from ...base import nest
from ...base.errors import GraphError, QueueClosed, StepTimeout
from ...base.waiting import wait_shielded
from ...ir.operation import Operation
from ...streams.clock import LoopClock
from ...streams.contract import Clock
from ..scheduling.timeouts import check_seconds
from ..session.session import Session
from ..steps.queue_uses import uses_of
from .ends import Ends
from .feeds import Feeds, SharedFeeds
from .repeating_step import Restarts, Runner, RunnerPolicy, RunnerStatistics

_log = logging.getLogger("tagloom")
_ENTER = "async with tagloom.runners(session) as group: group.add(...)"


class HasClose(Protocol):
    """Queue closable by runners."""

    shared_name: str

    def close(self) -> Operation:
        """Return an operation that closes the queue; the elements in the queue can still be taken."""
        ...


def runners(session: Session, *, drain: float | bool = False, clock: Clock | None = None) -> Runners:
    """Return a group of runners: steps of a session that run concurrently, each again and again.

    The block of ``async with`` ends when all runners have ended. After the body of the block, a runner waiting for room
    in a queue ends as soon as the group's runners taking from the queue have ended. If a runner or the body fails, or
    the task is cancelled, all other runners are cancelled, and none of their tasks outlives the block.

    Parameters
    ----------
    session : Session
    drain : float or bool
        Default of the argument `drain` of `Runners.stop`.
    clock : Clock, optional
        Clock of intervals, waits before a restart and `drain`; the event loop's by default.

    Returns
    -------
    Runners
        The group, to be entered by ``async with``; `Runners.add` adds runners.

    Raises
    ------
    GraphError
        If `session` is no `Session`, or `drain` is no time.
    Exception
        At the end of the block: the error of a failed runner, with a note naming the runner; an ExceptionGroup if
        several failed.

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
    """Group of a session's runners, made by `runners`; all end with the block of ``async with``.

    Parameters
    ----------
    session, drain, clock
        As of `runners`.

    Attributes
    ----------
    session : Session
    clock : Clock
    unfed : list
        After the block: feeds drawn from iterables and fed to no successful step. A step that was cancelled, or has
        failed, may have used such feeds in part.

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
        self._drain = _check_drain(drain)
        self.clock: Clock = clock or LoopClock()
        self._tasks: asyncio.TaskGroup | None = None
        self._runners: dict[str, Runner] = {}
        self._closings: dict[str, Operation] = {}  # operations that close queues, by the name that these share
        self._feeding: Counter[str] = Counter()  # by the same names: runners still to end before the closing is run
        self._feeds = SharedFeeds()
        self._ends = Ends(session)
        self.unfed: list[Any] = []
        self._is_draining = False  # `stop` has asked the runners to end; runners added later are asked as well
        self._is_cancelled = False  # all runners were cancelled, and runners added later are too
        self._timer: Any = None  # cancels the runners still draining when the time of `stop` is over

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
            # The task group awaits guards only, and a guard cancelled before its first step ends before its runner.
            tasks = [each.task for each in self._runners.values() if each.task is not None]
            await wait_shielded(lambda: [each for each in tasks if not each.done()])
            # After the runners, which return unused feeds at their end, and before generators are closed.
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
        """Run a step again and again from now on, concurrently with the other runners.

        The runner ends when a queue of its step is closed (QueueClosed), when its feeds have ended, after `times`
        steps, or when asked to stop.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name; or callable
            Fetches of each step; or an async function, called instead of a step, with the feeds if there are any.
        name : str, optional
            Label in errors and statistics; by default the name of the first fetch, or of the function.
        feeds : mapping, or iterable or async iterable of mappings, optional
            Feeds of each step; the runner ends with the iterable, which several runners may share. The feeds of a
            failed step are fed again. Async generators are closed with the group's block.
        times : int, optional
            Number of steps.
        every : float, optional
            Seconds from the beginning of a step to that of the next; a step that takes longer is followed at once.
        closes : queue, Operation, or iterable of them
            Queues to close, or operations to run, after the last runner naming them has ended. Elements in a closed
            queue can still be taken.
        restarts : int or float
            Most restarts after errors, ``math.inf`` for any number. An error of the program (GraphError) and a closed
            session (SessionClosed) end the runner at once.
        backoff, longest_backoff : float
            Seconds before the first restart, doubled before each following restart, and the most seconds.
        optional : bool or callable
            True to log a failure as a warning and let the other runners continue. A function decides when the runner
            has failed, and is called with the runner.
        until : callable, optional
            Called before each step; the runner ends when the result is True.
        drains : bool, optional
            True to continue after `stop` until the source queues end; by default if the fetches take from a queue
            fed by steps. A Dataset and `from_async` are sources, which need not end.
        timeout : float, optional
            Seconds after which a step ends with StepTimeout, as for `Session.run`.
        on_step : callable, optional
            Called with the values fetched by each step; may be an async function.
        on_end : callable, optional
            Called with the runner after its end, however caused, unless all runners are cancelled; may be an async
            function. The call comes before queues are closed.

        Returns
        -------
        Runner

        Raises
        ------
        GraphError
            If a runner of this name is running, an option is out of range, or the call is outside of the group's block.
        """
        if self._tasks is None:
            raise GraphError("a runner was added outside of its group's block", wanted=_ENTER, hint="add it in there")
        step = self._make_step(fetches, feeds is not None, timeout)
        name = name or _name_of(fetches)
        if name in self._runners and not self._runners[name].has_ended:
            raise GraphError(f"there is a runner '{name}' already", hint="give each a name=")
        if every is not None:
            check_seconds(every, "every")
        keys = self._closing_keys(closes)
        uses = None if callable(fetches) else uses_of(self.session.graph, fetches)
        if drains is None:
            drains = uses is not None and bool(uses.takes)
        policy = RunnerPolicy(
            _check_count(name, "times", times),
            every,
            Restarts(restarts, backoff, longest_backoff),
            optional,
            until,
            drains,
            on_step,
            on_end,
        )
        runner = Runner(name, step, self._feeds.iterator(feeds), policy, self.clock)
        self._runners[name] = runner
        self.session.include_statistics("runners", name, runner)
        self._feeding.update(keys)
        task = asyncio.get_running_loop().create_task(self._run_and_close(runner, keys), name=f"runner {name}")
        runner.attach(task)
        guard = self._tasks.create_task(_guard_runner(runner, task), name=f"guard of runner {name}")
        guard.add_done_callback(lambda _: None if task.done() else runner.abandon())  # cancelled before it began
        self._ends.add(runner, uses)
        self._heed_stop(runner)
        return runner

    def stop(self, drain: float | bool | None = None) -> None:
        """Ask all runners to end; the group's block then ends as well.

        Runners added later end too: without a step, or, if they drain, when their source queues end.

        Parameters
        ----------
        drain : float or bool, optional
            True: runners without `drains` end after their current step, and the queues named by `closes` are closed;
            draining runners continue until the remaining elements are taken. A number: as for True, and after so many
            seconds all are cancelled. False or 0: all are cancelled at once. By default the group's own `drain`.
        """
        drain = self._drain if drain is None else _check_drain(drain)
        if drain is False or drain == 0:
            self._cancel_all()
            return
        self._is_draining = True
        for each in self._runners.values():
            self._heed_stop(each)
        if self._timer is not None:
            self._timer.cancel()
        if drain is not True:
            self._timer = self.clock.call_at(self.clock.now() + drain, self._cancel_all)

    @property
    def runners(self) -> tuple[Runner, ...]:
        """The runners, in the order in which they were added."""
        return tuple(self._runners.values())

    def statistics(self) -> tuple[RunnerStatistics, ...]:
        """Return a snapshot of the statistics of each runner, in the order in which they were added."""
        return tuple(each.statistics() for each in self._runners.values())

    def _collect_unfed(self, is_told: bool) -> None:
        """Add feeds drawn and not used to `unfed`; log their number if `is_told`, as when the group has not failed."""
        self.unfed += [each for runner in self._runners.values() for each in runner.unfed]
        self.unfed += self._feeds.take_unfed()
        if self.unfed and is_told:
            _log.warning(
                "%d feeds were drawn from iterables and not fed, as their runners ended before: see group.unfed",
                len(self.unfed),
            )

    def _cancel_all(self) -> None:
        self._is_cancelled = True
        for each in self._runners.values():
            self._heed_stop(each)

    def _heed_stop(self, runner: Runner) -> None:
        if self._is_cancelled:
            runner.abandon()
        elif self._is_draining and not runner.drains:
            runner.stop()

    def _make_step(self, fetches: Any, is_fed: bool, timeout: float | None) -> Callable[[Any], Awaitable[Any]]:
        """Return a function that runs one step with feeds, or calls the user's async function."""
        if callable(fetches):
            function = cast(Callable[..., Awaitable[Any]], fetches)
            call = function if is_fed else lambda _: function()
            return call if timeout is None else _limit_seconds(call, timeout)
        session = self.session
        return lambda feeds: session.run(fetches, feeds, timeout=timeout)

    def _closing_keys(self, closes: Any) -> list[str]:
        """Return the keys of a runner's closing operations, built now unless another runner names the same queue."""
        listed = [closes] if isinstance(closes, Operation) or hasattr(closes, "close") else list(closes)
        keys = []
        for each in listed:
            key = each.name if isinstance(each, Operation) else each.shared_name
            if key not in self._closings:
                with self.session.graph.as_default():
                    self._closings[key] = each if isinstance(each, Operation) else each.close()
            keys.append(key)
        return keys

    async def _run_and_close(self, runner: Runner, keys: list[str]) -> None:
        """Run a runner to its end, then close the queues of `keys` whose last runner has ended."""
        await runner.run()
        for key in keys:
            self._feeding[key] -= 1
            # A cancelled group closes nothing: its queues stay usable, with the elements in them.
            if not self._feeding[key] and not runner.abandoned:
                with suppress(QueueClosed):  # a step or another program part has closed the queue already
                    await self.session.run(self._closings[key])


async def _guard_runner(runner: Runner, task: asyncio.Task[None]) -> None:
    """Wait for a runner's task in its place in the task group, and pass on only the first cancellation.

    A task group may cancel a task more than once, which would interrupt the cleanup of the runner's functions and feed
    generators.
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


def _limit_seconds(call: Callable[[Any], Awaitable[Any]], timeout: float) -> Callable[[Any], Awaitable[Any]]:
    """Return an async function that awaits `call` for at most `timeout` seconds, then raises StepTimeout."""
    check_seconds(timeout)

    async def call_in_time(feeds: Any) -> Any:
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

    return call_in_time


def _check_drain(drain: float | bool) -> float | bool:
    if not isinstance(drain, bool):
        check_seconds(drain, "drain")
    return drain


def _check_count(name: str, option: str, value: int | None) -> int | None:
    if value is not None and value < 0:
        raise GraphError(
            f"runner '{name}': {option} is no number of steps", wanted="0 or more", got=value, hint="leave it out"
        )
    return value

"""Partial runs: steps whose feeds and fetches come and go in parts (rules 124 and 125)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

import numpy as np

from ....base.errors import GraphError, SessionClosed
from ....compile.mark_fetched import takes_behind
from ....ir.operation import Operation
from ....ir.tensor import Tensor
from ...memory.claims import MemoryClaim
from ...memory.limits import from_outside
from ...observe.trace import Trace
from ...scheduling.admission import Place
from ...scheduling.timeouts import check_seconds
from ..compiled_step import CompiledStep
from ..dead_fetch import explain_dead_fetch
from ..expiry import start_timer
from ..feeds import split_feeds
from ..queue_uses import instances_of_feeds
from ..request import Request, make_request
from ..stalls import Activity
from ..tensor_handle import check_on_host

if TYPE_CHECKING:
    from ..machine import Execution
    from ..runner import StepRunner

_AGAIN = "begin another one with partial_run_setup"


class PartialRunState:
    """State shared by the kernels of a step in parts and its handle: fed values, computed values, waiting parts.

    Parameters
    ----------
    step : CompiledStep
        A step in parts. Results are numbered, the tensors first and then the targets.

    Attributes
    ----------
    error : BaseException or None
        Error that ended the step, until a part has raised the error.
    ended : str or None
        Description of the step's end; None while the step runs.
    number : int
        Number of the step; -1 before the step begins.
    """

    def __init__(self, step: CompiledStep) -> None:
        self.error: BaseException | None = None
        self.ended: str | None = None
        self.step: CompiledStep = step
        self._execution: Execution | None = None
        self._task: asyncio.Task[Any] | None = None
        self._fed: dict[int, np.ndarray[Any, Any]] = {}  # fed values that no kernel has asked for yet
        self._expected: dict[int, asyncio.Future[Any]] = {}  # futures of kernels whose feed is still to come
        self._values: dict[int, np.ndarray[Any, Any] | None] = {}  # results that no part has taken yet
        self._done: set[int] = set()  # results computed so far
        self._give_back: Callable[[], object] = lambda: None  # undoes queue takes whose results no part has taken
        self._loop: asyncio.AbstractEventLoop | None = None
        self.number: int = -1
        self.claim: MemoryClaim | None = None  # under a memory limit, if the executor counts the bytes of a step
        self.refuse: Callable[[MemoryClaim, BaseException], None] | None = None
        self.in_line: set[MemoryClaim] = set()  # claims of parts that wait for memory
        self._waiters: set[_Waiter] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the step."""
        return self._running.loop

    @property
    def _running(self) -> Execution:
        """The execution of the step, which has begun and has not ended."""
        assert self._execution is not None
        return self._execution

    def start(self, execution: Execution, give_back: Callable[[], object]) -> asyncio.Task[Any]:
        """Run the step in a new task; `give_back` undoes queue takes whose values no caller has."""
        self._execution, self._give_back = execution, give_back
        self._loop = execution.loop
        self.number = execution.context.number
        self._task = asyncio.get_running_loop().create_task(execution.run(), name="partial run")
        return self._task

    # ---- called by the kernels

    def come(self, index: int) -> Any:
        """Return the value of a feed, or a future of the value."""
        if index in self._fed:
            return self._fed.pop(index)
        self._expected[index] = asyncio.get_running_loop().create_future()
        return self._expected[index]

    def put(self, key: int, value: np.ndarray[Any, Any]) -> None:
        """Keep a fetched value, a copy, until a part takes the value."""
        self._values[key] = value
        self._note_result(key)

    def finish(self, key: int) -> None:
        """Note that a result was computed; a tensor without a value is dead, which ends the step."""
        if key >= len(self.step.tensors):
            self._values[key] = None
            self._note_result(key)
        elif key not in self._done:
            outcomes = self._running.switch_outcomes()
            self._running.abort(explain_dead_fetch(self.step, key, outcomes))

    def _note_result(self, key: int) -> None:
        self._done.add(key)
        self._notify_parts(None)

    # ---- called by the handle

    def feed(self, index: int, value: np.ndarray[Any, Any]) -> None:
        """Pass a value to the step, which owns the value from now on."""
        future = self._expected.pop(index, None)
        if future is None:
            self._fed[index] = value
        elif not future.done():
            future.set_result(value)

    def has(self, keys: Collection[int]) -> bool:
        """Return True if all these results can be taken."""
        return all(key in self._values for key in keys)

    def take(self, keys: Collection[int]) -> list[Any]:
        """Return results and drop them here."""
        return [self._values.pop(key) for key in keys]

    async def wait(self, keys: Collection[int], until_end: bool) -> None:
        """Wait until results can be taken, and optionally until the step's end; raise an error that ended the step."""
        waiter = _Waiter()
        self._waiters.add(waiter)
        try:
            while not self.has(keys) or (until_end and self.ended is None):
                await waiter.wait_for_progress()
        finally:
            self._waiters.discard(waiter)

    def abort(self, error: BaseException) -> None:
        """End the step with an error, unless the step has ended."""
        if self._task is not None and not self._task.done():
            self._running.abort(error)

    def owns_task(self, task: object) -> bool:
        """Return True if `task` runs an instance of the step."""
        return self._execution is not None and self._execution.owns_task(task)

    def activity(self) -> Activity:
        """Return the activity of the step, without the feeds still to come."""
        if self._task is None or self._task.done():
            return Activity([], [])
        names, lines = self._running.activity()
        feeds = instances_of_feeds(self.step)
        return Activity([name for name in names if name not in feeds], lines)

    def over(self) -> None:
        """Note the end of the step's task; pass an error to waiting parts, or keep the error for the next part."""
        assert self._task is not None
        error = _error_of(self._task)
        if not self._running.has_ended:  # the task was cancelled before its first turn, so `run` never began
            self._running.release()
        self._execution = self._task = None
        self._fed.clear()
        self._expected.clear()
        if isinstance(error, asyncio.CancelledError):  # no waiting part asked for it, so none may be cancelled by it
            error = _cancelled_error(error)
        self.ended = "all of it was computed" if error is None else f"{type(error).__name__}: {error}".split("\n")[0]
        if error is not None:
            self._values.clear()
            self._give_back()
        self.error = None if self._waiters or self.in_line else error
        self._notify_parts(error)

    def _notify_parts(self, error: BaseException | None) -> None:
        if self.ended is not None and self.refuse is not None:
            for claim in list(self.in_line):
                self.refuse(claim, error or GraphError("this partial run has ended", got=self.ended, hint=_AGAIN))
        for waiter in self._waiters:
            waiter.tell(error)

    async def close(self, what: str) -> None:
        """End the step with SessionClosed and wait for its end; a cancellation ends the waiting only."""
        task = self._task
        self.end(what)
        if task is not None:
            await asyncio.wait([task])
        self._values.clear()
        self._give_back()
        self.error = None

    def end(self, what: str) -> None:
        """End the step with SessionClosed, unless the step has ended."""
        self.abort(SessionClosed(what, hint=_AGAIN))

    def release(self) -> None:
        """Release the resources of a step that will not go on."""
        self._running.release()

    def abandon(self) -> None:
        """End the step soon, and undo queue takes whose values no caller has; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_abandoned)

    def _end_abandoned(self) -> None:
        self.end("nobody holds this partial run any longer")
        if self._task is None:
            self._give_back()


def _cancelled_error(cause: asyncio.CancelledError) -> GraphError:
    error = GraphError(
        "this partial run was cancelled, and not by a part that waits for it",
        got=str(cause) or "a cancellation of its task",
        hint="see its cause: a function of the step that has raised it, or what cancels all tasks; " + _AGAIN,
    )
    error.__cause__ = cause
    return error


class _Waiter:
    """A waiting part: notified of each result, and of an error even before the part has handled the previous news."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, error: BaseException | None) -> None:
        self._error = error
        if not self._news.done():
            self._news.set_result(None)

    async def wait_for_progress(self) -> None:
        await self._news
        self._news = asyncio.get_running_loop().create_future()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame


class PartialRun:
    """A step that is run in parts; made by :meth:`Session.partial_run_setup`.

    Pass the handle to :meth:`Session.partial_run` for each part. A partial run counts as a running step until all its
    fetches are computed, an operation fails, or the handle is closed or dropped. ``async with`` closes the handle.

    Attributes
    ----------
    runner : StepRunner
        Runner of the step.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x, y = tg.placeholder("float32", []), tg.placeholder("float32", [])
    ...     double, total = x * 2.0, x * 2.0 + y
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         async with await session.partial_run_setup([double, total], feeds=[x, y]) as handle:
    ...             first = await session.partial_run(handle, double, feeds={x: 3.0})
    ...             return float(await session.partial_run(handle, total, feeds={y: first + 1.0})), handle.done
    >>> asyncio.run(main())
    (13.0, True)
    """

    def __init__(self, runner: StepRunner, step: CompiledStep, parts: PartialRunState) -> None:
        self._parts = parts
        self.runner = runner
        self._step = step
        self._results = {element: key for key, element in enumerate(_elements_of(step))}
        self._feeds = {feed.tensor: index for index, feed in enumerate(step.feeds)}
        self._fed: set[int] = set()
        self._feeding: set[int] = set()  # feeds of parts that wait for memory
        self._asked: set[int] = set()  # fetches taken or awaited
        self._taken: set[int] = set()
        self._closed = False

    def __del__(self) -> None:
        self._parts.abandon()

    async def __aenter__(self) -> PartialRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def done(self) -> bool:
        """True if no more parts can be run."""
        failed = self._parts.ended is not None and not self._parts.has(set(self._results.values()) - self._taken)
        return self._closed or failed or len(self._taken) == len(self._results)

    async def aclose(self) -> None:
        """End the step, if still running, and wait for its end; waiting parts get SessionClosed. Twice is fine."""
        self._closed = True
        await self._parts.close("this partial run was closed")

    async def _run_part(self, fetches: Any, feeds: Mapping[Any, Any], timeout: float | None) -> Any:
        """Run a part; see :meth:`Session.partial_run`. A refused part changes nothing."""
        self._check_alive()
        request = make_request(self._step.graph, fetches)
        keys = [self._result_key(element) for element in _elements_of(request)]
        arrays = self._convert_feeds(*split_feeds(self._step.graph, feeds))
        for element, key in zip(_elements_of(request), keys, strict=True):
            self._check_computable(element, key, self._fed | set(arrays))
        timer = start_timer(self._parts, timeout, "a part of the step")
        try:
            await self._feed_copies(arrays)
            return await self._fetch_results(request, keys)
        finally:
            if timer is not None:
                timer.cancel()

    def _check_alive(self) -> None:
        """Raise SessionClosed, the pending error of the step, or GraphError if no part can be run."""
        if self._closed:
            raise SessionClosed("this partial run was closed", hint=_AGAIN)
        error, self._parts.error = self._parts.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        if self.done:
            got = "all its fetches were taken" if len(self._taken) == len(self._results) else self._parts.ended
            raise GraphError("this partial run has ended", got=got, hint=_AGAIN)

    def _result_key(self, element: Tensor | Operation) -> int:
        """Return the number of an element's result; GraphError if unknown or fetched before."""
        key = self._results.get(element)
        if key is None:
            _refuse_unknown(element, "fetches", self._results)
        elif key in self._asked:
            raise GraphError(
                f"{element.name} has already been fetched in this partial run",
                operation=getattr(element, "op", element),
                hint="keep the value, each is given once",
            )
        else:
            return key

    def _convert_feeds(self, tensors: tuple[Tensor, ...], values: list[Any]) -> dict[int, np.ndarray[Any, Any]]:
        """Return the values as arrays by index of their feed, checked against dtype and static shape."""
        arrays = {}
        for tensor, value in zip(tensors, values, strict=True):
            index = self._feeds.get(tensor)
            if index is None:
                _refuse_unknown(tensor, "feeds", self._feeds)
            if index in self._fed or index in self._feeding:
                raise GraphError(
                    f"{tensor.name} has already been fed in this partial run",
                    operation=tensor.op,
                    hint="feed each tensor once; begin another partial run for other values",
                )
            arrays[index] = self._step.feeds[index].convert(value)
            check_on_host(tensor, arrays[index])
        return arrays

    def _check_computable(self, element: Tensor | Operation, key: int, fed: set[int]) -> None:
        """Raise GraphError if a result needs feeds that are not in `fed`."""
        missing = [self._step.feeds[index].tensor.name for index in self._step.needs[key] if index not in fed]
        if missing:
            raise GraphError(
                f"{element.name} can't be computed from the feeds that have been fed so far",
                wanted=f"values for {', '.join(missing)}",
                operation=getattr(element, "op", element),
                hint="feed them in this part or an earlier one",
            )

    async def _feed_copies(self, arrays: dict[int, np.ndarray[Any, Any]]) -> None:
        """Feed copies of values to the step as soon as there is room; a part cancelled before has fed none of them."""
        whole, place = self._parts.claim, None
        if whole is not None and arrays:
            self._feeding.update(arrays)
            try:
                place = await self.runner.memory.place_part(
                    self._step, whole, list(arrays.values()), self._parts.in_line
                )
                self._check_alive()
            except BaseException:
                self.runner.memory.leave_part(place)
                raise
            finally:
                self._feeding.difference_update(arrays)
        try:
            copies = self._copy_feeds(arrays)
        finally:
            self.runner.memory.leave_part(place)
        self._fed.update(copies)
        for index in list(copies):
            self._parts.feed(index, copies.pop(index))

    def _copy_feeds(self, arrays: dict[int, np.ndarray[Any, Any]]) -> dict[int, np.ndarray[Any, Any]]:
        """Return copies of values, charged to the first device's memory."""
        environment, whole = self.runner.environment, self._parts.claim
        contexts = environment.devices[0].contexts
        copies = {
            index: from_outside(contexts, environment.resources, "the values fed", np.array, array)
            for index, array in arrays.items()
        }
        if whole is not None and (pool := environment.devices[0].pool) is not None:
            whole.parts += [(pool, ref(copy)) for copy in copies.values()]
        return copies

    async def _fetch_results(self, request: Request, keys: list[int]) -> Any:
        """Return results; a part cancelled while waiting for them may ask again."""
        self._asked.update(keys)
        try:
            # With the last results also until the end of the step, whose error belongs to this part.
            await self._parts.wait(keys, len(self._taken) + len(keys) == len(self._results))
        except BaseException:
            self._asked.difference_update(keys)
            raise
        self._taken.update(keys)
        result = request.pack(self._parts.take(keys)[: len(request.tensors)])
        got = [element.op if isinstance(element, Tensor) else element for element in _elements_of(request)]
        self.runner.environment.resources.hand_over_taken(self._parts.number, set().union(*map(takes_behind, got)))
        return result


async def begin(runner: StepRunner, step: CompiledStep, trace: Trace | None) -> PartialRun:
    """Return a partial run of a step, as soon as its runner has a place for the step."""
    came = perf_counter()
    place = await runner.admit(step)
    try:
        await runner.boundary.pass_by(step)
        return _begin_task(runner, step, trace, place, perf_counter() - came)
    except BaseException:
        runner.leave(place)
        raise
    finally:
        if place is not None:
            place.hide()  # the place belongs to the step's task, and not to the task that uses the handle


async def run_part(handle: PartialRun, fetches: Any, feeds: Mapping[Any, Any], timeout: float | None) -> Any:
    """Run a part of a partial run; see :meth:`Session.partial_run`."""
    if timeout is None:
        timeout = handle.runner.timeout
    else:
        check_seconds(timeout)
    return await handle._run_part(fetches, feeds, timeout)


def _begin_task(
    runner: StepRunner, step: CompiledStep, trace: Trace | None, place: Place | None, waited: float
) -> PartialRun:
    """Begin a step in a new task, which releases its place and claim at its end."""
    runner.check_admits()
    parts = PartialRunState(step)
    watches = runner.watches.buffers_of(step.watched)
    began, told = perf_counter(), runner.counts.begin(step, alone=True)

    def over(task: asyncio.Task[Any]) -> None:
        error = _error_of(task)
        runner.counts.note(error)
        runner.end(parts, watches)
        runner.leave(place)
        if claim is not None:
            runner.environment.arbiter.release(claim)
        parts.over()
        runner.counts.notify_hook(told, perf_counter() - began, waited, error)

    execution = runner.begin(step, [], watches, trace, parts)
    claim = parts.claim = runner.memory.enter(execution)
    parts.refuse = runner.environment.arbiter.refuse
    runner.running.add(parts)
    give_back = partial(runner.environment.resources.give_back, execution.context.number)
    parts.start(execution, give_back).add_done_callback(over)
    return PartialRun(runner, step, parts)


def _elements_of(wanted: CompiledStep | Request) -> list[Tensor | Operation]:
    return [*wanted.tensors, *wanted.targets]


def _refuse_unknown(element: Tensor | Operation, role: str, known: Mapping[Any, int]) -> NoReturn:
    raise GraphError(
        f"{element.name} was not specified in partial_run_setup",
        got=element.name,
        wanted=f"one of its {role}: {[e.name for e in known]}",
        operation=getattr(element, "op", element),
        hint=f"name it among the {role} there",
    )


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Return the error of an ended task, a CancelledError included; None without error."""
    if not task.cancelled():
        return task.exception()
    try:
        return task.result()  # type: ignore[no-any-return]  # raises the CancelledError of the task, with its message
    except asyncio.CancelledError as error:
        return error
    finally:
        del task  # the error's traceback refers to this frame

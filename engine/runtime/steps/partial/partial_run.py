"""Partial runs: steps whose feeds and fetches come and go in parts (rules 124 and 125)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
from ...memory.limits import from_outside
from ...observe.trace import Trace
from ...scheduling.admission import Place
from ...scheduling.timeouts import check_seconds
from ..compiled_step import CompiledStep
from ..expiry import start_timer
from ..feeds import resolve_feeds, split_feeds
from ..request import Request, make_request
from ..run_options import RunOptions
from ..tensor_handle import check_on_host
from .state import AGAIN, PartialRunState, error_of

if TYPE_CHECKING:
    from ..runner import StepRunner


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
            raise SessionClosed("this partial run was closed", hint=AGAIN)
        error, self._parts.error = self._parts.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        if self.done:
            got = "all its fetches were taken" if len(self._taken) == len(self._results) else self._parts.ended
            raise GraphError("this partial run has ended", got=got, hint=AGAIN)

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


async def begin(runner: StepRunner, fetches: Any, feeds: Sequence[Any], trace: Trace | None) -> PartialRun:
    """Return a partial run, as soon as its runner has a place for the step; see :meth:`Session.partial_run_setup`."""
    runner.running.check_admits()
    request = make_request(runner.graph, fetches)
    if not request.tensors and not request.targets:
        raise GraphError(
            "a partial run needs something to fetch",
            got=fetches,
            wanted="a tensor or an operation",
            hint="specify at least one target",
        )
    if request.has_handles:
        raise GraphError("handles cannot be fetched in parts", got=fetches, hint="fetch them by run()")
    tensors = resolve_feeds(runner.graph, feeds)
    step = runner.prepare_step(request, tensors, RunOptions(trace=trace), partial_run=True)
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


async def run_part(
    runner: StepRunner, handle: PartialRun, fetches: Any, feeds: Mapping[Any, Any], timeout: float | None
) -> Any:
    """Run a part of a partial run of a runner; see :meth:`Session.partial_run`."""
    runner.running.check_open()
    if not isinstance(handle, PartialRun) or handle.runner is not runner:
        raise GraphError(
            "this is no partial run of this session",
            wanted="what partial_run_setup returned",
            got=handle,
            hint="await session.partial_run_setup(fetches, feeds)",
        )
    if timeout is None:
        timeout = runner.timeout
    else:
        check_seconds(timeout)
    return await handle._run_part(fetches, feeds, timeout)


def _begin_task(
    runner: StepRunner, step: CompiledStep, trace: Trace | None, place: Place | None, waited: float
) -> PartialRun:
    """Begin a step in a new task, which releases its place and claim at its end."""
    runner.running.check_admits()
    parts = PartialRunState(step)
    watches = runner.watches.buffers_of(step.watched)
    began, told = perf_counter(), runner.counts.begin(step, alone=True)

    def over(task: asyncio.Task[Any]) -> None:
        error = error_of(task)
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
    runner.running.steps.add(parts)
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

"""The steps of one session: compiled once, admitted, run, and ended with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ...base.errors import DeviceMemoryError, GraphError, SessionClosed, TagflowError
from ...base.source_lines import user_source
from ...compile import Target
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ops.support.context import StepContext
from ..observe.trace import Trace
from ..observe.watch import Watch
from ..scheduling.admission import Admission
from ..scheduling.time_slices import TimeSlices, time_slices_of
from .compiled_step import CompiledStep, compile_request
from .environment import StepEnvironment
from .fed_shapes import Shapes
from .partial_run import PartialRunState
from .request import Request
from .step_cache import StepCache

_logger = logging.getLogger("tagflow")
_NAMED = 3  # fetches that the log names
_UNWATCHED: dict[str, Watch] = {}
REOPEN = "open a new one with `async with Session(graph)`"


class StepRunner:
    """Compiles, admits and runs the steps of one session.

    Parameters
    ----------
    graph : Graph
    environment : StepEnvironment
    executor : type
        Execution or ReferenceExecution.
    timeout : float or None
        Seconds after which a step ends unless it says otherwise.
    max_steps : int or None
        How many steps run at once; None for any number.

    Attributes
    ----------
    cache : StepCache
    running : set
        Executions under way, and the states of partial runs.
    started : int
        Steps started so far.
    watched : tuple of Tensor
        What is watched; another object whenever that changes.
    """

    def __init__(
        self, graph: Graph, environment: StepEnvironment, executor: Any, timeout: float | None, max_steps: int | None
    ) -> None:
        self.graph = graph
        self.environment = environment
        self.timeout = timeout
        self.cache = StepCache(environment)
        self.admission = None if max_steps is None else Admission(max_steps, environment.settings.admission_seconds)
        self.running: set[Any] = set()
        self.started = 0
        self.watched: tuple[Tensor, ...] = ()
        self._watches: dict[Tensor, Watch] = {}
        self._executor = executor
        self._closed = False
        self._idle: asyncio.Future[None] | None = None  # done when the last step of a closed session has ended
        self._release: Callable[[], Coroutine[Any, Any, None]] | None = None  # to be called after the last step
        self._releasing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that `_slices` belong to
        self._slices: TimeSlices

    def check_open(self) -> None:
        """Raise SessionClosed if the session is closed."""
        if self._closed:
            raise SessionClosed("this session is closed", hint=REOPEN)

    # ---- one step

    def compiled(
        self, request: Request, feeds: tuple[Tensor, ...], partial_run: bool = False, shapes: Shapes | None = None
    ) -> CompiledStep:
        """Return the compiled step of fetches and feeds, of any shapes or of some, compiling it if it is not kept."""
        key = self._key(request, feeds, partial_run, shapes)
        step = self.cache.get(key)
        if step is None:
            step = self._compile(request, feeds, self._target(partial_run, shapes), self.watched)
            self.cache.insert(key, step)
        return step

    async def compile(self, request: Request, feeds: tuple[Tensor, ...]) -> None:
        """Compile a step in a thread, unless it is kept."""
        key = self._key(request, feeds)
        if self.cache.get(key) is None:
            target, source = self._target(), user_source()
            try:
                step = await asyncio.to_thread(self._compile, request, feeds, target, self.watched)
            except TagflowError as error:
                error.source = error.source or source  # the caller's line is not on the stack of the thread
                raise
            self.check_open()  # a closed session keeps nothing
            self.cache.insert(key, step)

    def _key(
        self, request: Request, feeds: tuple[Tensor, ...], partial_run: bool = False, shapes: Shapes | None = None
    ) -> Any:
        return request.tensors, request.targets, feeds, self.graph.version, self.watched, partial_run, shapes

    def _target(self, partial_run: bool = False, shapes: Shapes | None = None) -> Target:
        if self.environment.worker_pool is not None:
            self.environment.worker_pool.limit_blas()
        return self.environment.target(partial_run, shapes)

    def _compile(
        self, request: Request, feeds: tuple[Tensor, ...], target: Target, watched: tuple[Tensor, ...]
    ) -> CompiledStep:
        began = perf_counter()
        step = compile_request(self.graph, request, feeds, target, watched)
        count = sum(len(each.plan.nodes) for each in step.device_plans)
        wanted: list[Tensor | Operation] = [*request.tensors, *request.targets]
        names = ", ".join(element.name for element in wanted[:_NAMED])
        _logger.debug("compiled %s in %.3f s: %d operations", names, perf_counter() - began, count)
        return step

    async def run(
        self, request: Request, step: CompiledStep, values: Sequence[Any], timeout: float | None, trace: Trace | None
    ) -> Any:
        """Run a step as soon as there is a place for it, and return what was fetched."""
        if self.admission is None:
            return await self._run(request, step, values, timeout, trace)
        async with self.admission:
            self.check_open()
            return await self._run(request, step, values, timeout, trace)

    async def _run(
        self, request: Request, step: CompiledStep, values: Sequence[Any], timeout: float | None, trace: Trace | None
    ) -> Any:
        feeds = step.convert(values)
        step = self._specialized(request, step, feeds)
        watches = self.watches_of(step)
        execution = self.begin(step, feeds, watches, trace)
        del values, feeds
        self.running.add(execution)
        try:
            return request.pack(await execution.run(self.timeout if timeout is None else timeout))
        finally:
            self.end(execution, watches)
            if self._releasing is not None:
                await self._releasing

    def _specialized(self, request: Request, step: CompiledStep, feeds: list[np.ndarray[Any, Any]]) -> CompiledStep:
        """Return the step that is compiled for the shapes of fed values, or the one for any shapes.

        An operation that can not be run on these shapes fails when it is run, if it is, with its tag and not before.
        """
        shapes = step.fed_shapes.chosen(feeds)
        if shapes is None:
            return step
        try:
            return self.compiled(request, tuple([feed.tensor for feed in step.feeds]), shapes=shapes)
        except (GraphError, DeviceMemoryError):
            step.fed_shapes.decline(shapes)
            return step

    def begin(
        self,
        step: CompiledStep,
        feeds: list[Any],
        watches: Mapping[str, Watch],
        trace: Trace | None,
        state: PartialRunState | None = None,
    ) -> Any:
        """Return an execution of a step, to be run; of a partial run, with its state."""
        environment = self.environment
        context = StepContext(
            self.started,
            self.graph.seed,
            environment.resources,
            environment.blocking_calls,
            environment.devices[0].contexts,
            watches,
            state,
        )
        execution = self._executor(step, context, feeds, environment, trace, self._slices_here())
        self.cache.last = step, execution.counts
        self.started += 1
        for watch in watches.values():
            watch.step_begins()
        return execution

    def end(self, running: Any, watches: Mapping[str, Watch]) -> None:
        """Note that an execution, or a partial run, has ended."""
        self.running.discard(running)
        for watch in watches.values():
            watch.step_ends()
        if self.running:
            return
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        if self._release is not None:
            self._releasing = asyncio.get_running_loop().create_task(self._release(), name="release")
            self._release = None

    def _slices_here(self) -> TimeSlices:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._slices = loop, time_slices_of(loop)
        return self._slices

    # ---- watches

    def watch(self, tensor: Tensor, limit: int, policy: str) -> Watch:
        """Show a tensor's values in the steps that start from now on."""
        if tensor in self._watches:
            raise GraphError(
                f"{tensor.name} is watched already", operation=tensor.op, hint="close the other watch first"
            )
        watch = self._watches[tensor] = Watch(tensor, limit, policy, self._forget)
        self.watched = tuple(self._watches)
        return watch

    def watches_of(self, step: CompiledStep) -> Mapping[str, Watch]:
        """Return the watches of what a step computes, by the tensors' names."""
        if not step.watched:
            return _UNWATCHED
        return {t.name: self._watches[t] for t in step.watched if t in self._watches}

    def _forget(self, watch: Watch) -> None:
        if self._watches.get(watch.tensor) is watch:
            del self._watches[watch.tensor]
            self.watched = tuple(self._watches)

    # ---- the end

    async def aclose(self) -> None:
        """End all steps with SessionClosed and wait for them; twice is fine, and so is a cancellation."""
        self._closed = True
        for watch in list(self._watches.values()):
            watch.close()
        if self.admission is not None:
            self.admission.close(lambda: SessionClosed("the session was closed while a step waited", hint=REOPEN))
        for execution in [each for each in self.running if each.loop.is_closed()]:  # no loop will run it again
            execution.release()
            self.running.discard(execution)
        for execution in self.running:
            execution.abort(SessionClosed("the session was closed while a step was running", hint=REOPEN))
        if self.running:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle])

    async def after_last(self, release: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Release what steps use: now, or if steps still run, as the last of them ends. That is not waited for here.

        A close that was cancelled may not wait, for the steps it is called from among others; but copies of a step
        that ends are still under way, and what they come to must be open.
        """
        if self.running:
            self._release = release
        else:
            await release()

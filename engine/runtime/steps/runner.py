"""The steps of one session: compiled once, admitted, run, and ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...base.errors import DeviceMemoryError, GraphError, SessionClosed
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from ...ops.support.context import StepContext, Watcher
from ..observe.trace import Trace
from ..observe.watch import SessionWatches, Watch, watchers
from ..scheduling.admission import Admission
from ..scheduling.time_slices import TimeSlices, time_slices_of
from .compiled_step import CompiledStep
from .compiler import StepCompiler
from .environment import StepEnvironment
from .partial_run import PartialRunState
from .request import Request

_UNWATCHED: Mapping[str, Watcher] = {}
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
    compiler : StepCompiler
    running : set
        Executions under way, and the states of partial runs.
    started : int
        Steps started so far.
    watches : SessionWatches
    """

    def __init__(
        self, graph: Graph, environment: StepEnvironment, executor: Any, timeout: float | None, max_steps: int | None
    ) -> None:
        self.graph = graph
        self.environment = environment
        self.timeout = timeout
        self.compiler = StepCompiler(graph, environment)
        self.admission = None if max_steps is None else Admission(max_steps, environment.settings.admission_seconds)
        self.running: set[Any] = set()
        self.started = 0
        self.watches = SessionWatches()
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
        self, request: Request, feeds: tuple[Tensor, ...], watches: Sequence[Watch] = (), partial_run: bool = False
    ) -> CompiledStep:
        """Return the compiled step of fetches and feeds, with what the session watches, and what a run of it does.

        Raises
        ------
        GraphError
            If the step does not compute what the run watches, or can not be compiled.
        """
        watched = self.watches.tensors
        if watches:
            watched = tuple(dict.fromkeys([*watched, *(watch.tensor for watch in watches)]))
        step = self.compiler.compiled(request, feeds, watched, partial_run)
        for watch in watches:
            if watch.tensor not in set(step.watched):
                _refuse_watch(watch.tensor)
        return step

    async def run(
        self,
        request: Request,
        step: CompiledStep,
        values: Sequence[Any],
        timeout: float | None,
        trace: Trace | None,
        watches: Sequence[Watch] = (),
    ) -> Any:
        """Run a step as soon as there is a place for it, and return what was fetched."""
        if self.admission is None:
            return await self._run(request, step, values, timeout, trace, watches)
        async with self.admission:
            self.check_open()
            return await self._run(request, step, values, timeout, trace, watches)

    async def _run(
        self,
        request: Request,
        step: CompiledStep,
        values: Sequence[Any],
        timeout: float | None,
        trace: Trace | None,
        watches: Sequence[Watch],
    ) -> Any:
        feeds = step.convert(values)
        step = self._specialized(request, step, feeds)
        if step.watched:
            watches = [*self.watches.of(step.watched), *watches]
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
            feeds_of_step = tuple([feed.tensor for feed in step.feeds])
            return self.compiler.compiled(request, feeds_of_step, step.watched, shapes=shapes)
        except (GraphError, DeviceMemoryError):
            step.fed_shapes.decline(shapes)
            return step

    def begin(
        self,
        step: CompiledStep,
        feeds: list[Any],
        watches: Sequence[Watch],
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
            watchers(watches) if watches else _UNWATCHED,
            state,
        )
        execution = self._executor(step, context, feeds, environment, trace, self._slices_here())
        self.compiler.cache.last = step, execution.counts
        self.started += 1
        for watch in watches:
            watch.step_begins()
        return execution

    def end(self, running: Any, watches: Sequence[Watch]) -> None:
        """Note that an execution, or a partial run, has ended."""
        self.running.discard(running)
        for watch in watches:
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

    # ---- the end

    async def aclose(self) -> None:
        """End all steps with SessionClosed and wait for them; twice is fine, and so is a cancellation."""
        self._closed = True
        self.watches.close()
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


def _refuse_watch(tensor: Tensor) -> NoReturn:
    raise GraphError(
        f"the step does not compute {tensor.name}",
        wanted="a tensor that the fetches need, or one in a loop or branch that they need",
        operation=tensor.op,
        hint="fetch what the loop or branch that it is in returns",
    )

"""Runs of a session's steps, from the request to the fetched values."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import DeviceMemoryError, GraphError, StepTimeout
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from ...ops.state.session_handles import KeptTensor
from ...ops.support.context import StepContext, Watcher
from ..devices.device_values import copied_out
from ..devices.session_devices import peak_bytes
from ..memory.claims import MemoryClaim
from ..observe.trace import Trace
from ..observe.watch import SessionWatches, Watch, WatchBuffer, refuse_watch, watchers_by_tensor
from ..scheduling.admission import Admission, Place
from ..scheduling.boundary import StepBoundary
from ..scheduling.priorities import run_at
from ..scheduling.timeouts import check_seconds
from .compiled_step import CompiledStep
from .compiler import StepCompiler
from .environment import StepEnvironment
from .execution import MachineExecution
from .memory_places import MemoryPlaces
from .outcomes import Hook, RandomSequence, StepCounts, names_of
from .report.analysis import fill_report
from .request import Request
from .run_options import NO_OPTIONS, RunOptions
from .running_steps import RunningSteps
from .tensor_handle import TensorHandle, check_on_host

if TYPE_CHECKING:
    from ..reference.execution import ReferenceExecution
    from .machine import Execution, StepUnderWay
    from .partial.state import PartialRunState

_UNWATCHED: Mapping[str, Watcher] = {}


class StepRunner:
    """Runner of a session's steps: has a step compiled, waits for its place, and runs it once.

    Parameters
    ----------
    graph : Graph
    environment : StepEnvironment
    executor : type
        MachineExecution or ReferenceExecution.
    timeout : float or None
        Default timeout of steps, in seconds.
    max_steps : int or None
        Largest number of steps that run at once; None for any number.
    on_step : callable, list of callable, or None
        Called with a StepRecord when a step has ended; see StepCounts.

    Attributes
    ----------
    compiler : StepCompiler
    admission : Admission or None
        Line of the steps that wait for a place among `max_steps`.
    running : RunningSteps
        Steps under way, and whether more may begin.
    counts : StepCounts
    random : RandomSequence
    memory : MemoryPlaces
        Admission of steps to the memory of devices with a limit.
    boundary : StepBoundary
        Delays steps that would change variables while these are saved or restored between two steps.
    watches : SessionWatches
    """

    def __init__(
        self,
        graph: Graph,
        environment: StepEnvironment,
        executor: type[MachineExecution] | type[ReferenceExecution],
        timeout: float | None,
        max_steps: int | None,
        on_step: Hook | Sequence[Hook] | None = None,
    ) -> None:
        self.graph = graph
        self.environment = environment
        self.timeout: float | None = None
        self.set_timeout(timeout)
        self.counts: StepCounts = StepCounts(on_step, partial(peak_bytes, environment.devices))
        self.compiler: StepCompiler = StepCompiler(graph, environment, self.counts)
        seconds = environment.settings.admission_seconds
        self.admission: Admission | None = None if max_steps is None else Admission(max_steps, seconds)
        self.running: RunningSteps = RunningSteps(environment, self.admission)
        self.boundary: StepBoundary = StepBoundary(self.running.steps)
        self.watches: SessionWatches = SessionWatches()
        self._executor = executor
        first = environment.devices[0].contexts
        # Fields of each StepContext, from `resources` to `contexts`.
        self._services = environment.resources, environment.blocking_calls, environment.long_calls, first
        self.random: RandomSequence = RandomSequence(graph, self.counts)
        self._has_device_arrays = any(each.device.arrays is not None for each in environment.devices)
        self.memory: MemoryPlaces = MemoryPlaces(
            environment, self.counts, self.running.check_admits, executor is MachineExecution
        )

    def set_timeout(self, seconds: float | None) -> None:
        """Set the default timeout of steps; GraphError if `seconds` is no number of seconds."""
        if seconds is not None:
            check_seconds(seconds)
        self.timeout = seconds

    def figures(self) -> dict[str, Any]:
        """Return the session's figures about steps, by their names in Statistics."""
        admission, compiler = self.admission, self.compiler
        found: dict[str, Any] = {
            **self.counts.figures(),
            "steps_running": len(self.running.steps),
            "steps_compiled": compiler.count,
            "compile_seconds": compiler.seconds,
            "cached_steps": len(compiler.cache),
        }
        if admission is not None:
            found |= {"steps_waiting": admission.waiting, "steps_refused": admission.refused}
            found["waited_seconds"] = admission.waited
        return found

    def prepare_step(
        self,
        request: Request,
        feeds: tuple[Tensor, ...],
        options: RunOptions = NO_OPTIONS,
        partial_run: bool = False,
    ) -> CompiledStep:
        """Return the compiled step of fetches and feeds, with the watches of the session and of a run.

        The step of a run with a trace or a report has an instance for each operation of the graph.

        Raises
        ------
        GraphError
            If the step does not compute a tensor watched by the run, or cannot be compiled.
        """
        watched, watches = self.watches.tensors, options.watches
        if watches:
            watched = tuple(dict.fromkeys([*watched, *(watch.tensor for watch in watches)]))
        observed = options is not NO_OPTIONS and options.is_observed
        step = self.compiler.find_or_compile(request, feeds, watched, partial_run, observed)
        for watch in watches:
            if watch.tensor not in set(step.watched):
                refuse_watch(watch.tensor)
        return step

    async def prepare_step_in_thread(
        self, request: Request, feeds: tuple[Tensor, ...], streamed: Sequence[Any] = ()
    ) -> None:
        """Compile a step in a thread, for runs without options and for streams of each of some tensors."""
        # A step is compiled for a set of watched tensors: those of the session, and these with each streamed one.
        watched = self.watches.tensors
        tensors = [Watch(self.graph.as_graph_element(each)).tensor for each in streamed]
        for shown in [watched, *(tuple(dict.fromkeys([*watched, each])) for each in tensors)]:
            await self.compiler.find_or_compile_in_thread(request, feeds, shown, self.running.check_admits)

    def run(
        self,
        request: Request,
        step: CompiledStep,
        values: Sequence[Any],
        options: RunOptions = NO_OPTIONS,
    ) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs a step when there is a place for it, and returns the fetched values."""
        timeout = options.timeout
        if timeout is None:
            timeout = self.timeout  # of the moment of the call: the step may wait for its place
        else:
            check_seconds(timeout)
        came = perf_counter()
        running = self._run_step(request, step, values, options, timeout, came)
        if self.admission is not None or self.counts.hook is not None:
            running = self._run_admitted(running, step, came)
        return running if options.priority is None else run_at(options.priority, running)

    async def _run_admitted(self, running: Coroutine[Any, Any, Any], step: CompiledStep, came: float) -> Any:
        """Run a step in its place among `max_steps`, and tell the hooks of its begin and end."""
        try:
            place = await self.admit(step)
        except BaseException:
            running.close()  # otherwise Python warns of a coroutine that was never awaited
            raise
        told, began, error = self.counts.begin(step), perf_counter(), None
        try:
            # The session may have begun to close while the step waited for its place.
            self.running.check_admits()
            return await running
        except BaseException as failure:
            error = failure
            raise
        finally:
            running.close()  # without effect, unless the session refused the step
            self.leave(place)
            self.counts.notify_hook(told, perf_counter() - began, began - came, error)
            del error  # its traceback refers to this frame

    async def admit(self, step: CompiledStep) -> Place | None:
        """Wait for a place for a step."""
        self.running.enter_loop()
        return None if self.admission is None else await self.admission.enter(", ".join(names_of(step)))

    def leave(self, place: Place | None) -> None:
        """Release a place, unless None."""
        if self.admission is not None and place is not None:
            self.admission.leave(place)

    async def _run_step(
        self,
        request: Request,
        step: CompiledStep,
        values: Sequence[Any],
        options: RunOptions,
        timeout: float | None,
        came: float,
    ) -> Any:
        """Convert feeds, specialize, wait for the boundary and memory, in this order; then run the step and pack."""
        if timeout == 0.0:
            raise self._no_time()
        feeds = step.feeds_if_exact(values)
        if feeds is None:
            feeds = await self._convert_feeds(step, values)
        if self._has_device_arrays:
            feeds = await self._copy_feeds_to_host(step, feeds)
            self.running.check_admits()
        step = self._specialize_step(request, step, feeds)
        watches = self._watches_of(step, options.watches)
        if self.boundary.holds_back(step):
            await self.boundary.pass_by(step)
            self.running.check_admits()
        claim = None
        if self.memory.is_limited:
            claim, timeout = await self.memory.place(step, feeds, timeout)
        # A report counts the instances of this run alone, in a copy of the step that is used again.
        shared, report = step, options.report
        if report is not None:
            step = shared.with_private_counters(self.environment.settings)
        execution = self._begin_in_memory(claim, step, feeds, watches, options.trace)
        # This frame and its callers' live as long as the step, and must not keep fed arrays that the step has used up.
        del values, feeds
        self.running.steps.add(execution)
        try:
            try:
                fetched = await execution.run(timeout)
                if request.has_handles:
                    fetched = self._wrap_kept_values(fetched)
            finally:
                self.end(execution, watches, claim)
                if report is not None:
                    fill_report(report, step, execution.counts)
                    shared.counter_pool.append(step)
                if self.running.releasing is not None:
                    await self.running.await_release()
            if request.copies_much(fetched) and self.environment.long_calls is not None:
                result = await self.environment.long_calls(request.pack, fetched)
            else:
                result = request.pack(fetched)
        except BaseException as error:
            # The caller gets no values, so elements taken from queues are not lost.
            self.environment.resources.give_back(execution.context.number)
            self.counts.note(error)
            raise
        self.environment.resources.taken.pop(execution.context.number, None)
        self.counts.finished += 1
        self.counts.latency.add(perf_counter() - came)
        return result

    def _begin_in_memory(
        self,
        claim: MemoryClaim | None,
        step: CompiledStep,
        feeds: list[Any],
        watches: Sequence[WatchBuffer],
        trace: Trace | None,
    ) -> Execution:
        """Return a new execution of a step that holds its claim; release the claim if the step cannot begin."""
        if claim is None:
            return self.begin(step, feeds, watches, trace)
        try:
            execution = self.begin(step, feeds, watches, trace)
        except BaseException:
            self.memory.leave(claim)
            raise
        self.memory.fill(claim, execution)
        return execution

    def _watches_of(self, step: CompiledStep, watches: Sequence[WatchBuffer]) -> Sequence[WatchBuffer]:
        """Return the buffers of a step's watched tensors: of the session's watches and of this run's."""
        return [*self.watches.buffers_of(step.watched), *watches] if step.watched else watches

    def _wrap_kept_values(self, fetched: list[Any]) -> list[Any]:
        """Return fetched values with a TensorHandle for each value that the session keeps."""
        devices = [each.device for each in self.environment.devices]
        return [
            TensorHandle(each, devices, self.environment.long_calls) if isinstance(each, KeptTensor) else each
            for each in fetched
        ]

    async def _convert_feeds(self, step: CompiledStep, values: Sequence[Any]) -> list[Any]:
        """Return fed values as fitting arrays; a thread converts large values."""
        calls = self.environment.long_calls
        if calls is None or not step.converts_much(values):
            return step.convert(values)
        feeds = await calls(step.convert, values)
        self.running.check_admits()
        return feeds  # type: ignore[no-any-return]

    async def _copy_feeds_to_host(self, step: CompiledStep, feeds: list[Any]) -> list[Any]:
        """Return fed values, copied to the host's memory where another device than the value's reads them."""
        devices = self.environment.devices
        found = list(feeds)
        for part in step.device_plans:
            for place, k in enumerate(part.feeds):
                if not isinstance(feeds[k], np.ndarray) and (
                    place in part.host_backed or not devices[part.device].device.owns(feeds[k])
                ):
                    found[k] = await copied_out(feeds[k], [each.device for each in devices])
                    check_on_host(step.feeds[k].tensor, found[k])
        return found

    def _no_time(self) -> StepTimeout:
        """Count a step with timeout 0, which does not begin, and return its error."""
        self.counts.started += 1
        self.counts.timed_out += 1
        return StepTimeout(
            "the step did not end within 0 s",
            wanted="some time to run in",
            got="timeout=0, which is over at once",
            hint="give it a longer timeout=",
        )

    def _specialize_step(self, request: Request, step: CompiledStep, fed: list[Any]) -> CompiledStep:
        """Return the step compiled for the shapes of fed values, or the step for any shapes.

        The compilation happens here and not in a thread: steps begin in the order of their calls, and results may not
        depend on its duration. An operation that cannot run on these shapes fails when run, with its tag, not here.
        """
        shapes = step.fed_shapes.choose_shapes(fed) if step.fed_shapes.may_be_chosen else None
        if shapes is None:
            return step
        try:
            feeds = tuple([feed.tensor for feed in step.feeds])
            found = self.compiler.find_or_compile(
                request, feeds, step.watched, observed=step.is_observed, shapes=shapes
            )
        except (GraphError, DeviceMemoryError):
            step.fed_shapes.decline(shapes)
            return step
        found.peaks = step.peaks  # both take about the same memory
        return found

    def begin(
        self,
        step: CompiledStep,
        feeds: list[Any],
        watches: Sequence[WatchBuffer],
        trace: Trace | None,
        state: PartialRunState | None = None,
    ) -> Execution:
        """Return a new execution of a step; of a partial run with its state."""
        random, started = self.random, self.counts.started
        seed = self.graph.seed if random.seed is None else random.seed
        watching = watchers_by_tensor(watches) if watches else _UNWATCHED
        # All fields of StepContext in order, without a swapper yet: a third of the cost of keyword arguments.
        context = StepContext._make((started, seed, *self._services, watching, state, None, random.offset))
        execution = self._executor(step, context, feeds, self.environment, trace, self.running.enter_loop())
        self.compiler.cache.last = step, execution.counts
        self.counts.started += 1
        for watch in watches:
            watch.step_begins()
        return execution

    def end(self, execution: StepUnderWay, watches: Sequence[WatchBuffer], claim: MemoryClaim | None = None) -> None:
        """Note the end of an execution, and release its claim; or note the end of a partial run."""
        if claim is not None:
            self.memory.leave(claim)
        running = self.running
        running.steps.discard(execution)
        if self.boundary.is_held:
            self.boundary.step_ends()
        for watch in watches:
            watch.step_ends()
        if running.is_end_awaited and not running.steps:
            running.note_none_left()

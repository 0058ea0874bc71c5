"""Sessions: await steps of a graph in an asyncio program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...base.docstrings import documented_by
from ...base.errors import GraphError, TagloomError
from ...base.settings import DEFAULTS, Settings
from ...base.wording import short_device
from ...ir.entry import explained
from ...ir.graph import Graph
from ...ir.scopes import PersistentScope, Scope, current_region
from ...ops.internal import partial_run as _parts  # noqa: F401  declares the operation types of steps in parts
from ...ops.internal import watch as _watching  # noqa: F401  declares the operation type that shows values
from ...streams.contract import Device
from ..devices.session_devices import DeviceAttributes, open_devices
from ..memory.arbiter import MemoryArbiter
from ..memory.limits import Limit, set_limits
from ..memory.session_swap import Swap, Swapping
from ..observe.statistics import Statistics
from ..observe.tellers import StatisticsSource
from ..observe.trace import Trace
from ..observe.watch import Watch
from ..resources.manager import ResourceManager, Snapshot
from ..scheduling.blocking_calls import BlockingCalls
from ..scheduling.worker_pool import WorkerPool
from ..steps.environment import Guard, StepEnvironment
from ..steps.execution import executor_named
from ..steps.feeds import resolve_feeds, split_feeds
from ..steps.outcomes import RandomState, StepRecord
from ..steps.report.report import Report
from ..steps.request import make_request
from ..steps.run_options import NO_OPTIONS, Feeds, make_run_options
from ..steps.runner import StepRunner
from ..steps.step import Step
from .lifecycle import SessionLifecycle
from .observation import SessionObservation
from .typed_runs import typed_make_step, typed_run
from .variables import Capture, Named, SessionVariables

if TYPE_CHECKING:
    from ..steps.partial.partial_run import PartialRun


class Session:
    """Runs steps of a graph and owns its variables. ``async with Session(graph)`` makes the graph current as well.

    Parameters
    ----------
    graph : Graph, optional
        Defaults to the graph open in this context.
    executor : {'machine', 'reference'}, optional
        The compiled step machine, or the readable executor, in which every operation instance is an asyncio task.
    timeout : float, optional
        Default number of seconds after which a step ends with StepTimeout; 0 is over at once.
    max_steps : int, optional
        Most steps running at once; unlimited by default. Further steps wait, first come first served, for at most
        ``Settings.admission_seconds``, and then end with Overloaded.
    check_numerics : bool, optional
        Fail a step as soon as a kernel returns NaN or infinity; the OpError names operation, loop path and iteration.
        Operations are then not fused, so each result is checked.
    devices : int or list of str or Device, optional
        Number of CPU devices, each with memory of its own, or the names of CPUs and GPUs ("/gpu:0"); one CPU by
        default. Names of another job, replica or task than ``/job:localhost/task:0`` are refused. Operations request a
        device by ``device``; the others run on the device of their data, or on the first device. Devices of
        ``tagloom.streams`` are accepted too, and stay open.
    soft_placement : bool, optional
        Place operations requesting a missing device, or two different devices, elsewhere instead of refusing the step.
        Devices of other machines are refused all the same.
    memory_limit : int, str, MemoryBudget or mapping, optional
        Most bytes of arrays on each device, as a number or like "512MiB", or by the names of devices; or a
        :class:`MemoryBudget`, shared by the devices of several sessions. Allocations beyond the limit wait until memory
        is freed, and iterations begin only when there is room for them; a step that cannot continue ends with
        DeviceMemoryError.
    swap : SwapPolicy or bool, optional
        Policy by which values saved by loops for their gradients leave device memory when memory is short, and return
        in time: in all loops (True: the default policy) or in none (False); by default in loops with
        ``swap_memory=True``.
    settings : Settings, optional
        Options of the engine.
    on_step : callable or list of callable, optional
        Called with a :class:`StepRecord` after each step, however the step has ended; exceptions are logged. If a
        callable has a method ``begin_step``, ``on_step.begin_step(fetches)`` is called when a step begins, in the
        context of the caller, and the result is called with the record: so :class:`tagloom.monitoring.Spans` makes
        spans current during steps.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [None])
    ...     y = tg.reduce_sum(x * 2.0)
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         return await session.run(y, feeds={x: [1.0, 2.0]})
    >>> float(asyncio.run(main()))
    6.0
    """

    @explained
    def __init__(
        self,
        graph: Graph | None = None,
        *,
        executor: str = "machine",
        timeout: float | None = None,
        max_steps: int | None = None,
        check_numerics: bool = False,
        devices: int | Sequence[str | Device] | None = None,
        soft_placement: bool = False,
        memory_limit: Limit | Mapping[str, Limit] | None = None,
        swap: Swap = None,
        settings: Settings = DEFAULTS,
        on_step: Callable[[StepRecord], object] | Sequence[Callable[[StepRecord], object]] | None = None,
    ) -> None:
        graph = graph if graph is not None else current_region("pass it: tagloom.Session(graph)").graph
        if not isinstance(graph, Graph):
            raise GraphError(
                "a session runs steps of a graph",
                wanted="a tagloom.Graph",
                got=repr(graph),
                hint="tagloom.Session(tensor.graph); give what it is to compute to run()",
            )
        # Unfused, so each result is checked; unblocked, so no check fails for an iteration the loop never reaches.
        if check_numerics:
            settings = replace(settings, switches=replace(settings.switches, fuse=False, block_bytes=0))
        self.settings: Settings = settings
        resources, opened = ResourceManager(settings.close_seconds), open_devices(devices, settings)
        set_limits(opened, memory_limit)
        self._scope = PersistentScope(Scope(graph.root))
        threads, cores = BlockingCalls(settings.blocking_threads), WorkerPool(settings)
        swapping = Swapping(swap, opened)
        guard: Guard | None = None
        if check_numerics:
            from ..observe.numerics import require_finite  # here, as few sessions check their numbers

            guard = require_finite
        environment = StepEnvironment(
            self.settings,
            opened,
            soft_placement,
            resources,
            threads,
            cores,
            MemoryArbiter(threads, cores, devices=opened),
            swapping,
            guard,
        )
        kind = executor_named(executor, opened, check_numerics)
        self.graph: Graph = graph
        self.resources: ResourceManager = resources
        self._steps = StepRunner(graph, environment, kind, timeout, max_steps, on_step)
        self._variables = SessionVariables(self._steps)
        self._observation = SessionObservation(self._steps, threads, cores, swapping)
        self._lifecycle = SessionLifecycle(self._steps, threads, cores, swapping, self._observation)

    @property
    def timeout(self) -> float | None:
        """Default number of seconds after which a step ends with StepTimeout; ``run`` may override the default."""
        return self._steps.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._steps.set_timeout(seconds)

    def __repr__(self) -> str:
        steps, running = self._steps, self._steps.running
        devices = ", ".join(short_device(each.spec) for each in steps.environment.devices)
        state = "closed" if running.is_closed else "open"
        return f"<Session on {devices}, {state}: {steps.counts.started} steps started, {len(running.steps)} running>"

    def __del__(self) -> None:
        steps = getattr(self, "_steps", None)  # None if __init__ has refused its arguments
        if steps is not None and steps.counts.started and not steps.running.is_closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=1)

    def __enter__(self) -> NoReturn:
        raise TagloomError(
            "a Session is awaited, so its block is too",
            wanted="async with",
            got="with",
            hint="`async with Session(graph) as session:`, or `with SyncSession(graph) as session:` in a script",
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing; ``with`` looks the method up before calling `__enter__`, which raises the error."""

    async def __aenter__(self) -> Session:
        self._steps.running.enter_loop()
        await self.observe_if_set()
        self._scope.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.close()
        await self.aclose()

    @typed_run
    @explained
    async def run(
        self,
        fetches: Any,
        feeds: Feeds = None,
        *,
        timeout: float | None = None,
        trace: Trace | None = None,
        watch: Watch | Sequence[Watch] = (),
        report: Report | None = None,
        priority: int | None = None,
    ) -> Any:
        """Run one step and return the fetched values.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name
        feeds : mapping, optional
            Values for tensors, a SparseTensorValue for a SparseTensor. Arrays of the tensor's dtype are used without a
            copy until the step ends; others are converted if their kind fits and every value is in range.
        timeout : float, optional
            Seconds from the step's admission until StepTimeout; the session's timeout by default, ``math.inf`` for
            none.
        trace : Trace, optional
            Receives a span for each operation instance of the step.
        watch : Watch or sequence of Watch, optional
            Receive the values of their tensors in this step alone, and end with the step; see also
            :meth:`Step.stream`.
        report : Report, optional
            An empty report, filled at the step's end with the loops of this step alone. The first such step makes
            counters of its own, which takes some 30 us for each operation.
        priority : int, optional
            Rank of the step while waiting for a place or for memory: higher ranks are first, and equal ranks in order
            of arrival; by default the rank of the enclosing block of :func:`tagloom.priority`, or 0. Ranks do not age.

        Returns
        -------
        structure of numpy.ndarray
            In the structure of `fetches`, owned by the caller; None for an operation.

        Raises
        ------
        GraphError
            If the step cannot be compiled (a placeholder is not fed, a fetch is inside a loop).
        OpError
            If an operation fails; the original error is its cause.
        DeadFetchError
            If a fetched value lies on a branch that was not taken.
        StepTimeout
            If the time is over. The session stays usable after any error.
        Overloaded
            If there was no place among the session's `max_steps` in time.
        """
        steps = self._steps
        options = NO_OPTIONS
        has_watch = type(watch) is not tuple or bool(watch)
        if has_watch or not (timeout is None and trace is None and report is None and priority is None):
            options = make_run_options(self.graph, timeout, trace, watch, report, priority)
        watch = ()  # no reference of this frame keeps a watch alive after its reader has dropped it
        try:
            steps.running.check_admits()
            tensors, values = split_feeds(self.graph, {} if feeds is None else feeds)
            request = make_request(self.graph, fetches)
            step = steps.prepare_step(request, tensors, options)
            running = steps.run(request, step, values, options)
            del feeds, values  # this frame must not keep arrays that the step has used up
            return await running
        finally:
            for each in options.watches:
                each.end()

    @typed_make_step
    def make_step(self, fetches: Any, feeds: Sequence[Any] = ()) -> Step[Any]:
        """Compile a step once, to run it many times.

        A step with feeds of unknown sizes is compiled once more for shapes fed a second time, as far as
        ``Settings.specialize`` allows, and is then as fast as with declared sizes.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name
            As for :meth:`run`.
        feeds : sequence of Tensor, Variable or name
            Tensors to be fed, in the order of the step's arguments.

        Returns
        -------
        Step
            ``await step(*values)`` returns the result of :meth:`run`.

        Raises
        ------
        GraphError
            If the step cannot be compiled.
        """
        self._steps.running.check_admits()
        return Step(self._steps, make_request(self.graph, fetches), resolve_feeds(self.graph, feeds), feeds)

    async def compile(self, fetches: Any, feeds: Sequence[Any] = (), *, watch: Sequence[Any] = ()) -> Step[Any]:
        """Compile a step as `make_step` does, in a thread: the event loop and other steps continue.

        The graph must not be added to meanwhile. For `fetches`, `feeds` and errors see :meth:`make_step`; the step is
        also compiled for :meth:`Step.stream` of each tensor, or tensor name, in `watch`.

        Returns
        -------
        Step
            ``await step(*values)`` returns the result of :meth:`run`.
        """
        self._steps.running.check_admits()
        request, tensors = make_request(self.graph, fetches), resolve_feeds(self.graph, feeds)
        await self._steps.prepare_step_in_thread(request, tensors, watch)
        return Step(self._steps, request, tensors, feeds)

    async def partial_run_setup(
        self, fetches: Any, feeds: Sequence[Any] = (), *, trace: Trace | None = None
    ) -> PartialRun:
        """Begin a step with feeds and fetches in parts.

        Operations that need no feed are computed at once, and each operation runs once for all parts. The step counts
        as running until all operations have ended or the partial run is closed.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name
            Fetches of all parts.
        feeds : sequence of Tensor, Variable or name
            Feeds of all parts.
        trace : Trace, optional
            Receives a span for each operation instance of the step.

        Returns
        -------
        PartialRun
            Handle for :meth:`partial_run`; ``async with`` closes the handle.

        Raises
        ------
        GraphError
            If nothing is fetched, or a placeholder that the fetches need is not among the feeds.
        Overloaded
            If there was no place among the session's `max_steps` in time.
        """
        from ..steps.partial.partial_run import begin  # here, as few programs run steps in parts

        return await begin(self._steps, fetches, feeds, trace)

    @explained
    async def partial_run(
        self, handle: PartialRun, fetches: Any, feeds: Mapping[Any, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Run a part of a step: feed some of its values, wait for some of its fetches.

        Several parts may wait at the same time. A cancelled part stops waiting: its feeds stay fed, and its fetches may
        be fetched again. With the last fetch the step has ended.

        Parameters
        ----------
        handle : PartialRun
            From :meth:`partial_run_setup` of this session.
        fetches : structure of Tensor, Operation, Variable or name
            Fetches named at the setup, each once; an empty list for a part with feeds alone.
        feeds : mapping, optional
            Values for feeds named at the setup, each once; the values are copied.
        timeout : float, optional
            Seconds until StepTimeout, which ends the step; the session's timeout by default, ``math.inf`` for none.

        Returns
        -------
        structure of numpy.ndarray
            As for :meth:`run`.

        Raises
        ------
        GraphError
            If a feed or fetch was not named, was fed or fetched before, or a fetch needs a feed not fed yet: the
            partial run stays as before. If the partial run has ended.
        OpError, DeadFetchError, StepTimeout
            As for :meth:`run`; the partial run has then ended, also for other parts.
        SessionClosed
            If the partial run or the session is closed.
        """
        from ..steps.partial.partial_run import run_part

        return await run_part(self._steps, handle, fetches, feeds or {}, timeout)

    @property
    def closed(self) -> bool:
        """True if the session is closed."""
        return self._steps.running.is_closed

    @documented_by(SessionLifecycle.aclose)
    async def aclose(self, *, drain: float = 0.0) -> None:
        await self._lifecycle.aclose(drain)

    @documented_by(SessionLifecycle.call_before_release)
    def call_before_release(self, function: Callable[[], object]) -> None:
        self._lifecycle.call_before_release(function)

    # ---- values between steps

    @documented_by(SessionVariables.read_variables)
    async def read_variables(self, names: Named | Iterable[Named] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        return await self._variables.read_variables(names)

    @documented_by(SessionVariables.write_variables)
    async def write_variables(
        self, values: Mapping[Any, Any], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        await self._variables.write_variables(values, consistent=consistent, seconds=seconds)

    @documented_by(SessionVariables.snapshot)
    async def snapshot(self) -> Snapshot:
        return await self._variables.snapshot()

    @documented_by(SessionVariables.restore)
    async def restore(
        self, snapshot: Mapping[str, Mapping[str, Any]], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        await self._variables.restore(snapshot, consistent=consistent, seconds=seconds)

    @documented_by(SessionVariables.capture)
    async def capture(
        self, *, consistent: bool = False, seconds: float = 10.0, along: Callable[[], Any] | None = None
    ) -> Capture:
        return await self._variables.capture(consistent=consistent, seconds=seconds, along=along)

    @property
    def random_state(self) -> RandomState:
        """Seed and step number of the next step's random operations; set both to repeat earlier draws."""
        return self._steps.random.state

    @random_state.setter
    def random_state(self, state: tuple[int, int]) -> None:
        seed, step = map(int, state)
        self._steps.random.state = RandomState(seed, step)

    @property
    def is_adrift(self) -> bool:
        """True if the session is open but its event loop is closed."""
        return self._steps.running.is_adrift

    @documented_by(SessionVariables.names_in_use)
    def names_in_use(self) -> set[str]:
        return self._variables.names_in_use()

    # ---- observation

    @documented_by(SessionObservation.statistics)
    def statistics(self) -> Statistics:
        return self._observation.statistics()

    @documented_by(SessionObservation.include_statistics)
    def include_statistics(self, kind: str, name: str, source: StatisticsSource) -> None:
        self._observation.include_statistics(kind, name, source)

    @documented_by(SessionObservation.watch)
    def watch(self, tensor: Any, *, limit: int = 16, policy: str = "block") -> Watch:
        return self._observation.watch(tensor, limit=limit, policy=policy)

    @documented_by(SessionObservation.report)
    def report(self) -> Report:
        return self._observation.report()

    @documented_by(SessionObservation.observe)
    def observe(self, name: str | None = None) -> AbstractAsyncContextManager[Path]:
        return self._observation.observe(self, name)

    @documented_by(SessionObservation.observe_if_set)
    async def observe_if_set(self) -> None:
        await self._observation.observe_if_set(self)

    @documented_by(SessionObservation.list_devices)
    def list_devices(self) -> list[DeviceAttributes]:
        return self._observation.list_devices()

    @documented_by(SessionObservation.reset_peak_memory_stats)
    def reset_peak_memory_stats(self) -> None:
        self._observation.reset_peak_memory_stats()

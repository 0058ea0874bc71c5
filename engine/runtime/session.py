"""Sessions: await steps of a graph in an asyncio program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

from ..base.errors import GraphError, SessionClosed, TagloomError
from ..base.settings import DEFAULTS, Settings
from ..base.wording import short_device
from ..ir.entry import explained
from ..ir.graph import Graph
from ..ir.scopes import PersistentScope, Scope, current_region
from ..ops.internal import partial_run as _parts  # noqa: F401  declares the operation types of steps in parts
from ..ops.internal import watch as _watching  # noqa: F401  declares the operation type that shows values
from ..streams.contract import Device
from .devices.session_devices import open_devices
from .memory.arbiter import MemoryArbiter
from .memory.limits import Limit, set_limits
from .memory.session_swap import Swap, Swapping
from .observe.numerics import require_finite
from .observe.trace import Trace
from .observe.watch import Watch, buffers_of_run
from .resources.manager import ResourceManager
from .scheduling.blocking_calls import BlockingCalls
from .scheduling.priorities import checked_priority
from .scheduling.timeouts import check_seconds
from .scheduling.worker_pool import WorkerPool
from .session_view import SessionView
from .steps.environment import StepEnvironment
from .steps.execution import executor_named
from .steps.observers import check_observers
from .steps.outcomes import StepRecord
from .steps.partial_run import PartialRun, begin, run_part
from .steps.report import Report
from .steps.request import feed_values, make_request, resolve_feeds
from .steps.run_options import Feeds
from .steps.runner import REOPEN, StepRunner
from .steps.step import Step
from .typed_runs import typed_make_step, typed_run


class Session(SessionView):
    """Runs steps of a graph; owns its variables. ``async with Session(graph)`` makes the graph current as well.

    Parameters
    ----------
    graph : Graph, optional
        Defaults to the graph open in this context.
    executor : {'machine', 'reference'}, optional
        The compiled step machine, or the readable one in which every operation instance is an asyncio task.
    timeout : float, optional
        Seconds after which a step ends with StepTimeout, unless ``run`` says otherwise; 0 is over at once.
    max_steps : int, optional
        How many steps run at once; unlimited by default. The others wait, first come first served, at most
        ``Settings.admission_seconds``: then they end with Overloaded.
    check_numerics : bool, optional
        Fail a step as soon as a kernel gives NaN or infinity; the OpError names operation, loop path and iteration.
        Operations are then not fused, so that each is seen.
    devices : int or list of str or Device, optional
        How many CPU devices the session has, each with memory of its own, or the names of CPUs and GPUs ("/gpu:0"); one
        CPU by default. Operations ask for them by ``device``, those that ask for nothing run where their data is or on
        the first. Devices of ``tagloom.streams`` can be given too; they stay open.
    soft_placement : bool, optional
        Place operations that ask for a device that is not there, or for two different ones, elsewhere instead of
        refusing the step. Devices of other machines are refused all the same.
    memory_limit : int, str, MemoryBudget or mapping, optional
        Bytes that the arrays of each device may take, as a number or like "512MiB", or of some by their names; or a
        :class:`MemoryBudget`, within which the arrays of all devices of several sessions stay together. What does not
        fit waits until memory is given back, and iterations begin only as there is room for them; a step that can not
        go on ends with DeviceMemoryError.
    swap : SwapPolicy or bool, optional
        How what loops save for their gradients leaves the devices' memory when that is short, and comes back in time:
        in all loops (True: by the default policy) or in none; unless given, in those that say ``swap_memory=True``.
    settings : Settings, optional
        The knobs of the engine.
    on_step : callable or list of callable, optional
        Called with a :class:`StepRecord` when a step has ended, in whatever way; what it raises is logged. If one has a
        method ``begin_step``, ``on_step.begin_step(fetches)`` is called when a step begins, where it is run, and what
        that returns gets the record: so :class:`tagloom.monitoring.Spans` makes spans that are current meanwhile.

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
        # Each operation is looked at by itself, and nothing is computed for an iteration that may never come.
        self.settings: Settings = replace(settings, fuse=False, block_bytes=0) if check_numerics else settings
        resources, opened = ResourceManager(settings.close_seconds), open_devices(devices, settings)
        set_limits(opened, memory_limit)
        self._scope = PersistentScope(Scope(graph.root))
        threads, cores = BlockingCalls(settings.blocking_threads), WorkerPool(settings)
        swapping = Swapping(swap, opened)
        environment = StepEnvironment(
            self.settings,
            opened,
            soft_placement,
            resources,
            threads,
            cores,
            MemoryArbiter(threads, cores, devices=opened),
            swapping,
            require_finite if check_numerics else None,
        )
        kind = executor_named(executor, opened, check_numerics)
        steps = StepRunner(graph, environment, kind, timeout, max_steps, on_step)
        self._before_release: list[Callable[[], object]] = []
        super().__init__(graph, resources, opened, steps, cores, threads, swapping)

    @property
    def timeout(self) -> float | None:
        """Seconds after which a step ends with StepTimeout, unless ``run`` says otherwise."""
        return self._steps.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._steps.set_timeout(seconds)

    def __repr__(self) -> str:
        steps = self._steps
        devices = ", ".join(short_device(each.spec) for each in self._devices)
        state = "closed" if steps.is_closed else "open"
        return f"<Session on {devices}, {state}: {steps.counts.started} steps started, {len(steps.running)} running>"

    def __del__(self) -> None:
        steps = getattr(self, "_steps", None)  # there is none if the arguments were refused
        if steps is not None and steps.counts.started and not steps.is_closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=1)

    def __enter__(self) -> NoReturn:
        raise TagloomError(
            "a Session is awaited, so its block is too",
            wanted="async with",
            got="with",
            hint="`async with Session(graph) as session:`, or `with SyncSession(graph) as session:` in a script",
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: ``with`` wants it to be there before it calls `__enter__`."""

    async def __aenter__(self) -> Session:
        self._steps.enter_loop()
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
            copy until the step ends, those of another converted where their kind fits and every value is in range.
        timeout : float, optional
            Seconds until StepTimeout, from when the step is admitted; the session's own unless given,
            ``math.inf`` for none.
        trace : Trace, optional
            Gets a span for each operation instance of the step.
        watch : Watch or sequence of Watch, optional
            Are shown what their tensors are in this step alone, and end with it; see also :meth:`Step.stream`.
        report : Report, optional
            An empty one, filled with what the loops of this step alone did when it ends. Tables of its own are made
            for that with the first such step, which takes some 30 us for each operation.
        priority : int, optional
            Where steps wait for a place or for memory, higher ones are next, and among equals the one that came first;
            that of the block of :func:`tagloom.priority` around, or 0, unless given. Nothing ages.

        Returns
        -------
        structure of numpy.ndarray
            In the structure of `fetches`, owned by the caller; None for an operation.

        Raises
        ------
        GraphError
            If the step can not be compiled (a placeholder is not fed, a fetch is inside a loop).
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
        watches = () if type(watch) is tuple and not watch else buffers_of_run(watch, self.graph)
        watch = ()  # it ends if nobody else holds it
        try:
            level = None if priority is None else checked_priority(priority)
            steps.check_admits()
            tensors, values = feed_values({} if feeds is None else feeds, self.graph)
            request = make_request(self.graph, fetches)
            step = steps.compiled(request, tensors, watches, observed=check_observers(trace, report))
            return await steps.run(request, step, values, timeout, trace, watches, report, level)
        finally:
            for each in watches:
                each.end()

    @typed_make_step
    def make_step(self, fetches: Any, feeds: Sequence[Any] = ()) -> Step[Any]:
        """Compile a step once, to run it many times.

        A step with feeds of unknown sizes is compiled once more for shapes that it is fed the second time, as far as
        ``Settings.specialize`` allows; it is then as fast as if the sizes were declared.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name
            As for :meth:`run`.
        feeds : sequence of Tensor, Variable or name
            What will be fed, in the order in which the step takes the values.

        Returns
        -------
        Step
            ``await step(*values)`` gives what :meth:`run` would.

        Raises
        ------
        GraphError
            If the step can not be compiled.
        """
        self._steps.check_admits()
        return Step(self._steps, make_request(self.graph, fetches), resolve_feeds(self.graph, feeds), feeds)

    async def compile(self, fetches: Any, feeds: Sequence[Any] = (), *, watch: Sequence[Any] = ()) -> Step[Any]:
        """Compile a step as `make_step` does, in a thread: the event loop goes on, and so do other steps.

        The graph must not be added to meanwhile. For `fetches`, `feeds` and errors see :meth:`make_step`; the step is
        also compiled for :meth:`Step.stream` of each tensor, or name of one, in `watch`.

        Returns
        -------
        Step
            ``await step(*values)`` gives what :meth:`run` would.
        """
        self._steps.check_admits()
        request, tensors = make_request(self.graph, fetches), resolve_feeds(self.graph, feeds)
        watched = self._steps.watches.tensors
        streamed = [Watch(self.graph.as_graph_element(each)).tensor for each in watch]
        for shown in [watched, *(tuple(dict.fromkeys([*watched, each])) for each in streamed)]:
            await self._steps.compiler.compile(request, tensors, shown, self._steps.check_admits)
        return Step(self._steps, request, tensors, feeds)

    async def partial_run_setup(
        self, fetches: Any, feeds: Sequence[Any] = (), *, trace: Trace | None = None
    ) -> PartialRun:
        """Begin a step whose feeds are given, and whose fetches are taken, in parts.

        Whatever needs no feed is computed at once, and each operation runs once for all parts. The step counts as
        running until all is computed or the partial run is closed.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name
            All that parts will fetch.
        feeds : sequence of Tensor, Variable or name
            All that parts will feed.
        trace : Trace, optional
            Gets a span for each operation instance of the step.

        Returns
        -------
        PartialRun
            To be given to :meth:`partial_run`; ``async with`` closes it.

        Raises
        ------
        GraphError
            If nothing is fetched, or a placeholder that the fetches need is not among the feeds.
        Overloaded
            If there was no place among the session's `max_steps` in time.
        """
        self._steps.check_admits()
        request = make_request(self.graph, fetches)
        if not request.tensors and not request.targets:
            raise GraphError(
                "a partial run needs something to fetch",
                got=fetches,
                wanted="a tensor or an operation",
                hint="specify at least one target",
            )
        if request.has_handles:
            raise GraphError("handles can not be fetched in parts", got=fetches, hint="fetch them by run()")
        fed = resolve_feeds(self.graph, feeds)
        step = self._steps.compiled(request, fed, partial_run=True, observed=trace is not None)
        return await begin(self._steps, step, trace)

    @explained
    async def partial_run(
        self, handle: PartialRun, fetches: Any, feeds: Mapping[Any, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Run a part of a step: feed some of its values, wait for some of its fetches.

        Parts may wait at the same time. One that is cancelled stops waiting: what it fed stays fed, what it fetched
        may be fetched again. With the last fetch the step has ended.

        Parameters
        ----------
        handle : PartialRun
            From :meth:`partial_run_setup` of this session.
        fetches : structure of Tensor, Operation, Variable or name
            Of those named there, each once; an empty list for a part that only feeds.
        feeds : mapping, optional
            Values for tensors named there, each once; they are copied.
        timeout : float, optional
            Seconds until StepTimeout, which ends the step; the session's own unless given, ``math.inf`` for none.

        Returns
        -------
        structure of numpy.ndarray
            As for :meth:`run`.

        Raises
        ------
        GraphError
            If a feed or fetch was not named, was given or taken before, or needs what was not fed yet: the partial
            run stays as it was. If it has ended.
        OpError, DeadFetchError, StepTimeout
            As for :meth:`run`; it has ended then, also for other parts.
        SessionClosed
            If the partial run or the session is closed.
        """
        self._steps.check_open()
        if not isinstance(handle, PartialRun) or handle.runner is not self._steps:
            raise GraphError(
                "this is no partial run of this session",
                wanted="what partial_run_setup returned",
                got=handle,
                hint="await session.partial_run_setup(fetches, feeds)",
            )
        return await run_part(handle, fetches, feeds or {}, timeout)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._steps.is_closed

    async def aclose(self, *, drain: float = 0.0) -> None:
        """Close the session: end running steps with SessionClosed, wait for them, and release everything.

        Blocking functions that outlive their steps are waited for too, at most ``Settings.close_seconds``.
        When cancelled it stops waiting: the steps still end, each in its task, and the last of them releases all.
        Twice is fine, also while another call drains.

        Parameters
        ----------
        drain : float, optional
            Seconds in which running steps, and partial runs, may come to their own end; ``math.inf`` for as long as it
            takes. No more steps begin, also those that functions of running steps ask for, and those that wait for a
            place end with SessionClosed at once. Variables can be read meanwhile.
        """
        check_seconds(drain, "drain")
        if self._steps.is_stranded:
            return
        self._steps.enter_loop()
        try:
            await self._steps.drain(drain)
        finally:
            await self._end()

    def call_before_release(self, function: Callable[[], object]) -> None:
        """Call a function when the last step has ended, and the session still has its variables."""
        self._before_release.append(function)

    async def _end(self) -> None:
        self._steps.environment.arbiter.begin_closing()
        self.resources.cancel(SessionClosed("the session was closed", hint=REOPEN))
        try:
            await self._steps.aclose()
            await self._threads.aclose(self.settings.close_seconds)
        finally:
            await self._steps.after_last(self._release)

    async def _release(self) -> None:
        """Release what steps use, when none runs any longer, also when cancelled; again is fine, and at one time."""
        self._last_report = self.report()  # figures only, which keep nothing of the step
        while self._before_release:
            self._before_release.pop()()
        self._steps.compiler.cache.clear()
        self._threads.shutdown()
        async with AsyncExitStack() as closing:  # the last first
            closing.callback(self._steps.environment.arbiter.close)
            for each in self._devices:
                if each.owned:
                    closing.push_async_callback(each.device.aclose)
            for close in (self._swapping.aclose, self.resources.aclose, self._cores.aclose, self._observing.aclose):
                closing.push_async_callback(close)

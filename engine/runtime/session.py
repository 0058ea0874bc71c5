"""Sessions: await steps of a graph in an asyncio program."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from ..base.errors import GraphError, SessionClosed
from ..base.settings import DEFAULTS, Settings
from ..compile import Target
from ..ir.graph import Graph
from ..ir.scopes import PersistentScope, Scope, get_default_graph
from ..ir.tensor import Tensor
from ..ops.internal import partial_run as _parts  # noqa: F401  declares the operation types of steps in parts
from ..ops.internal import watch as _watching  # noqa: F401  declares the operation type that shows values
from ..ops.state.variables import VariableStore, fitting
from ..streams.contract import Device
from .devices.session_devices import memory_figures, open_devices
from .memory.arbiter import MemoryArbiter
from .memory.limits import Limit, keep, read_variables, set_limits, write_variables
from .memory.session_swap import Swap, Swapping
from .observe.numerics import require_finite
from .observe.statistics import Statistics
from .observe.trace import Trace
from .observe.watch import Watch
from .report import Report, report_of
from .scheduling.admission import Admission
from .scheduling.blocking_calls import BlockingCalls
from .scheduling.time_slices import TimeSlices, time_slices_of
from .scheduling.worker_pool import WorkerPool
from .steps.compiled_step import CompiledStep, Request, Step, compile_request, feed_values, make_request, resolve_feeds
from .steps.context import UNWATCHED, StepContext
from .steps.execution import executor_named
from .steps.partial_run import PartialRun, PartialRunState, begin

_REOPEN = "open a new one with `async with Session(graph)`"


class Session:
    """Runs steps of a graph; owns its variables. ``async with Session(graph)`` makes the graph current as well.

    Parameters
    ----------
    graph : Graph, optional
        Defaults to the graph open in this context.
    executor : {'machine', 'reference'}, optional
        The compiled step machine, or the readable one in which every operation instance is an asyncio task.
    timeout : float, optional
        Seconds after which a step ends with StepTimeout, unless ``run`` says otherwise.
    max_steps : int, optional
        How many steps run at once; unlimited by default. The others wait, first come first served, at most
        ``Settings.admission_seconds``: then they end with Overloaded.
    check_numerics : bool, optional
        Fail a step as soon as a kernel gives NaN or infinity; the OpError names operation, loop path and iteration.
        Operations are then not fused, so that each is seen.
    devices : int or list of str or Device, optional
        How many CPU devices the session has, each with memory of its own, or the names of CPUs and GPUs ("/gpu:0"); one
        CPU by default. Operations ask for them by ``device``, those that ask for nothing run where their data is or on
        the first. Devices of ``tagflow.streams`` can be given too; they stay open.
    soft_placement : bool, optional
        Place operations that ask for a device that is not there, or for two different ones, elsewhere instead of
        refusing the step.
    memory_limit : int, str or mapping, optional
        Bytes that the arrays of each device may take, as a number or like "512MiB", or of some by their names. What
        does not fit waits until memory is given back, and iterations begin only as there is room for them; a step
        that can not go on ends with DeviceMemoryError.
    swap : SwapPolicy or bool, optional
        How what loops save for their gradients leaves the devices' memory when that is short, and comes back in time:
        in all loops (True: by the default policy) or in none; unless given, in those that say ``swap_memory=True``.
    settings : Settings, optional
        The knobs of the engine.

    Examples
    --------
    >>> import asyncio, tagflow as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [None])
    ...     y = tg.reduce_sum(x * 2.0)
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         return await session.run(y, feeds={x: [1.0, 2.0]})
    >>> float(asyncio.run(main()))
    6.0
    """

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
    ) -> None:
        self.graph = graph if graph is not None else get_default_graph()
        self._scope = PersistentScope(Scope(self.graph.root))
        self.settings = replace(settings, fuse=False) if check_numerics else settings
        self.timeout = timeout
        self._guard = require_finite if check_numerics else None
        self.variables = VariableStore()
        self._admission = None if max_steps is None else Admission(max_steps, settings.admission_seconds)
        self._threads = BlockingCalls(settings.blocking_threads)
        self._cores = WorkerPool(settings)
        self._devices = open_devices(devices, settings)
        set_limits(self._devices, memory_limit)
        self._swapping = Swapping(swap, self._devices)
        self._arbiter = MemoryArbiter(self._threads, self._cores, devices=self._devices)
        self._contexts, self._soft = self._devices[0].contexts, soft_placement
        self._executor: Any = executor_named(executor, self._devices, check_numerics)
        self._cache: OrderedDict[Any, CompiledStep] = OrderedDict()
        self._watches: dict[Tensor, Watch] = {}
        self._watched: tuple[Tensor, ...] = ()  # the keys of `_watches`; another object when they change
        self._running: set[Any] = set()
        self._started = 0
        self._closed = False
        self._last: tuple[CompiledStep, Any] | None = None  # the last step started, and who counts its loops
        self._idle: asyncio.Future[None] | None = None  # done when a closed session's last step has ended
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that `_turns` belongs to

    async def __aenter__(self) -> Session:
        self._scope.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.close()
        await self.aclose()

    async def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        timeout: float | None = None,
        trace: Trace | None = None,
    ) -> Any:
        """Run one step and return the fetched values.

        Parameters
        ----------
        fetches : structure of Tensor, Operation, Variable or name
        feeds : mapping, optional
            Values for tensors; used without a copy until the step ends.
        timeout : float, optional
            Seconds until StepTimeout, from when the step is admitted; the session's own unless given,
            ``math.inf`` for none.
        trace : Trace, optional
            Gets a span for each operation instance of the step.

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
        self._check_open()
        tensors, values = feed_values(feeds or {}, self.graph)
        request = make_request(self.graph, fetches)
        return await self._admitted(request, self._compiled(request, tensors), values, timeout, trace)

    def make_step(self, fetches: Any, feeds: Sequence[Any] = ()) -> Step:
        """Compile a step once, to run it many times.

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
        self._check_open()
        return Step(self, make_request(self.graph, fetches), resolve_feeds(self.graph, feeds))

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
        self._check_open()
        request = make_request(self.graph, fetches)
        if not request.tensors and not request.targets:
            raise GraphError(
                "a partial run needs something to fetch",
                got=fetches,
                wanted="a tensor or an operation",
                hint="specify at least one target",
            )
        step = self._compiled(request, resolve_feeds(self.graph, feeds), partial_run=True)
        return await begin(self, step, trace)

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
        self._check_open()
        if not isinstance(handle, PartialRun) or handle._session is not self:
            raise GraphError(
                "this is no partial run of this session",
                wanted="what partial_run_setup returned",
                got=handle,
                hint="await session.partial_run_setup(fetches, feeds)",
            )
        return await handle._part(fetches, feeds or {}, self.timeout if timeout is None else timeout)

    async def read_variables(self, names: Sequence[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of the variables' values.

        Parameters
        ----------
        names : sequence of str, optional
            Which variables; all that have a value by default.

        Returns
        -------
        dict of str to numpy.ndarray

        Raises
        ------
        UninitializedVariableError
            If a variable asked for has no value.
        """
        self._check_open()
        return await read_variables(self.variables, names, self._devices)

    async def write_variables(self, values: Mapping[str, Any]) -> None:
        """Set variables, all or (when one does not fit) none.

        Parameters
        ----------
        values : mapping of str to array-like
            New values by the variables' names, of their dtypes and shapes.

        Raises
        ------
        GraphError
            If the graph has no variable of a name; a DtypeError or ShapeError if a value does not fit its variable.
        """
        self._check_open()
        arrays = fitting(values, {v.name: v for v in self.graph.collections.get("variables", ())})
        write_variables(self.variables, arrays, self._contexts)

    def statistics(self) -> Statistics:
        """Return a snapshot of counts."""
        orphaned = self._threads.orphaned + self._cores.orphaned
        counts = Statistics(self._started, len(self._running), len(self._cache), orphaned)
        if self._admission is not None:
            counts = replace(counts, steps_waiting=self._admission.waiting, steps_refused=self._admission.refused)
        return replace(counts, **memory_figures(self._devices))

    def watch(self, tensor: Any, *, limit: int = 16, policy: str = "block") -> Watch:
        """Return an async iterator over the values of a tensor in the steps that start from now on.

        It gives one value for each iteration in which the tensor is computed, in the order of computation, and ends
        with those steps. Only steps whose fetches need the loop or branch that the tensor is in compute it.

        Parameters
        ----------
        tensor : Tensor or name
            Of any dtype with values, in the body of a loop or branch, or outside.
        limit : int, optional
            Most values kept for the reader.
        policy : {'block', 'latest'}, optional
            When there is no room the step waits for the reader, at most a window of iterations ahead; or the oldest
            value is dropped.

        Returns
        -------
        Watch
            Iterate with ``async for``; ``async with`` closes it early.

        Raises
        ------
        GraphError
            If it is no tensor with values of this graph, is watched already, or an option is out of range.
        """
        self._check_open()
        found = self.graph.as_graph_element(tensor)
        if not isinstance(found, Tensor) or not found.dtype.is_value:
            operation = getattr(found, "op", found)
            raise GraphError(
                "only tensors with values can be watched",
                got=tensor,
                operation=operation,
                wanted="a tensor with values",
                hint="watch one of its outputs, or what is read from it",
            )
        if found in self._watches:
            raise GraphError(f"{found.name} is watched already", operation=found.op, hint="close the other watch first")
        watch = self._watches[found] = Watch(self, found, limit, policy)
        self._watched = tuple(self._watches)
        return watch

    def _watches_of(self, step: CompiledStep) -> dict[str, Watch]:
        return {t.name: self._watches[t] for t in step.watched if t in self._watches}

    def _forget(self, watch: Watch) -> None:
        if self._watches.get(watch.tensor) is watch:
            del self._watches[watch.tensor]
            self._watched = tuple(self._watches)

    def report(self) -> Report:
        """Say of each loop of the last step how far its iterations overlapped and what kept them from more.

        Steps of the same fetches and feeds that ran at the same time are counted together. A step that still runs is
        reported as far as it got.

        Returns
        -------
        Report
            Empty before the first step; ``print`` it.
        """
        self._check_open()
        if self._last is None:
            return Report()
        step, counts = self._last
        return report_of(step, counts)

    async def aclose(self) -> None:
        """End all running steps with SessionClosed, wait for them, and release everything; twice is fine.

        Blocking functions that outlive their steps are waited for too, at most ``Settings.close_seconds``.
        When cancelled it stops waiting: the steps still end, each in its task.
        """
        self._closed = True
        for watch in list(self._watches.values()):
            watch.close()
        if self._admission is not None:
            self._admission.close(lambda: SessionClosed("the session was closed while a step waited", hint=_REOPEN))
        for execution in self._running:
            execution.abort(SessionClosed("the session was closed while a step was running", hint=_REOPEN))
        try:
            if self._running:
                self._idle = self._idle or asyncio.get_running_loop().create_future()
                await asyncio.wait([self._idle])
            await self._threads.aclose(self.settings.close_seconds)
            await self._cores.aclose()
        finally:
            self._cache.clear()
            self._last = None
            self.variables.clear()
            await self._swapping.aclose()
            for each in self._devices:
                if each.owned:
                    await each.device.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed("this session is closed", hint=_REOPEN)

    def _compiled(self, request: Request, feeds: tuple[Tensor, ...], partial_run: bool = False) -> CompiledStep:
        key = (request.tensors, request.targets, feeds, self.graph.version, self._watched, partial_run)
        step = self._cache.get(key)
        if step is None:
            self._cores.limit_blas()
            step = compile_request(self.graph, request, feeds, self._target(partial_run), self._watched)
            keep(step, key, self)
        else:
            self._cache.move_to_end(key)
        return step

    def _target(self, partial_run: bool = False) -> Target:
        """Return what steps of this session are compiled for."""
        devices = tuple(each.target() for each in self._devices)
        return Target(self.settings, devices, self._soft, self._swapping.everywhere, partial_run)

    async def _admitted(
        self, request: Request, step: CompiledStep, values: Sequence[Any], timeout: float | None, trace: Trace | None
    ) -> Any:
        """Run a step as soon as there is a place for it."""
        if self._admission is None:
            return await self._run(request, step, values, timeout, trace)
        async with self._admission:
            self._check_open()
            return await self._run(request, step, values, timeout, trace)

    async def _run(
        self, request: Request, step: CompiledStep, values: Sequence[Any], timeout: float | None, trace: Trace | None
    ) -> Any:
        watches = self._watches_of(step) if step.watched else UNWATCHED
        execution = self._begin(step, step.convert(values), watches, trace)
        del values
        self._running.add(execution)
        try:
            return request.pack(await execution.run(self.timeout if timeout is None else timeout))
        finally:
            self._end(execution, watches)

    def _begin(
        self,
        step: CompiledStep,
        feeds: list[Any],
        watches: Mapping[str, Watch],
        trace: Trace | None,
        parts: PartialRunState | None = None,
    ) -> Any:
        """Return an execution of a step, to be run."""
        context = StepContext(
            self._started, self.graph.seed, self.variables, self._threads, self._contexts, watches, parts
        )
        turns = self._turns_here()
        execution = self._executor(
            step,
            context,
            feeds,
            self.settings,
            turns,
            self._guard,
            trace,
            self._cores,
            self._devices,
            self._arbiter,
            self._swapping,
        )
        self._last = step, execution.counts
        self._started += 1
        for watch in watches.values():
            watch.step_begins()
        return execution

    def _end(self, running: Any, watches: Mapping[str, Watch]) -> None:
        self._running.discard(running)
        for watch in watches.values():
            watch.step_ends()
        if self._idle is not None and not self._running and not self._idle.done():
            self._idle.set_result(None)

    def _turns_here(self) -> TimeSlices:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._turns = loop, time_slices_of(loop)
        return self._turns

"""Compiler of a session's steps, which compiles each combination of fetches, feeds and watches once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import NamedTuple

from ...base import registrations
from ...base.errors import TagloomError
from ...base.forks import strand_in_children
from ...base.source_lines import user_source
from ...compile import Target
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..devices.simulated_time import hold_clocks
from .cache import StepCache, StepKey
from .compiled_step import CompiledStep, make_compiled_step
from .environment import StepEnvironment
from .fed_shapes import Shapes
from .outcomes import StepCounts
from .request import Request
from .under_way import UnderWay, is_being_cancelled

_logger = logging.getLogger("tagloom")
_NAMED = 3  # fetches that the log names
_MOST_GROWTHS = 32  # times that a graph grows between steps before the log says so

Tensors = tuple[Tensor, ...]


class TimedStep(NamedTuple):
    """A compiled step, and the seconds that its compilation took."""

    step: CompiledStep
    seconds: float


class StepCompiler:
    """Compiler of a session's steps, with their cache.

    Parameters
    ----------
    graph : Graph
    environment : StepEnvironment
    counts : StepCounts
        Counters of the session's steps.

    Attributes
    ----------
    cache : StepCache
        Compiled steps.
    count : int
        Number of compilations so far.
    seconds : float
        Total time of the compilations.
    """

    def __init__(self, graph: Graph, environment: StepEnvironment, counts: StepCounts) -> None:
        self.graph = graph
        self.cache: StepCache = StepCache(environment)
        self.count: int = 0
        self.seconds: float = 0.0
        self._environment = environment
        self._counts = counts
        self._size = self._started = 0  # operations of the graph, and steps begun, when one was compiled last
        self._growths = 0  # times that a step was compiled for operations which were added after others had run
        self._under_way: UnderWay[TimedStep] = UnderWay()  # compilations in threads, by their keys
        strand_in_children(self)

    def find_or_compile(
        self,
        request: Request,
        feeds: Tensors,
        watched: Tensors = (),
        partial_run: bool = False,
        observed: bool = False,
        shapes: Shapes | None = None,
    ) -> CompiledStep:
        """Return the compiled step of fetches and feeds, from the cache or newly compiled on this thread.

        Parameters
        ----------
        request : Request
        feeds : tuple of Tensor
        watched : tuple of Tensor
            Tensors whose values the step shows as they are computed.
        partial_run : bool
            True for feeds and fetches in parts.
        observed : bool
            True if all instances of the step's operations are recorded.
        shapes : tuple of tuple of int, optional
            Shapes of the fed values, for a step that accepts no other shapes.
        """
        key = self._cache_key(request, feeds, watched, partial_run, observed, shapes)
        step = self.cache.get(key)
        if step is None and (running := self._under_way.get(key)) is not None:
            step = self._taken_from(running, key)
        if step is None:
            step, seconds = self._compile_timed(
                request, feeds, watched, self._make_target(partial_run, observed, shapes)
            )
            self._keep_step(key, step, seconds, may_wait=not partial_run)
        return step

    async def find_or_compile_in_thread(
        self,
        request: Request,
        feeds: Tensors,
        watched: Tensors,
        check_admits: Callable[[], None],
        observed: bool = False,
        shapes: Shapes | None = None,
    ) -> CompiledStep:
        """Return a step from the cache or compiled in a thread; cache nothing if the session is closed meanwhile.

        Several callers of the same step at the same time share a single compilation. A cancelled caller only stops
        waiting. See `find_or_compile` for the parameters.
        """
        key = self._cache_key(request, feeds, watched, False, observed, shapes)
        source = user_source()

        def keep_compiled(ended: Future[TimedStep]) -> None:
            if ended.exception() is None and key not in self.cache:
                with suppress(TagloomError):  # each waiting caller checks again, and raises this error
                    check_admits()
                    self._keep_step(key, *ended.result())

        while (step := self.cache.get(key)) is None:
            work = partial(self._compile_timed, request, feeds, watched, self._make_target(False, observed, shapes))
            compiling = self._under_way.begin(key, work, keep_compiled)
            try:
                with hold_clocks(self._environment.clocks):
                    timed = await asyncio.shield(asyncio.wrap_future(compiling))
            except TagloomError as error:
                error.source = error.source or source  # the caller's line is not on the stack of the thread
                raise
            except asyncio.CancelledError:
                if not compiling.cancelled() or is_being_cancelled():
                    raise
                continue  # `find_or_compile` withdrew it before a thread began, and compiled the step on the event loop
            check_admits()
            if key not in self.cache:
                self._keep_step(key, *timed)
            return timed.step
        return step

    def strand(self, parent: int) -> None:
        """Forget compilations under way, in a child process without the threads of `parent`."""
        self._under_way = UnderWay()

    def _taken_from(self, running: Future[TimedStep], key: StepKey) -> CompiledStep | None:
        """Block until a compilation in a thread has ended and return its step; None if no thread has begun it."""
        # Waiting for a thread that has begun takes no longer than a second compilation; both block the event loop.
        if running.cancel():
            return None
        try:
            step, seconds = running.result()
        except CancelledError:
            return None
        self._keep_step(key, step, seconds)
        return step

    def _cache_key(
        self,
        request: Request,
        feeds: Tensors,
        watched: Tensors,
        partial_run: bool = False,
        observed: bool = False,
        shapes: Shapes | None = None,
    ) -> StepKey:
        """Return the cache's key of a step: everything its compilation depends on.

        It ends with the version of the registrations, by which `StepCache.insert` knows steps that are out of date.
        """
        version, registered = self.graph.version, registrations.version()
        return request.tensors, request.targets, feeds, version, watched, partial_run, observed, shapes, registered

    def _make_target(self, partial_run: bool = False, observed: bool = False, shapes: Shapes | None = None) -> Target:
        if self._environment.worker_pool is not None:
            self._environment.worker_pool.limit_blas()
        return self._environment.target(partial_run, observed, shapes)

    def _compile_timed(self, request: Request, feeds: Tensors, watched: Tensors, target: Target) -> TimedStep:
        """Return a compiled step and its compilation time in seconds; safe on any thread."""
        began = perf_counter()
        step = make_compiled_step(self.graph, request, feeds, target, watched)
        seconds = perf_counter() - began
        operations = sum(len(each.plan.nodes) for each in step.device_plans)
        wanted: list[Tensor | Operation] = [*request.tensors, *request.targets]
        names = ", ".join(element.name for element in wanted[:_NAMED])
        _logger.debug("compiled %s in %.3f s: %d operations", names, seconds, operations)
        return TimedStep(step, seconds)

    def _keep_step(self, key: StepKey, step: CompiledStep, seconds: float, may_wait: bool = True) -> None:
        self.cache.insert(key, step, may_wait)
        self.count += 1
        self.seconds += seconds
        self._note_growth()

    def _note_growth(self) -> None:
        """Warn, once, about a program that adds operations between its steps."""
        size, started = self.graph.num_operations, self._counts.started
        if size > self._size and started > self._started:
            self._growths += 1
            if self._growths == _MOST_GROWTHS:
                _logger.warning(
                    "operations were added to a graph between its steps, and steps compiled for them, %d times: build "
                    "all before the first step and feed what differs; graph.finalize() shows the lines that add",
                    self._growths,
                )
        self._size, self._started = size, started

"""The reference executor: the evaluation rules of Yu et al. (2018, Figure 5) in plain Python.

Every operation instance is an ``asyncio.Task`` named ``node@frame/iteration``. This file is the specification of the
step machine, which must compute the same results. Numbers in brackets are rules of execution, listed in
``docs/semantics.md``.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any

import numpy as np

from ...base.dtypes import DIFFERENTIABLE
from ...base.tags import DEAD, ROOT_ID, ROOT_PATH, frame_id, frame_path, instance_name, name_hash
from ...base.waiting import cancel_once, wait_shielded
from ...compile.plan.plan import Node, Plan
from ...kernels.core.continuation import Continuation
from ...kernels.core.table import Kind
from ...kernels.scheduler.limited import NoRoom
from ...kernels.scheduler.series import Series
from ...kernels.scheduler.tracing import Recorder
from ...ops.support.context import StepContext
from .tracing import LoopCounts, ReferenceTracer

Guard = Callable[[Any], None]

_LARGE = 1 << 17  # bytes of inputs and outputs from which on a kernel runs in a thread
_FLOATING = frozenset(dtype.numpy for dtype in DIFFERENTIABLE)


@dataclass
class Frame:
    """Running instance of a loop; the root frame of the step has no parent."""

    index: int
    parent: Frame | None
    parent_iteration: int
    path: str
    id: int
    missing_enters: int  # Enters that have not fired: the frame may not be deleted yet
    iterations: dict[int, Iteration] = field(default_factory=dict)  # not deleted yet, by number
    newest: int = 0
    ran: bool = False  # True if the LoopCond fired with a live value: the loop is not dead
    invariants: list[tuple[int, Any]] = field(default_factory=list)  # sent to each new iteration
    dead_exits: list[int] = field(default_factory=list)  # of the newest iteration, sent only when the frame is done
    deferred: list[tuple[int, Any]] = field(default_factory=list)  # values for an iteration beyond the window
    series: list[Series] = field(default_factory=list)


@dataclass
class Iteration:
    """Iteration of a frame: arrived values, running instances, and the frames of inner loops."""

    arrived: dict[int, dict[int, Any]] = field(default_factory=dict)  # values by node and input
    controls: dict[int, list[bool]] = field(default_factory=dict)  # deadness of arrived control inputs, by node
    fired: set[int] = field(default_factory=set)
    outstanding: int = 0  # instances that have started and not propagated their outputs yet
    children: dict[int, Frame] = field(default_factory=dict)
    advanced: int = 0  # NextIterations that have fired with a live value


@dataclass
class NodeInstance:
    """Operation instance that has started: a node in an iteration, with its inputs."""

    target: int
    node: Node
    frame: Frame
    iteration: int
    values: list[Any]
    dead: bool
    name: str


@dataclass
class Instance:
    """First argument of a stateful kernel: the operation instance of the call."""

    step: StepContext
    operation: str
    frame_id: int
    iteration: int
    tag: str


class ReferenceMachine:
    """Executor of a step; see the module's text.

    Parameters
    ----------
    plan : Plan
    step : StepContext
    feeds : list of numpy.ndarray
    shuffle_seed : int, optional
        Seed of reproducible random delays of instances; no delays by default.
    guard : callable, optional
        Called with each floating array returned by a kernel; an exception fails the step.
    recorder : Recorder, optional
        Receives a span for each instance.
    """

    def __init__(
        self,
        plan: Plan,
        step: StepContext,
        feeds: list[Any],
        shuffle_seed: int | None = None,
        guard: Guard | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.plan = plan
        self.step = step
        self.feeds = feeds
        self.fetches: list[Any] = [DEAD] * plan.num_fetches
        self.failure: tuple[int, str, BaseException, Any] | None = None
        self.outcomes: dict[int, Any] = {}
        self.random: random.Random | None = None if shuffle_seed is None else random.Random(shuffle_seed)
        self.tasks: set[asyncio.Task[None]] = set()
        self.parked: list[asyncio.Future[None]] = []  # of instances that wait for memory; done when others have ended
        pool = step.contexts.pool
        self.is_limited: bool = pool is not None and pool.limit is not None
        self.counts: LoopCounts = LoopCounts(plan)
        self.guard = guard
        self.tracer: ReferenceTracer | None = None
        if recorder is not None:
            self.tracer = ReferenceTracer(recorder, recorder.join(plan, step.number), step.contexts.pool)

    def switch_outcomes(self) -> dict[int, Any]:
        """Return the predicate of each Switch that fired in the root frame."""
        return self.outcomes

    async def run(self) -> None:
        """Run the step until no instance is in flight; `failure` or `fetches` hold the outcome."""
        root = self.root = Frame(0, None, 0, ROOT_PATH, ROOT_ID, 0, {0: Iteration()})
        for i in self.plan.roots():  # [21]
            self._start_instance(i, root, 0, [], False)
        try:
            while self.tasks:
                await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
                # Each ended instance may have freed memory, so all parked ones try their kernels again.
                parked, self.parked = self.parked, []
                for ended in parked:
                    if not ended.done():
                        ended.set_result(None)
                if self.failure is not None:
                    break
        finally:
            await self._cancel_and_join()

    def abort(self, error: BaseException) -> None:
        """End the step with `error`, from outside."""
        if self.failure is None:
            self.failure = (-1, "", error, None)
        for task in self.tasks:
            cancel_once(task)

    async def _cancel_and_join(self) -> None:
        """Cancel the remaining instances and wait for their ends, also if this wait is cancelled."""
        if self.tasks:
            ended = asyncio.CancelledError("the step was cancelled") if self.failure is None else self.failure[2]
            self.step.resources.cancel_step(self.step.number, ended)
        for task in self.tasks:
            cancel_once(task)
        await wait_shielded(lambda: self.tasks)  # [46]

    # ---- readiness

    def _deliver_value(self, target: int, k: int, value: Any, frame: Frame, i: int, from_enter: bool = False) -> None:
        """Deliver a value to input `k` of a node, and start the node if ready."""
        node, iteration = self.plan.nodes[target], frame.iterations[i]
        if node.kind in (Kind.SERIES_EXIT, Kind.TRIP_COUNT):
            return  # `_complete_frame` sends the only outputs of these nodes
        iteration.arrived.setdefault(target, {})[k] = value
        if node.kind is Kind.MERGE and value is DEAD and from_enter:
            iteration.arrived[target] = dict.fromkeys(range(node.num_inputs), DEAD)  # [11]
        self._start_if_ready(target, frame, i)

    def _deliver_control(self, target: int, dead: bool, frame: Frame, i: int) -> None:
        frame.iterations[i].controls.setdefault(target, []).append(dead)
        self._start_if_ready(target, frame, i)

    def _start_if_ready(self, target: int, frame: Frame, i: int) -> None:
        """Start a node if ready: a Merge at its first live or last dead input, others at all inputs and controls."""
        node, iteration = self.plan.nodes[target], frame.iterations[i]
        if target in iteration.fired or node.kind in (Kind.SERIES_EXIT, Kind.TRIP_COUNT):
            return
        arrived = iteration.arrived.get(target, {})
        controls = iteration.controls.get(target, [])
        if len(controls) < node.num_controls:
            return
        values = [arrived.get(k, DEAD) for k in range(node.num_inputs)]
        if node.kind is Kind.MERGE:  # [6, 7, 10]
            dead = all(v is DEAD for v in values)
            if dead and len(arrived) < node.num_inputs:
                return
        else:  # [1]
            if len(arrived) < node.num_inputs:
                return
            dead = any(v is DEAD for v in values) or (any(controls) and node.kind is not Kind.CONTROL_TRIGGER)
        self._start_instance(target, frame, i, values, dead)

    def _start_instance(self, target: int, frame: Frame, i: int, values: list[Any], dead: bool) -> None:
        """Start the task of an instance, unless the step has failed."""
        if self.failure is not None:
            return
        iteration = frame.iterations[i]
        iteration.fired.add(target)  # [8]
        iteration.outstanding += 1
        node = self.plan.nodes[target]
        name = instance_name(node.name, frame.path, i)
        started = NodeInstance(target, node, frame, i, values, dead, name)
        task = asyncio.get_running_loop().create_task(self._run_instance(started), name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # ---- evaluation

    async def _run_instance(self, instance: NodeInstance) -> None:
        """Evaluate an instance and propagate its outputs; the first error becomes the step's failure."""
        for _ in range(self.random.randrange(4) if self.random else 0):
            await asyncio.sleep(0)
        if self.failure is not None:
            return
        begin = monotonic_ns()
        try:
            outputs = await self._evaluate_node(instance)
        except BaseException as error:
            if self.failure is None:  # [44]; a cancellation by `_cancel_and_join` is recorded too, and never read
                self.failure = (instance.target, instance.name, error, [np.shape(v) for v in instance.values])
            return
        finally:
            if self.tracer is not None:
                self.tracer.add(instance, begin, self.root)
        if self.failure is None:
            self._propagate_outputs(instance, outputs)
            self._finish_instance(instance.frame, instance.iteration)

    async def _evaluate_node(self, instance: NodeInstance) -> list[Any]:
        """Return the outputs of an instance: DEAD for a dead instance, and on the branches that a Switch leaves out."""
        node, frame, values, dead = instance.node, instance.frame, instance.values, instance.dead
        kind = node.kind
        if kind in (Kind.SWITCH, Kind.SWITCH_N) and frame.parent is None:
            self.outcomes[instance.target] = None if dead else values[1].item()
        if kind is Kind.FETCH:
            self.fetches[node.index] = DEAD if dead else values[0]
            return []
        if dead:
            return [DEAD] * len(node.outputs)  # [2]
        if kind is Kind.SWITCH:  # [4]
            return [DEAD, values[0]] if values[1] else [values[0], DEAD]
        elif kind is Kind.SWITCH_N:  # [5]
            n, chosen = len(node.outputs), int(values[1])
            return [values[0] if k == (chosen if 0 <= chosen < n else n - 1) else DEAD for k in range(n)]
        elif kind is Kind.MERGE:
            chosen = next(k for k, v in enumerate(values) if v is not DEAD)  # [8, 9]
            return [values[chosen], np.asarray(chosen, np.int32)]
        elif kind is Kind.LOOP_COND:
            if not frame.ran:
                frame.ran = True
                self.counts.open(frame.index)
            return values
        elif kind is Kind.CONST:
            return [node.value]
        elif kind is Kind.FEED:
            return [self.feeds[node.index]]
        elif kind is Kind.SERIES_PUSH:
            frame.series[node.index].put(int(values[1]) if len(values) > 1 else instance.iteration, values[0])
            return [np.zeros((), np.float32)]
        elif kind is Kind.SERIES_READ:
            value = values[0].get(int(values[1]))
            return [DEAD if value is None else value]
        elif kind is Kind.KERNEL:
            return await self._compute_outputs(instance)
        return values

    async def _call_kernel(self, instance: NodeInstance, values: list[Any]) -> Any:
        """Call a kernel, and call it again after other instances have ended if its memory was refused.

        A refusal while all instances are parked raises NoRoom: no memory can be freed any more.
        """
        pool = self.step.contexts.pool
        while True:
            refusals = 0 if pool is None else pool.refusals
            try:
                return await self._await_outcome(instance, values)
            except MemoryError as error:
                if pool is None or pool.refusals == refusals or not instance.node.retry:
                    raise
                wanted = getattr(error, "wanted_bytes", pool.refused_bytes)  # an error from a thread carries the size
            ended = asyncio.get_running_loop().create_future()
            self.parked.append(ended)
            if len(self.parked) == len(self.tasks):
                raise NoRoom(wanted, pool.used_bytes, pool.limit, pool.name, [], False)
            await ended

    async def _await_outcome(self, instance: NodeInstance, values: list[Any]) -> Any:
        """Call a kernel, in a thread if the call is estimated long, and await an awaitable result."""
        node = instance.node
        assert node.kernel is not None
        if self._takes_long(node, values):
            return await self.step.call_long(self.step.contexts.run, node.kernel, *values)
        result = self.step.contexts.run(node.kernel, *values)
        if inspect.isawaitable(result):
            if self.tracer is not None:
                self.tracer.note_awaited(instance.name)
            with self.counts.count_awaited(instance.frame):
                while inspect.isawaitable(result):
                    result = await result
                    if isinstance(result, Continuation):
                        result = self.step.contexts.run(result.call)
        return result

    def _takes_long(self, node: Node, values: list[Any]) -> bool:
        """Return True if a detached kernel reads and writes at least `_LARGE` bytes, and so belongs in a thread."""
        # Series are changed by other instances on the loop's thread, so kernels with one stay there.
        if self.step.long_calls is None or not node.detached or any(isinstance(v, Series) for v in values):
            return False
        size = sum(v.nbytes for v in values if isinstance(v, np.ndarray)) + max(node.made_bytes, 0)
        if size < _LARGE and node.elements is not None:
            inputs = values[1:] if node.stateful else values
            with suppress(Exception):  # the kernel itself raises a better error for wrong inputs
                size += 8 * node.elements(*inputs)
        return size >= _LARGE

    async def _compute_outputs(self, instance: NodeInstance) -> list[Any]:
        """Return the outputs of a kernel in the node's dtypes, checked by the guard."""
        node, values = instance.node, instance.values
        if node.stateful:
            context = Instance(self.step, node.name, instance.frame.id, instance.iteration, instance.name)
            values = [context, *values]
        result = await self._call_kernel(instance, values)
        if not node.outputs:
            return []
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        outputs = [r if d is None else np.asarray(r, d) for r, d in zip(results, node.outputs, strict=True)]
        for output, dtype in zip(outputs, node.outputs, strict=True):
            if self.guard is not None and dtype in _FLOATING:
                await self._guard_output(self.guard, output)
        return outputs

    async def _guard_output(self, guard: Guard, output: np.ndarray[Any, Any]) -> None:
        if self.step.long_calls is None or output.nbytes < _LARGE:
            guard(output)
        else:
            await self.step.long_calls(guard, output)

    # ---- propagation

    def _propagate_outputs(self, instance: NodeInstance, outputs: list[Any]) -> None:
        """Send outputs to consumers: in the child frame, the parent frame, the next iteration, or the same one."""
        source, node, dead = instance.target, instance.node, instance.dead
        frame, i = instance.frame, instance.iteration
        if node.kind is Kind.ENTER:  # [16, 29, 31]
            self._enter_frame(source, node, frame, i, DEAD if dead else outputs[0])
        elif node.kind is Kind.EXIT:
            if not dead:
                assert frame.parent is not None
                self._send_outputs(source, outputs, False, frame.parent, frame.parent_iteration)  # [15]
            elif i == frame.newest:
                frame.dead_exits.append(source)  # [13]
        elif node.kind is Kind.NEXT_ITERATION:
            if not dead:  # [12]
                self._send_to_next_iteration(source, frame, i, outputs[0])
        else:
            self._send_outputs(source, outputs, dead, frame, i)

    def _send_outputs(
        self, source: int, outputs: list[Any], dead: bool, frame: Frame, i: int, enter: bool = False
    ) -> None:
        for value, edges in zip(outputs, self.plan.data_edges[source], strict=True):
            for target, k in edges:
                self._deliver_value(target, k, value, frame, i, enter)
        for target in self.plan.control_edges[source]:
            self._deliver_control(target, dead, frame, i)

    def _enter_frame(self, source: int, node: Node, frame: Frame, i: int, value: Any) -> None:
        """Send a value into a child frame: an invariant to each iteration, other values to the first."""
        child = self._child_frame(node.child, frame, i)
        if node.is_constant:
            child.invariants.append((source, value))
            for k in list(child.iterations):  # [30]
                self._send_outputs(source, [value], value is DEAD, child, k)
        else:
            self._send_outputs(source, [value], value is DEAD, child, 0, enter=True)
        child.missing_enters -= 1
        self._delete_completed(child)

    def _child_frame(self, index: int, frame: Frame, i: int) -> Frame:
        """Return the instance of a loop in an iteration of the enclosing frame, made by the first Enter."""
        iteration = frame.iterations[i]
        if index not in iteration.children:
            spec = self.plan.frames[index]
            iteration.children[index] = Frame(
                index,
                frame,
                i,
                frame_path(frame.path, i, spec.name),
                frame_id(frame.id, i, name_hash(spec.name)),
                spec.num_enters,
                {0: Iteration()},
                series=[Series() for _ in range(spec.num_series)],
            )
        return iteration.children[index]

    def _send_to_next_iteration(self, source: int, frame: Frame, i: int, value: Any) -> None:
        """Send a value to the next iteration; defer the value if a new iteration would exceed the window."""
        frame.iterations[i].advanced += 1
        self.counts.advance(frame.index, source, frame.iterations[i].advanced)
        if i == frame.newest:
            window = 1 if self.is_limited else self.plan.frames[frame.index].parallel_iterations
            if len(frame.iterations) >= window:
                self.counts.hold_back(frame.index, first=not frame.deferred)
                frame.deferred.append((source, value))  # [33]
                return
            self._new_iteration(frame)
        self._send_outputs(source, [value], False, frame, i + 1)

    def _new_iteration(self, frame: Frame) -> None:
        """Open the next iteration, with the deferred values and the invariants."""
        frame.newest += 1
        frame.iterations[frame.newest] = Iteration()  # [32]
        self.counts.start(frame.index, len(frame.iterations), len(self.tasks))
        frame.dead_exits.clear()  # [13]
        deferred, frame.deferred = frame.deferred, []
        for source, value in deferred:
            self._send_outputs(source, [value], False, frame, frame.newest)
        for source, value in frame.invariants:
            self._send_outputs(source, [value], value is DEAD, frame, frame.newest)

    # ---- completion

    def _finish_instance(self, frame: Frame, i: int) -> None:
        frame.iterations[i].outstanding -= 1
        self._delete_completed(frame)

    def _delete_completed(self, frame: Frame) -> None:
        """Delete completed iterations in order, then the completed frame [26, 28]."""
        if frame.parent is None:
            return
        while frame.iterations:
            oldest = min(frame.iterations)
            iteration = frame.iterations[oldest]
            if iteration.outstanding or iteration.children or frame.missing_enters:
                return
            # Deferred values need a new iteration, so the frame continues even if no other iteration is left.
            if frame.deferred:
                self._window_opens(frame, oldest)
            else:
                del frame.iterations[oldest]
        self._complete_frame(frame)

    def _window_opens(self, frame: Frame, oldest: int) -> None:
        del frame.iterations[oldest]
        self._new_iteration(frame)

    def _complete_frame(self, frame: Frame) -> None:
        """Send a completed frame's dead exits, series and trip counts to the parent, and delete the frame."""
        parent, i = frame.parent, frame.parent_iteration
        assert parent is not None
        for source in frame.dead_exits:  # [14]
            self._send_outputs(source, [DEAD], True, parent, i)
        for source in self.plan.frames[frame.index].finals:
            node = self.plan.nodes[source]
            value: Any = np.asarray(frame.newest, np.int64)
            if node.kind is Kind.SERIES_EXIT:
                value = frame.series[node.index]
            self._send_outputs(source, [value if frame.ran else DEAD], not frame.ran, parent, i)
        del parent.iterations[i].children[frame.index]
        self._delete_completed(parent)

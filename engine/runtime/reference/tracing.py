"""Traces and loop counts of the reference executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from ...compile.plan.plan import Plan
from ...kernels.core.table import Kind
from ...kernels.memory.pool import Pool
from ...kernels.scheduler.series import Series
from ...kernels.scheduler.tracing import Recorder

if TYPE_CHECKING:
    from .executor import Frame, NodeInstance

_LOOKS = 16  # spans between two looks at the bytes in use and the iterations in flight


class ReferenceTracer:
    """Writer of a step's spans to a trace.

    Parameters
    ----------
    recorder : Recorder
    step : int
        Index of the step in the recorder.
    pool : Pool or None
        Memory pool of the step's device.
    """

    def __init__(self, recorder: Recorder, step: int, pool: Pool | None) -> None:
        self.recorder = recorder
        self.step = step
        self.pool = pool
        self.spans: int = 0
        self.awaited: set[str] = set()

    def note_awaited(self, name: str) -> None:
        """Mark an instance as asynchronous."""
        self.awaited.add(name)

    def add(self, instance: NodeInstance, begin: int, root: Frame) -> None:
        """Record the span of an ended instance."""
        looks = self.spans % _LOOKS == 0  # walking all frames for every span would dominate the step
        self.spans += 1
        awaited = instance.name in self.awaited
        self.awaited.discard(instance.name)
        self.recorder.add(
            self.step,
            instance.target,
            instance.frame.path,
            instance.iteration,
            begin,
            monotonic_ns(),
            dead=instance.dead,
            awaited=awaited,
            holdings=self._measure_holdings(root) if looks else (-1, -1),
        )

    def _measure_holdings(self, root: Frame) -> tuple[int, int]:
        held, iterations = _measure_holdings(root)
        return held if self.pool is None else self.pool.live_bytes, iterations


class LoopCounts:
    """Counts of iterations and waits in each frame, as the step machine counts them."""

    def __init__(self, plan: Plan) -> None:
        self.nexts: list[list[int]] = [_next_iterations(plan, k) for k in range(len(plan.frames))]
        names = ("runs", "starts", "alive", "most", "held_back", "launches", "awaited", "queued", "blocked_on_memory")
        zeros: dict[str, Any] = dict.fromkeys((*names, "native_runs", "native_starts"), 0)
        zeros |= {"not_native": None, "called": (), "untraced": (), "traced": ()}
        self.counts: list[dict[str, Any]] = [{**zeros, "last": [0] * len(n)} for n in self.nexts]
        self.in_flight: int = 0

    def loop_counts(self) -> list[dict[str, Any]]:
        """Return the counts of each frame."""
        return self.counts

    def open(self, frame: int) -> None:
        """Count a live frame instance with its first iteration."""
        self.counts[frame]["runs"] += 1
        self._count_start(frame, 1)

    def start(self, frame: int, alive: int, tasks: int) -> None:
        """Count a new iteration; `alive` iterations of its frame and `tasks` instances of the step are in flight."""
        self._count_start(frame, alive)
        self.counts[frame]["queued"] += tasks - self.in_flight

    def hold_back(self, frame: int, *, first: bool) -> None:
        """Count an iteration delayed by a full window, once, at the first value waiting for the iteration."""
        self.counts[frame]["held_back"] += first

    def advance(self, frame: int, source: int, advanced: int) -> None:
        """Count the NextIteration that was the last to fire in its iteration."""
        if advanced == len(self.nexts[frame]):
            self.counts[frame]["last"][self.nexts[frame].index(source)] += 1

    @contextmanager
    def count_awaited(self, frame: Frame) -> Iterator[None]:
        """Count an asynchronous instance, in flight during the block, for its frame and the enclosing frames."""
        self.in_flight += 1
        while frame.parent is not None:
            self.counts[frame.index]["launches"] += 1
            self.counts[frame.index]["awaited"] += self.in_flight
            frame = frame.parent
        try:
            yield
        finally:
            self.in_flight -= 1

    def _count_start(self, frame: int, alive: int) -> None:
        counts = self.counts[frame]
        counts["starts"] += 1
        counts["alive"] += alive
        counts["most"] = max(counts["most"], alive)


def _next_iterations(plan: Plan, frame: int) -> list[int]:
    return [i for i, node in enumerate(plan.nodes) if node.kind is Kind.NEXT_ITERATION and node.frame == frame]


def _measure_holdings(root: Frame) -> tuple[int, int]:
    """Return the bytes of the distinct arrays held by a frame, and the iterations in flight of its inner loops."""
    frames = list(_walk_frames(root))
    arrays = {id(array): array for frame in frames for array in _arrays_held_by(frame)}
    return sum(array.nbytes for array in arrays.values()), sum(len(frame.iterations) for frame in frames[1:])


def _walk_frames(frame: Frame) -> Iterator[Frame]:
    yield frame
    for iteration in frame.iterations.values():
        for child in iteration.children.values():
            yield from _walk_frames(child)


def _arrays_held_by(frame: Frame) -> Iterator[Any]:
    values = [value for _, value in (*frame.invariants, *frame.deferred)]
    values += [v for it in frame.iterations.values() for arrived in it.arrived.values() for v in arrived.values()]
    for value in (*values, *frame.series):
        yield from _arrays_in_value(value)


def _arrays_in_value(value: Any) -> Iterator[Any]:
    if isinstance(value, Series):
        for index in value.indices():
            yield from _arrays_in_value(value.get(index))
    elif hasattr(value, "nbytes"):
        yield value

"""Outcomes of steps: counted, and reported to the session's hooks."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...base.errors import GraphError, SessionClosed, StepTimeout
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..observe.latency import LatencyCounter
from .compiled_step import CompiledStep
from .request import Request

_logger = logging.getLogger("tagloom")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Outcome and times of a single step.

    Attributes
    ----------
    fetches : tuple of str
        Names of the fetched tensors and operations, each once.
    outcome : {'finished', 'failed', 'cancelled', 'timed out'}
        A step ended by the end of its session counts as cancelled.
    seconds : float
        Seconds from the step's admission to its end.
    waited : float
        Seconds until the step was admitted, among the session's `max_steps`.
    error : BaseException or None
        The error raised by the step.
    number : int
        Number of the step among the session's recorded steps, in the order of their beginnings.
    peak_bytes : int or None
        Largest total size of the arrays on the session's devices so far, as in the session's statistics.

    Examples
    --------
    >>> import tagloom as tg
    >>> ended = []
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.identity(1.0, name="y")
    >>> with tg.SyncSession(graph, on_step=ended.append) as session:
    ...     float(session.run(y))
    1.0
    >>> ended[0].fetches, ended[0].outcome
    (('y:0',), 'finished')
    """

    fetches: tuple[str, ...]
    outcome: str
    seconds: float
    waited: float = 0.0
    error: BaseException | None = None
    number: int = 0
    peak_bytes: int | None = None


class RandomState(NamedTuple):
    """The seed and step number of a session's random draws: equal states draw equal numbers in the next step.

    Attributes
    ----------
    seed : int
        The graph's seed, unless the seed of another session was restored.
    step : int
        Number of the next step.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.random_uniform([])
    >>> with tg.SyncSession(graph) as session:
    ...     first, state, second = session.run(x), session.random_state, session.run(x)
    ...     session.random_state = state
    ...     state, bool(session.run(x) == second)
    (RandomState(seed=0, step=1), True)
    """

    seed: int
    step: int


Hook = Callable[[StepRecord], object]


class Hooks:
    """Several hooks called as a single hook: each is called for each step, also if another hook raises an error."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks: tuple[Hook, ...] = tuple(hooks)

    def begin_step(self, fetches: tuple[str, ...]) -> Hook:
        """Tell all hooks with `begin_step` that a step begins; return their hooks for its end, in reversed order."""
        ends = [_notify_begin(hook, fetches) for hook in self._hooks]
        # Reversed, as nested contexts end: a hook's span may be the parent of a later hook's span.
        return Hooks(ends[::-1])

    def __call__(self, record: StepRecord) -> None:
        """Tell all hooks of the end of a step."""
        for hook in self._hooks:
            _notify_end(hook, record)


def _notify_begin(hook: Hook, fetches: tuple[str, ...]) -> Hook:
    """Tell a hook that a step begins, if it has `begin_step`; return the hook for the end of the step."""
    if hasattr(hook, "begin_step"):
        try:
            return hook.begin_step(fetches)  # type: ignore[no-any-return]
        except Exception:
            _logger.exception("begin_step of on_step raised an error")
    return hook


def _notify_end(hook: Hook, record: StepRecord) -> None:
    try:
        hook(record)
    except Exception:
        _logger.exception("on_step raised an error")


def _checked_hook(hook: Hook | Sequence[Hook] | None) -> Hook | None:
    """Return a single hook for all of them, or None; GraphError if any is a coroutine function or cannot be called."""
    hooks: list[Any] = list(hook) if isinstance(hook, (list, tuple)) else [] if hook is None else [hook]
    for each in hooks:
        if not callable(each) or inspect.iscoroutinefunction(each):
            raise GraphError(
                "on_step is called when a step has ended, and not awaited",
                wanted="a function of a StepRecord, or a list of them",
                got=repr(each),
                hint="put what is to be awaited into an asyncio.Queue there",
            )
    return Hooks(hooks) if len(hooks) > 1 else hooks[0] if hooks else None


class StepHookCall:
    """A step reported to a hook: the names of its fetches, the hook of its end, and its number."""

    __slots__ = ("fetches", "hook", "number")

    def __init__(self, fetches: tuple[str, ...], hook: Hook, number: int) -> None:
        self.fetches: tuple[str, ...] = fetches
        self.hook: Hook = hook
        self.number: int = number


class StepCounts:
    """Counters of a session's steps and of their outcomes.

    Parameters
    ----------
    hook : callable, list of callable, or None
        Called with a StepRecord when a step has ended. A hook's method ``begin_step``, if any, is called with the names
        of the step's fetches when the step begins, in the context of the step's caller; its result is called with the
        record instead of the hook, in the same context.
    peak_bytes : callable
        Returns the largest total size of the session's arrays so far.

    Attributes
    ----------
    started, finished, failed, cancelled, timed_out : int
    latency : LatencyCounter
        Latencies of the finished steps, except partial runs.
    """

    __slots__ = ("_peak_bytes", "_told", "cancelled", "failed", "finished", "hook", "latency", "started", "timed_out")

    def __init__(self, hook: Hook | Sequence[Hook] | None, peak_bytes: Callable[[], int | None]) -> None:
        self.hook: Hook | None = _checked_hook(hook)
        self._peak_bytes = peak_bytes
        self._told = 0
        self.started: int = 0
        self.finished: int = 0
        self.failed: int = 0
        self.cancelled: int = 0
        self.timed_out: int = 0
        self.latency: LatencyCounter = LatencyCounter()

    def figures(self) -> dict[str, Any]:
        """Return the counted figures, by their names in Statistics."""
        return {
            "steps_started": self.started,
            "steps_finished": self.finished,
            "steps_failed": self.failed,
            "steps_cancelled": self.cancelled,
            "steps_timed_out": self.timed_out,
            "latency": self.latency.snapshot(),
        }

    def note(self, error: BaseException | None) -> None:
        """Count a step that ended, with an error or without."""
        match outcome_of(error):
            case "finished":
                self.finished += 1
            case "timed out":
                self.timed_out += 1
            case "cancelled":
                self.cancelled += 1
            case _:
                self.failed += 1

    def begin(self, step: CompiledStep, alone: bool = False) -> StepHookCall | None:
        """Note the beginning of a step with a hook; `alone` if the step ends in another context than it begins in."""
        if self.hook is None:
            return None
        told = StepHookCall(names_of(step), self.hook, self._told)
        self._told += 1
        # `begin_step` promises a common context of both calls, which a partial run cannot keep.
        if not alone:
            told.hook = _notify_begin(self.hook, told.fetches)
        return told

    def notify_hook(
        self, told: StepHookCall | None, seconds: float, waited: float, error: BaseException | None
    ) -> None:
        """Call the hook with the record of an ended step; log an error of the hook."""
        if told is not None:
            peak = self._peak_bytes()
            _notify_end(
                told.hook, StepRecord(told.fetches, outcome_of(error), seconds, waited, error, told.number, peak)
            )


class RandomSequence:
    """Random states of a session's steps: a seed, and the number of each step.

    Parameters
    ----------
    graph : Graph
    counts : StepCounts

    Attributes
    ----------
    seed : int or None
        Seed of a restored state; None for the seed of the graph.
    offset : int
        Steps before the first step started here, of the session whose random state was restored.
    """

    __slots__ = ("_counts", "_graph", "offset", "seed")

    def __init__(self, graph: Graph, counts: StepCounts) -> None:
        self._graph = graph
        self._counts = counts
        self.seed: int | None = None
        self.offset: int = 0

    @property
    def state(self) -> RandomState:
        """Seed and step number of the next step's random draws."""
        return RandomState(self._graph.seed if self.seed is None else self.seed, self._counts.started + self.offset)

    @state.setter
    def state(self, state: RandomState) -> None:
        self.seed, self.offset = state.seed, state.step - self._counts.started


def outcome_of(error: BaseException | None) -> str:
    """Return the word for the outcome of a step raising `error`, or nothing."""
    if error is None:
        return "finished"
    if isinstance(error, StepTimeout):
        return "timed out"
    return "cancelled" if isinstance(error, asyncio.CancelledError | SessionClosed) else "failed"


def names_of(step: CompiledStep | Request) -> tuple[str, ...]:
    """Return the names of the tensors and operations of a step or request."""
    elements: list[Tensor | Operation] = [*step.tensors, *step.targets]
    return tuple([element.name for element in elements])

"""How steps end: counted, and told to who wants to know of each."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...base.errors import GraphError, SessionClosed, StepTimeout
from .compiled_step import CompiledStep

_logger = logging.getLogger("tagflow")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """How one step of a session ended.

    Attributes
    ----------
    fetches : tuple of str
        Names of the tensors and operations that were asked for, each once.
    outcome : {'finished', 'failed', 'cancelled', 'timed out'}
        Cancelled is also a step that ended with its session.
    seconds : float
        From when it was admitted to its end.
    waited : float
        Seconds until it was admitted, among the session's `max_steps`.
    error : BaseException or None
        What it raised.

    Examples
    --------
    >>> import tagflow as tg
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


class RandomState(NamedTuple):
    """By what the random operations of a session draw: with the same, its next step draws the same numbers.

    Attributes
    ----------
    seed : int
        The graph's, unless another session's was restored.
    step : int
        Number of the next step.

    Examples
    --------
    >>> import tagflow as tg
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


class StepCounts:
    """Counts the steps of a session, and how they ended.

    Parameters
    ----------
    hook : callable or None
        Called with a StepRecord when a step has ended.

    Attributes
    ----------
    started, finished, failed, cancelled, timed_out : int
    """

    __slots__ = ("cancelled", "failed", "finished", "hook", "started", "timed_out")

    def __init__(self, hook: Hook | None) -> None:
        if hook is not None and (not callable(hook) or inspect.iscoroutinefunction(hook)):
            raise GraphError(
                "on_step is called when a step has ended, and not awaited",
                wanted="a function of a StepRecord",
                got=repr(hook),
                hint="put what is to be awaited into an asyncio.Queue there",
            )
        self.hook: Hook | None = hook
        self.started: int = 0
        self.finished: int = 0
        self.failed: int = 0
        self.cancelled: int = 0
        self.timed_out: int = 0

    def note(self, error: BaseException | None) -> None:
        """Count a step that ended with an error, or without."""
        match outcome_of(error):
            case "finished":
                self.finished += 1
            case "timed out":
                self.timed_out += 1
            case "cancelled":
                self.cancelled += 1
            case _:
                self.failed += 1

    def tell(self, step: CompiledStep, seconds: float, waited: float, error: BaseException | None) -> None:
        """Call the hook; what it raises is logged."""
        if self.hook is not None:
            try:
                self.hook(StepRecord(names_of(step), outcome_of(error), seconds, waited, error))
            except Exception:
                _logger.exception("on_step raised an error")


def outcome_of(error: BaseException | None) -> str:
    """Return the word for how a step ended that raised an error, or none."""
    if error is None:
        return "finished"
    if isinstance(error, StepTimeout):
        return "timed out"
    return "cancelled" if isinstance(error, asyncio.CancelledError | SessionClosed) else "failed"


def names_of(step: Any) -> tuple[str, ...]:
    """Return the names of what a step, or a request, fetches and runs."""
    return tuple(element.name for element in (*step.tensors, *step.targets))

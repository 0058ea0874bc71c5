"""Priorities of steps: their order among steps that wait for a place or for memory."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...base.errors import GraphError

_priority: ContextVar[int] = ContextVar("tagloom_priority", default=0)


def current_priority() -> int:
    """Return the priority of steps begun in this context."""
    return _priority.get()


def checked_priority(given: object) -> int:
    """Return a priority; GraphError if `given` is no whole number."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise GraphError("a priority is a whole number", wanted="an int", got=repr(given), hint="0 is the default")
    return given


async def run_at(level: int, running: Coroutine[Any, Any, Any]) -> Any:
    """Run a step that has not begun at a priority, which steps run by its functions inherit."""
    with priority(level):
        return await running


@contextmanager
def priority(level: int) -> Iterator[None]:
    """Set the priority of the steps begun inside of a `with` block.

    Where steps wait, for a place among the session's `max_steps` or for memory under a limit, the step of the highest
    priority is next, and among equals the first comer. Steps under way are not interrupted. Nothing ages: a step waits
    as long as steps of higher priority come, at most ``Settings.admission_seconds`` for a place, and then ends with
    Overloaded.

    The priority holds for functions, steps, streams and runners, in this task and in tasks created inside; steps run
    by functions of a step have the priority of the outer step. ``session.run(..., priority=)`` sets the priority of a
    single step.

    Parameters
    ----------
    level : int
        Higher levels are next; 0 outside of all blocks. Negative levels are allowed.

    Returns
    -------
    context manager

    Raises
    ------
    GraphError
        If `level` is no whole number.

    Examples
    --------
    >>> import tagloom as tg
    >>> double = tg.function(lambda x: x * 2.0)
    >>> with tg.priority(10):
    ...     float(double.sync(3.0))
    6.0
    """
    token = _priority.set(checked_priority(level))
    try:
        yield
    finally:
        _priority.reset(token)

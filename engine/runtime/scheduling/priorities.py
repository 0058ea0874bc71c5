"""Priorities of steps: which of those that wait for a place, or for memory, is next."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...base.errors import GraphError

_priority: ContextVar[int] = ContextVar("tagloom_priority", default=0)


def current_priority() -> int:
    """Return the priority of steps that are asked for here."""
    return _priority.get()


def checked_priority(given: object) -> int:
    """Return a priority; GraphError if it is no whole number."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise GraphError(
            "a priority is a whole number", wanted="an int", got=repr(given), hint="0 is that of most steps"
        )
    return given


async def run_at(level: int, running: Coroutine[Any, Any, Any]) -> Any:
    """Run a step that has not begun with a priority, which what it calls has too."""
    with priority(level):
        return await running


@contextmanager
def priority(level: int) -> Iterator[None]:
    """Give the steps that are asked for inside of a `with` block a priority.

    Where steps wait, for a place among the session's `max_steps` or for memory under a limit, those of higher priority
    are next, and among equals the one that came first. Steps under way are not interrupted. Nothing ages: a step waits
    as long as higher ones come, at most ``Settings.admission_seconds`` for a place, then it ends with Overloaded.

    It holds for functions, steps, streams and runners, in this task and in tasks that are made inside; what functions
    of a step run has the priority of that step. ``session.run(..., priority=)`` is the same for one step.

    Parameters
    ----------
    level : int
        Higher ones are next; 0 outside of all blocks. It may be negative.

    Returns
    -------
    context manager

    Raises
    ------
    GraphError
        If it is no whole number.

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

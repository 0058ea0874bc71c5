"""Scopes of graph building, in a context variable: safe across tasks and threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base.errors import GraphError

if TYPE_CHECKING:
    from .graph import Graph
    from .operation import Operation
    from .region import Region


@dataclass(frozen=True, slots=True)
class Scope:
    """The region for new operations, and the properties of new operations."""

    region: Region | None = None
    name: str = ""
    device: tuple[str | Callable[[Operation], str], ...] = ()  # the outermost first
    control_inputs: tuple[Operation, ...] = ()
    colocate: Operation | None = None
    gradients: Mapping[str, str] = field(default_factory=dict)  # for types of operations, names of gradients


_OPEN = "build inside `with graph.as_default():`, where graph is yours or a new one, tagloom.Graph()"
# Scopes are immutable, so a single default serves all contexts.
_current: ContextVar[Scope] = ContextVar("tagloom_scope", default=Scope())


def current() -> Scope:
    """Return the scope of this task or thread."""
    return _current.get()


def is_open() -> bool:
    """True if a region is open for new operations."""
    return _current.get().region is not None


def current_region(hint: str = _OPEN) -> Region:
    """Return the region for new operations; GraphError, with a hint, if no graph is open."""
    region = _current.get().region
    if region is None:
        raise GraphError("no graph is open here", hint=hint)
    return region


def get_default_graph() -> Graph:
    """Return the graph for new operations.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     tg.get_default_graph() is graph
    True
    """
    return current_region().graph


@contextmanager
def enter(scope: Scope) -> Iterator[Scope]:
    """Make `scope` current within a `with` block."""
    token = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(token)


class PersistentScope:
    """A scope current from :meth:`open` to :meth:`close`, which may be called in another task.

    Parameters
    ----------
    scope : Scope
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.before: Scope = Scope()

    def open(self) -> None:
        """Make the scope current."""
        self.before = _current.get()
        _current.set(self.scope)

    def close(self) -> None:
        """Restore the previous scope, if this scope is current here."""
        # In another task, or with a scope opened since, the current scope is not this one's to replace.
        if _current.get() is self.scope:
            _current.set(self.before)


def within(**changes: Any) -> Any:
    """Enter a copy of the current scope with some fields changed."""
    return enter(dataclasses.replace(_current.get(), **changes))


def inside(region: Region) -> Any:
    """Enter `region`: control dependencies from outside do not apply there (rule 76)."""
    return within(region=region, control_inputs=())

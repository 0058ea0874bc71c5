"""Paths of modules, by which layers share variables: variable scope, enclosing modules, and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from ..ir import scopes
from .variable_store import VariableScope, get_variable_scope


class Place:
    """Position of a module: its name, its constructing module, and the variable scope of its construction.

    Modules of equal names are numbered in the order of construction, within the constructing module or else the
    variable scope. A reopened scope counts from the beginning, as in TensorFlow 1, so that equal code leads to equal
    paths. A name chosen by the user has no number in a scope, as in TensorFlow 1.

    Attributes
    ----------
    children : Counter of str
        Number of modules of each name that the module has constructed.
    constructed : Counter of str
        Number of modules of each name from the module's own construction, before its first call.
    """

    def __init__(self, name: str, is_named: bool, parent: Place | None, count: Counter[str]) -> None:
        self.name = name
        self.is_named = is_named
        self.parent = parent
        self.children: Counter[str] = Counter()
        self.constructed: Counter[str] = Counter()
        self._number: int = count[name]
        self._paths: dict[tuple[int, str], str] = {}
        count[name] += 1
        self._scope: VariableScope | None = get_variable_scope() if scopes.is_open() else None
        if self._scope is not None:
            self.path_in(self._scope)

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies: a copied module has a new number in the variable scope of the copying."""
        args = self.name, self.is_named, self.parent, Counter({self.name: self._number})
        return Place, args, {"children": self.children, "constructed": self.constructed}

    def scope(self) -> VariableScope:
        """Return the scope of the module's variables: the current scope, or outside of all, the construction's."""
        open_here, first = get_variable_scope(), self._scope
        # A module made in another graph has no scope in this graph.
        if open_here.name or open_here.reuse or first is None or first.store is not open_here.store:
            return open_here
        return first

    def path_in(self, scope: VariableScope) -> str:
        """Return the path of the module in a variable scope, constant over all calls."""
        if self.parent is not None:
            return f"{self.parent.path_in(scope)}/{_append_number(self.name, self._number)}"
        key = (id(scope.store), scope.name)
        if key not in self._paths:
            self._paths[key] = self._new_path(scope)
        return self._paths[key]

    def _new_path(self, scope: VariableScope) -> str:
        path = f"{scope.name}/{self.name}" if scope.name else self.name
        if self.is_named and (scope.name or scope.reuse):
            return path
        path = scope.store.make_unique_name(path)
        scope.store.opened[path] += 1
        return path


class _Frame:
    """A module being constructed or called, and so the parent of modules constructed meanwhile."""

    def __init__(self, module: Any, place: Place | None, count: Counter[str]) -> None:
        self.module = module
        self.place = place
        self.count = count
        self.outer: _Frame | None = _frame.get()


_frame: ContextVar[_Frame | None] = ContextVar("tagloom_module", default=None)


def place_of_new(module: Any, name: str, is_named: bool) -> Place:
    """Return the place of a module under construction."""
    own = _frame.get()
    outer = own.outer if own is not None and own.module is module else own
    while outer is not None and outer.place is None:  # its __init__ has not called the base class's yet
        outer = outer.outer
    parent, count = (None, Counter[str]()) if outer is None else (outer.place, outer.count)
    place = Place(name, is_named, parent, count)
    if own is not None and own.module is module:
        # From here on, modules made in the __init__ are children of this one.
        own.place, own.count = place, place.children
    return place


def track_construction(initialize: Callable[..., None]) -> Callable[..., None]:
    """Wrap an ``__init__`` so that its object is the parent of modules constructed there."""

    @wraps(initialize)
    def construct_module(self: Any, *args: Any, **kwargs: Any) -> None:
        outer = _frame.get()
        if outer is not None and outer.module is self:  # the __init__ of a base class, in the same frame
            initialize(self, *args, **kwargs)
            return
        token = _frame.set(_Frame(self, None, Counter()))
        try:
            initialize(self, *args, **kwargs)
        finally:
            _frame.reset(token)
        place = getattr(self, "_place", None)  # None if a subclass forgets to call Module.__init__
        if place is not None:
            place.constructed.update(place.children)

    return construct_module


@contextmanager
def enter_call(place: Place) -> Iterator[None]:
    """Make a called module the parent of the modules constructed in the block.

    Under variable reuse each call counts from the beginning, so that a second call finds the variables of the first.
    """
    shares = scopes.is_open() and bool(get_variable_scope().reuse)
    token = _frame.set(_Frame(None, place, Counter(place.constructed) if shares else place.children))
    try:
        yield
    finally:
        _frame.reset(token)


def _append_number(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name

"""Paths by which variables of modules are shared: the variable scope, the modules around, and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from ..ir import scopes
from .variable_scope import VariableScope, get_variable_scope


class Place:
    """Position of a module: its name, the module that constructs it, and the variable scope it is constructed in.

    Modules of a name are numbered in the order of construction, in the module that constructs them or else in the
    variable scope. A scope that is opened again counts from the beginning, as those of TensorFlow 1 do, so that the
    same code leads to the same paths. A name that the user has chosen has no number in a scope, as in TensorFlow 1.

    Attributes
    ----------
    children : Counter of str
        How many modules of each name the module has constructed.
    constructed : Counter of str
        Those of them that were constructed with it, before its first call.
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
        """Return a copy that is a module of its own, with a new number in the variable scope it is copied in."""
        args = self.name, self.is_named, self.parent, Counter({self.name: self._number})
        return Place, args, {"children": self.children, "constructed": self.constructed}

    def scope(self) -> VariableScope:
        """Return the variable scope of the module's variables: the open one, else that of the construction."""
        open_here, first = get_variable_scope(), self._scope
        if open_here.name or open_here.reuse or first is None or first.store is not open_here.store:
            return open_here
        return first

    def path_in(self, scope: VariableScope) -> str:
        """Return the path of the module in a variable scope, the same at each call."""
        if self.parent is not None:
            return f"{self.parent.path_in(scope)}/{_numbered(self.name, self._number)}"
        key = (id(scope.store), scope.name)
        if key not in self._paths:
            self._paths[key] = self._new_path(scope)
        return self._paths[key]

    def _new_path(self, scope: VariableScope) -> str:
        path = f"{scope.name}/{self.name}" if scope.name else self.name
        if self.is_named and (scope.name or scope.reuse):
            return path
        path = scope.store.unique(path)
        scope.store.opened[path] += 1
        return path


class _Frame:
    """A module that is being constructed or called, as the one that constructs others meanwhile."""

    def __init__(self, module: Any, place: Place | None, count: Counter[str]) -> None:
        self.module = module
        self.place = place
        self.count = count
        self.outer: _Frame | None = _frame.get()


_frame: ContextVar[_Frame | None] = ContextVar("tagloom_module", default=None)


def place_of_new(module: Any, name: str, is_named: bool) -> Place:
    """Return the place of a module that is being constructed."""
    own = _frame.get()
    outer = own.outer if own is not None and own.module is module else own
    while outer is not None and outer.place is None:  # its base class is not initialized yet
        outer = outer.outer
    parent, count = (None, Counter[str]()) if outer is None else (outer.place, outer.count)
    place = Place(name, is_named, parent, count)
    if own is not None and own.module is module:
        own.place, own.count = place, place.children
    return place


def constructing(initialize: Callable[..., None]) -> Callable[..., None]:
    """Return an ``__init__`` whose object counts as the one that constructs the modules made in it."""

    @wraps(initialize)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        outer = _frame.get()
        if outer is not None and outer.module is self:  # of a base class
            initialize(self, *args, **kwargs)
            return
        token = _frame.set(_Frame(self, None, Counter()))
        try:
            initialize(self, *args, **kwargs)
        finally:
            _frame.reset(token)
        place = getattr(self, "_place", None)  # a class may forget to call the __init__ of Module
        if place is not None:
            place.constructed.update(place.children)

    return construct


@contextmanager
def calling(place: Place) -> Iterator[None]:
    """Let the modules that are constructed inside belong to the module that is called.

    Where variables are shared, each call counts from the beginning, so that the second call finds those of the first.
    """
    shares = scopes.is_open() and bool(get_variable_scope().reuse)
    token = _frame.set(_Frame(None, place, Counter(place.constructed) if shares else place.children))
    try:
        yield
    finally:
        _frame.reset(token)


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name

"""Variables of a graph by name, and the scope whose options they take: layers and `compat.tf1` share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..frontend.state.regularizers import note_regularizer
from ..frontend.state.variables import Variable
from ..ir import scopes
from ..ir.graph import Graph

_STORE = "variable_scopes"  # the collection of a graph


class Reuse:
    """Type of ``AUTO_REUSE``, for `reuse`: existing variables of a scope are shared, missing ones made.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.compat.tf1.variable_scope("a", reuse=tg.compat.tf1.AUTO_REUSE):
    ...         tg.compat.tf1.get_variable("w", [2]) is tg.compat.tf1.get_variable("w", [2])
    True
    """

    def __repr__(self) -> str:
        return "AUTO_REUSE"

    def __reduce__(self) -> str:
        return "AUTO_REUSE"


AUTO_REUSE: Reuse = Reuse()


class VariableScope:
    """A variable scope: the common prefix of variables' names, and the defaults of their options.

    Pass a VariableScope to `variable_scope` to enter the scope again, from anywhere.

    Attributes
    ----------
    name : str
        Prefix of variables' names, without the last ``/``; "" outside of all scopes.
    original_name_scope : str
        Name scope of the operations built in the scope when first entered.
    reuse : bool or AUTO_REUSE
        True to share variables, False for new ones, AUTO_REUSE for either.
    initializer, regularizer, custom_getter, dtype, partitioner
        As for `variable_scope`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.compat.tf1.variable_scope("a") as scope:
    ...         w = tg.compat.tf1.get_variable("w", [2, 3])
    ...     with tg.compat.tf1.variable_scope(scope, reuse=True):
    ...         tg.compat.tf1.get_variable("w") is w
    True
    >>> scope
    <VariableScope 'a'>
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = ""
        self.original_name_scope = ""
        self.reuse: Any = False
        self.initializer: Any = None
        self.regularizer: Any = None
        self.custom_getter: Any = None
        self.partitioner: Any = None
        self.dtype: DType = as_dtype("float32")

    def reuse_variables(self) -> None:
        """Share existing variables from now on, instead of making new ones."""
        self.reuse = True

    def __repr__(self) -> str:
        return f"<VariableScope {self.name!r}>"


class Store:
    """The variables of a graph by name, and the number of openings of each scope."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.layers: dict[str, Variable] = {}  # of layers outside of all scopes, shared only under reuse
        self.opened: Counter[str] = Counter()
        self.root: VariableScope = VariableScope(self)

    def find_variable(self, name: str, reuse: Any) -> Variable | None:
        """Return the variable of a full name, or None; layers outside of all scopes are found only for reuse."""
        found = self.variables.get(name)
        return self.layers.get(name) if found is None and reuse else found

    def add_variable(self, name: str, variable: Variable, regularizer: Any, is_unique: bool) -> None:
        """Add a variable by its full name, unless the name is taken, and note its regularizer."""
        kept = self.layers if is_unique else self.variables
        # A function that is traced again makes its variables a second time; the first one stays shared.
        if name not in kept:
            kept[name] = variable
            if regularizer is not None:
                note_regularizer(scopes.get_default_graph(), regularizer, variable)

    def make_unique_name(self, name: str) -> str:
        """Return a name of no scope opened since the enclosing scope was entered."""
        number, found = 0, name
        while self.opened[found]:
            number += 1
            found = f"{name}_{number}"
        return found

    def close_inside(self, name: str) -> None:
        """Reset the numbers of openings of the scopes within a scope."""
        # Set to 0, not deleted: a dict must not change its size during the iteration.
        for other in self.opened:
            if other.startswith(f"{name}/"):
                self.opened[other] = 0


_current: ContextVar[VariableScope | None] = ContextVar("tagloom_variable_scope", default=None)


def store_of(graph: Graph) -> Store:
    """Return the Store of a graph, made on the first call."""
    # The graph is the owner, so that variables end with their graph.
    found = graph.collections.setdefault(_STORE, [])
    if not found:
        found.append(Store())
    return found[0]  # type: ignore[no-any-return]


def get_variable_scope() -> VariableScope:
    """Return the current variable scope of the current graph, by default the outermost scope.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.compat.tf1.variable_scope("a"), tg.compat.tf1.variable_scope("b"):
    ...         tg.compat.tf1.get_variable_scope().name
    'a/b'
    """
    store, scope = store_of(scopes.get_default_graph()), _current.get()
    # A scope entered for another graph has no meaning in this graph.
    return scope if scope is not None and scope.store is store else store.root


def compose_getters(getter: Callable[..., Any], outer: Callable[..., Any] | None) -> Callable[..., Any]:
    """Compose a custom getter with the enclosing scope's getter, if any."""
    if outer is None:
        return getter
    # The inner getter is called first; its `get` is the outer getter.
    return lambda get, *args, **kwargs: getter(partial(outer, get), *args, **kwargs)


@contextmanager
def enter_scope(scope: VariableScope, jumps: bool) -> Iterator[None]:
    """Make a scope current for the block; restore or reset the numbers of openings at its end."""
    store = scope.store
    store.opened[scope.name] += 1
    # Copied after this opening is counted: only openings inside the block are undone.
    before = Counter(store.opened)
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
        # A VariableScope continues where it was left; a scope entered by name begins to count anew next time.
        if jumps:
            store.opened = before
        else:
            store.close_inside(scope.name)

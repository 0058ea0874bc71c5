"""Variables by name, shared where a scope says so: ``get_variable`` and ``variable_scope`` as in TensorFlow 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from copy import copy
from functools import partial
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..base.errors import GraphError
from ..frontend.regularizers import note_regularizer
from ..frontend.scopes import name_scope
from ..frontend.variables import Variable
from ..ir import scopes
from ..ir.graph import Graph

_STORE = "variable_scopes"  # the collection of a graph


class Reuse:
    """``AUTO_REUSE``, for `reuse`: variables of a scope are made where there are none, and else shared.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a", reuse=tg.nn.AUTO_REUSE):
    ...         tg.nn.get_variable("w", [2]) is tg.nn.get_variable("w", [2])
    True
    """

    def __repr__(self) -> str:
        return "AUTO_REUSE"

    def __reduce__(self) -> str:
        return "AUTO_REUSE"


AUTO_REUSE: Reuse = Reuse()


class VariableScope:
    """What `variable_scope` yields: how the names of variables begin, and what they have where they say nothing.

    Give it to `variable_scope` to enter it again, from anywhere.

    Attributes
    ----------
    name : str
        What the names of variables begin with, without the last ``/``; "" outside of all scopes.
    original_name_scope : str
        The name scope of the operations that were built inside when it was first entered.
    reuse : bool or AUTO_REUSE
        Whether variables are shared.
    initializer, regularizer, custom_getter, dtype, partitioner
        As for `variable_scope`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a") as scope:
    ...         w = tg.nn.get_variable("w", [2, 3])
    ...     with tg.nn.variable_scope(scope, reuse=True):
    ...         tg.nn.get_variable("w") is w
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
        """Let all variables asked for from now on be ones that there are."""
        self.reuse = True

    def __repr__(self) -> str:
        return f"<VariableScope {self.name!r}>"


class Store:
    """The variables of a graph by their names, and how often each scope was opened."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.layers: dict[str, Variable] = {}  # of those outside of all scopes, which are new ones by whatever name
        self.opened: Counter[str] = Counter()
        self.root: VariableScope = VariableScope(self)

    def find(self, name: str, reuse: Any) -> Variable | None:
        """Return the variable of a full name; those of layers outside of all scopes are only found to be reused."""
        found = self.variables.get(name)
        return self.layers.get(name) if found is None and reuse else found

    def add(self, name: str, variable: Variable, regularizer: Any, is_unique: bool) -> None:
        """Keep a variable by its full name, unless one of that name is kept."""
        kept = self.layers if is_unique else self.variables
        if name not in kept:
            kept[name] = variable
            if regularizer is not None:
                note_regularizer(scopes.get_default_graph(), regularizer, variable)

    def unique(self, name: str) -> str:
        """Return a name that no scope was opened under since the scope around began."""
        number, found = 0, name
        while self.opened[found]:
            number += 1
            found = f"{name}_{number}"
        return found

    def close_inside(self, name: str) -> None:
        """Forget how often the scopes in a scope were opened."""
        for other in self.opened:
            if other.startswith(f"{name}/"):
                self.opened[other] = 0


_current: ContextVar[VariableScope | None] = ContextVar("tagloom_variable_scope", default=None)


def store_of(graph: Graph) -> Store:
    """Return the variables of a graph by name."""
    found = graph.collections.setdefault(_STORE, [])
    if not found:
        found.append(Store())
    return found[0]  # type: ignore[no-any-return]


def get_variable_scope() -> VariableScope:
    """Return the variable scope that is open in the current graph, or the one around all.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a"), tg.nn.variable_scope("b"):
    ...         tg.nn.get_variable_scope().name
    'a/b'
    """
    store, scope = store_of(scopes.get_default_graph()), _current.get()
    return scope if scope is not None and scope.store is store else store.root


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    auxiliary_name_scope: bool = True,
    partitioner: Any = None,
) -> Iterator[VariableScope]:
    """Put a common prefix before the names that `get_variable` gives, and say whether variables are shared.

    Names are those of TensorFlow 1: they depend on variable scopes alone, whatever name scopes, functions, loops and
    branches are around. Operations built inside get a name scope of the same name.

    Parameters
    ----------
    name_or_scope : str, VariableScope or None
        A name is added to that of the scope around; a scope is entered again as it is.
    default_name : str, optional
        The name when `name_or_scope` is None, made unique in the scope around.
    values : structure of Tensor, optional
        As for `name_scope`.
    initializer : callable or str, optional
        Of variables that have none of their own; the scopes inside have it too.
    regularizer : callable, optional
        Of variables that have none of their own: see `get_regularization_losses`.
    custom_getter : callable, optional
        Called instead of `get_variable` with a function that does what that would, the full name and the other
        arguments by name. One of a scope around is what an inner one is given.
    reuse : bool or AUTO_REUSE, optional
        True for variables that there are, False for new ones, AUTO_REUSE for either. Scopes inside one that reuses do
        too.
    dtype : dtype-like, optional
        Of variables that have none of their own.
    auxiliary_name_scope : bool, optional
        Whether to open a name scope.
    partitioner : callable, optional
        Of variables of `get_variable` that have none of their own, except scalars; layers have whole variables.

    Yields
    ------
    VariableScope

    Raises
    ------
    GraphError
        If there is neither a name nor a default, or `reuse` is given with a default name.

    Examples
    --------
    >>> import tagloom as tg
    >>> def layer(x):
    ...     with tg.nn.variable_scope("layer", reuse=tg.nn.AUTO_REUSE):
    ...         return tg.matmul(x, tg.nn.get_variable("kernel", [x.shape[-1], 2]))
    >>> with tg.Graph().as_default():
    ...     once, twice = layer(tg.ones([1, 3])), layer(tg.zeros([1, 3]))
    ...     tg.global_variables()
    [<Variable layer/kernel float32[3,2]>]
    """
    outer = get_variable_scope()
    if isinstance(name_or_scope, VariableScope):
        scope, shown = copy(name_or_scope), name_or_scope.name.rpartition("/")[2]
        scope.store = outer.store
    else:
        shown = _name(outer, name_or_scope, default_name, reuse)
        scope = copy(outer)
        scope.name = "/".join(filter(None, [outer.name, shown]))
        shown = shown if name_or_scope is not None else str(default_name)
    scope.reuse = reuse or scope.reuse
    scope.partitioner = scope.partitioner if partitioner is None else partitioner
    _change(scope, initializer, regularizer, custom_getter, dtype)
    opened = name_scope(shown, values=values) if shown and auxiliary_name_scope else nullcontext(_name_scope())
    with opened as prefix, _entered(scope, jumps=isinstance(name_or_scope, VariableScope)):
        if not isinstance(name_or_scope, VariableScope):
            scope.original_name_scope = prefix
        yield scope


def _name_scope() -> str:
    name = scopes.current().name
    return f"{name}/" if name else ""


def _name(outer: VariableScope, name: str | None, default_name: str | None, reuse: Any) -> str:
    if name is not None:
        return name
    if not default_name or reuse:
        raise GraphError(
            "a variable scope has no name" if not reuse else "reuse needs the name of a scope",
            wanted="name_or_scope" if reuse else "name_or_scope, or a default_name",
            got="neither" if not default_name else f"default_name={default_name!r}",
            hint="variable_scope('name')",
        )
    full = outer.store.unique("/".join(filter(None, [outer.name, default_name])))
    return full[len(outer.name) + 1 :] if outer.name else full


def _change(scope: VariableScope, initializer: Any, regularizer: Any, custom_getter: Any, dtype: Any) -> None:
    """Let a new scope have what was said of it."""
    scope.initializer = scope.initializer if initializer is None else initializer
    scope.regularizer = scope.regularizer if regularizer is None else regularizer
    scope.dtype = scope.dtype if dtype is None else as_dtype(dtype)
    if custom_getter is not None:
        scope.custom_getter = nested(custom_getter, scope.custom_getter)


def nested(getter: Callable[..., Any], outer: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a getter that is given another one, if there is one around it."""
    if outer is None:
        return getter
    return lambda get, *args, **kwargs: getter(partial(outer, get), *args, **kwargs)


@contextmanager
def _entered(scope: VariableScope, jumps: bool) -> Iterator[None]:
    store = scope.store
    store.opened[scope.name] += 1
    before = Counter(store.opened)
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
        if jumps:
            store.opened = before
        else:
            store.close_inside(scope.name)

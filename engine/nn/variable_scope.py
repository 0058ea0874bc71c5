"""Variable scopes: variables by name, shared on request, as in TensorFlow 1."""

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
from ..frontend.control.scopes import name_scope
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
    ...     with tg.nn.variable_scope("a"), tg.nn.variable_scope("b"):
    ...         tg.nn.get_variable_scope().name
    'a/b'
    """
    store, scope = store_of(scopes.get_default_graph()), _current.get()
    # A scope entered for another graph has no meaning in this graph.
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
    """Open a scope with a common prefix, options and sharing for the variables of `get_variable`.

    Names equal TensorFlow 1's: they depend on variable scopes alone, not on enclosing name scopes, functions, loops and
    branches. Operations built inside are in a name scope of the same name.

    Parameters
    ----------
    name_or_scope : str, VariableScope or None
        A name is appended to the enclosing scope's; a VariableScope is entered again.
    default_name : str, optional
        The name when `name_or_scope` is None, made unique in the enclosing scope.
    values : structure of Tensor, optional
        As for `name_scope`.
    initializer : callable or str, optional
        Default of the variables in this and enclosed scopes.
    regularizer : callable, optional
        Default of the variables: see `get_regularization_losses`.
    custom_getter : callable, optional
        Called instead of `get_variable` with the original getter, the full name and the other arguments by name. With
        nested scopes, an inner getter receives the outer getter as the original.
    reuse : bool or AUTO_REUSE, optional
        True to share existing variables, False for new variables, AUTO_REUSE for either. Enclosed scopes inherit
        reuse.
    dtype : dtype-like, optional
        Default of the variables.
    auxiliary_name_scope : bool, optional
        If True, open a name scope too.
    partitioner : callable, optional
        Default of `get_variable` for variables except scalars; layers have whole variables.

    Yields
    ------
    VariableScope

    Raises
    ------
    GraphError
        If both names are missing, or `reuse` is used with a default name.

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
        # A copy, so that the options of this block do not change the scope that was passed.
        scope, shown = copy(name_or_scope), name_or_scope.name.rpartition("/")[2]
        # A scope object may come from another graph: its name and options are reused, not its variables.
        scope.store = outer.store
    else:
        shown = _choose_scope_name(outer, name_or_scope, default_name, reuse)
        scope = copy(outer)
        scope.name = "/".join(filter(None, [outer.name, shown]))
        shown = shown if name_or_scope is not None else str(default_name)
    # False does not end the reuse of an enclosing scope, as in TensorFlow 1.
    scope.reuse = reuse or scope.reuse
    scope.partitioner = scope.partitioner if partitioner is None else partitioner
    _set_options(scope, initializer, regularizer, custom_getter, dtype)
    opened = name_scope(shown, values=values) if shown and auxiliary_name_scope else nullcontext(_name_scope())
    with opened as prefix, _enter_scope(scope, jumps=isinstance(name_or_scope, VariableScope)):
        if not isinstance(name_or_scope, VariableScope):
            scope.original_name_scope = prefix
        yield scope


def _name_scope() -> str:
    name = scopes.current().name
    return f"{name}/" if name else ""


def _choose_scope_name(outer: VariableScope, name: str | None, default_name: str | None, reuse: Any) -> str:
    """Return the last part of a new scope's name, made unique if a default name."""
    if name is not None:
        return name
    if not default_name or reuse:
        raise GraphError(
            "a variable scope has no name" if not reuse else "reuse needs the name of a scope",
            wanted="name_or_scope" if reuse else "name_or_scope, or a default_name",
            got="neither" if not default_name else f"default_name={default_name!r}",
            hint="variable_scope('name')",
        )
    full = outer.store.make_unique_name("/".join(filter(None, [outer.name, default_name])))
    return full[len(outer.name) + 1 :] if outer.name else full


def _set_options(scope: VariableScope, initializer: Any, regularizer: Any, custom_getter: Any, dtype: Any) -> None:
    """Set the options of a new scope that are not None."""
    scope.initializer = scope.initializer if initializer is None else initializer
    scope.regularizer = scope.regularizer if regularizer is None else regularizer
    scope.dtype = scope.dtype if dtype is None else as_dtype(dtype)
    if custom_getter is not None:
        scope.custom_getter = compose_getters(custom_getter, scope.custom_getter)


def compose_getters(getter: Callable[..., Any], outer: Callable[..., Any] | None) -> Callable[..., Any]:
    """Compose a custom getter with the enclosing scope's getter, if any."""
    if outer is None:
        return getter
    # The inner getter is called first; its `get` is the outer getter.
    return lambda get, *args, **kwargs: getter(partial(outer, get), *args, **kwargs)


@contextmanager
def _enter_scope(scope: VariableScope, jumps: bool) -> Iterator[None]:
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

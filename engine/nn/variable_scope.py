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
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.shapes import Shape
from ..frontend.function_scope import has_made
from ..frontend.scopes import name_scope
from ..frontend.variables import Variable
from ..ir import scopes
from ..ir.apply import convert_to_tensor
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from .building import as_initializer

_STORE = "variable_scopes"  # the collection of a graph


class Reuse:
    """``AUTO_REUSE``, for `reuse`: variables of a scope are made where there are none, and else shared.

    Examples
    --------
    >>> import tagflow as tg
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
    initializer, regularizer, custom_getter, dtype
        As for `variable_scope`.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a") as scope:
    ...         w = tg.nn.get_variable("w", [2, 3])
    ...     with tg.nn.variable_scope(scope, reuse=True):
    ...         tg.nn.get_variable("w") is w
    True
    >>> scope
    <VariableScope 'a'>
    """

    def __init__(self, store: _Store) -> None:
        self._store = store
        self.name = ""
        self.original_name_scope = ""
        self.reuse: Any = False
        self.initializer: Any = None
        self.regularizer: Any = None
        self.custom_getter: Any = None
        self.dtype: DType = as_dtype("float32")

    def reuse_variables(self) -> None:
        """Let all variables asked for from now on be ones that there are."""
        self.reuse = True

    def __repr__(self) -> str:
        return f"<VariableScope {self.name!r}>"


class _Store:
    """The variables of a graph by their names, and how often each scope was opened."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.opened: Counter[str] = Counter()
        self.regularized: list[tuple[Callable[[Any], Any], Variable]] = []
        self.root = VariableScope(self)

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


_current: ContextVar[VariableScope | None] = ContextVar("tagflow_variable_scope", default=None)


def _store_of(graph: Graph) -> _Store:
    found = graph.collections.setdefault(_STORE, [])
    if not found:
        found.append(_Store())
    return found[0]  # type: ignore[no-any-return]


def get_variable_scope() -> VariableScope:
    """Return the variable scope that is open in the current graph, or the one around all.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a"), tg.nn.variable_scope("b"):
    ...         tg.nn.get_variable_scope().name
    'a/b'
    """
    store, scope = _store_of(scopes.get_default_graph()), _current.get()
    return scope if scope is not None and scope._store is store else store.root


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

    Yields
    ------
    VariableScope

    Raises
    ------
    GraphError
        If there is neither a name nor a default, or `reuse` is given with a default name.

    Examples
    --------
    >>> import tagflow as tg
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
        scope._store = outer._store
    else:
        shown = _name(outer, name_or_scope, default_name, reuse)
        scope = copy(outer)
        scope.name = "/".join(filter(None, [outer.name, shown]))
        shown = shown if name_or_scope is not None else str(default_name)
    scope.reuse = reuse or scope.reuse
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
    full = outer._store.unique("/".join(filter(None, [outer.name, default_name])))
    return full[len(outer.name) + 1 :] if outer.name else full


def _change(scope: VariableScope, initializer: Any, regularizer: Any, custom_getter: Any, dtype: Any) -> None:
    """Let a new scope have what was said of it."""
    scope.initializer = scope.initializer if initializer is None else initializer
    scope.regularizer = scope.regularizer if regularizer is None else regularizer
    scope.dtype = scope.dtype if dtype is None else as_dtype(dtype)
    if custom_getter is not None:
        scope.custom_getter = _nested(custom_getter, scope.custom_getter)


def _nested(getter: Callable[..., Any], outer: Callable[..., Any] | None) -> Callable[..., Any]:
    if outer is None:
        return getter
    return lambda get, *args, **kwargs: getter(partial(outer, get), *args, **kwargs)


@contextmanager
def _entered(scope: VariableScope, jumps: bool) -> Iterator[None]:
    store = scope._store
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


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    custom_getter: Any = None,
) -> Variable:
    """Return the variable of a name in the open variable scope: a new one, or one that is shared.

    Parameters
    ----------
    name : str
        The scope's name is put in front of it.
    shape : sequence of int, optional
        Needed for a new variable, unless `initializer` is a value.
    dtype : dtype-like, optional
        That of the scope by default, or of the value; float32 outside of scopes.
    initializer : callable, str, array-like or Tensor, optional
        A value, a function of shape and dtype as `tagflow.nn` has them, or the name of one, as ``"glorot_uniform"``.
        By default that of the scope, else ``"glorot_uniform"`` for floating dtypes and ``"zeros"`` for integers and
        bool.
    regularizer : callable, optional
        Of a variable; gives a scalar: see `get_regularization_losses`.
    trainable : bool, optional
        As for `Variable`.
    custom_getter : callable, optional
        As for `variable_scope`.

    Returns
    -------
    Variable
        In a function that is traced again those that it made the first time count as new.

    Raises
    ------
    GraphError
        If it exists and the scope does not reuse variables, or the other way round; if there is no shape.
    ShapeError, DtypeError
        If the variable that exists has another shape or dtype.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default():
    ...     with tg.nn.variable_scope("a"):
    ...         tg.nn.get_variable("w", [2, 3])
    <Variable a/w float32[2,3]>
    """
    scope = get_variable_scope()
    value = None if initializer is None or callable(initializer) or isinstance(initializer, str) else initializer
    if dtype is None:
        dtype = scope.dtype if value is None else convert_to_tensor(value).dtype
    given = {
        "shape": None if shape is None else Shape([shape] if isinstance(shape, int) else shape),
        "dtype": as_dtype(dtype),
        "initializer": scope.initializer if initializer is None else initializer,
        "regularizer": scope.regularizer if regularizer is None else regularizer,
        "trainable": trainable,
        "reuse": scope.reuse,
    }
    get = partial(_get, scope._store)
    getter = custom_getter or scope.custom_getter
    if custom_getter is not None:
        getter = _nested(custom_getter, scope.custom_getter)
    full = f"{scope.name}/{name}" if scope.name else name
    return get(full, **given) if getter is None else getter(get, full, **given)  # type: ignore[no-any-return]


def _get(
    store: _Store,
    name: str,
    shape: Shape | None = None,
    dtype: Any = "float32",
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    reuse: Any = False,
) -> Variable:
    with scopes.within(name=""):
        found = store.variables.get(name)
        if found is not None and not reuse and not has_made(name):
            raise GraphError(
                f"variable '{name}' exists already",
                wanted="a new name, or a scope with reuse=True or AUTO_REUSE",
                got=found,
                operation=found.op,
                hint="with variable_scope(..., reuse=AUTO_REUSE): ...",
            )
        if found is not None and reuse:
            _check(found, shape, as_dtype(dtype))
            return found
        if reuse is True:
            raise GraphError(
                f"there is no variable '{name}' to be reused",
                wanted="one made by get_variable",
                got=", ".join(store.variables) or "none",
                hint="make it in a scope without reuse=True, or with AUTO_REUSE",
            )
        made = Variable(_initial(name, shape, as_dtype(dtype), initializer), trainable, name, dtype, shape)
    if name not in store.variables:
        store.variables[name] = made
        if regularizer is not None:
            store.regularized.append((regularizer, made))
    return made


def _check(found: Variable, shape: Shape | None, dtype: DType) -> None:
    if shape is not None and not shape.is_compatible_with(found.shape):
        raise ShapeError(
            f"variable '{found.name}' has another shape than it is shared as",
            wanted=found.shape,
            got=shape,
            operation=found.op,
            hint="give it another name, or leave the shape out",
        )
    if dtype is not found.dtype:
        raise DtypeError(
            f"variable '{found.name}' has another dtype than it is shared as",
            wanted=found.dtype,
            got=dtype,
            operation=found.op,
            hint=f"get_variable(..., dtype='{found.dtype}')",
        )


def _initial(name: str, shape: Shape | None, dtype: DType, initializer: Any) -> Any:
    """Return the initial value of a new variable, or the function that makes it."""
    if initializer is None:
        initializer = "glorot_uniform" if dtype.is_floating else "zeros"
    if isinstance(initializer, str):
        initializer = as_initializer(initializer)
    if shape is None and callable(initializer):
        raise GraphError(
            f"the new variable '{name}' has no shape",
            wanted="a shape, or a value as its initializer",
            got="neither",
            hint=f"get_variable('{name}', [2, 3])",
        )
    return initializer


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return what regularizers give for the variables that `get_variable` made with one, as they are here.

    Parameters
    ----------
    scope : str, optional
        Only those whose names begin with this.

    Returns
    -------
    list of Tensor
        Regularizers that give None have no part in it.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default() as graph:
    ...     with tg.nn.variable_scope("a", regularizer=tg.l2_loss):
    ...         w = tg.nn.get_variable("w", initializer=[3.0, 4.0])
    ...     loss = tg.add_n(tg.nn.get_regularization_losses())
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(w.initializer)
    ...     float(session.run(loss))
    12.5
    """
    store = _store_of(scopes.get_default_graph())
    found = [regularizer(v.value()) for regularizer, v in store.regularized if v.name.startswith(scope or "")]
    return [loss for loss in found if loss is not None]

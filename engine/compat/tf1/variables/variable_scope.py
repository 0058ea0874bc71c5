"""``variable_scope``: a common prefix, options and sharing for variables by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Any

from ....base.dtypes import as_dtype
from ....base.errors import GraphError
from ....frontend.control.scopes import name_scope
from ....ir import scopes
from ....nn.variable_store import VariableScope, compose_getters, enter_scope, get_variable_scope


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
    ...     with tg.compat.tf1.variable_scope("layer", reuse=tg.compat.tf1.AUTO_REUSE):
    ...         return tg.matmul(x, tg.compat.tf1.get_variable("kernel", [x.shape[-1], 2]))
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
    with opened as prefix, enter_scope(scope, jumps=isinstance(name_or_scope, VariableScope)):
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

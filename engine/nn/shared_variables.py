"""New and shared variables by name, for layers and for ``get_variable`` of `compat.tf1`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.shapes import Shape
from ..frontend.state.partitioned import PartitionedVariable
from ..frontend.state.variables import Variable
from ..frontend.tracing.function_scope import has_made
from ..ir import scopes
from .by_name import as_initializer
from .variable_store import Store


def get_or_make_variable(
    store: Store,
    name: str,
    shape: Shape | None = None,
    dtype: Any = "float32",
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    reuse: Any = False,
    partitioner: Any = None,
    *,
    layer_name: str | None = None,
    is_unique: bool = False,
) -> Variable:
    """Return the variable of a full name from a store, or make a new variable: see `get_variable`.

    Parameters
    ----------
    layer_name : str, optional
        Name of a layer's variable under the current name scope, for a new variable.
    is_unique : bool
        True for a layer outside of all variable scopes, whose variables are always new.
    """
    # `get_variable` names variables by variable scopes alone, layers by name scopes.
    with scopes.within(name="") if layer_name is None else nullcontext():
        own = layer_name or name
        found = None if is_unique else store.find_variable(name, reuse)
        # A function that is traced again makes the variables of its first trace anew, which is no clash.
        if found is not None and not reuse and not has_made(own):
            raise GraphError(
                f"variable '{name}' exists already",
                wanted="a new name, or a scope with reuse=True or AUTO_REUSE",
                got=found,
                operation=found.op,
                hint="with variable_scope(..., reuse=AUTO_REUSE): ...",
            )
        if found is not None and reuse:
            _check_shared_variable(found, shape, as_dtype(dtype))
            return found
        if reuse is True:
            raise GraphError(
                f"there is no variable '{name}' to be reused",
                wanted="one made by get_variable, or by a layer, in this variable scope",
                got=", ".join(store.variables) or "none",
                hint="make it in a scope without reuse=True, or with AUTO_REUSE; layers of one scope are told apart "
                "by name=, or else by the order in which they are constructed",
            )
        is_new = not has_made(own)
        first = _choose_initial_value(name, shape, as_dtype(dtype), initializer)
        made: Variable = _make_variable(first, partitioner, trainable, own, dtype, shape)
    # A layer outside of all scopes, in a function that is traced again, has its variable in the store already.
    if is_new or not is_unique:
        store.add_variable(name, made, regularizer, is_unique)
    return made


def _make_variable(first: Any, partitioner: Any, trainable: bool, name: str, dtype: Any, shape: Shape | None) -> Any:
    """Return a new variable, in shards if a partitioner is given and the variable is not a scalar."""
    if partitioner is None or (shape is not None and shape.rank == 0):
        return Variable(first, trainable, name, dtype, shape)
    return PartitionedVariable(first, partitioner, trainable, name, dtype, shape)


def _check_shared_variable(found: Variable, shape: Shape | None, dtype: DType) -> None:
    """Raise ShapeError or DtypeError unless shape and dtype fit a shared variable."""
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


def _choose_initial_value(name: str, shape: Shape | None, dtype: DType, initializer: Any) -> Any:
    """Return the initial value of a new variable, or its initializer function."""
    if initializer is None:
        initializer = "glorot_uniform" if dtype.is_floating else "zeros"
    if isinstance(initializer, str) or callable(initializer):
        initializer = as_initializer(initializer)
    if shape is None and callable(initializer):
        raise GraphError(
            f"the new variable '{name}' has no shape",
            wanted="a shape, or a value as its initializer",
            got="neither",
            hint=f"get_variable('{name}', [2, 3])",
        )
    return initializer

"""New and shared variables by name, for layers and for ``get_variable`` of `compat.tf1`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class VariableRequest:
    """Arguments of a getter, for the variable of a full name; see `get_variable`."""

    name: str
    shape: Shape | None = None
    dtype: Any = "float32"
    initializer: Any = None
    regularizer: Any = None
    trainable: bool = True
    reuse: Any = False
    partitioner: Any = None

    def find_or_make(self, store: Store, layer_name: str | None, is_unique: bool) -> Variable:
        """Return the variable from a store, or make a new variable; see `getter_of` for the parameters."""
        # `get_variable` names variables by variable scopes alone, layers by name scopes.
        with scopes.within(name="") if layer_name is None else nullcontext():
            own = layer_name or self.name
            found = None if is_unique else store.find_variable(self.name, self.reuse)
            # A function that is traced again makes the variables of its first trace anew, which is no clash.
            if found is not None and not self.reuse and not has_made(own):
                raise GraphError(
                    f"variable '{self.name}' exists already",
                    wanted="a new name, or a scope with reuse=True or AUTO_REUSE",
                    got=found,
                    operation=found.op,
                    hint="with variable_scope(..., reuse=AUTO_REUSE): ...",
                )
            if found is not None and self.reuse:
                _check_shared_variable(found, self.shape, as_dtype(self.dtype))
                return found
            if self.reuse is True:
                raise GraphError(
                    f"there is no variable '{self.name}' to be reused",
                    wanted="one made by get_variable, or by a layer, in this variable scope",
                    got=", ".join(store.variables) or "none",
                    hint="make it in a scope without reuse=True, or with AUTO_REUSE; layers of one scope are told "
                    "apart by name=, or else by the order in which they are constructed",
                )
            is_new = not has_made(own)
            made: Variable = self._make_variable(own)
        # A layer outside of all scopes, in a function that is traced again, has its variable in the store already.
        if is_new or not is_unique:
            store.add_variable(self.name, made, self.regularizer, is_unique)
        return made

    def _make_variable(self, name: str) -> Any:
        """Return a new variable, in shards if a partitioner is given and the variable is not a scalar."""
        first = _choose_initial_value(self.name, self.shape, as_dtype(self.dtype), self.initializer)
        if self.partitioner is None or (self.shape is not None and self.shape.rank == 0):
            return Variable(first, self.trainable, name, self.dtype, self.shape)
        return PartitionedVariable(first, self.partitioner, self.trainable, name, self.dtype, self.shape)


def getter_of(store: Store, layer_name: str | None = None, is_unique: bool = False) -> Callable[..., Variable]:
    """Return a function that returns the variable of a VariableRequest's arguments.

    Parameters
    ----------
    layer_name : str, optional
        Name of a layer's variable under the current name scope, for a new variable.
    is_unique : bool
        True for a layer outside of all variable scopes, whose variables are always new.
    """

    def get_variable(*request: Any, **options: Any) -> Variable:
        # Called by the custom getters of users, which may change each argument.
        return VariableRequest(*request, **options).find_or_make(store, layer_name, is_unique)

    return get_variable


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

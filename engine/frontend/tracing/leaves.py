"""Conversion between leaves of nested structures and tensors: arrays become flows, operations bools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.array_like import as_array
from ...base.calling import call
from ...base.dtypes import DType, as_dtype
from ...base.errors import GraphError
from ...ir import scopes
from ...ir.apply import apply, constant, convert_to_tensor, strengthened
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.tensor import Tensor
from ...ir.weak import LITERALS, common_dtype, gives_way, is_weak

_DEEP = 16  # nesting depth of branches and loops that explains a RecursionError


def to_tensor(leaf: Any, dtype: DType | None = None, *, done: bool = True) -> Tensor:
    """Return the tensor by which `leaf` enters and leaves a region.

    A TensorArray becomes its flow, an operation the constant `done` after the operation ran; a literal takes
    `dtype`.
    """
    if leaf is None:
        raise GraphError("a branch or body must return tensors", got="None", hint="return a value, or an operation")
    if hasattr(leaf, "with_flow"):
        return scopes.current_region().resolve(leaf.flow)
    if isinstance(leaf, Operation):
        # An operation has no value: the constant waits for its end.
        with scopes.within(control_inputs=(*scopes.current().control_inputs, leaf)):
            return apply("Identity", constant(done))
    tensor = convert_to_tensor(leaf, None if is_typed(leaf) else dtype)
    return strengthened(tensor, dtype)


def is_literal(leaf: Any) -> bool:
    """Return True for a Python number, which takes the dtype of its operands."""
    return type(leaf) in LITERALS


def from_tensor(leaf: Any, tensor: Tensor) -> Any:
    """Return the leaf of the kind of `leaf` with the value of `tensor`."""
    return leaf.with_flow(tensor) if hasattr(leaf, "with_flow") else tensor


def is_typed(leaf: Any) -> bool:
    """Return True for a leaf with a fixed dtype (neither literals nor NumPy scalars have a fixed dtype)."""
    if isinstance(leaf, np.generic):
        return False
    return hasattr(leaf, "dtype") or isinstance(leaf, Operation) or hasattr(leaf, "_as_tensor")


def dtype_hint(leaf: Any) -> DType | None:
    """Return the dtype a literal beside this leaf should take."""
    if hasattr(leaf, "with_flow") or not isinstance(getattr(leaf, "dtype", None), DType):
        return None
    dtype: DType = leaf.dtype
    return dtype


def is_weak_leaf(leaf: Any) -> bool:
    """Return True for a leaf that adopts the dtype of its operands: a literal, or a weak loop variable."""
    return is_literal(leaf) or isinstance(leaf, Tensor) and is_weak(leaf)


def weak_dtype(leaves: Sequence[Any]) -> DType:
    """Return the common dtype of weak leaves."""
    return common_dtype([leaf.dtype if isinstance(leaf, Tensor) else as_dtype(as_array(leaf).dtype) for leaf in leaves])


class Retyped(Exception):
    """Signal that a region must be built again, with other dtypes of its literals.

    Parameters
    ----------
    dtypes : dict from int to DType
        New dtypes by the number of the leaf.
    """

    def __init__(self, dtypes: dict[int, DType]) -> None:
        super().__init__(dtypes)
        self.dtypes: dict[int, DType] = dtypes


def dtype_to_begin_with(variable: Tensor, value: Any) -> DType | None:
    """Return the initial dtype required by a weak loop variable's new value; None if the dtype is right.

    Parameters
    ----------
    variable : Tensor
        The variable's parameter in the body.
    value : leaf
        The variable's result of the body.
    """
    if not is_weak(variable):
        return None
    if is_literal(value):
        dtype = weak_dtype([variable, value])
    elif isinstance(getattr(value, "dtype", None), DType):
        dtype = weak_dtype([variable, value]) if is_weak_leaf(value) else value.dtype
    else:
        return None
    return dtype if dtype is not variable.dtype and gives_way(variable.dtype, dtype) else None


def trace_function(region: Region, function: Any, arguments: Any, what: str) -> Any:
    """Call a user's function once, and build its operations in `region`; `what` describes the function in errors."""
    try:
        with scopes.inside(region):
            return call(function, arguments, what)
    except RecursionError:
        depth = len(list(region.ancestors())) - 1
        if depth < _DEEP:
            raise  # the function's own recursion, unrelated to nesting
        raise GraphError(
            "branches and loops are nested too deep",
            wanted="functions that end when they are called once, while the graph is built",
            got=f"{what}, {depth} levels deep",
            hint="a function that calls itself in a branch never ends, since both branches are built: use while_loop",
        ) from None

"""Leaves of nested structures as tensors: arrays stand for their flow, operations for a truth value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.array_like import as_array
from ..base.calling import call
from ..base.dtypes import DType, as_dtype
from ..base.errors import GraphError
from ..ir import scopes
from ..ir.apply import apply, constant, convert_to_tensor, strengthened
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ir.weak import LITERALS, common_dtype, gives_way, is_weak

_DEEP = 16  # levels of branches and loops from which on a RecursionError is about them


def to_tensor(leaf: Any, dtype: DType | None = None, *, done: bool = True) -> Tensor:
    """Return the tensor that carries `leaf` in and out of a region.

    A TensorArray is carried by its flow, an operation by the constant `done` after it ran, a literal takes
    `dtype`.
    """
    if leaf is None:
        raise GraphError("a branch or body must return tensors", got="None", hint="return a value, or an operation")
    if hasattr(leaf, "with_flow"):
        return scopes.current_region().resolve(leaf.flow)
    if isinstance(leaf, Operation):
        with scopes.within(control_inputs=(*scopes.current().control_inputs, leaf)):
            return apply("Identity", constant(done))  # type: ignore[no-any-return]
    tensor = convert_to_tensor(leaf, None if is_typed(leaf) else dtype)
    return strengthened(tensor, dtype)


def is_literal(leaf: Any) -> bool:
    """Whether a leaf is a number of Python, which takes the dtype of what it meets."""
    return type(leaf) in LITERALS


def from_tensor(leaf: Any, tensor: Tensor) -> Any:
    """Return what `leaf` becomes when `tensor` carries it."""
    return leaf.with_flow(tensor) if hasattr(leaf, "with_flow") else tensor


def is_typed(leaf: Any) -> bool:
    """Whether the leaf has a dtype of its own (a literal has none, nor has a scalar of NumPy)."""
    if isinstance(leaf, np.generic):
        return False
    return hasattr(leaf, "dtype") or isinstance(leaf, Operation) or hasattr(leaf, "_as_tensor")


def dtype_hint(leaf: Any) -> DType | None:
    """Return the dtype a literal beside this leaf should take."""
    if hasattr(leaf, "with_flow") or not isinstance(getattr(leaf, "dtype", None), DType):
        return None
    return leaf.dtype  # type: ignore[no-any-return]


def is_weak_leaf(leaf: Any) -> bool:
    """Whether a leaf gives way to the dtype of what it meets: a literal, or a loop variable that begins with one."""
    return is_literal(leaf) or isinstance(leaf, Tensor) and is_weak(leaf)


def weak_dtype(leaves: Sequence[Any]) -> DType:
    """Return the dtype that leaves which all give way have together."""
    return common_dtype([leaf.dtype if isinstance(leaf, Tensor) else as_dtype(as_array(leaf).dtype) for leaf in leaves])


class Retyped(Exception):
    """Signal that what is built has to be built once more: its literals get another dtype than was thought.

    Parameters
    ----------
    dtypes : dict from int to DType
        By the number of the leaf.
    """

    def __init__(self, dtypes: dict[int, DType]) -> None:
        super().__init__(dtypes)
        self.dtypes: dict[int, DType] = dtypes


def dtype_to_begin_with(variable: Tensor, value: Any) -> DType | None:
    """Return the dtype that a loop variable which began with a literal has to have for a new value; None if it has it.

    Parameters
    ----------
    variable : Tensor
        In the body.
    value : leaf
        As the body gives it.
    """
    if not is_weak(variable):
        return None
    if is_literal(value):
        wanted = weak_dtype([variable, value])
    elif isinstance(getattr(value, "dtype", None), DType):
        wanted = weak_dtype([variable, value]) if is_weak_leaf(value) else value.dtype
    else:
        return None
    return wanted if wanted is not variable.dtype and gives_way(variable.dtype, wanted) else None


def trace_function(region: Region, function: Any, arguments: Any, what: str) -> Any:
    """Call a user's function once, building what it builds in `region`; `what` says what it is."""
    try:
        with scopes.inside(region):
            return call(function, arguments, what)
    except RecursionError:
        depth = len(list(region.ancestors())) - 1
        if depth < _DEEP:
            raise  # that is the function's own
        raise GraphError(
            "branches and loops are nested too deep",
            wanted="functions that end when they are called once, while the graph is built",
            got=f"{what}, {depth} levels deep",
            hint="a function that calls itself in a branch never ends, since both branches are built: use while_loop",
        ) from None

"""Leaves of nested structures as tensors: arrays stand for their flow, operations for a truth value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.calling import call
from ..base.dtypes import DType
from ..base.errors import GraphError
from ..ir import scopes
from ..ir.apply import apply, constant, convert_to_tensor
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.tensor import Tensor

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
    return convert_to_tensor(leaf, None if is_typed(leaf) else dtype)


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

"""Shape rules and gradient helpers shared by the families."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply, constant
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from .shape_equality import shape_source

PYTHON = ("python", "calls")  # key that orders calls of user functions and prints


def same_as(index: int) -> Callable[[Operation], Shape]:
    """Shape rule: the output has the shape of input `index`."""
    return lambda op: op.inputs[index].shape


def broadcast_all(op: Operation) -> Shape:
    """Shape rule: the NumPy broadcast of all inputs."""
    result = SCALAR
    for tensor in op.inputs:
        result = result.broadcast(tensor.shape)
    return result


def infer_scalar(op: Operation) -> Shape:
    """Shape rule: a scalar."""
    return SCALAR


def infer_unknown(op: Operation) -> Shape:
    """Shape rule: an unknown shape."""
    return Shape(None)


def infer_nothing(op: Operation) -> list[Shape]:
    """Shape rule of an operation without outputs."""
    return []


def shape_of(tensor: Tensor) -> Tensor:
    """Return the shape of a tensor as an int32 vector: a constant if known."""
    if tensor.shape.is_fully_known:
        return constant(np.asarray(tensor.shape.as_tuple(), np.int32))
    # The shape of an earlier tensor, so that `tensor` need not be kept, or even computed, for its shape alone.
    return apply("Shape", shape_source(tensor))


def size_along(tensor: Tensor, axis: int) -> Tensor:
    """Return a dimension of a tensor as an int32 scalar: a constant if known."""
    known = None if tensor.rank is None else tensor.shape[axis]
    return shape_of(tensor)[axis] if known is None else constant(np.asarray(known, np.int32))


def ensure_sizes(x: Tensor, *sizes: int | None) -> Tensor:
    """Return a tensor of the given sizes, None for any; a step checks sizes unknown while building.

    Raises
    ------
    ShapeError
        If the shape is known to differ.
    """
    wanted = Shape(sizes)
    return x if wanted.includes(x.shape) else apply("EnsureShape", x, shape=wanted)


def one_for_each(numbers: Tensor, like: Tensor, axis: int) -> Tensor:
    """Return the vector `numbers`, checked to have an element for each along `axis` of `like`, in a step if unknown.

    Raises
    ------
    ShapeError
        If the length is known to differ: broadcasting would hide a length of 1.
    """
    count = None if like.rank is None else like.shape[axis]
    numbers.shape.merge(Shape([count]))
    if count is not None and numbers.shape.is_fully_known:
        return numbers
    size = apply("ExpandDims", size_along(like, axis), axis=0)
    # Reshape to the size fails in a step for any other length, where broadcasting would accept a length of 1.
    checked: Tensor = apply("Reshape", ensure_sizes(numbers, None), size)
    checked.set_shape(numbers.shape.merge(Shape([count])))
    return checked


def dimension_of(tensor: Tensor, axis: int) -> Any:
    """Return a dimension of a tensor: an integer if known, else a scalar tensor."""
    known = None if tensor.rank is None else tensor.shape[axis]
    return size_along(tensor, axis) if known is None else known


def zeros_like(tensor: Tensor) -> Tensor:
    """Return zeros of a tensor's run-time shape; reads only its shape, never its values."""
    return _fill_like(tensor, np.zeros((), tensor.dtype.numpy))


def ones_like(tensor: Tensor) -> Tensor:
    """Return ones of a tensor's run-time shape."""
    return _fill_like(tensor, np.ones((), tensor.dtype.numpy))


def _fill_like(like: Tensor, value: Any) -> Tensor:
    scalar = constant(value)
    return scalar if like.shape == SCALAR else with_static_shape(apply("Fill", shape_of(like), scalar), like)


def cotangents_of(op: Operation, given: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the outputs of an operation, with zeros for None."""
    return [zeros_like(t) if g is None else g for t, g in zip(op.outputs, given, strict=True)]


def sum_to(cotangent: Tensor, like: Tensor) -> Tensor:
    """Undo a broadcast: sum `cotangent` down to the shape of `like`."""
    if like.shape.is_fully_known and cotangent.shape == like.shape:
        return cotangent
    return with_static_shape(apply("SumTo", cotangent, shape_of(like)), like)


def with_static_shape(tensor: Tensor, like: Tensor) -> Tensor:
    """Return `tensor` with the static shape of `like`: little is known of a saved shape while building."""
    tensor.set_shape(like.shape)
    return tensor


def scalar_like(value: Any, tensor: Tensor) -> Tensor:
    """Return a scalar constant of the dtype of `tensor`."""
    return constant(np.asarray(value).astype(tensor.dtype.numpy))


def raised_to(mask: Tensor, like: Tensor) -> Tensor:
    """Append dimensions of size 1 to `mask`, up to the rank of `like`."""
    if mask.rank is None or like.rank is None:
        extra = apply("Rank", like) - apply("Rank", mask)
        tail = apply("Fill", apply("Reshape", extra, constant(np.ones(1, np.int32))), constant(1))
    else:
        tail = constant(np.ones(like.rank - mask.rank, np.int32))
    return apply("Reshape", mask, apply("Concat", [shape_of(mask), tail], axis=0))

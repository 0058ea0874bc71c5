"""Axes known only in a step: dimensions are permuted so that the operation runs along a known axis.

Kernels take their axes as attributes, so that shapes, fusion and native programs know them while a step is compiled. A
tensor axis is rare, and costs two transpositions instead of a second form of every operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import int32
from ...base.errors import DtypeError, ShapeError
from ...ir.apply import apply, as_symbolic, convert_to_tensor
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from .arguments import index_tensor
from .common import shape_of


def late_axis(axis: Any) -> Tensor | None:
    """Return an axis known only in a step as an int32 scalar; None for a static or missing axis."""
    tensor = _late_tensor(axis)
    if tensor is not None and tensor.rank not in (0, None):
        raise ShapeError("an axis is a scalar", wanted="[]", got=tensor.shape, hint="take one element of it, as t[0]")
    return tensor


def late_axes(axis: Any) -> Tensor | None:
    """Return axes, some known only in a step, as an int32 vector; None if all are static, or missing."""
    tensor = _late_tensor(axis)
    if tensor is not None and tensor.rank not in (0, 1, None):
        raise ShapeError("axes are a vector", wanted="[n]", got=tensor.shape, hint="reshape(axes, [-1])")
    return None if tensor is None else apply("Reshape", tensor, [-1])


def _late_tensor(axis: Any) -> Tensor | None:
    """Return an axis argument as an int32 tensor; None if its value is static or missing."""
    if axis is None or not as_symbolic(axis):
        return None
    tensor = index_tensor(axis)
    # A constant tensor counts as static: `static_int` reads it.
    if static_value(tensor) is not None:
        return None
    if not tensor.dtype.is_integer:
        raise DtypeError("an axis is an integer", wanted="int32 or int64", got=tensor.dtype, hint="cast(axis, 'int32')")
    return apply("Cast", tensor, dtype=int32)


def rank_of(x: Tensor) -> Tensor:
    """Return the rank of a tensor as an int32 scalar."""
    return convert_to_tensor(x.rank, int32) if x.rank is not None else apply("Rank", x)


def from_zero(axes: Tensor, rank: Tensor) -> Tensor:
    """Return axes, which may be negative, as numbers from 0 up."""
    return apply("Where", axes < 0, axes + rank, axes)


def number_range(start: Any, end: Any) -> Tensor:
    """Return the integers from `start` up to, not including, `end`."""
    return apply("Range", *(convert_to_tensor(each, int32) for each in (start, end, 1)))


def join_vectors(*vectors: Any) -> Tensor:
    """Return int32 vectors concatenated."""
    return apply("Concat", [convert_to_tensor(each, int32) for each in vectors], axis=0)


def permute_dimensions(x: Tensor, perm: Tensor, name: str | None = None) -> Tensor:
    """Return a tensor whose dimension i is dimension ``perm[i]`` of `x`."""
    return apply("Permute", x, perm, name=name)


def axis_to_end(x: Tensor, axis: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor with an axis moved to the end, and the permutation back."""
    rank = rank_of(x)
    place = from_zero(axis, rank)
    perm = join_vectors(number_range(0, place), number_range(place + 1, rank), [place])
    back = join_vectors(number_range(0, place), [rank - 1], number_range(place, rank - 1))
    return permute_dimensions(x, perm), back


def axis_to_front(x: Tensor, axis: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor with an axis moved to the front, and the permutation back."""
    rank = rank_of(x)
    place = from_zero(axis, rank)
    perm = join_vectors([place], number_range(0, place), number_range(place + 1, rank))
    back = join_vectors(number_range(1, place + 1), [0], number_range(place + 1, rank))
    return permute_dimensions(x, perm), back


def along_last(type: str, x: Any, axis: Tensor, name: str | None, **attrs: Any) -> Tensor:
    """Apply a shape-preserving operation along an axis known only in a step."""
    moved, back = axis_to_end(convert_to_tensor(x), axis)
    return permute_dimensions(apply(type, moved, axis=-1, **attrs), back, name)


def mark_axes(axes: Tensor, rank: Tensor) -> Tensor:
    """Return, for each of `rank` dimensions, whether it is among the axes."""
    each, every = apply("ExpandDims", number_range(0, rank), axis=1), apply("ExpandDims", from_zero(axes, rank), axis=0)
    return apply("Any", apply("Equal", each, every), axis=(1,), keepdims=False)


def reduce_late_axes(type: str, x: Any, axes: Tensor, keepdims: bool, name: str | None) -> Tensor:
    """Reduce a tensor over axes known only in a step: over a last dimension into which they are merged."""
    tensor = convert_to_tensor(x)
    rank, sizes = rank_of(tensor), shape_of(tensor)
    gone = mark_axes(axes, rank)
    kept = apply("BooleanMask", number_range(0, rank), apply("LogicalNot", gone))
    # An axis out of range, or a repeated axis, makes this no permutation, and Permute refuses it.
    moved = permute_dimensions(tensor, join_vectors(kept, from_zero(axes, rank)))
    kept_sizes = apply("Gather", sizes, kept, axis=0, batch_dims=0)
    # Computed, because a -1 in Reshape has no unique value for empty tensors.
    count = apply("Prod", apply("Where", gone, sizes, 1), axis=(0,), keepdims=False)
    rows = apply("Reshape", moved, join_vectors(kept_sizes, [count]))
    found = apply(type, rows, axis=(-1,), keepdims=False)
    # A single axis lowers the rank by one; several might be repeated, which the step refuses.
    if tensor.rank is not None and axes.shape == [1]:
        found.set_shape([None] * (tensor.rank - 1))
    if not keepdims:
        return apply("Identity", found, name=name)
    return apply("Reshape", found, apply("Where", gone, 1, sizes), name=name)


def concat_along_late(values: Sequence[Any], axis: Tensor, name: str | None) -> Tensor:
    """Join tensors of equal rank along an axis known only in a step."""
    moved = [axis_to_front(each, axis) for each in values]
    return permute_dimensions(apply("Concat", [each for each, _ in moved], axis=0), moved[0][1], name)


def gather_along_late(params: Any, indices: Tensor, axis: Tensor, name: str | None) -> Tensor:
    """Take rows along an axis known only in a step."""
    tensor = convert_to_tensor(params)
    moved, _ = axis_to_front(tensor, axis)
    rows = apply("Gather", moved, indices, axis=0, batch_dims=0)
    rank, depth = rank_of(tensor), rank_of(indices)
    place = from_zero(axis, rank)
    # The dimensions of the indices move from the front to the place of the axis.
    order = join_vectors(
        number_range(depth, depth + place), number_range(0, depth), number_range(depth + place, depth + rank - 1)
    )
    return permute_dimensions(rows, order, name)


def expand_late_axis(x: Any, axis: Tensor, name: str | None) -> Tensor:
    """Insert a dimension of size 1 at an axis known only in a step."""
    tensor = convert_to_tensor(x)
    rank, sizes = rank_of(tensor), shape_of(tensor)
    place = from_zero(axis, rank + 1)
    parts = [
        apply("Gather", sizes, each, axis=0, batch_dims=0)
        for each in (number_range(0, place), number_range(place, rank))
    ]
    return apply("Reshape", tensor, join_vectors(parts[0], [1], parts[1]), name=name)

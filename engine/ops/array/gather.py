"""Rows and elements by index, and the sums of their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched, TakesRow
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.placing import TakesPart
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape, static_value
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, axis_within, index_tensor, shape_in, static_int
from ..support.array_library import add_rows
from ..support.batching import emit_copy
from ..support.bounds import check_bounds, rows_of_segments
from ..support.common import raised_to, scalar_like, shape_of
from ..support.indexed_slices import IndexedSlices
from ..support.late_axes import gather_along_late, late_axis
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing import indexing

_X = np.arange(12.0).reshape(3, 4)
_INDEX: dict[str, tuple[DType, ...]] = {"I": dtypes.INDEX}


def _gather_shape(op: Operation) -> Shape:
    params, indices = (t.shape for t in op.inputs)
    if params.rank is None or indices.rank is None:
        return Shape(None)
    batch = op.attrs["batch_dims"]
    axis = _checked_axis(op.attrs["axis"], batch, params.rank, indices.rank)
    parts: list[Shape] = [params[batch:axis], indices[batch:], params[axis + 1 :]]
    return sum(parts, Shape(params[:batch]).merge(Shape(indices[:batch])))


def _row_numbers(xp: Any, shape: tuple[int, ...], indices: Any, axis: int, batch: int) -> tuple[Any, int]:
    """Return [batch, outer, k] row numbers of an array of `shape` seen as [rows, inner], and inner."""
    batches, outer = math.prod(shape[:batch]), math.prod(shape[batch:axis])
    starts = xp.arange(batches * outer).reshape(batches, outer, 1) * shape[axis]
    return starts + indices.reshape(batches, 1, math.prod(indices.shape[batch:])), math.prod(shape[axis + 1 :])


def _compute_gather(xp: Any, params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """Take rows; with batch dimensions, by row numbers in `params` seen as a matrix."""
    axis = _checked_axis(axis, batch_dims, params.ndim, indices.ndim)
    check_bounds(indices, params.shape[axis], "gather")
    if not batch_dims:
        return xp.asarray(xp.take(params, indices, axis=axis), dtype=params.dtype)
    rows, inner = _row_numbers(xp, params.shape, indices, axis, batch_dims)
    shape = params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1 :]
    return params.reshape(math.prod(params.shape[: axis + 1]), inner)[rows].reshape(shape)


def _checked_axis(axis: int, batch: int, rank: int, index_rank: int) -> int:
    """Return the axis from 0 up; ShapeError if the ranks do not have the axis or the batch dimensions."""
    place = axis_within(axis, rank)
    if not 0 <= batch <= min(place, index_rank):
        raise _too_many_shared(batch, min(place, index_rank))
    return place


def _too_many_shared(batch: int, most: int) -> ShapeError:
    return ShapeError(
        "gather: batch_dims has to be at most axis and the rank of the indices",
        got=batch,
        wanted=f"0 to {most}",
        hint="leave batch_dims out if no dimension is shared",
    )


def _gathered_size(params: Any, indices: Any, axis: int, batch_dims: int) -> int:
    axis = _checked_axis(axis, batch_dims, params.ndim, indices.ndim)
    shared = math.prod(params.shape[:batch_dims]) * params.shape[axis]
    return int(params.size // max(shared, 1) * indices.size)


def _gather_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return IndexedSlices for rows along axis 0, otherwise a dense gradient."""
    params, indices = op.inputs
    axis, batch = op.attrs["axis"], op.attrs["batch_dims"]
    # rows along axis 0, of an embedding for example: a dense gradient would be as large as all of `params`
    if axis in (0, None if params.rank is None else -params.rank) and not batch:
        return [_gradient_slices(g, indices, shape_of(params)), None]
    return [apply("GatherGrad", g, indices, shape_of(params), axis=axis, batch_dims=batch), None]


def _gradient_slices(g: Tensor, indices: Tensor, shape: Tensor) -> IndexedSlices:
    """Return the gradient of rows as IndexedSlices with a vector of indices."""
    if indices.rank == 1:
        return IndexedSlices(g, apply("Identity", indices), shape)
    count = apply("Reshape", apply("Size", indices), constant(i32([1])))
    values = apply("Reshape", g, apply("Concat", [count, shape[1:]], axis=0))
    return IndexedSlices(values, apply("Reshape", indices, count), shape)


def _batch_gather(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Gather by all indices in a single operation, or the same elements of each of many arrays."""
    axis, rank = op.attrs["axis"], op.inputs[0].rank
    # indices that vary along a later axis would move the batch dimension into the middle of the result
    if rank is None or op.attrs["batch_dims"] or all(varying) or (varying[1] and axis % rank):
        return None
    # a batch dimension of `params` moves the axis back by one
    axis = axis % rank + varying[0]
    return lambda builder, operands: emit_copy(builder, op, operands, axis=axis)


def _source_row(op: Operation) -> tuple[Tensor, Tensor] | None:
    params, index = op.inputs
    first = params.rank is not None and op.attrs["axis"] in (0, -params.rank) and index.rank == 0
    return (params, index) if first else None


define(
    "Gather",
    "params: T, indices: I -> output: T",
    rules=[
        Vectorize(indexing.gather_examples),
        LINEAR_IN_FIRST,
        Batch(_batch_gather),
        TakesRow(_source_row),
        TakesPart(),
        Elements(_gathered_size),
        ReadsValues(),
    ],
    where=_INDEX,
    attrs={"axis": 0, "batch_dims": 0},
    shape=_gather_shape,
    kernel=_compute_gather,
    gradient=_gather_gradient,
    samples=[
        Sample([_X, i32([[2, 0], [2, 1]])], lambda x, i: np.stack([x[[2, 0]], x[[2, 1]]])),
        Sample([_X, np.int64(3)], f64([3, 7, 11]), {"axis": -1}),
        Sample([_X, i32([[1], [0], [3]])], f64([[1], [4], [11]]), {"axis": 1, "batch_dims": 1}),
    ],
)


def _gather_grad(xp: Any, g: Any, indices: Any, shape: Any, axis: int, batch_dims: int) -> Any:
    sizes = as_sizes(shape)
    axis = _checked_axis(axis, batch_dims, len(sizes), indices.ndim)
    check_bounds(indices, sizes[axis], "gather")
    rows, inner = _row_numbers(xp, sizes, indices, axis, batch_dims)
    updates = g.reshape(rows.size, inner)
    return add_rows(xp, math.prod(sizes[: axis + 1]), rows, updates).reshape(sizes)


define(
    "GatherGrad",
    "g: T, indices: I, shape: host J -> dx: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    attrs={"axis": 0, "batch_dims": 0},
    shape=lambda op: static_shape(op.inputs[2]),
    rules=[Vectorize(indexing.gather_grad_examples), Elements(shape_in(2)), ReadsValues()],
    kernel=_gather_grad,
    gradient=lambda op, g: [apply("Gather", g, op.inputs[1], **_gather_axes(op)), None, None],
    samples=[
        Sample(
            [f64([[1, 2, 3], [4, 5, 6]]), i32([0, 2, 0]), i32([2, 3])],
            f64([[4, 0, 2], [10, 0, 5]]),
            {"axis": 1},
        ),
        Sample(
            [f64([[1, 2], [3, 4]]), i32([[1, 1], [0, 1]]), i32([2, 2])],
            f64([[0, 3], [3, 4]]),
            {"axis": 1, "batch_dims": 1},
        ),
    ],
)


def _gather_axes(op: Operation) -> dict[str, Any]:
    return {"axis": op.attrs["axis"], "batch_dims": op.attrs["batch_dims"]}


@public
def gather(
    params: Any,
    indices: Any,
    validate_indices: None = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """Take rows along an axis.

    Parameters
    ----------
    params : Tensor of any dtype and rank at least 1
    indices : int32 or int64 Tensor of any shape
        From 0 up; always checked when the step runs.
    validate_indices : None
        Has no meaning; kept for TensorFlow's argument order.
    axis : int, or int32 or int64 scalar, optional
        `batch_dims` when None. An axis computed by a step requires `batch_dims` of 0.
    batch_dims : int
        Number of leading dimensions shared by `params` and `indices`.

    Returns
    -------
    Tensor
        Of shape ``params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis+1:]``. The gradient for
        `params` along axis 0 is an IndexedSlices.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.gather([10, 20, 30], [2, 0, 2])).sync()
    array([30, 10, 30], dtype=int32)
    >>> tg.function(lambda: tg.gather([[1, 2, 3], [4, 5, 6]], [2, 0], axis=1)).sync()
    array([[3, 1],
           [6, 4]], dtype=int32)
    """
    late = late_axis(axis)
    if late is not None and not batch_dims:
        return gather_along_late(params, index_tensor(indices), late, name)
    axis = batch_dims if axis is None else static_int(axis)
    return apply("Gather", params, index_tensor(indices), name=name, axis=axis, batch_dims=batch_dims)


def segment_shape(op: Operation) -> Shape:
    """Infer the shape of an operation that combines the rows of each segment into a row."""
    data, ids = op.inputs[0].shape, op.inputs[1].shape
    if ids.rank is None or data.rank is None:
        return Shape(None)
    if not data[: ids.rank].is_compatible_with(ids):
        raise ShapeError(
            "segment ids have to fit the leading dimensions",
            wanted=data,
            got=ids,
            hint="give one id for each row",
        )
    count = static_value(op.inputs[2])
    return Shape([None if count is None else int(count)]) + Shape(data[ids.rank :])


def check_rows(data: Any, ids: Any) -> None:
    """Raise ValueError unless there is an id for each row."""
    if data.shape[: ids.ndim] != ids.shape:
        raise ValueError(f"segment ids {ids.shape} do not fit the leading dimensions of data {data.shape}")


def segments_size(data: Any, ids: Any, count: Any) -> int:
    """Return the number of elements of a row for each segment."""
    return int(count) * int(math.prod(data.shape[ids.ndim :]))


def _segment_sum(xp: Any, data: Any, ids: Any, count: Any) -> Any:
    check_rows(data, ids)
    rest, number = data.shape[ids.ndim :], int(count)
    rows = rows_of_segments(xp, ids, number, "unsorted_segment_sum")
    sums = add_rows(xp, number + 1, rows, data.reshape(ids.size, math.prod(rest)))
    return sums[: number * math.prod(rest)].reshape(number, *rest)


def _segment_gradient(op: Operation, g: Tensor) -> list[Any]:
    data, ids, _ = op.inputs
    return [rows_by_id(g, ids, data), None, None]


def rows_by_id(segments: Tensor, ids: Tensor, like: Tensor) -> Tensor:
    """Return for each row the row of `segments` at its id, zeros for negative `ids`, in the shape of `like`."""
    kept = apply("GreaterEqual", ids, 0)
    # row 0 stands in for rows with a negative id until the next line
    rows = apply("Gather", segments, apply("Where", kept, ids, scalar_like(0, ids)))
    return apply("Where", raised_to(kept, like), rows, scalar_like(0, segments))


define(
    "UnsortedSegmentSum",
    "data: T, segment_ids: I, num_segments: host J -> output: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=segment_shape,
    rules=[Vectorize(indexing.segments_examples), LINEAR_IN_FIRST, Elements(segments_size), ReadsValues()],
    kernel=_segment_sum,
    gradient=_segment_gradient,
    samples=[
        Sample([_X, i32([1, -1, 1]), np.int32(3)], f64([[0] * 4, [8, 10, 12, 14], [0] * 4])),
        Sample([f64([[1, 2], [3, 4]]), i64([[0, 1], [1, 1]]), np.int64(2)], f64([1, 9])),
    ],
)


@public
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sum the rows with the same id.

    Parameters
    ----------
    data : Tensor of any numeric dtype
    segment_ids : int32 or int64 Tensor
        Of the shape of the leading dimensions of `data`; rows with a negative id are left out.
    num_segments : int32 or int64 scalar

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[segment_ids.rank:]``.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unsorted_segment_sum([1, 2, 3, 4], [1, 0, 1, -1], 3)).sync()
    array([2, 4, 0], dtype=int32)
    """
    ids, count = index_tensor(segment_ids), index_tensor(num_segments)
    return apply("UnsortedSegmentSum", data, ids, count, name=name)

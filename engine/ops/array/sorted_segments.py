"""Segments of rows by sorted ids; the last id determines the number of segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.arguments import index_tensor
from ..support.common import raised_to, scalar_like, shape_of
from ..support.literals import i32, i64
from ..support.vectorizing.families import one_by_one
from .segments import counts_by_id, divide_total, floating_data

_NO_LIMIT = -1


def _count_shape(op: Operation) -> Shape:
    """Return the shape of a scalar; ShapeError unless the ids may be a vector."""
    if op.inputs[0].rank not in (1, None):
        raise ShapeError(
            "sorted segments are runs of rows",
            wanted="a vector of ids, one for each row",
            got=op.inputs[0].shape,
            operation=op,
            hint="the functions unsorted_segment_... take ids of any rank",
        )
    return SCALAR


def _count_segments(xp: Any, ids: Any, limit: Any) -> Any:
    """Return the number of segments; ValueError if the ids are not sorted, negative, or too large."""
    if ids.size and (int(ids[0]) < 0 or bool((ids[1:] < ids[:-1]).any())):
        raise ValueError("segment ids have to be sorted, from 0 up; unsorted_segment_... takes them in any order")
    # the last of sorted ids is the largest
    count, wanted = int(ids[-1]) + 1 if ids.size else 0, int(limit)
    if wanted != _NO_LIMIT and count > wanted:
        raise ValueError(f"segment ids have to be in [0, {wanted}), got {count - 1}")
    return np.asarray(count if wanted == _NO_LIMIT else wanted, ids.dtype)


define(
    "SegmentCount",
    "segment_ids: I, limit: host int32 -> count: host I",
    where={"I": dtypes.INDEX},
    shape=_count_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_count_segments,
    gradient=NotDifferentiable("its result is an integer"),
    samples=[
        Sample([i32([0, 0, 3]), i32(-1)], i32(4)),
        Sample([i64([]), i32(-1)], i64(0)),
        Sample([i32([0, 1]), i32(7)], i32(7)),
    ],
)


def _read_segments(segment_ids: Any, num_segments: Any = None) -> tuple[Tensor, Tensor]:
    """Return the ids and the number of segments, a constant where the ids are known and valid."""
    ids = index_tensor(segment_ids)
    limit = constant(i32(_NO_LIMIT)) if num_segments is None else cast(index_tensor(num_segments), dtypes.int32)
    known, bound = static_value(ids), static_value(limit)
    if known is not None and bound is not None and known.ndim == 1:
        try:
            return ids, constant(_count_segments(np, known, bound))
        except ValueError:
            pass  # the step raises the error, as for computed ids
    return ids, apply("SegmentCount", ids, limit)


def _sum_segments(data: Any, ids: Tensor, count: Tensor, name: str | None = None) -> Tensor:
    return apply("UnsortedSegmentSum", data, ids, count, name=name)


@public
def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Sum the rows of each run of the same id.

    Parameters
    ----------
    data : Tensor of any numeric dtype, of rank at least 1
    segment_ids : int32 or int64 Tensor of shape [n]
        An id for each row, from 0 up and sorted.

    Returns
    -------
    Tensor
        Of shape ``[last id + 1] + data.shape[1:]``; 0 for an absent id.

    Raises
    ------
    OpError
        When the step runs, if the ids are not sorted, or the first is negative.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.segment_sum([[1, 2], [3, 4], [5, 6]], [0, 0, 2])).sync()
    array([[4, 6],
           [0, 0],
           [5, 6]], dtype=int32)
    """
    return _sum_segments(data, *_read_segments(segment_ids), name=name)


@public
def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Take the mean of the rows of each run of the same id; see `segment_sum`.

    Parameters
    ----------
    data : Tensor of a floating or complex dtype, of rank at least 1
    segment_ids : int32 or int64 Tensor of shape [n]
        From 0 up and sorted.

    Returns
    -------
    Tensor
        Of shape ``[last id + 1] + data.shape[1:]``; 0 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.segment_mean([1.0, 2.0, 6.0], [0, 0, 2])).sync()
    array([1.5, 0. , 6. ], dtype=float32)
    """
    ids, count = _read_segments(segment_ids)
    total = _sum_segments(floating_data(data, "segment_mean"), ids, count)
    return divide_total(total, counts_by_id(ids, count, total), name)


@public
def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Multiply the rows of each run of the same id; see `segment_sum`. The gradient is exact where factors are 0.

    Parameters
    ----------
    data : Tensor of any numeric dtype, of rank at least 1
    segment_ids : int32 or int64 Tensor of shape [n]
        From 0 up and sorted.

    Returns
    -------
    Tensor
        Of shape ``[last id + 1] + data.shape[1:]``; 1 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.segment_prod([2, 3, 5], [0, 0, 2])).sync()
    array([6, 1, 5], dtype=int32)
    """
    return apply("UnsortedSegmentProd", data, *_read_segments(segment_ids), name=name)


@public
def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Take the largest of the rows of each run of the same id, element by element; see `segment_sum`.

    Parameters
    ----------
    data : Tensor of an integer or floating dtype, of rank at least 1
    segment_ids : int32 or int64 Tensor of shape [n]
        From 0 up and sorted.

    Returns
    -------
    Tensor
        Of shape ``[last id + 1] + data.shape[1:]``; 0 for an absent id. Equals share the gradient.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.segment_max([2, -3, -5], [0, 0, 2])).sync()
    array([ 2,  0, -5], dtype=int32)
    """
    return _apply_extreme("UnsortedSegmentMax", data, segment_ids, name)


@public
def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Take the smallest of the rows of each run of the same id, element by element; see `segment_sum`.

    Parameters
    ----------
    data : Tensor of an integer or floating dtype, of rank at least 1
    segment_ids : int32 or int64 Tensor of shape [n]
        From 0 up and sorted.

    Returns
    -------
    Tensor
        Of shape ``[last id + 1] + data.shape[1:]``; 0 for an absent id. Equals share the gradient.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.segment_min([2, 3, 5], [0, 0, 2])).sync()
    array([2, 0, 5], dtype=int32)
    """
    return _apply_extreme("UnsortedSegmentMin", data, segment_ids, name)


def _apply_extreme(type: str, data: Any, segment_ids: Any, name: str | None) -> Tensor:
    """Combine each segment; segments without rows get 0."""
    ids, count = _read_segments(segment_ids)
    # finite=False: from a finite start, a segment of infinities would not keep its infinity
    found: Tensor = apply(type, data, ids, count, finite=False)
    ones = apply("Fill", shape_of(ids), constant(i32(1)))
    some = apply("Greater", apply("UnsortedSegmentSum", ones, ids, count), 0)
    result: Tensor = apply("Where", raised_to(some, found), found, scalar_like(0, found), name=name)
    result.set_shape(found.shape)
    return result


@public
def sparse_segment_sum(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """Sum rows chosen by index, segment by segment: ``segment_sum(gather(data, indices), segment_ids)``.

    Parameters
    ----------
    data : Tensor of any numeric dtype, of rank at least 1
    indices : int32 or int64 Tensor of shape [n]
        Rows of `data`.
    segment_ids : int32 or int64 Tensor of shape [n]
        From 0 up and sorted.
    num_segments : int32 or int64 scalar, optional
        Number of segments; the last id plus 1 when None.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[1:]``; 0 for an absent id. The gradient for `data` is an
        IndexedSlices.

    Raises
    ------
    OpError
        When the step runs, if an index or an id is out of range, or the ids are not sorted.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_segment_sum([10, 20, 30], [2, 0, 2], [0, 0, 1])).sync()
    array([40, 30], dtype=int32)
    """
    return _sum_segments(_gather_rows(data, indices), *_read_segments(segment_ids, num_segments), name=name)


@public
def sparse_segment_mean(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """Take the mean of rows chosen by index, segment by segment; see `sparse_segment_sum`.

    Parameters
    ----------
    data : Tensor of a floating or complex dtype, of rank at least 1
    indices, segment_ids, num_segments
        As in `sparse_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[1:]``; 0 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_segment_mean([10.0, 20.0, 30.0], [2, 0, 2], [0, 0, 1])).sync()
    array([20., 30.], dtype=float32)
    """
    ids, count = _read_segments(segment_ids, num_segments)
    total = _sum_segments(_gather_rows(floating_data(data, "sparse_segment_mean"), indices), ids, count)
    return divide_total(total, counts_by_id(ids, count, total), name)


@public
def sparse_segment_sqrt_n(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """Sum rows chosen by index as `sparse_segment_sum` does, and divide by the square root of their number.

    Parameters
    ----------
    data : Tensor of a floating or complex dtype, of rank at least 1
    indices, segment_ids, num_segments
        As in `sparse_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[1:]``; 0 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_segment_sqrt_n([1.0, 2.0], [0, 1, 0, 1], [0, 0, 0, 0])).sync()
    array([3.], dtype=float32)
    """
    ids, count = _read_segments(segment_ids, num_segments)
    total = _sum_segments(_gather_rows(floating_data(data, "sparse_segment_sqrt_n"), indices), ids, count)
    return divide_total(total, apply("Sqrt", counts_by_id(ids, count, total)), name)


def _gather_rows(data: Any, indices: Any) -> Tensor:
    return apply("Gather", convert_to_tensor(data), index_tensor(indices))

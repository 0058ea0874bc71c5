"""Segments of rows with the same id: extremes, products, and means."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType, as_dtype
from ...base.errors import DtypeError
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..math.complex import conj
from ..support.arguments import index_tensor
from ..support.bounds import rows_of_segments
from ..support.common import raised_to, same_as, scalar_like, shape_of
from ..support.literals import c128, f64, i32, i64
from ..support.segmented import combine_at, places_among_equals, products_of_others
from ..support.vectorizing.families import one_by_one
from ..support.vectorizing.indexing import segments_examples
from .counting import above_all
from .gather import check_rows, rows_by_id, segment_shape, segments_size

_X = f64([[1, -2], [3, 0.5], [-1, 4], [2, 5]])
_IDS = i32([2, 0, 2, -1])


def _combine_segments(xp: Any, function: str, data: Any, ids: Any, count: Any, empty: Any) -> Any:
    """Combine the rows of each segment, starting from `empty`; rows with a negative id are left out."""
    check_rows(data, ids)
    rest, number = data.shape[ids.ndim :], int(count)
    numbers = rows_of_segments(xp, ids, number, "segment ids")
    out = xp.full((number + 1, math.prod(rest)), empty, dtype=data.dtype)
    combine_at(xp, function, out, numbers, data.reshape(ids.size, math.prod(rest)))
    return out[:number].reshape(number, *rest)


def _extreme_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Share the cotangent of each segment equally among the values equal to its extreme."""
    data, ids, count = op.inputs
    chosen = apply("Equal", data, rows_by_id(op.outputs[0], ids, data))
    ties = apply("UnsortedSegmentSum", apply("Cast", chosen, dtype=g.dtype), ids, count)
    # segments without rows have no ties: 1 avoids a division by zero
    share = rows_by_id(g / apply("Maximum", ties, 1), ids, data)
    return [apply("Where", chosen, share, scalar_like(0, g)), None, None]


def _define_extreme(type: str, function: str, empty: Callable[[DType], Any], samples: list[Sample]) -> None:
    """Define the operation `type`; segments without rows get `empty` of the dtype, infinite unless `finite`."""

    def compute_extremes(xp: Any, data: Any, ids: Any, count: Any, finite: bool) -> Any:
        start = empty(as_dtype(data.dtype))
        if not finite and as_dtype(data.dtype).is_floating:
            # -inf for a maximum, which starts at the least value, and inf for a minimum
            start = np.copysign(np.inf, start)
        return _combine_segments(xp, function, data, ids, count, start)

    define(
        type,
        "data: T, segment_ids: I, num_segments: host J -> output: T",
        where={"T": dtypes.REAL, "I": dtypes.INDEX, "J": dtypes.INDEX},
        attrs={"finite": True},
        shape=segment_shape,
        rules=[Vectorize(segments_examples), Elements(segments_size), ReadsValues()],
        kernel=compute_extremes,
        gradient=_extreme_gradient,
        samples=samples,
    )


_LEAST, _LARGEST = np.finfo(np.float64).min, np.finfo(np.float64).max

_define_extreme(
    "UnsortedSegmentMax",
    "maximum",
    lambda dtype: dtype.min,
    [
        Sample([_X, _IDS, i32(3)], f64([[3, 0.5], [_LEAST] * 2, [1, 4]]), differentiable=False),
        Sample([_X, i32([1, 0, 1, -1]), i32(2)], f64([[3, 0.5], [1, 4]])),
        Sample([f64([[1, 7], [3, 2]]), i64([[0, 1], [1, 1]]), i64(2)], f64([1, 7])),
        Sample([i32([]), i32([]), i32(1)], i32([-(2**31)])),
        Sample([f64([-np.inf, 1, 2]), i32([0, 2, 2]), i32(3)], f64([-np.inf, -np.inf, 2]), {"finite": False}, False),
    ],
)
_define_extreme(
    "UnsortedSegmentMin",
    "minimum",
    lambda dtype: dtype.max,
    [
        Sample([_X, _IDS, i32(3)], f64([[3, 0.5], [_LARGEST] * 2, [-1, -2]]), differentiable=False),
        Sample([_X, i32([1, 0, 1, -1]), i32(2)], f64([[3, 0.5], [-1, -2]])),
        Sample([f64([[1, 7], [3, 2]]), i64([[0, 1], [1, 1]]), i64(2)], f64([1, 2])),
    ],
)


def _product_gradient(op: Operation, g: Tensor) -> list[Any]:
    data, ids, _ = op.inputs
    # dividing the product by each factor would fail where factors are 0
    others = apply("SegmentProdOthers", data, ids)
    return [rows_by_id(g, ids, data) * conj(others), None, None]


define(
    "UnsortedSegmentProd",
    "data: T, segment_ids: I, num_segments: host J -> output: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=segment_shape,
    rules=[Vectorize(segments_examples), Elements(segments_size), ReadsValues()],
    kernel=lambda xp, data, ids, count: _combine_segments(xp, "multiply", data, ids, count, 1),
    gradient=_product_gradient,
    samples=[
        Sample([_X, _IDS, i32(3)], f64([[3, 0.5], [1, 1], [-1, -8]])),
        Sample([f64([2, 0, 3, 0, 5, 0]), i64([1, 1, 1, 2, 2, 2]), i64(3)], f64([1, 0, 0])),
        Sample([c128([[1j, 2], [2 + 1j, -1]]), i32([[0, 1], [0, 1]]), i32(2)], c128([-1 + 2j, -2])),
    ],
)


def _multiply_other_rows(xp: Any, data: Any, ids: Any) -> Any:
    """Compute for each row the product of the other rows of its segment, in order of segments."""
    numbers = xp.maximum(ids.reshape(-1), -1)  # all negative ids are a single segment
    order = xp.argsort(numbers, kind="stable")
    rows = data.reshape(ids.size, math.prod(data.shape[ids.ndim :]))
    products = xp.empty_like(rows)
    products[order] = products_of_others(xp, rows[order], numbers[order])
    return products.reshape(data.shape)


def _others_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Differentiate ProdOthers in a table with a column of rows for each segment, padded with ones."""
    data, ids = op.inputs
    # all negative ids become column 0 of the table
    numbers = apply("Maximum", apply("Reshape", ids, constant(i32([-1]))), -1) + 1
    places = apply("SegmentPlaces", numbers)
    at, rest = apply("Stack", [places, numbers], axis=-1), shape_of(data)[_known_or_computed_rank(ids) :]
    corner = apply("Cast", apply("Stack", [above_all(places), above_all(numbers)], axis=0), dtype=dtypes.int32)
    sizes, flat = apply("Concat", [corner, rest], axis=0), apply("Concat", [shape_of(numbers), rest], axis=0)
    rows, cotangents = apply("Reshape", data, flat), apply("Reshape", g, flat)
    filled = apply("ScatterNd", at, apply("Fill", flat, scalar_like(1, data)), sizes)
    table = apply("ScatterNd", at, rows, sizes) + (1 - filled)
    others = apply("ProdOthers", table, axis=0).op
    gradient: Any = others.definition.gradient
    (back,) = gradient(others, apply("ScatterNd", at, cotangents, sizes))
    return [apply("Reshape", apply("GatherNd", back, at), shape_of(data)), None]


def _known_or_computed_rank(tensor: Tensor) -> Any:
    return apply("Rank", tensor) if tensor.rank is None else tensor.rank


define(
    "SegmentProdOthers",
    "data: T, segment_ids: I -> output: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    shape=same_as(0),
    rules=[Vectorize(one_by_one)],
    kernel=_multiply_other_rows,
    gradient=_others_gradient,
    samples=[
        Sample([f64([2, 3, 4, 0, 6]), i32([1, 0, 1, 1, 3])], f64([0, 1, 0, 8, 1])),
        Sample([f64([[1, 2], [3, 4]]), i64([5, 5])], f64([[3, 4], [1, 2]])),
        Sample([f64([[0.5, 2], [3, 4]]), i32([[0, -1], [0, 0]])], f64([[12, 1], [2, 1.5]])),
        Sample([c128([1j, 2, 3 + 1j]), i32([0, 0, 0])], c128([6 + 2j, -1 + 3j, 2j])),
        Sample([np.zeros((0, 2)), i32([])], np.zeros((0, 2))),
    ],
)

define(
    "SegmentPlaces",
    "segment_ids: I -> places: I",
    where={"I": dtypes.INDEX},
    shape=same_as(0),
    rules=[Vectorize(one_by_one)],
    kernel=lambda xp, ids: places_among_equals(xp, ids).astype(ids.dtype),
    gradient=NotDifferentiable("its results are positions"),
    samples=[Sample([i32([4, 0, 4, 4, 0])], i32([0, 0, 1, 2, 1])), Sample([i64([])], i64([]))],
)


def counts_by_id(segment_ids: Tensor, num_segments: Tensor, like: Tensor) -> Tensor:
    """Count the rows of each of `num_segments` by `segment_ids`, at least 1, in the dtype and rank of `like`."""
    ones = apply("Fill", shape_of(segment_ids), constant(i32(1)))
    counts = apply("Maximum", apply("UnsortedSegmentSum", ones, segment_ids, num_segments), 1)
    return raised_to(cast(counts, like.dtype), like)


@public
def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Take the largest of the rows with the same id, element by element; equals share the gradient.

    Parameters
    ----------
    data : Tensor of an integer or floating dtype
    segment_ids, num_segments
        As in `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[segment_ids.rank:]``; for an absent id, the least finite
        value of the dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unsorted_segment_max([1, 2, 3, 4], [1, 0, 1, -1], 2)).sync()
    array([2, 3], dtype=int32)
    """
    return _apply_unsorted("UnsortedSegmentMax", data, segment_ids, num_segments, name)


@public
def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Take the smallest of the rows with the same id, element by element; equals share the gradient.

    Parameters
    ----------
    data : Tensor of an integer or floating dtype
    segment_ids, num_segments
        As in `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[segment_ids.rank:]``; for an absent id, the largest finite
        value of the dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unsorted_segment_min([1, 2, 3, 4], [1, 0, 1, -1], 2)).sync()
    array([2, 1], dtype=int32)
    """
    return _apply_unsorted("UnsortedSegmentMin", data, segment_ids, num_segments, name)


@public
def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Multiply the rows with the same id; the gradient is exact where factors are 0.

    Parameters
    ----------
    data : Tensor of any numeric dtype
    segment_ids, num_segments
        As in `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[segment_ids.rank:]``; 1 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unsorted_segment_prod([5, 2, 3, 4], [1, 0, 1, -1], 3)).sync()
    array([ 2, 15,  1], dtype=int32)
    """
    return _apply_unsorted("UnsortedSegmentProd", data, segment_ids, num_segments, name)


def _apply_unsorted(type: str, data: Any, segment_ids: Any, num_segments: Any, name: str | None) -> Tensor:
    ids, count = index_tensor(segment_ids), index_tensor(num_segments)
    return apply(type, data, ids, count, name=name)


@public
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Take the mean of the rows with the same id.

    Parameters
    ----------
    data : Tensor of a floating or complex dtype
    segment_ids, num_segments
        As in `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[segment_ids.rank:]``; 0 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unsorted_segment_mean([1.0, 2.0, 4.0], [1, 0, 1], 3)).sync()
    array([2. , 2.5, 0. ], dtype=float32)
    """
    ids, count = index_tensor(segment_ids), index_tensor(num_segments)
    total = apply("UnsortedSegmentSum", floating_data(data, "unsorted_segment_mean"), ids, count)
    return divide_total(total, counts_by_id(ids, count, total), name)


@public
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sum the rows with the same id, and divide by the square root of their number.

    Parameters
    ----------
    data : Tensor of a floating or complex dtype
    segment_ids, num_segments
        As in `unsorted_segment_sum`.

    Returns
    -------
    Tensor
        Of shape ``[num_segments] + data.shape[segment_ids.rank:]``; 0 for an absent id.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unsorted_segment_sqrt_n([1.0, 2.0, 3.0, 4.0, 5.0], [0, 0, 0, 0, 2], 3)).sync()
    array([5., 0., 5.], dtype=float32)
    """
    ids, count = index_tensor(segment_ids), index_tensor(num_segments)
    total = apply("UnsortedSegmentSum", floating_data(data, "unsorted_segment_sqrt_n"), ids, count)
    return divide_total(total, apply("Sqrt", counts_by_id(ids, count, total)), name)


def floating_data(data: Any, function: str) -> Tensor:
    """Return data as a tensor; DtypeError unless floating or complex."""
    tensor = convert_to_tensor(data)
    if not tensor.dtype.is_differentiable:
        raise DtypeError(
            f"{function} divides by counts",
            wanted="a floating or complex dtype",
            got=tensor.dtype,
            operation=tensor.op,
            hint="use cast(data, 'float32')",
        )
    return tensor


def divide_total(total: Tensor, divisor: Tensor, name: str | None) -> Tensor:
    """Divide `total`, sums of segments, by a broadcast `divisor`."""
    result: Tensor = apply("RealDiv", total, divisor, name=name)
    result.set_shape(total.shape)
    return result

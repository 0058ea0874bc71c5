"""Search in sorted rows, and histograms with bins of equal width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...base.dtypes import as_dtype
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import check_rank, index_dtype, only_scalars
from ..support.literals import f32, f64, i32, i64
from ..support.vectorizing.families import leading
from ..support.vectorizing.indexing import search_sorted_examples
from .counting import ones_for

_POSITIONS = NotDifferentiable("its results are positions")


def _search_shape(op: Operation) -> Shape:
    """Infer the shape of the values; ShapeError if the leading dimensions do not match."""
    rows, values = (t.shape for t in op.inputs)
    if 0 in (rows.rank, values.rank) or not rows[:-1].is_compatible_with(values[:-1]):
        raise ShapeError(
            "searchsorted looks up rows of values in as many sorted rows",
            wanted=f"{rows[:-1]} and one dimension more",
            got=values,
            operation=op,
            hint="give both the same leading dimensions",
        )
    return values


def _sorts_before(x: Any, y: Any) -> Any:
    """Return True where `x` sorts before `y`; NaN sorts last."""
    return (x < y) | ((x == x) & (y != y))


def _search_sorted_rows(xp: Any, rows: Any, values: Any, side: str, out_type: Any) -> Any:
    """Find insertion positions by binary search, in all rows at once."""
    check_rank(rows, 1, None, "searchsorted")
    check_rank(values, 1, None, "searchsorted")
    if rows.shape[:-1] != values.shape[:-1]:
        raise ValueError(f"searchsorted: values {values.shape} do not fit sorted rows {rows.shape}")
    if is_numpy(xp) and rows.ndim == 1:
        return np.searchsorted(rows, values, side).astype(as_dtype(out_type).numpy)  # type: ignore[call-overload]
    # NumPy searches in a single sorted row; many rows, and rows of other libraries, are searched here
    n = rows.shape[-1]
    low, high = xp.zeros(values.shape, dtype=xp.int64), xp.full(values.shape, n, dtype=xp.int64)
    # n + 1 possible positions take as many halvings as n has bits
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        # a finished search has low == high, where `middle` may be n: clip it, and the mask below ignores the value
        found = xp.take_along_axis(rows, xp.minimum(middle, n - 1), -1)
        right = (_sorts_before(found, values) if side == "left" else ~_sorts_before(values, found)) & (low < high)
        low, high = xp.where(right, middle + 1, low), xp.where(right, high, middle)
    return low.astype(as_dtype(out_type).numpy)


define(
    "SearchSorted",
    "sorted_sequence: T, values: T -> indices: @out_type",
    where={"T": dtypes.REAL},
    attrs={"side": "left", "out_type": dtypes.int32},
    shape=_search_shape,
    rules=[Vectorize(search_sorted_examples)],
    kernel=_search_sorted_rows,
    gradient=_POSITIONS,
    samples=[
        Sample([f64([1, 3, 3, 7]), f64([3, 0, 8, 7, 2])], lambda a, v: np.searchsorted(a, v).astype(np.int32)),
        Sample(
            [i32([[1, 3, 3], [2, 4, 6]]), i32([[3, 9], [1, 4]])],
            i64([[3, 3], [0, 2]]),
            {"side": "right", "out_type": dtypes.int64},
        ),
        Sample([f32([1, np.inf, np.nan]), f32([np.nan, 2])], i32([2, 1])),
        Sample([np.zeros((2, 0)), np.zeros((2, 3))], np.zeros((2, 3), np.int32)),
    ],
)


@public
def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Find the positions at which inserted values keep sorted rows in order.

    Parameters
    ----------
    sorted_sequence : Tensor of an integer or floating dtype, of shape [..., n]
        Ascending along the last dimension, which is not checked.
    values : Tensor of the same dtype, of shape [..., m]
        With the same leading dimensions.
    side : {'left', 'right'}
        Before or after equal values.
    out_type : dtype-like
        int32 or int64.

    Returns
    -------
    Tensor
        Of dtype `out_type` and the shape of `values`: from 0 to n.

    Raises
    ------
    GraphError
        If the side is unknown, or `out_type` is another dtype.
    ShapeError
        If the leading dimensions differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.searchsorted([10, 20, 20, 30], [20, 5, 99])).sync()
    array([1, 0, 4], dtype=int32)
    >>> tg.function(lambda: tg.searchsorted([10, 20, 20, 30], [20, 5, 99], side="right")).sync()
    array([3, 0, 4], dtype=int32)
    """
    if not isinstance(side, str) or side not in ("left", "right"):
        raise GraphError(
            "no such side of equal values", wanted="'left' or 'right'", got=repr(side), hint="leave side out for 'left'"
        )
    return apply(
        "SearchSorted", sorted_sequence, values, name=name, side=side, out_type=index_dtype(out_type, "out_type")
    )


def _check_range(bounds: Any) -> tuple[float, float]:
    """Return the bounds; ValueError unless they are finite and ascending."""
    low, high = (float(v) for v in bounds)
    if not _is_range(low, high):
        raise ValueError(f"value_range has to be finite and to begin below its end, got {low} to {high}")
    return low, high


def _is_range(low: float, high: float) -> bool:
    return low < high and math.isfinite(low) and math.isfinite(high)


def _bins_shape(op: Operation) -> Shape:
    """Infer the shape of the values; ShapeError for a range or count of bins known to be invalid."""
    only_scalars(op, 2)
    bounds, count = static_value(op.inputs[1]), static_value(op.inputs[2])
    if not op.inputs[1].shape.is_compatible_with(Shape([2])) or (
        bounds is not None and not _is_range(*bounds.tolist())
    ):
        raise ShapeError(
            "value_range is where the bins begin and end",
            wanted="two finite numbers, the first less than the second",
            got=op.inputs[1].shape if bounds is None else bounds.tolist(),
            operation=op,
            hint="give [lowest, highest], as [0.0, 1.0]",
        )
    if count is not None and int(count) < 1:
        raise ShapeError(
            "a histogram has bins", wanted="nbins of 1 or more", got=int(count), operation=op, hint="leave nbins out"
        )
    return op.inputs[0].shape


def _compute_histogram_bins(xp: Any, values: Any, bounds: Any, nbins: Any, dtype: Any) -> Any:
    """Scale the values to bins, in float64; values outside clip to the outer bins, and NaN becomes -1."""
    low, high = _check_range(bounds)
    count = int(nbins)
    if count < 1:
        raise ValueError(f"a histogram has at least 1 bin, got nbins={count}")
    wide = values.astype(xp.float64)
    places = xp.clip(xp.floor((wide - low) / (high - low) * count), 0, count - 1)
    # NaN alone differs from itself
    return xp.where(wide == wide, places, xp.full((), -1.0)).astype(as_dtype(dtype).numpy)


define(
    "HistogramBins",
    "values: T, value_range: host T, nbins: host int32 -> bins: @dtype",
    where={"T": dtypes.REAL},
    attrs={"dtype": dtypes.int32},
    shape=_bins_shape,
    rules=[Vectorize(leading)],
    kernel=_compute_histogram_bins,
    gradient=NotDifferentiable("its results are numbers of bins"),
    samples=[
        Sample([f64([-1, 0, 1.5, 2, 5, 15]), f64([0, 5]), i32(5)], i32([0, 0, 1, 2, 4, 4])),
        Sample([f32([[np.nan, np.inf], [-np.inf, 0.95]]), f32([0, 1]), i32(10)], i32([[-1, 9], [0, 9]])),
        Sample([i32([3, 9, 10]), i32([0, 10]), i32(2)], i64([0, 1, 1]), {"dtype": dtypes.int64}),
    ],
)


@public
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Return the number of the bin of each value, with bins of equal width.

    Parameters
    ----------
    values : Tensor of an integer or floating dtype
    value_range : Tensor of the same dtype, of shape [2]
        Start of the first bin and end of the last bin; values outside count to these two bins.
    nbins : int32 scalar
    dtype : dtype-like
        int32 or int64.

    Returns
    -------
    Tensor
        Of dtype `dtype` and the shape of `values`: from 0 to nbins - 1, and -1 for NaN.

    Raises
    ------
    ShapeError
        If `value_range` is known to be empty or not finite; in a running step, as the cause of an OpError.
    GraphError
        If `dtype` is another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 2.0, 5.0], [0.0, 5.0], nbins=5)).sync()
    array([0, 0, 1, 2, 4], dtype=int32)
    """
    tensor = convert_to_tensor(values)
    bounds, kind = convert_to_tensor(value_range, tensor.dtype), index_dtype(dtype, "dtype")
    return apply("HistogramBins", tensor, bounds, nbins, name=name, dtype=kind)


@public
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Count how many values fall into each of some bins of equal width; NaN falls into none.

    Parameters
    ----------
    values, value_range, nbins
        As in `histogram_fixed_width_bins`.
    dtype : dtype-like
        int32 or int64.

    Returns
    -------
    Tensor
        Of dtype `dtype` and shape [nbins].

    Raises
    ------
    ShapeError
        If `value_range` is known to be empty or not finite; in a running step, as the cause of an OpError.
    GraphError
        If `dtype` is another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0], [0.0, 5.0], nbins=5)).sync()
    array([2, 1, 1, 0, 1], dtype=int32)
    """
    kind = index_dtype(dtype, "dtype")
    bins = histogram_fixed_width_bins(values, value_range, nbins)
    # NaN has bin -1, which the sum leaves out
    return apply("UnsortedSegmentSum", ones_for(bins, kind), bins, nbins, name=name)

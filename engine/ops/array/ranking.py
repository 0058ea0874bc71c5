"""The largest values of the last dimension, and the value of a given rank.

NaN counts as the largest value, and of equals the first comes first: see `sorting.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy, is_traced
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor, only_scalars
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.literals import f32, f64, i32, i64
from ..support.vectorizing.families import leading
from .sorting import sorting_order

_X = f64([[3, -1, 2, 0.5], [1, 4, -2, 2.5]])
_NAN = f32([2, np.nan, 1, np.inf])
_FEW = 8  # all values are sorted unless there are this many for each wanted value
_SHORT = 128  # values of a row up to which a sort is no slower than a partition
_PASSES = 16  # the most values found by a pass for each: a pass is 50 times as fast as a partition


def _last_dimension(op: Operation, what: str) -> int | None:
    """Return the size of the last dimension of the first input, None if unknown; ShapeError for a scalar."""
    shape = op.inputs[0].shape
    only_scalars(op, 1)
    if shape.rank == 0:
        raise ShapeError(
            f"{what} goes along the last dimension",
            wanted="rank 1 or more",
            got=shape,
            operation=op,
            hint="give a vector",
        )
    return None if shape.rank is None else shape[-1]


def _top_k_shape(op: Operation) -> list[Shape]:
    """Infer the shape of values and positions; ShapeError if `k` is known to be out of range."""
    size, k = _last_dimension(op, "top_k"), static_value(op.inputs[1])
    count = None if k is None else int(k)
    if count is not None and (count < 0 or (size is not None and count > size)):
        raise ShapeError(
            "top_k cannot find so many values",
            wanted="0 or more" if size is None else f"0 to {size}, the size of the last dimension",
            got=count,
            operation=op,
            hint="use minimum(k, shape(input)[-1])",
        )
    shape = op.inputs[0].shape
    return [Shape(None) if shape.rank is None else Shape([*shape.dims[:-1], count])] * 2


def _select_largest_unsorted(xp: Any, x: Any, k: int) -> Any:
    """Return the positions of the `k` largest values of the last axis, from left to right; of equals, the first."""
    n = x.shape[-1]
    least = xp.partition(x, n - k, axis=-1)[..., n - k : n - k + 1]
    # NaN alone differs from itself, and counts as the largest value
    x_nan, least_nan = x != x, least != least
    above = (x > least) | (x_nan & ~least_nan)
    equal = (x == least) | (x_nan & least_nan)
    # of the values equal to the least chosen, the first are taken until there are k
    missing = k - above.sum(-1, keepdims=True)
    taken = above | (equal & (xp.cumsum(equal, -1) <= missing))
    # each row has exactly k chosen places, and `nonzero` lists them row by row
    return xp.nonzero(taken)[-1].reshape(*x.shape[:-1], k)


def _by_passes(x: Any, k: int) -> Any:
    """Return the positions of the `k` largest values, largest first; None if the dtype's least value is chosen."""
    is_integer = x.dtype.kind in "iu"
    # a copy, in which found values are overwritten; argmax takes NaN for the largest, as wanted
    left = x.reshape(-1, x.shape[-1]).astype(x.dtype if is_integer or x.itemsize > 2 else np.float32)
    least = np.iinfo(x.dtype).min if is_integer else -np.inf
    rows, places = np.arange(len(left)), np.empty((len(left), k), np.int64)
    for i in range(k):
        place = left.argmax(-1)
        if (left[rows, place] == least).any():  # no different from the mark of values found before
            return None
        places[:, i], left[rows, place] = place, least
    return places.reshape(*x.shape[:-1], k)


def _largest_positions(xp: Any, x: Any, k: int, sorted: bool) -> Any:
    """Return the positions of the `k` largest values of the last axis."""
    is_sorted = not is_numpy(xp) or not 0 < k * _FEW <= x.shape[-1]
    if is_sorted or (sorted and is_traced(xp)):  # the others look at values
        return sorting_order(xp, x, -1, True)[..., :k]
    places = _by_passes(x, k) if k <= _PASSES else None
    if places is not None:
        return places
    places = _select_largest_unsorted(xp, x, k)
    if not sorted:
        return places
    # only the chosen values are sorted; their places ascend, so that of equals the first stays first
    order = sorting_order(xp, xp.take_along_axis(x, places, -1), -1, True)
    return xp.take_along_axis(places, order, -1)


def _top_k(xp: Any, x: Any, k: Any, sorted: bool) -> list[Any]:
    count, n = int(k), x.shape[-1]
    if not 0 <= count <= n:
        raise ValueError(f"top_k: k has to be 0 to {n}, the size of the last dimension, got {count}")
    places = _largest_positions(xp, x, count, sorted)
    return [xp.take_along_axis(x, places, -1), places.astype(xp.int32)]


def _top_k_gradient(op: Operation, g: Tensor, _: Any) -> list[Any]:
    return [apply("AddAlongAxis", g, op.outputs[1], shape_of(op.inputs[0]), axis=-1), None]


_MANY = f64([[0.5, 9, -3, 4, 2, 7, 1, 3, 6, -1, 8, 5, 10, 0, -2, 11]])

define(
    "TopK",
    "input: T, k: host I -> values: T, indices: int32",
    where={"T": dtypes.REAL, "I": dtypes.INDEX},
    attrs={"sorted": True},
    shape=_top_k_shape,
    rules=[Vectorize(leading)],
    kernel=_top_k,
    gradient=_top_k_gradient,
    samples=[
        Sample([_X, i32(2)], (f64([[3, 2], [4, 2.5]]), i32([[0, 2], [1, 3]]))),
        Sample([_MANY, i64(2)], (f64([[11, 10]]), i32([[15, 12]]))),
        Sample([i32([1, 5, 5, 2] * 4), i32(2)], (i32([5, 5]), i32([1, 2]))),
        Sample([i32([1, 5, 7, 5] * 4), i32(2)], (i32([7, 7]), i32([2, 6])), {"sorted": False}),
        Sample([_NAN, i32(3)], (f32([np.nan, np.inf, 2]), i32([1, 3, 0]))),
        Sample([f32([*_NAN, *np.arange(12)]), i32(1)], (f32([np.nan]), i32([1]))),
        Sample([np.zeros((2, 3)), i32(0)], (np.zeros((2, 0)), np.zeros((2, 0), np.int32))),
    ],
)


@public
def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Find the largest values of the last dimension; of equals, the first.

    Parameters
    ----------
    input : Tensor of an integer or floating dtype, of rank at least 1
        NaN counts as the largest value.
    k : int32 or int64 scalar
        Number of values.
    sorted : bool
        If true, the largest comes first; otherwise the order is arbitrary, and the search faster.

    Returns
    -------
    values : Tensor
        Same dtype, of shape ``input.shape[:-1] + [k]``.
    indices : Tensor
        int32: their positions in the last dimension.

    Raises
    ------
    ShapeError
        If `k` is known to be too large; in a running step, as the cause of an OpError.

    Examples
    --------
    >>> import tagloom as tg
    >>> values, indices = tg.function(lambda: tg.top_k([4.0, 9.0, 1.0, 9.0], k=3)).sync()
    >>> values, indices
    (array([9., 9., 4.], dtype=float32), array([1, 3, 0], dtype=int32))
    """
    values, indices = apply("TopK", input, index_tensor(k), name=name, sorted=bool(sorted))
    return values, indices


@public
def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Test if the target is among the `k` largest predictions; predictions equal to the k-th all count.

    Parameters
    ----------
    predictions : Tensor of a floating dtype, of shape [batch, classes]
    targets : int32 or int64 Tensor of shape [batch]
    k : int32 or int64 scalar

    Returns
    -------
    Tensor
        Bool, of shape [batch]; false where a target is no class, or a prediction of its row is not finite.

    Examples
    --------
    >>> import tagloom as tg
    >>> scores = [[0.1, 0.7, 0.7], [0.5, 0.2, 0.3]]
    >>> tg.function(lambda: tg.in_top_k(scores, [2, 2], 1)).sync()
    array([ True, False])
    """
    scores, labels = convert_to_tensor(predictions), index_tensor(targets)
    classes = shape_of(scores)[-1]
    numbers = apply("Cast", apply("Range", 0, classes, 1), dtype=labels.dtype)
    mine = apply("Equal", apply("ExpandDims", labels, axis=-1), numbers)
    # a masked sum, because a gather would fail for targets that are no class
    target = apply("Sum", apply("Where", mine, scores, 0), axis=(-1,), keepdims=True)
    above = apply("Sum", apply("Cast", apply("Greater", scores, target), dtype=dtypes.int32), axis=(-1,))
    # a row with infinite or NaN predictions counts as false, as in TensorFlow
    known = apply("All", apply("IsFinite", scores), axis=(-1,))
    fits = apply("LogicalAnd", known, apply("Any", mine, axis=(-1,)))
    limit = apply("Cast", index_tensor(k), dtype=dtypes.int32)
    return apply("LogicalAnd", fits, apply("Less", above, limit), name=name)


def _nth_shape(op: Operation) -> Shape:
    """Drop the last dimension; ShapeError if `n` is known to be out of range."""
    size, n = _last_dimension(op, "nth_element"), static_value(op.inputs[1])
    if n is not None and (int(n) < 0 or (size is not None and int(n) >= size)):
        raise ShapeError(
            "nth_element: there is no such rank",
            wanted="0 or more" if size is None else f"0 to {size - 1}",
            got=int(n),
            operation=op,
            hint="0 is the smallest value, or the largest with reverse=True",
        )
    return Shape(op.inputs[0].shape[:-1])


@keep_dtype
def _compute_nth_element(xp: Any, x: Any, n: Any, reverse: bool) -> Any:
    size = x.shape[-1]
    if not 0 <= int(n) < size:
        raise ValueError(f"nth_element: n has to be 0 to {size - 1}, got {int(n)}")
    rank = size - 1 - int(n) if reverse else int(n)
    if size <= _SHORT:
        return xp.ascontiguousarray(xp.sort(x, axis=-1)[..., rank]).reshape(x.shape[:-1])
    return xp.ascontiguousarray(xp.partition(x, rank, axis=-1)[..., rank]).reshape(x.shape[:-1])


def _nth_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Share the cotangent equally among the values equal to the result."""
    x, y = op.inputs[0], op.outputs[0]
    equal = apply("Equal", x, apply("ExpandDims", y, axis=-1))
    ties = apply("Sum", apply("Cast", equal, dtype=x.dtype), axis=(-1,))
    return [apply("Where", equal, apply("ExpandDims", g / ties, axis=-1), 0), None]


define(
    "NthElement",
    "input: T, n: host I -> values: T",
    where={"T": dtypes.REAL, "I": dtypes.INDEX},
    attrs={"reverse": False},
    shape=_nth_shape,
    rules=[Vectorize(leading)],
    kernel=_compute_nth_element,
    gradient=_nth_gradient,
    samples=[
        Sample([_X, i32(1)], f64([0.5, 1])),
        Sample([_X, i64(0)], f64([3, 4]), {"reverse": True}),
        Sample([i32([5, 1, 5]), i32(2)], i32(5)),
        Sample([np.zeros((0, 3)), i32(1)], np.zeros(0)),
    ],
)


@public
def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """Find the value of rank `n` of the last dimension; equal values share the gradient.

    Parameters
    ----------
    input : Tensor of an integer or floating dtype, of rank at least 1
    n : int32 or int64 scalar
        0 for the smallest.
    reverse : bool
        Count from the largest.

    Returns
    -------
    Tensor
        Same dtype, without the last dimension.

    Raises
    ------
    ShapeError
        If `n` is known to be out of range; in a running step, as the cause of an OpError.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.nth_element([[5, 1, 9], [2, 2, 3]], 1)).sync()
    array([5, 2], dtype=int32)
    """
    return apply("NthElement", input, index_tensor(n), name=name, reverse=bool(reverse))

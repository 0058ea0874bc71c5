"""Distinct values, differences of vectors, and inverse permutations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import as_dtype
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support import arguments
from ..support.arguments import index_tensor
from ..support.array_library import last_writers
from ..support.bounds import check_bounds
from ..support.interpreter import running_count
from ..support.literals import f64, flags, i32, i64
from ..support.vectorizing.families import one_by_one

_POSITIONS = NotDifferentiable("its results are positions and counts")


def _require_vectors(op: Operation) -> None:
    """Raise ShapeError unless all inputs may be vectors."""
    for tensor in op.inputs:
        if tensor.rank not in (1, None):
            raise ShapeError(
                f"{op.type} takes vectors",
                wanted="rank 1",
                got=tensor.shape,
                operation=op,
                hint="reshape(x, [-1]) makes a vector of all elements",
            )


def _unique_shape(op: Operation) -> list[Shape]:
    _require_vectors(op)
    return [Shape([None]), op.inputs[0].shape.with_rank(1), Shape([None])]


def _compute_unique(xp: Any, x: Any, out_idx: Any) -> list[Any]:
    """Find runs of equal values in sorted order, and number the runs by first occurrence."""
    index_type, n = as_dtype(out_idx).numpy, x.size
    order = xp.argsort(x, kind="stable")
    ordered = x[order]
    # min(n, 1): without elements there is no first run.
    is_start = xp.concatenate([xp.ones(min(n, 1), dtype=xp.bool_), ordered[1:] != ordered[:-1]])
    starts = xp.nonzero(is_start)[0]
    ends = xp.concatenate([starts[1:], xp.full(min(n, 1), n, dtype=starts.dtype)])
    # Runs are listed in the order of their values so far. The sort is stable, so a run starts with the first
    # occurrence of its value; the results number runs by these positions.
    first = order[starts]
    by_occurrence = xp.argsort(first, kind="stable")
    # The inverse permutation: from the run's place in the order of values to its number in the results.
    run_numbers = xp.zeros(first.shape, dtype=xp.int64)
    run_numbers[by_occurrence] = xp.arange(first.size)
    indices = xp.zeros(n, dtype=xp.int64)
    indices[order] = run_numbers[running_count(xp, is_start) - 1]
    counts = (ends - starts)[by_occurrence]
    return [first[by_occurrence].astype(xp.int64), indices.astype(index_type), counts.astype(index_type)]


def numbers_of_equal(xp: Any, x: Any) -> Any:
    """Return a number for each element of a vector, equal for equal elements: 0, 1, ... by first occurrence."""
    return _compute_unique(xp, x, dtypes.int64)[1]


define(
    "Unique",
    "x: T -> first: int64, indices: @out_idx, counts: @out_idx",
    attrs={"out_idx": dtypes.int32},
    shape=_unique_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_compute_unique,
    gradient=_POSITIONS,
    samples=[
        Sample([f64([4, 1, 4, 2, 1, 4])], (i64([0, 1, 3]), i32([0, 1, 0, 2, 1, 0]), i32([3, 2, 1]))),
        Sample([f64([np.nan, 0, np.nan, -0.0])], (i64([0, 1, 2]), i32([0, 1, 2, 1]), i32([1, 2, 1]))),
        Sample([flags([True, True])], (i64([0]), i64([0, 0]), i64([2])), {"out_idx": dtypes.int64}),
        Sample([np.array(["b", "a", "b"], np.dtypes.StringDType())], (i64([0, 1]), i32([0, 1, 0]), i32([2, 1]))),
        Sample([np.zeros(0, np.int32)], (i64([]), i32([]), i32([]))),
    ],
)


@public
def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the values of a vector without repetitions, in order of first occurrence.

    Parameters
    ----------
    x : Tensor of any dtype, of shape [n]
        NaN equals nothing, not even NaN.
    out_idx : dtype-like
        int32 or int64.

    Returns
    -------
    y : Tensor
        Of the dtype of `x`, of shape [m]; its gradient goes to the first occurrence of each value.
    idx : Tensor
        Of dtype `out_idx` and shape [n]: ``x[i] == y[idx[i]]``.

    Raises
    ------
    ShapeError
        If `x` is no vector.
    GraphError
        If `out_idx` is another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> y, idx = tg.function(lambda: tg.unique([7, 3, 7, 1])).sync()
    >>> y, idx
    (array([7, 3, 1], dtype=int32), array([0, 1, 0, 2], dtype=int32))
    """
    tensor = convert_to_tensor(x)
    # The values are gathered by position, so that gradients reach `x`.
    first, indices, _ = apply("Unique", tensor, name=name, out_idx=arguments.index_dtype(out_idx, "out_idx"))
    return apply("Gather", tensor, first), indices


@public
def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the values of a vector without repetitions, and the count of each; see `unique`.

    Parameters
    ----------
    x : Tensor of any dtype, of shape [n]
    out_idx : dtype-like
        int32 or int64.

    Returns
    -------
    y, idx : Tensor
        As of `unique`.
    count : Tensor
        Of dtype `out_idx` and the shape of `y`.

    Raises
    ------
    ShapeError
        If `x` is no vector.
    GraphError
        If `out_idx` is another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> y, idx, count = tg.function(lambda: tg.unique_with_counts(["b", "a", "b"])).sync()
    >>> y.tolist(), idx.tolist(), count.tolist()
    (['b', 'a'], [0, 1, 0], [2, 1])
    """
    tensor = convert_to_tensor(x)
    first, indices, counts = apply("Unique", tensor, name=name, out_idx=arguments.index_dtype(out_idx, "out_idx"))
    return apply("Gather", tensor, first), indices, counts


def _difference_shape(op: Operation) -> Shape:
    _require_vectors(op)
    return Shape([None])


def _compute_list_difference(xp: Any, x: Any, y: Any) -> Any:
    """Look each value of `x` up in sorted `y` and return the positions of values without a match."""
    arguments.check_rank(x, 1, 1, "setdiff1d takes vectors")
    arguments.check_rank(y, 1, 1, "setdiff1d takes vectors")
    if not y.size:
        return xp.arange(x.size, dtype=xp.int64)
    known = xp.sort(y)
    # Values beyond the largest are compared with the largest; NaN equals nothing and stays.
    places = xp.minimum(xp.searchsorted(known, x), y.size - 1)
    return xp.nonzero(known[places] != x)[0].astype(xp.int64)


define(
    "ListDiff",
    "x: T, y: T -> places: int64",
    shape=_difference_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_compute_list_difference,
    gradient=_POSITIONS,
    samples=[
        Sample([i32([5, 1, 3, 1, 9]), i32([9, 1])], i64([0, 2])),
        Sample([f64([np.nan, 2, 7]), f64([2, np.nan])], i64([0, 2])),
        Sample([i32([4, 4]), i32([])], i64([0, 1])),
        Sample([i32([]), i32([1])], i64([])),
    ],
)


@public
def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the values of `x` absent from `y`, in order and with repetitions.

    Parameters
    ----------
    x, y : Tensor of any dtype, of shapes [n] and [m]
        Same dtype.
    index_dtype : dtype-like
        int32 or int64.

    Returns
    -------
    out : Tensor
        Of the same dtype and of rank 1; its gradient goes to `x`.
    idx : Tensor
        Of dtype `index_dtype` and the shape of `out`: ``out[i] == x[idx[i]]``.

    Raises
    ------
    ShapeError
        If `x` or `y` is no vector.
    GraphError
        If `index_dtype` is another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> out, idx = tg.function(lambda: tg.setdiff1d([1, 2, 3, 2, 5], [3, 5])).sync()
    >>> out, idx
    (array([1, 2, 2], dtype=int32), array([0, 1, 3], dtype=int32))
    """
    tensor, kind = convert_to_tensor(x), arguments.index_dtype(index_dtype, "index_dtype")
    places = apply("ListDiff", tensor, y, name=name)
    return apply("Gather", tensor, places), cast(places, kind)


def _inverse_shape(op: Operation) -> Shape:
    _require_vectors(op)
    return op.inputs[0].shape


def _invert_permutation(xp: Any, x: Any) -> Any:
    """Invert a permutation by scattering positions; ValueError for repeated numbers."""
    arguments.check_rank(x, 1, 1, "invert_permutation takes a vector")
    check_bounds(x, x.size, "invert_permutation")
    places = last_writers(xp, x, x.size)
    # A repeated number leaves another place without a writer, which `last_writers` marks by -1.
    if x.size and int(places.min()) < 0:
        raise ValueError("invert_permutation: a number comes twice, so that it is no permutation")
    return places.astype(x.dtype)


define(
    "InvertPermutation",
    "x: I -> y: I",
    where={"I": dtypes.INDEX},
    shape=_inverse_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_invert_permutation,
    gradient=NotDifferentiable("its results are positions"),
    samples=[Sample([i32([3, 4, 0, 2, 1])], i32([2, 4, 3, 0, 1])), Sample([i64([])], i64([]))],
)


@public
def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Invert a permutation: ``y[x[i]] == i``.

    Parameters
    ----------
    x : int32 or int64 Tensor of shape [n]
        Each number from 0 to n - 1 once.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If `x` is no vector.
    OpError
        When the step runs, if `x` is no permutation.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.invert_permutation([2, 0, 1])).sync()
    array([1, 2, 0], dtype=int32)
    """
    return apply("InvertPermutation", index_tensor(x), name=name)

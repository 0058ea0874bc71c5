"""Distinct indices, or index vectors, in sorted order; rows with equal indices are summed before use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy, is_traced
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.common import size_along
from ..support.indexed_slices import IndexedSlices
from ..support.interpreter import running_count
from ..support.literals import i32, i64
from ..support.vectorizing.families import one_by_one

PLACES = i64([[1, 0], [0, 2], [1, 0], [0, 1]])


def _number_index_vectors(indices: Any) -> Any:
    """Return a number for each index vector, in the same order; None if an int64 cannot hold them."""
    low = indices.min(0)
    spans = [int(high) - int(least) + 1 for high, least in zip(indices.max(0), low, strict=True)]
    # Python integers, whose product does not overflow
    if math.prod(spans) >= 2**63:
        return None
    numbers = indices[:, 0] - low[0]
    for i in range(1, len(spans)):
        numbers = numbers * spans[i] + (indices[:, i] - low[i])
    return numbers


def order_of_rows(xp: Any, indices: Any) -> Any:
    """Return the stable sorting permutation of indices, or of index vectors of int64."""
    if indices.ndim == 1:
        return xp.argsort(indices, kind="stable")
    if not indices.shape[1]:
        return xp.arange(indices.shape[0])
    # a sort of single integers is faster than one of vectors
    numbers = _number_index_vectors(indices) if is_numpy(xp) and not is_traced(xp) and indices.size else None
    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    # lexsort sorts by its last key first, so the first column comes last
    return xp.lexsort(xp.ascontiguousarray(indices.T[::-1]))


def _distinct_shape(op: Operation) -> list[Shape]:
    """Infer the shapes of the distinct indices and of their numbers."""
    shape = op.inputs[0].shape
    # a vector of indices, or a matrix of index vectors
    if shape.rank not in (1, 2, None):
        raise ShapeError(
            "the indices of rows are a vector", wanted="[n]", got=shape, hint="reshape them and their rows"
        )
    if shape.rank is None:
        return [Shape(None), Shape([None])]
    return [Shape([None, *shape.dims[1:]]), Shape([shape[0]])]


def _compute_distinct_rows(xp: Any, indices: Any) -> tuple[Any, Any]:
    """Sort the indices, drop repeats, and number each input by its place among the distinct ones."""
    order = order_of_rows(xp, indices)
    rows = indices[order]
    changed = rows[1:] != rows[:-1]
    first = xp.ones(rows.shape[0], dtype=xp.bool_)
    first[1:] = changed if indices.ndim == 1 else xp.any(changed, axis=1)
    numbers = xp.empty(rows.shape[0], dtype=indices.dtype)
    # back in the order of the inputs
    numbers[order] = running_count(xp, first) - 1
    return rows[first], numbers


define(
    "DistinctRows",
    "indices: I -> rows: I, numbers: I",
    where={"I": dtypes.INDEX},
    shape=_distinct_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_compute_distinct_rows,
    gradient=NotDifferentiable("its inputs are integers"),
    samples=[
        Sample([i32([7, 2, 7, 5])], (i32([2, 5, 7]), i32([2, 0, 2, 1]))),
        Sample([i64([3])], (i64([3]), i64([0]))),
        Sample([i32([])], (i32([]), i32([]))),
        Sample([PLACES], (i64([[0, 1], [0, 2], [1, 0]]), i64([2, 1, 2, 0]))),
        Sample([i64([[5], [5], [-1]])], (i64([[-1], [5]]), i64([1, 1, 0]))),
        Sample([np.zeros((3, 0), np.int64)], (np.zeros((1, 0), np.int64), i64([0, 0, 0]))),
        Sample([np.zeros((0, 2), np.int64)], (np.zeros((0, 2), np.int64), np.zeros(0, np.int64))),
    ],
)


def distinct_rows(indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct indices, or rows of a matrix, in order; the number of each input; the count."""
    rows, numbers = apply("DistinctRows", indices)
    return rows, numbers, size_along(rows, 0)


def sum_repeats(slices: IndexedSlices) -> IndexedSlices:
    """Return `slices` with distinct indices in sorted order; rows of equal indices are added up."""
    rows, numbers, count = distinct_rows(slices.indices)
    values = apply("UnsortedSegmentSum", slices.values, numbers, count)
    return IndexedSlices(values, rows, slices.dense_shape)

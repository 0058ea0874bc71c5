"""Indices without their repeats: of rows that are to be summed before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ..support.indexed_slices import IndexedSlices
from ..support.literals import i32, i64


def _distinct_shape(op: Operation) -> list[Shape]:
    indices = op.inputs[0].shape
    if indices.rank not in (1, None):
        raise ShapeError(
            "the indices of rows are a vector", wanted="[n]", got=indices, hint="reshape them and their rows"
        )
    return [Shape([None]), indices.merge(Shape([None]))]


def _distinct(xp: Any, indices: Any) -> list[Any]:
    rows, places = np.unique(indices, return_inverse=True)
    return [rows, xp.asarray(places.reshape(-1).astype(indices.dtype))]


define(
    "DistinctRows",
    "indices: host I -> rows: host I, places: I",
    where={"I": dtypes.INDEX},
    shape=_distinct_shape,
    reads_values=True,
    kernel=_distinct,
    gradient=NotDifferentiable("its inputs are integers"),
    samples=[
        Sample([i32([7, 2, 7, 5])], (i32([2, 5, 7]), i32([2, 0, 2, 1]))),
        Sample([i64([3])], (i64([3]), i64([0]))),
        Sample([i32([])], (i32([]), i32([]))),
    ],
)


def sum_repeats(slices: IndexedSlices) -> IndexedSlices:
    """Return `slices` with each row once, in the order of their indices; what stood at one index is added up."""
    rows, places = apply("DistinctRows", slices.indices)
    values = apply("UnsortedSegmentSum", slices.values, places, apply("Size", rows))
    return IndexedSlices(values, rows, slices.dense_shape)

"""What native programs are given on a GPU: which inputs decide on shapes, and saved values as rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...memory.swappable import SwappableArray
from ...scheduler.series import Series
from ..program import Code, NativeProgram
from .emitting import shape_inputs
from .values import NotWritten


class Rows(NamedTuple):
    """The slots of a series as rows of an array.

    Attributes
    ----------
    array : array
    count : int
        Of slots that may be looked at.
    is_written : array or None
        For each slot whether there is something in it; None if there is in all.
    """

    array: Any
    count: int
    is_written: Any


def host_inputs(program: NativeProgram) -> frozenset[int]:
    """Return which inputs of a program decide on shapes."""
    wanted: set[int] = set()
    for each in program.instructions:
        if each.code is Code.READ:
            wanted.update(each.inputs[2:])
        elif each.computation is not None:
            wanted.update(each.inputs[k] for k in shape_inputs(each.computation.type))
    return frozenset(k for k, r in enumerate(program.inputs) if r in wanted and program.registers[r][1] is not None)


def series_rows(xp: Any, series: Series) -> Rows:
    """Return what a series holds as rows; NotWritten if it holds nothing, or what is not alike.

    What a native program has written is rows already; what the step machine has is joined.
    """
    if series.rows is not None:
        return Rows(series.rows, series.num_rows, series.rows_there)
    indices = series.indices()
    values = [series.at(i) for i in indices]
    if not values:
        raise NotWritten("a series is empty")
    if any(isinstance(each, (Series, SwappableArray)) for each in values):
        raise NotWritten("a series holds what is no array of the device")
    if len({(each.shape, each.dtype) for each in values}) > 1:
        raise NotWritten("a series holds values of several shapes")
    return _joined(xp, indices, values)


def _joined(xp: Any, indices: list[int], values: list[Any]) -> Rows:
    """Return values as rows, with what lies between them."""
    array = xp.stack([xp.asarray(each) for each in values])
    count = indices[-1] + 1
    if count == len(values):
        return Rows(array, count, None)
    place = np.zeros(count, np.int64)
    place[indices] = range(len(indices))
    there = np.zeros(count, np.uint8)
    there[indices] = 1
    return Rows(array[xp.asarray(place)], count, xp.asarray(there))

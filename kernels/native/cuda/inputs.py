"""Inputs of native programs on a GPU: their form as kernel arguments, and their changes at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...cpu.elements import Elements
from ...cpu.product_sum import ProductSum
from ...memory.swappable import SwappableArray
from ...scheduler.series import Series
from ..program import Code, NativeProgram
from .elements import Shelf
from .emitting import shape_inputs
from .values import NotWritten
from .written import Given


class Taken:
    """An input of a run.

    Attributes
    ----------
    given : Given
    masks : list of array
        Arrays to copy to the host at the end of the run, for `close`.
    """

    def __init__(self, given: Given, *kernel_arguments: Any) -> None:
        self.given = given
        self.masks: list[Any] = []
        self._arguments = list(kernel_arguments)

    def kernel_arguments(self) -> list[Any]:
        """Return the kernel arguments of this input."""
        return self._arguments

    def is_as_found(self) -> bool:
        """Return True unless the input was changed by others during the run."""
        return True

    def close(self, masks: Sequence[np.ndarray[Any, Any]]) -> None:
        """Apply the run's changes to the input."""


class TakenSum(Taken):
    """A sum of products; the run adds to a copy."""

    def __init__(self, total: ProductSum) -> None:
        copy = total.value().copy()
        super().__init__(Given("sum", copy.shape, copy.dtype), copy)
        self._sum, self._before = total, total.value()

    def is_as_found(self) -> bool:
        return self._sum.value() is self._before

    def close(self, masks: Sequence[np.ndarray[Any, Any]]) -> None:
        self._sum.replace(self._arguments[0])


def take_input(xp: Any, program: NativeProgram, k: int, value: Any, on_host: bool, trips: int | None) -> Taken | Shelf:
    """Return an input of a program in its form for a run.

    Parameters
    ----------
    xp : module
    program : NativeProgram
    k : int
        Number of the input.
    value : array of the library, NumPy scalar or array, Series, ProductSum, Elements, or another object
    on_host : bool
        True if the value is known to the host, and becomes a part of the kernel.
    trips : int or None
        Approximate number of iterations.
    """
    if on_host:
        array = np.asarray(value)
        return Taken(Given("known", array.shape, array.dtype, array))
    if isinstance(value, np.generic):
        return Taken(Given("element", (), value.dtype), value)
    if isinstance(value, xp.ndarray):
        # kernels index in row-major order
        return Taken(Given("array", value.shape, value.dtype), xp.ascontiguousarray(value))
    if isinstance(value, Series):
        return _take_series(xp, value)
    if isinstance(value, ProductSum) and isinstance(value.value(), xp.ndarray):
        return TakenSum(value)
    if isinstance(value, Elements) and _is_accessed(program, program.inputs[k]):
        return Shelf(xp, value, program, program.inputs[k], trips)
    return Taken(Given("handle"))


def open_shelves(taken: Mapping[int, Taken | Shelf], shapes: Mapping[int, tuple[int, ...]]) -> None:
    """Allocate the rows of TensorArrays, whose shapes are known now.

    Parameters
    ----------
    taken : mapping of int to Taken or Shelf
        By register.
    shapes : mapping of int to tuple
        Shapes of elements, by register of the handle.

    Raises
    ------
    NotWritten
        If a TensorArray does not accept its shape, or is given twice.
    """
    shelves = {register: each for register, each in taken.items() if isinstance(each, Shelf)}
    if len({id(each.array) for each in shelves.values()}) < len(shelves):
        raise NotWritten("a TensorArray comes twice")
    for register, each in shelves.items():
        each.make_rows(shapes.get(register, ()))


def host_inputs(program: NativeProgram) -> frozenset[int]:
    """Return the numbers of a program's inputs whose values determine shapes."""
    wanted: set[int] = set()
    for each in program.instructions:
        if each.code is Code.READ:
            wanted.update(each.inputs[2:])
        elif each.computation is not None:
            wanted.update(each.inputs[k] for k in shape_inputs(each.computation.type))
    return frozenset(k for k, r in enumerate(program.inputs) if r in wanted and program.registers[r][1] is not None)


def count_trips(program: NativeProgram, inputs: Sequence[Any]) -> int | None:
    """Return the approximate trip count of the outermost loop, if known now."""
    if program.trips is None:
        return None
    begin, limit, change = program.trips
    values = {**dict(zip(program.inputs, inputs, strict=True)), **program.constants}
    found: list[Any] = [values.get(begin), values.get(limit)]
    if any(not isinstance(each, (np.generic, np.ndarray)) or each.ndim for each in found):
        return None
    # rounded up, with one to spare: too few slots cost another launch
    return max(0, int((float(found[1]) - float(found[0])) / change)) + 2


def _is_accessed(program: NativeProgram, register: int) -> bool:
    """Return True if elements of a TensorArray are read or written."""
    return any(each.code in (Code.GET, Code.PUT) and each.inputs[0] == register for each in program.instructions)


def _take_series(xp: Any, series: Series) -> Taken:
    """Return the contents of a series as rows; NotWritten if empty or not uniform.

    Series of native programs have rows already; values of the step machine are stacked.
    """
    if series.rows is not None:
        return _take_rows(series.rows, series.num_rows, series.rows_there)
    indices = series.indices()
    values = [series.at(i) for i in indices]
    if not values:
        raise NotWritten("a series is empty")
    if all(isinstance(each, Series) and each.parent is not None for each in values):
        return _take_nested(xp, indices, values)
    if any(isinstance(each, (Series, SwappableArray)) for each in values):
        raise NotWritten("a series holds what is no array of the device")
    if len({(each.shape, each.dtype) for each in values}) > 1:
        raise NotWritten("a series holds values of several shapes")
    return _stack_values(xp, indices, values)


def _take_nested(xp: Any, indices: list[int], parts: list[Series]) -> Taken:
    """Return parts of a series' rows, by their bounds; an empty slot has none."""
    parent = parts[0].parent
    if parent is None or parent.rows is None or any(each.parent is not parent for each in parts):
        raise NotWritten("a series holds series of which the rows do not lie together")
    bounds = np.zeros((indices[-1] + 1, 2), np.int64)
    bounds[indices] = [(each.first, each.first + each.count) for each in parts]
    whole = _take_rows(parent.rows, parent.num_rows, parent.rows_there)
    kernel_arguments = [*whole.kernel_arguments(), xp.asarray(bounds), np.int64(len(bounds))]
    return Taken(replace(whole.given, kind="nested series"), *kernel_arguments)


def _stack_values(xp: Any, indices: list[int], values: list[Any]) -> Taken:
    """Return values as rows, with arbitrary rows for the empty slots between."""
    array = xp.stack([xp.asarray(each) for each in values])
    count = indices[-1] + 1
    if count == len(values):
        return _take_rows(array, count, None)
    place = np.zeros(count, np.int64)
    place[indices] = range(len(indices))
    there = np.zeros(count, np.uint8)
    there[indices] = 1
    # empty slots repeat the first row: their flags keep it unread
    return _take_rows(array[xp.asarray(place)], count, xp.asarray(there))


def _take_rows(array: Any, count: int, is_written: Any) -> Taken:
    masks = [] if is_written is None else [is_written]
    given = Given("series", array.shape[1:], array.dtype, is_masked=bool(masks))
    return Taken(given, array, np.int64(count), *masks)

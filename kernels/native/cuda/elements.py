"""TensorArrays whose elements are read and written by a program on a GPU, as rows of an array.

A run records its accesses in memory of its own. The TensorArrays change at the end of the run, so that a run that gives
up leaves them unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...cpu.elements import Elements
from ..program import Code, NativeProgram
from .values import NotWritten
from .written import Given

_FEWEST = 16  # smallest number of additional elements when an array grows
_THERE, _FREE = 1, 2  # flags of an element: has a value; was neither read nor written


class Shelf:
    """A TensorArray in a run.

    Parameters
    ----------
    xp : module
    array : Elements
    program : NativeProgram
    register : int
        Register of the handle.
    trips : int or None
        Approximate number of iterations.

    Attributes
    ----------
    array : Elements
    given : Given
    done : array
        Two rows, for reads and writes: for each element, the instruction and the iteration of its access as a number
        from 1, or 0.
    """

    def __init__(self, xp: Any, array: Elements, program: NativeProgram, register: int, trips: int | None) -> None:
        if array.closed or array.swappable:
            raise NotWritten("the elements of a TensorArray may be elsewhere")
        self._xp, self.array = xp, array
        self._accessor_names = {code: _accessor_names(program, register, code) for code in (Code.GET, Code.PUT)}
        self._before = [_snapshot_element(each) for each in array.elements]
        self._count = array.most_elements(trips or 0)
        self.done = xp.zeros((2, self._count), dtype=np.int64)
        self._rows: Any = None
        self._state: Any = None
        shape = self._common_shape()
        kinds = (("kept", not array.clear_after_read), ("new", shape is None), ("growing", array.may_grow()))
        kind = " ".join(["elements", *(word for word, holds in kinds if holds)])
        self.given = Given(kind, shape or (), np.dtype(array.dtype))

    @property
    def masks(self) -> list[Any]:
        """Arrays to copy to the host at the end of the run."""
        return [self.done]

    def make_rows(self, shape: tuple[int, ...]) -> None:
        """Allocate rows for elements of a shape, with present values; NotWritten if the shape is not accepted."""
        if self._accessor_names[Code.PUT] and not self.array.takes(shape):
            raise NotWritten(f"elements of shape {list(shape)} may not be written")
        values = [value for value, *_ in self._before]
        whole = self.array.whole
        # elements that are only read need no copy
        if not self._accessor_names[Code.PUT] and whole is not None and len(whole) == len(values):
            self._rows = self._xp.ascontiguousarray(whole)
            return
        self._rows = self._xp.empty((self._count, *shape), dtype=self.array.dtype)
        there = [i for i, value in enumerate(values) if value is not None]
        if there:
            rows = self._xp.stack([self._xp.asarray(values[i]) for i in there])
            self._rows[self._xp.asarray(np.array(there))] = rows

    def grow(self) -> None:
        """Add room for as many elements as there are, and some."""
        before, done, count, self._state = self._rows, self.done, self._count, None
        self._count = 2 * count + _FEWEST
        self._rows = self._xp.empty((self._count, *before.shape[1:]), dtype=before.dtype)
        self.done = self._xp.zeros((2, self._count), dtype=np.int64)
        self._rows[:count], self.done[:, :count] = before, done

    def kernel_arguments(self) -> list[Any]:
        """Return the kernel arguments of this TensorArray."""
        if self._state is None:
            self._state = self._xp.asarray(self._element_flags())
        return [self._rows, np.int64(self._count), self._state, self.done]

    def _element_flags(self) -> np.ndarray[Any, Any]:
        """Return the flags of the elements before the run."""
        states = np.full(self._count, _FREE, np.uint8)
        for i, (value, shape, reader) in enumerate(self._before):
            states[i] = _THERE * (value is not None) + _FREE * (shape is None and reader is None)
        return states

    def is_as_found(self) -> bool:
        """Return True unless the TensorArray was changed by others during the run."""
        now = [_snapshot_element(each) for each in self.array.elements]
        same = (a[0] is b[0] and a[1:] == b[1:] for a, b in zip(now, self._before, strict=False))
        return len(now) == len(self._before) and all(same) and not self.array.closed

    def close(self, masks: Sequence[np.ndarray[Any, Any]]) -> None:
        """Apply the run's changes to the TensorArray."""
        (done,) = masks
        written = np.flatnonzero(done[1])
        if len(written):
            self.array.begin_writing(max(int(written[-1]) + 1, self.array.count), self._rows.shape[1:])
        elements = self.array.elements
        for i in written:
            element = elements[i]
            # with an ellipsis the value is an array, even without dimensions
            element.value, element.shape = self._rows[int(i), ...], self._rows.shape[1:]
            element.writer = self._accessor_of(Code.PUT, done[1, i])
        for i in np.flatnonzero(done[0]):
            element = elements[i]
            # errors name the first reader
            element.reader = element.reader or self._accessor_of(Code.GET, done[0, i])
            element.value = None if self.array.clear_after_read else element.value

    def _common_shape(self) -> tuple[int, ...] | None:
        """Return the common shape of all elements, or None if unknown."""
        values = [value for value, *_ in self._before if value is not None]
        if any(not isinstance(value, (self._xp.ndarray, np.ndarray)) for value in values):
            raise NotWritten("the elements of a TensorArray may be elsewhere")
        shapes = {value.shape for value in values}
        if len(shapes) > 1:
            raise NotWritten("the elements of a TensorArray have several shapes")
        return shapes.pop() if shapes else self.array.exact

    def _accessor_of(self, code: Code, mark: int) -> tuple[str, int]:
        """Return the operation of a mark, and its iteration."""
        names = self._accessor_names[code]
        return names[int(mark - 1) % len(names)], int(mark - 1) // len(names)


def _snapshot_element(element: Any) -> tuple[Any, Any, Any]:
    return element.value, element.shape, element.reader


def _accessor_names(program: NativeProgram, register: int, code: Code) -> list[str]:
    """Return the names of operations with accesses of a kind to a TensorArray, in order."""
    found: Sequence[Any] = program.instructions
    return [each.name for each in found if each.code is code and each.inputs[0] == register]

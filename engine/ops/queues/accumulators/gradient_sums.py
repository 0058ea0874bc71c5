"""Sums of gradients: dense arrays, and sparse rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ....base.dtypes import DType
from ....base.errors import OpError
from ....base.shapes import Shape
from ....kernels.memory.contexts import outside
from ...support.copies import is_large


class Reduction(NamedTuple):
    """The gradients of one take: the reduction's result, and the sum for a return to the accumulator.

    Attributes
    ----------
    arrays : tuple of numpy.ndarray
        The sum, as `DenseSum.arrays` or `SparseSum.arrays` returned it; only a `make` in place writes to it.
    gradients : int
        Number of gradients in the sum.
    make : callable
        ``make(in_place)`` returns the result; callable from any thread. In place of the sum, the result needs no
        memory, but the gradients cannot be returned to the accumulator any longer.
    is_long : bool
        True if `make` is slow.
    """

    arrays: tuple[Any, ...]
    gradients: int
    make: Callable[[bool], Any]
    is_long: bool


class DenseSum:
    """The sum of arrays.

    Attributes
    ----------
    shape : Shape
        Of the gradients; the first gradient fixes the unknown sizes.
    total : numpy.ndarray or None
        The sum, without other references.
    """

    __slots__ = ("dtype", "name", "shape", "total")

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name: str = name
        self.dtype: DType = dtype
        self.shape: Shape = shape
        self.total: Any = None

    def add(self, gradient: Any, operation: str) -> None:
        """Add an array; OpError if it has another shape."""
        if not self.shape.includes(Shape(np.shape(gradient))):
            raise _other_shape(self.name, self.shape, Shape(np.shape(gradient)), operation)
        if self.total is None:
            # A copy, because the array belongs to the step, which may use its memory again.
            self.total = np.array(gradient)
        else:
            np.add(self.total, gradient, out=self.total)
        # The first gradient fixes the sizes that the specification leaves open.
        self.shape = Shape(self.total.shape)

    def take(self, count: int, is_mean: bool) -> Reduction:
        """Return the sum as a Reduction, to the mean of `count` arrays if `is_mean`, and begin anew."""
        total, self.total = self.total, None

        def divide_total(in_place: bool) -> Any:
            return _divide_sums(total, count, in_place) if is_mean else total

        return Reduction((total,), count, divide_total, is_mean and is_large(total))

    def merge(self, arrays: tuple[Any, ...]) -> None:
        """Add a sum which was taken and is returned."""
        if self.total is None:
            self.total = np.array(arrays[0])  # the taker may still hold the returned array
        else:
            np.add(self.total, arrays[0], out=self.total)

    def arrays(self) -> Iterable[Any]:
        """Return the sum, if there is one."""
        return () if self.total is None else (self.total,)

    def fits(self, arrays: list[Any], shape: Shape) -> bool:
        """Return True if the arrays may be a sum of gradients of a shape."""
        return len(arrays) == 1 and arrays[0].dtype == self.dtype.numpy and shape.includes(Shape(arrays[0].shape))

    def set(self, arrays: list[Any]) -> None:
        """Replace the sum with copies of `arrays`, in the format of `DenseSum.arrays`."""
        self.total = np.array(arrays[0]) if arrays else None


class Rows(NamedTuple):
    """Rows at `indices` (unique, ascending), with the number of gradients of each row."""

    indices: Any
    values: Any
    counts: Any


class SparseSum:
    """The sum of rows of arrays; the mean of a row is over the gradients with this row, as in TensorFlow.

    Attributes
    ----------
    shape : Shape
        Of the whole arrays; the first gradient fixes the unknown sizes of rows, and their number if it has a shape.
    rows : Rows or None
        The summed rows, without other references.
    """

    __slots__ = ("dtype", "name", "rows", "shape")

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name: str = name
        self.dtype: DType = dtype
        self.shape: Shape = shape
        self.rows: Rows | None = None

    def add(self, gradient: tuple[Any, Any, Any], operation: str) -> None:
        """Add rows (values, indices, and the whole shape, possibly empty); OpError if they do not fit."""
        values, indices, shape = gradient
        whole = self._whole_shape(values, indices, shape, operation)
        beyond = _indices_outside(indices, whole)
        if beyond.size:
            raise OpError(
                f"a row index of a gradient for accumulator '{self.name}' is out of range",
                wanted="0 or more" if whole[0] is None else f"0 to {whole[0] - 1}",
                got=beyond[:3].tolist(),
                operation=operation,
                hint="indices count the rows of the variable",
            )
        rows = _sum_equal_rows(Rows(indices.astype(np.int64), np.array(values), np.ones(len(indices), np.int64)))
        rows.counts.fill(1)  # a row repeated in a gradient counts as one gradient
        self.rows = (
            rows
            if self.rows is None
            else _sum_equal_rows(Rows(*map(np.concatenate, zip(self.rows, rows, strict=True))))
        )
        self.shape = whole

    def _whole_shape(self, values: Any, indices: Any, shape: Any, operation: str) -> Shape:
        """Return the shape of the whole arrays as far as this and earlier gradients determine it."""
        if np.ndim(values) == 0 or np.ndim(indices) != 1 or len(values) != len(indices):
            raise OpError(
                f"rows of a gradient for accumulator '{self.name}' are not as many as their indices",
                wanted="indices of shape [n] and values of shape [n, ...]",
                got=f"indices {list(np.shape(indices))}, values {list(np.shape(values))}",
                operation=operation,
                hint="give an index for each row",
            )
        rows = Shape([None, *values.shape[1:]])
        known = self.shape
        # An empty shape tells nothing about the whole array.
        for got in (rows, Shape(shape.tolist())) if shape.size else (rows,):
            if not known.is_compatible_with(got):
                raise _other_shape(self.name, known, got, operation)
            known = known.merge(got)
        return known

    def take(self, count: int, is_mean: bool) -> Reduction:
        """Return a Reduction to indices, values and shape (-1 for unknown sizes), and begin anew."""
        assert self.rows is not None
        shape = np.array([-1 if size is None else size for size in self.shape], np.int64)
        rows, self.rows = self.rows, None

        def divide_rows(in_place: bool) -> tuple[Any, Any, Any]:
            indices, values, counts = rows
            if is_mean:
                values = _divide_sums(values, counts.reshape(-1, *[1] * (values.ndim - 1)), in_place)
            return indices, values, shape

        return Reduction(tuple(rows), count, divide_rows, is_mean and is_large(rows.values))

    def merge(self, arrays: tuple[Any, ...]) -> None:
        """Add rows which were taken and are returned, with their numbers of gradients."""
        rows = Rows(*map(np.array, arrays))  # the taker may still hold the returned arrays
        self.rows = (
            rows
            if self.rows is None
            else _sum_equal_rows(Rows(*map(np.concatenate, zip(self.rows, rows, strict=True))))
        )

    def arrays(self) -> Iterable[Any]:
        """Return the sum, if there is one."""
        return () if self.rows is None else self.rows

    def fits(self, arrays: list[Any], shape: Shape) -> bool:
        """Return True if the arrays may be rows of gradients of a shape."""
        if len(arrays) != 3:
            return False
        rows = Rows(*arrays)
        # Vectors of indices and counts, as many as there are rows.
        whole = rows.indices.ndim == rows.counts.ndim == 1 <= rows.values.ndim and len(set(map(len, rows))) == 1
        kinds = (each.dtype for each in rows)
        return (
            whole
            and tuple(kinds) == (np.int64, self.dtype.numpy, np.int64)
            and shape.is_compatible_with(Shape([None, *rows.values.shape[1:]]))
            and not _indices_outside(rows.indices, shape).size
            and bool((rows.counts > 0).all())
        )

    def set(self, arrays: list[Any]) -> None:
        """Replace the rows with copies of `arrays`, in the format of `SparseSum.arrays`."""
        self.rows = Rows(*map(np.array, arrays)) if arrays else None


def _divide_sums(sums: Any, counts: Any, in_place: bool) -> Any:
    """Return sums divided by counts, in the dtype of the sums."""
    if not in_place:
        return np.divide(sums, counts, out=np.empty_like(sums), casting="unsafe")
    # Outside of memory limits: after a refusal midway, the half divided sum could not be taken again.
    return outside(np.divide, sums, counts, out=sums, casting="unsafe")


def _sum_equal_rows(rows: Rows) -> Rows:
    """Return the rows in order of their indices, equal indices summed."""
    # Stable, so that rows of one index are summed in order of arrival: the result is reproducible.
    order = np.argsort(rows.indices, kind="stable")
    indices = rows.indices[order]
    first = np.flatnonzero(np.concatenate([[True], indices[1:] != indices[:-1]])) if len(indices) else order
    values, counts = rows.values[order], rows.counts[order]
    # Without repetitions, `reduceat` would only copy the rows once more.
    if len(first) < len(indices):
        indices, values, counts = indices[first], np.add.reduceat(values, first), np.add.reduceat(counts, first)
    return Rows(indices, values, counts)


def _indices_outside(indices: Any, whole: Shape) -> Any:
    """Return the indices out of range for arrays of a shape."""
    found = indices < 0
    if whole.rank is not None and whole[0] is not None:
        found = found | (indices >= whole[0])
    return indices[found]


def _other_shape(name: str, wanted: Shape, got: Shape, operation: str) -> OpError:
    """Return the error for a gradient of another shape."""
    return OpError(
        f"a gradient for accumulator '{name}' has another shape",
        wanted=wanted,
        got=got,
        operation=operation,
        hint="apply gradients of one shape, that of the variable",
    )

"""What the elements of a queue are: components, their dtypes and shapes, their bytes, batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import OpError
from ...base.shapes import Shape
from ...kernels.cpu.queue_rings import Ring
from ...kernels.memory.pool import Pool
from ..support.copies import is_large
from ..support.interpreter import BLOCK, give_way

MOST_DIMS = 16  # of an element that kernels in C copy
SMALL = 4096  # bytes of an element up to which it is copied in and out
Element = tuple[Any, ...]  # an array for each component


@dataclass(frozen=True, slots=True)
class ElementSpec:
    """What a queue holds.

    Attributes
    ----------
    dtypes : tuple of DType
        Of the components.
    shapes : tuple of Shape
        Of the components; unknown ones are not checked.
    """

    dtypes: tuple[DType, ...]
    shapes: tuple[Shape, ...]

    @property
    def is_small(self) -> bool:
        """Whether elements are so many numbers, of few bytes, so that they are copied rather than kept apart."""
        size = 0
        for dtype, shape in zip(self.dtypes, self.shapes, strict=True):
            count = shape.num_elements if shape.is_fully_known else None
            if (
                count is None
                or len(shape.dims) > MOST_DIMS
                or dtype.numpy is None
                or np.dtype(dtype.numpy).kind not in "biufc"
            ):
                return False
            size += count * np.dtype(dtype.numpy).itemsize
        return size <= SMALL

    def make_ring(self, capacity: int) -> Ring:
        """Return what holds elements that are small, at most `capacity` of them if that is not below 0."""
        return Ring([np.dtype(d.numpy) for d in self.dtypes], [s.as_tuple() for s in self.shapes], capacity)

    @property
    def nbytes(self) -> int:
        """What the components of an element take, as far as that is known."""
        known = [(d.numpy, s.num_elements or 0) for d, s in zip(self.dtypes, self.shapes, strict=True)]
        return sum(count * np.dtype(dtype).itemsize for dtype, count in known if dtype is not None)

    def checked(self, components: Sequence[Any], operation: str, pool: Pool | None = None) -> Element:
        """Return an element that nobody changes; OpError where it does not fit."""
        for index, (value, shape) in enumerate(zip(components, self.shapes, strict=True)):
            _check_shape(index, value.shape, shape, operation)
        return kept(components, pool)

    def batch(self, elements: Sequence[Element], padded: bool) -> Element:
        """Return arrays with the elements along a new first axis; `padded` with zeros to the largest (rule 130)."""
        columns = zip(*elements, strict=True) if elements else [()] * len(self.dtypes)
        stack = _padded if padded else _stacked
        return tuple(
            stack(list(column), dtype, shape)
            for column, dtype, shape in zip(columns, self.dtypes, self.shapes, strict=True)
        )

    def count(self, components: Sequence[Any], operation: str) -> int:
        """Return how many elements lie along the first axes; OpError where they differ, or do not fit."""
        sizes = {value.shape[0] if value.ndim else None for value in components}
        if len(sizes) != 1 or None in sizes:
            raise OpError(
                "the components of a batch are not equally many",
                wanted="one size along axis 0",
                got=[value.shape for value in components],
                operation=operation,
                hint="give each component a first dimension that counts the elements",
            )
        for index, (value, shape) in enumerate(zip(components, self.shapes, strict=True)):
            _check_shape(index, value.shape[1:], shape, operation)
        (count,) = sizes
        return int(count or 0)

    def rows(self, components: Sequence[Any], operation: str) -> list[Element]:
        """Return the elements that lie along the first axes, which must be equally long; may take long."""
        self.count(components, operation)
        return list(zip(*map(_rows, components), strict=True))


def kept(components: Sequence[Any], pool: Pool | None = None) -> Element:
    """Return components that nobody writes to, and that are no parts of larger arrays: copies of those that may be."""
    return tuple([value if _is_kept(value, pool) else _copied(value) for value in components])


def are_copied(components: Sequence[Any], pool: Pool | None, parts: bool = False) -> bool:
    """Say whether keeping components, or their `parts`, copies so much that it is worth a thread."""
    return any(is_large(value) and (parts or not _is_kept(value, pool)) for value in components)


def nbytes_of(element: Element) -> int:
    """Return how many bytes an element's components take."""
    return sum(value.nbytes for value in element)


def _check_shape(index: int, got: tuple[int, ...], wanted: Shape, operation: str) -> None:
    if (not got and wanted.rank == 0) or wanted.rank is None or wanted.includes(Shape(got)):
        return
    raise OpError(
        f"component {index} has another shape than the queue's",
        wanted=wanted,
        got=Shape(got),
        operation=operation,
        hint="reshape the value, or make the queue with other shapes",
    )


def _rows(value: Any) -> list[Any]:
    """Return the rows of an array; numbers as NumPy's scalars, which are made faster than arrays."""
    found: list[Any] = []
    as_scalars = value.ndim == 1 and value.dtype.kind in "biufc"
    for start in range(0, len(value), BLOCK):
        if start:
            give_way()
        block = value[start : start + BLOCK]
        found.extend(block if as_scalars else [_copied(block[i, ...]) for i in range(len(block))])
    return found


def _is_kept(value: Any, pool: Pool | None) -> bool:
    """Say whether nobody writes to a value as long as a queue holds it.

    Kernels write in place only to what nobody else holds; what is fed is the user's, who may do as he likes.
    """
    if not isinstance(value, np.ndarray):
        return True
    return value.base is None and (not value.flags.writeable or (pool is not None and pool.counts(value)))


def _copied(value: Any) -> Any:
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def _stacked(column: list[Any], dtype: DType, shape: Shape) -> Any:
    if not column:
        return np.empty((0, *(size or 0 for size in shape)), dtype.numpy)
    if isinstance(column[0], np.generic):
        return np.array(column, dtype.numpy)
    return np.stack(column)


def _padded(column: list[Any], dtype: DType, shape: Shape) -> Any:
    if not column:
        return _stacked(column, dtype, shape)
    largest = [max(sizes) for sizes in zip(*(value.shape for value in column), strict=True)]
    batch = np.zeros((len(column), *largest), dtype.numpy)
    if batch.dtype.kind == "O":
        batch.fill("")
    for row, value in zip(batch, column, strict=True) if largest else ():
        row[tuple(map(slice, value.shape))] = value
    if not largest:
        batch[:] = column
    return batch

"""Elements of a queue: components with dtypes and shapes, their bytes, and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import OpError
from ...base.shapes import Shape
from ...kernels.memory.pool import Pool
from ...kernels.queues.queue_base import frozen_copy, is_kept, kept
from ...kernels.queues.queue_rings import Ring
from ..support.copies import is_large
from ..support.interpreter import BLOCK, give_way

MOST_DIMS = 16  # most dimensions of an element copied by kernels in C
SMALL = 4096  # bytes; elements up to this size are copied in and out of a ring
Element = tuple[Any, ...]  # one array per component


@dataclass(frozen=True, slots=True)
class ElementSpec:
    """Dtypes and shapes of the components of a queue's elements.

    Attributes
    ----------
    dtypes : tuple of DType
        Of the components.
    shapes : tuple of Shape
        Of the components; unknown shapes are not checked.
    """

    dtypes: tuple[DType, ...]
    shapes: tuple[Shape, ...]

    @property
    def is_small(self) -> bool:
        """True if an element has numeric components of known shapes and few bytes, so that a ring holds copies."""
        size = 0
        for dtype, shape in zip(self.dtypes, self.shapes, strict=True):
            count = shape.num_elements if shape.is_fully_known else None
            if (
                count is None
                or len(shape.dims) > MOST_DIMS
                # Strings and resources are references, which a block of memory cannot hold.
                or dtype.numpy is None
                or np.dtype(dtype.numpy).kind not in "biufc"
            ):
                return False
            size += count * np.dtype(dtype.numpy).itemsize
        return size <= SMALL

    def make_ring(self, capacity: int) -> Ring:
        """Return a ring for small elements, with room for at most `capacity` elements unless `capacity` is negative."""
        return Ring([np.dtype(d.numpy) for d in self.dtypes], [s.as_tuple() for s in self.shapes], capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of an element; components of unknown size count as 0."""
        known = [(d.numpy, s.num_elements or 0) for d, s in zip(self.dtypes, self.shapes, strict=True)]
        return sum(count * np.dtype(dtype).itemsize for dtype, count in known if dtype is not None)

    def checked(self, components: Sequence[Any], operation: str, pool: Pool | None = None) -> Element:
        """Return an immutable element of the components; OpError if a shape differs."""
        for index, (value, shape) in enumerate(zip(components, self.shapes, strict=True)):
            _check_shape(index, value.shape, shape, operation)
        return kept(components, pool)

    def batch(self, entries: Sequence[Any], element: Callable[[Any], Element], padded: bool) -> Element:
        """Return arrays of the entries' elements, stacked along a new first axis; slow for large batches.

        Parameters
        ----------
        entries : sequence
        element : callable
            ``element(entry)`` returns the element of an entry.
        padded : bool
            True to pad the elements with zeros to the largest (rule 130).
        """
        stack = _pad_column if padded else _stack_column
        return tuple(
            stack(_Column(entries, element, index), dtype, shape)
            for index, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True))
        )

    def count(self, components: Sequence[Any], operation: str) -> int:
        """Return the number of elements along the first axes; OpError if lengths or shapes differ."""
        # None stands for a scalar, which has no rows.
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
        """Return the elements along the first axes, which must be equally long; slow for many rows."""
        found: list[Element] = []
        for start in range(0, self.count(components, operation), BLOCK):
            if start:
                give_way()
            found.extend(zip(*(_rows_of_array(value[start : start + BLOCK]) for value in components), strict=True))
        return found


def are_copied(components: Sequence[Any], pool: Pool | None, parts: bool = False) -> bool:
    """Return True if keeping the components, or their `parts`, copies enough bytes to deserve a thread."""
    large = [value for value in components if is_large(value)]
    return bool(large) and (parts or not all(is_kept(value, pool) for value in large))


def nbytes_of(element: Element) -> int:
    """Return the number of bytes of an element's components."""
    return sum(value.nbytes for value in element)


def _check_shape(index: int, got: tuple[int, ...], wanted: Shape, operation: str) -> None:
    """Raise OpError unless component `index` has a shape which the queue accepts."""
    # Frequent cases come first, because they need no new Shape.
    if (not got and wanted.rank == 0) or wanted.rank is None or wanted.includes(Shape(got)):
        return
    raise OpError(
        f"component {index} has another shape than the queue's",
        wanted=wanted,
        got=Shape(got),
        operation=operation,
        hint="reshape the value, or make the queue with other shapes",
    )


def _rows_of_array(value: Any) -> list[Any]:
    """Return the rows of an array; numbers become NumPy scalars, which are faster to make than arrays."""
    if value.ndim == 1 and value.dtype.kind in "biufc":
        return list(value)
    return [frozen_copy(value[i, ...]) for i in range(len(value))]


class _Column:
    """One component of the entries' elements."""

    def __init__(self, entries: Sequence[Any], element: Callable[[Any], Element], index: int) -> None:
        self.entries = entries
        self.element = element
        self.index = index

    def __len__(self) -> int:
        return len(self.entries)

    def blocks(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the index of a block's first value and the block's values; yield the interpreter between blocks."""
        for start in range(0, len(self.entries), BLOCK):
            if start:
                give_way()
            yield start, [self.element(entry)[self.index] for entry in self.entries[start : start + BLOCK]]


def _stack_column(column: _Column, dtype: DType, shape: Shape) -> Any:
    """Stack the values of a column along a new first axis; an empty column has sizes 0 along unknown axes."""
    batch = None
    for start, values in column.blocks():
        if batch is None:
            # The first element fixes the shape, which the queue may leave open.
            batch = np.empty((len(column), *values[0].shape), dtype.numpy)
        rows = batch[start : start + len(values)]
        if values[0].ndim:
            np.stack(values, out=rows)
        else:
            rows[:] = values
    return np.empty((0, *(size or 0 for size in shape)), dtype.numpy) if batch is None else batch


def _pad_column(column: _Column, dtype: DType, shape: Shape) -> Any:
    """Stack the values of a column along a new first axis, padded with zeros to the largest size of each axis."""
    # A first pass over the column finds the sizes, a second copies the values.
    largest = [size or 0 for size in shape] if not len(column) else [0] * (shape.rank or 0)
    for _, values in column.blocks() if largest else ():
        largest = [max(sizes) for sizes in zip(largest, *(value.shape for value in values), strict=True)]
    if not largest:
        return _stack_column(column, dtype, shape)
    batch = np.zeros((len(column), *largest), dtype.numpy)
    for start, values in column.blocks():
        for row, value in zip(batch[start:], values, strict=False):
            row[tuple(map(slice, value.shape))] = value
    return batch

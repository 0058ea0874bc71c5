"""What the elements of a queue are: components, their dtypes and shapes, their bytes, batches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import OpError
from ...base.shapes import Shape
from ...kernels.cpu.queue_base import frozen_copy, is_kept, kept
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

    def batch(self, entries: Sequence[Any], element: Callable[[Any], Element], padded: bool) -> Element:
        """Return arrays with the elements of entries along a new first axis; may take long.

        Parameters
        ----------
        entries : sequence
        element : callable
            ``element(entry)`` is an entry's element.
        padded : bool
            Whether they are padded with zeros to the largest (rule 130).
        """
        stack = _padded if padded else _stacked
        return tuple(
            stack(_Column(entries, element, index), dtype, shape)
            for index, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True))
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
        found: list[Element] = []
        for start in range(0, self.count(components, operation), BLOCK):
            if start:
                give_way()
            found.extend(zip(*(_rows(value[start : start + BLOCK]) for value in components), strict=True))
        return found


def are_copied(components: Sequence[Any], pool: Pool | None, parts: bool = False) -> bool:
    """Say whether keeping components, or their `parts`, copies so much that it is worth a thread."""
    large = [value for value in components if is_large(value)]
    return bool(large) and (parts or not all(is_kept(value, pool) for value in large))


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
    if value.ndim == 1 and value.dtype.kind in "biufc":
        return list(value)
    return [frozen_copy(value[i, ...]) for i in range(len(value))]


class _Column:
    """One component of the elements of entries."""

    def __init__(self, entries: Sequence[Any], element: Callable[[Any], Element], index: int) -> None:
        self.entries = entries
        self.element = element
        self.index = index

    def __len__(self) -> int:
        return len(self.entries)

    def blocks(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield values, a block at a time with the number of its first, and give way behind each."""
        for start in range(0, len(self.entries), BLOCK):
            if start:
                give_way()
            yield start, [self.element(entry)[self.index] for entry in self.entries[start : start + BLOCK]]


def _stacked(column: _Column, dtype: DType, shape: Shape) -> Any:
    batch = None
    for start, values in column.blocks():
        if batch is None:
            batch = np.empty((len(column), *values[0].shape), dtype.numpy)
        rows = batch[start : start + len(values)]
        if values[0].ndim:
            np.stack(values, out=rows)
        else:
            rows[:] = values
    return np.empty((0, *(size or 0 for size in shape)), dtype.numpy) if batch is None else batch


def _padded(column: _Column, dtype: DType, shape: Shape) -> Any:
    largest = [size or 0 for size in shape] if not len(column) else [0] * (shape.rank or 0)
    for _, values in column.blocks() if largest else ():
        largest = [max(sizes) for sizes in zip(largest, *(value.shape for value in values), strict=True)]
    if not largest:
        return _stacked(column, dtype, shape)
    batch = np.zeros((len(column), *largest), dtype.numpy)
    for start, values in column.blocks():
        for row, value in zip(batch[start:], values, strict=False):
            row[tuple(map(slice, value.shape))] = value
    return batch

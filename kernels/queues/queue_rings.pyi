"""The elements of queues that have a fixed size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

class Ring:
    """Elements in the order in which they came, their components side by side in memory.

    Parameters
    ----------
    dtypes : sequence of numpy.dtype
        Of the components; plain numbers.
    shapes : sequence of tuple of int
        Of the components.
    capacity : int
        Most elements; below 0 there is no bound.

    Raises
    ------
    ValueError
        If a component has more dimensions than kernels go through.

    Attributes
    ----------
    columns : list of numpy.ndarray
        One for each component, with a row for each place.
    places : int
        Elements for which there is memory now.
    length : int
        Number of elements.
    left : int
        Number of elements taken out, less the number put back.
    """

    columns: list[np.ndarray[Any, Any]]
    places: int
    capacity: int
    length: int
    left: int
    def __init__(self, dtypes: Sequence[np.dtype[Any]], shapes: Sequence[tuple[int, ...]], capacity: int) -> None: ...
    def __len__(self) -> int: ...
    def reserve(self, wanted: int) -> None:
        """Allocate memory for `wanted` elements, or for the capacity if that is less."""

    def push(self, element: Sequence[Any]) -> None:
        """Put an element in; there must be room."""

    def pop(self) -> tuple[Any, ...]:
        """Take the next element out, its arrays read-only."""

    def push_rows(self, columns: Sequence[np.ndarray[Any, Any]], start: int, stop: int) -> None:
        """Put some rows of arrays in, as elements; there must be room."""

    def pop_rows(self, count: int) -> tuple[np.ndarray[Any, Any], ...]:
        """Take the next `count` elements out, as rows of new arrays."""

    def put_back(self, columns: Sequence[np.ndarray[Any, Any]], count: int) -> None:
        """Put the first `count` rows of arrays in front, the first foremost."""

    def rows(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Return copies of all elements, as rows."""

    def clear(self) -> None:
        """Forget all elements."""

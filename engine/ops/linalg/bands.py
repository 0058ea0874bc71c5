"""Positions of the diagonals of a band, in a matrix and in the rows that store them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import as_symbolic
from ..support.arguments import static_ints

_LEFT = {  # True for diagonals above, and below, the main diagonal that begin where their row begins
    "LEFT_RIGHT": (True, False),
    "RIGHT_LEFT": (False, True),
    "LEFT_LEFT": (True, True),
    "RIGHT_RIGHT": (False, False),
}


@dataclass(frozen=True, slots=True)
class Band:
    """Neighbouring diagonals.

    Attributes
    ----------
    lower, upper : int
        Numbers of the first and the last diagonal; 0 is the main diagonal, 1 the next above.
    align : str
        Side of the row on which a diagonal shorter than the longest stands: first for diagonals above the main
        diagonal, then for diagonals below.
    """

    lower: int
    upper: int
    align: str

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise GraphError(
                "a band of diagonals goes from the lower to the upper one",
                wanted="k, or (lower, upper)",
                got=(self.lower, self.upper),
                hint="exchange the two",
            )
        if self.align not in _LEFT:
            raise GraphError(
                "no such alignment of diagonals",
                wanted=" or ".join(_LEFT),
                got=repr(self.align),
                hint="leave align out for TensorFlow's default",
            )

    @property
    def count(self) -> int:
        """Number of diagonals."""
        return self.upper - self.lower + 1

    def longest(self, rows: int, columns: int) -> int:
        """Return the length of the longest diagonal."""
        # The longest diagonal of a band is the one nearest to the main diagonal.
        return min(rows + min(self.upper, 0), columns - max(self.lower, 0))

    def check(self, rows: int | None, columns: int | None) -> None:
        """Raise ShapeError if matrices of this size are known not to have all diagonals of the band."""
        # Diagonal 0 exists in empty matrices too, without elements.
        low = rows is not None and self.lower <= -rows and self.lower != 0
        high = columns is not None and self.upper >= columns and self.upper != 0
        if low or high:
            raise ShapeError(
                "the matrices do not have these diagonals",
                wanted=f"from {'?' if rows is None else 1 - rows} to {'?' if columns is None else columns - 1}",
                got=(self.lower, self.upper),
                hint="0 is the main diagonal, negative numbers are below it",
            )

    def rows_shape(self, length: int | None) -> Shape:
        """Return the static shape of the diagonals of a matrix, the longest of `length` elements."""
        return Shape([length] if self.count == 1 else [self.count, length])

    def places(self, rows: int, columns: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield the index of each diagonal, from the upper down, its slice of a flat matrix, and its slice of a row."""
        # One row down and one column to the right, in a matrix flattened row by row.
        longest, step = self.longest(rows, columns), columns + 1
        for i, k in enumerate(range(self.upper, self.lower - 1, -1)):
            length = min(rows + min(k, 0), columns - max(k, 0))
            start = k if k >= 0 else -k * columns
            offset = 0 if self._is_left(k) else longest - length
            yield (
                i,
                # An empty diagonal could have a negative stop, which would count from the end.
                slice(start, start + (length - 1) * step + 1 if length else start, step),
                slice(offset, offset + length),
            )

    def _is_left(self, k: int) -> bool:
        above, below = _LEFT[self.align]
        return (k >= 0 and above) or (k <= 0 and below)

    def matrix_size(self, longest: int | None, num_rows: int, num_cols: int) -> tuple[int | None, int | None]:
        """Return rows and columns of the smallest matrix with the band; -1 means an unspecified size.

        Raises
        ------
        ShapeError
            If given sizes cannot hold the band, or would need longer diagonals.
        """
        # A step knows the diagonals, and checks whether they fit.
        if longest is None:
            return None if num_rows == -1 else num_rows, None if num_cols == -1 else num_cols
        least = longest - min(self.upper, 0), longest + max(self.lower, 0)
        if num_rows == num_cols == -1:
            self.check(max(least), max(least))
            return max(least), max(least)
        rows, columns = (d if n == -1 else n for n, d in zip((num_rows, num_cols), least, strict=True))
        # A larger matrix on both sides would have a longer diagonal than `longest`.
        if rows < least[0] or columns < least[1] or (rows > least[0] and columns > least[1]):
            raise ShapeError(
                "diagonals do not fit a matrix of that size",
                wanted=f"at least {least[0]} rows and {least[1]} columns, and exactly as many of one of them",
                got=f"{rows} rows and {columns} columns",
                hint="leave num_rows and num_cols out for a square matrix",
            )
        self.check(rows, columns)
        return rows, columns


def as_diagonals(k: Any) -> tuple[int, int]:
    """Return the argument `k`, a diagonal or a band, as numbers of the lower and the upper diagonal."""
    ks = static_ints(k, "k")
    if len(ks) not in (1, 2):
        raise GraphError(
            "k names one diagonal, or the lower and the upper one of a band",
            wanted="one integer or two",
            got=ks,
            hint="0 is the main diagonal",
        )
    return ks[0], ks[-1]


def as_padding(value: Any) -> Any:
    """Return the argument `padding_value`; raise GraphError for tensors and arrays."""
    if as_symbolic(value) or np.ndim(value):
        raise GraphError(
            "padding_value has to be a number known while the graph is built",
            wanted="a number of Python",
            got=repr(value),
            hint="leave it 0 and add what is to stand there",
        )
    return value

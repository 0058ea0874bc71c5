"""Rows of a batch, sorted by length and run in blocks: loops continue without blocks that have ended.

For evenly spread lengths, half of the rows' steps are beyond the rows' ends. Shapes in a native loop may not change
between iterations, so each number of remaining blocks has a loop of its own. The number of rows of each loop is
static; only the number of its steps depends on the lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..frontend.functions.custom_gradient import custom_gradient
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from ..ops.array.gather import gather
from ..ops.array.padding import pad
from ..ops.array.sorting import argsort
from ..ops.math.arithmetic import maximum, minimum

_MOST_BLOCKS = 4  # 8 would save another sixteenth of the computation, in a graph twice as large
_LEAST_ROWS = 16  # of a block


def choose_block_count(size: int | None) -> int:
    """Return the default number of blocks for a batch of `size` rows."""
    return 1 if size is None else max(1, min(_MOST_BLOCKS, size // _LEAST_ROWS))


class RowBlocks:
    """Blocks of about equally many rows, longest rows first; loop k runs without the last k blocks.

    So loop 0 has all rows, and ends with the longest row of the last block; loop 1 continues without this block.

    Parameters
    ----------
    lengths : int Tensor of shape [size]
        Number of steps of each row.
    size : int
        Number of rows of the batch.
    count : int
        Number of blocks.
    steps : int or int scalar Tensor
        Number of steps of the inputs.

    Attributes
    ----------
    order, places : int Tensor of shape [size]
        Numbers of the rows by descending length, and the inverse permutation.
    lengths : int Tensor of shape [size]
        Descending.
    starts, ends, durations : list
        For each loop its first step, the step after its last, and their difference, as scalars.
    """

    def __init__(self, lengths: Any, size: int, count: int, steps: Any) -> None:
        self.size: int = size
        self.count: int = count
        self.steps: Any = steps
        # Lengths out of range would make the slices of `split_by_loop` wrong.
        lengths = maximum(minimum(lengths, steps), 0)
        self.order: Tensor = argsort(lengths, direction="DESCENDING")
        self.places: Tensor = argsort(self.order)
        self.lengths: Tensor = gather(lengths, self.order)
        # Loop k ends with the longest row of the block that it drops: the first row after the kept ones.
        self.ends: list[Tensor] = [self.lengths[self.rows_kept(k)] for k in range(count)]
        self.starts = [0, *self.ends[:-1]]
        self.durations = [end - start for start, end in zip(self.starts, self.ends, strict=True)]

    def rows_kept(self, k: int) -> int:
        """Return the number of rows that remain after loop k; all rows for k = -1."""
        return (self.count - 1 - k) * self.size // self.count

    def lengths_left(self, k: int) -> Tensor:
        """Return the lengths of the rows of loop k that remain at its beginning."""
        return self.lengths[: self.rows_kept(k - 1)] - self.starts[k]

    def sort_rows(self, x: Any, axis: int) -> Any:
        """Return a tensor of the batch with its rows, along `axis`, sorted by length."""
        return _permute_rows(x, self.order, self.places, axis)

    def unsort_rows(self, x: Any, axis: int) -> Any:
        """Return a tensor of sorted rows, along `axis`, in the order of the batch."""
        return _permute_rows(x, self.places, self.order, axis)

    def split_by_loop(self, x: Tensor) -> list[Tensor]:
        """Return the part of inputs, [time, batch, ...], that each loop reads: its steps and rows."""

        def slice_parts(inputs: Tensor) -> list[Tensor]:
            spans = zip(self.starts, self.ends, strict=True)
            return [inputs[start:end, : self.rows_kept(k - 1)] for k, (start, end) in enumerate(spans)]

        if not x.dtype.is_floating:
            return slice_parts(x)
        # The gradient of separate slices would add up whole arrays of zeros; `join_parts` writes each element once.
        parts: list[Tensor] = _with_adjoint(slice_parts, lambda *dys: self.join_parts(list(dys)))(x)
        return parts

    def join_parts(self, parts: list[Tensor]) -> Tensor:
        """Return the tensor, [time, batch, ...], that has the parts of `split_by_loop`, and zeros elsewhere."""
        parts_with_all_rows = [
            pad(part, [[0, 0], [0, self.size - self.rows_kept(k - 1)], *_empty_paddings(part)])
            for k, part in enumerate(parts)
        ]
        # Parts are consecutive in time: each lacks the dropped rows, all together the steps after the longest row.
        steps_after = self.steps - self.ends[-1]
        joined: Tensor = pad(concat(parts_with_all_rows, 0), [[0, steps_after], [0, 0], *_empty_paddings(parts[0])])
        # Slices at computed positions have no static sizes, but their sum is known.
        joined.set_shape([self.steps if isinstance(self.steps, int) else None, self.size, *parts[0].shape[2:]])
        return joined


def _empty_paddings(part: Tensor) -> list[list[int]]:
    """Return pairs of zeros for the dimensions after time and batch; none if the rank is unknown."""
    return [[0, 0]] * ((part.rank or 2) - 2)


def _with_adjoint(function: Callable[..., Any], adjoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return a linear function with `adjoint` as its gradient, whose gradient in turn is the function."""

    @custom_gradient
    def apply_function(*xs: Any) -> Any:
        return function(*xs), _with_adjoint(adjoint, function)

    return apply_function


def _permute_rows(x: Any, order: Tensor, inverse: Tensor, axis: int) -> Any:
    """Return rows in another order; the gradient is a gather in the inverse order, without a scatter-add."""
    if not x.dtype.is_floating:
        return gather(x, order, axis=axis)
    return _with_adjoint(lambda x: gather(x, order, axis=axis), lambda g: gather(g, inverse, axis=axis))(x)

"""Rows of a batch, sorted by length and run in blocks: the loop goes on without a block that has ended.

A batch whose lengths are spread evenly takes half of the steps of its longest row, if no row is computed behind its
end. Shapes in a native loop may not change from iteration to iteration, so there is a loop for each number of blocks
that are left. Of how many rows it is does not depend on the lengths; when it ends does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..frontend.custom_gradient import custom_gradient
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from ..ops.array.gather import gather
from ..ops.array.padding import pad
from ..ops.array.sorting import argsort
from ..ops.math.arithmetic import maximum, minimum

_MOST = 4  # blocks: with twice as many a sixteenth part less would be computed, in a graph twice as large
_ROWS = 16  # of a block, at least


def sensible(size: int | None) -> int:
    """Return the number of blocks for a batch."""
    return 1 if size is None else max(1, min(_MOST, size // _ROWS))


class RowBlocks:
    """Blocks of about equally many rows, the longest first; loop number k is without the last k of them.

    Attributes
    ----------
    durations : list of Tensor
        Steps of each loop.
    """

    def __init__(self, lengths: Any, size: int, count: int, steps: Any) -> None:
        self.size: int = size
        self.count: int = count
        self.steps: Any = steps
        lengths = maximum(minimum(lengths, steps), 0)
        self.order: Tensor = argsort(lengths, direction="DESCENDING")
        self.places: Tensor = argsort(self.order)
        self.lengths: Tensor = gather(lengths, self.order)
        self.ends: list[Tensor] = [self.lengths[self.kept(k)] for k in range(count)]
        self.starts = [0, *self.ends[:-1]]
        self.durations = [end - start for start, end in zip(self.starts, self.ends, strict=True)]

    def kept(self, k: int) -> int:
        """Return how many rows are left behind loop number k; behind loop number -1, which is none, all."""
        return (self.count - 1 - k) * self.size // self.count

    def left(self, k: int) -> Tensor:
        """Return the lengths that rows of loop number k have from there on."""
        return self.lengths[: self.kept(k - 1)] - self.starts[k]

    def sorted(self, x: Any, axis: int) -> Any:
        """Return what has rows in the order of the batch with rows in the order of their lengths."""
        return _permuted(x, self.order, self.places, axis)

    def unsorted(self, x: Any, axis: int) -> Any:
        """Return what `sorted` was given."""
        return _permuted(x, self.places, self.order, axis)

    def parts(self, x: Tensor) -> list[Tensor]:
        """Return what the loops read of inputs, [time, batch, ...]: some steps of some rows."""

        def cut(x: Tensor) -> list[Tensor]:
            stops = zip(self.starts, self.ends, strict=True)
            return [x[start:end, : self.kept(k - 1)] for k, (start, end) in enumerate(stops)]

        return cut(x) if not x.dtype.is_floating else _adjoint(cut, lambda *dys: self.joined(list(dys)))(x)

    def joined(self, parts: list[Tensor]) -> Tensor:
        """Return what has such parts, and is zero elsewhere."""
        whole = [pad(part, [[0, 0], [0, self.size - self.kept(k - 1)], *_none(part)]) for k, part in enumerate(parts)]
        made: Tensor = pad(concat(whole, 0), [[0, self.steps - self.ends[-1]], [0, 0], *_none(parts[0])])
        made.set_shape([self.steps if isinstance(self.steps, int) else None, self.size, *parts[0].shape[2:]])
        return made


def _none(part: Tensor) -> list[list[int]]:
    return [[0, 0]] * ((part.rank or 2) - 2)


def _adjoint(function: Callable[..., Any], adjoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return a linear function whose gradient is its adjoint, whose gradient is the function."""

    @custom_gradient
    def forward(*xs: Any) -> Any:
        return function(*xs), _adjoint(adjoint, function)

    return forward


def _permuted(x: Any, order: Tensor, inverse: Tensor, axis: int) -> Any:
    """Return rows in another order; the gradient has them in the inverse one, and adds up nothing."""
    if not x.dtype.is_floating:
        return gather(x, order, axis=axis)
    return _adjoint(lambda x: gather(x, order, axis=axis), lambda g: gather(g, inverse, axis=axis))(x)

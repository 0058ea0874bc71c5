"""Kernels of the operations on rows: softmax, its logarithm, and the cross-entropies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .launching import WIDEST, contiguous, count, find_function, over_rows, source
from .registry import register

Kernel = Callable[..., Any]
NAMES = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "SoftmaxCrossEntropyWithLogits": "cross_entropy"}


class RowKernel:
    """A kernel that goes along the last dimension.

    Parameters
    ----------
    xp : module
        An array library that compiles CUDA C.
    name : str
        Of the kernel, in ``rows.cu``.
    dtype : dtype
        Of all arrays.
    axis : int
        Where the operation goes along.
    otherwise : callable
        The kernel for other axes, for rows that are too wide for one block, and for nothing at all.
    """

    takes_scalars = False
    on_host: frozenset[int] | None = None

    def __init__(self, xp: Any, name: str, dtype: np.dtype[Any], axis: int, otherwise: Kernel) -> None:
        self._xp, self._name, self._dtype, self._axis, self._otherwise = xp, name, dtype, axis, otherwise

    def __call__(self, *arrays: Any) -> Any:
        """Return the result.

        Parameters
        ----------
        *arrays : array of the library
            Of one shape.
        """
        shape = arrays[0].shape
        is_last = self._axis in (-1, len(shape) - 1)
        if not (is_last and _has_rows(arrays[0])) or any(x.shape != shape for x in arrays):
            return self._otherwise(*arrays)
        made = self._xp.empty(shape[:-1] if self._name == "cross_entropy" else shape, self._dtype)
        launch(self._xp, self._name, arrays, [made], self._dtype)
        return made


class SparseKernel:
    """The cross-entropy of class numbers, which are checked where they are used; the host waits for that.

    Parameters
    ----------
    xp, dtype
        As of `RowKernel`.
    otherwise : callable
        The kernel for what `RowKernel` leaves to it too, and for labels that are wrong: it says so.
    """

    takes_scalars = False
    on_host: frozenset[int] | None = None

    def __init__(self, xp: Any, dtype: np.dtype[Any], otherwise: Kernel) -> None:
        self._xp, self._dtype, self._otherwise = xp, dtype, otherwise

    def __call__(self, labels: Any, logits: Any) -> Any:
        """Return the loss of each row of `logits`."""
        if not _has_rows(logits) or labels.shape != logits.shape[:-1]:
            return self._otherwise(labels, logits)
        loss, wrong = self._xp.empty(labels.shape, self._dtype), self._xp.zeros((), np.int32)
        launch(self._xp, f"sparse_{labels.dtype}", [labels, logits], [loss, wrong], self._dtype)
        return self._otherwise(labels, logits) if int(wrong) else loss


def _has_rows(x: Any) -> bool:
    return bool(x.ndim and x.size and x.shape[-1] <= WIDEST)


def launch(xp: Any, name: str, arrays: Sequence[Any], made: Sequence[Any], dtype: np.dtype[Any]) -> None:
    """Run a kernel of ``rows.cu`` over the rows of the last of its inputs."""
    size, width = arrays[-1].size, arrays[-1].shape[-1]
    rows = size // width
    grid = over_rows(rows, width)
    function = find_function(xp, source("rows.cu"), name, dtype, size, grid)
    function(*grid, (count(rows, size), count(width, size), *contiguous(xp, arrays), *made))


@register(*NAMES)
def _find_rows(xp: Any, type: str, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Kernel) -> RowKernel:
    """Return the kernel of a softmax or of a cross-entropy of probabilities."""
    return RowKernel(xp, NAMES[type], dtype, attrs["axis"], otherwise)


@register("SparseSoftmaxCrossEntropyWithLogits")
def _find_sparse(xp: Any, type: str, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Kernel) -> SparseKernel:
    """Return the kernel of the cross-entropy of class numbers."""
    return SparseKernel(xp, dtype, otherwise)

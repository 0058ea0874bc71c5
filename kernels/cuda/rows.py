"""Kernels of row operations: softmax, its logarithm, and cross-entropies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .launching import WIDEST, as_index, find_function, make_contiguous, over_rows, read_source
from .registry import register

Kernel = Callable[..., Any]
NAMES = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "SoftmaxCrossEntropyWithLogits": "cross_entropy"}


class RowKernel:
    """A kernel along the last dimension.

    Parameters
    ----------
    xp : module
        An array library that compiles CUDA C.
    name : str
        Name of the kernel, in ``rows.cu``.
    dtype : dtype
        Dtype of all arrays.
    axis : int
        Axis of the operation.
    otherwise : callable
        The kernel for other axes, rows too wide for a block, and empty arrays.
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
            Arrays of equal shape.
        """
        shape = arrays[0].shape
        # checked at each call, since the rank may be unknown before
        is_last = self._axis in (-1, len(shape) - 1)
        if not (is_last and _has_rows(arrays[0])) or any(x.shape != shape for x in arrays):
            return self._otherwise(*arrays)
        made = self._xp.empty(shape[:-1] if self._name == "cross_entropy" else shape, self._dtype)
        launch_row_kernel(self._xp, self._name, arrays, [made], self._dtype)
        return made


class SparseKernel:
    """The cross-entropy of class numbers, checked on the device; the host waits for the result of the check.

    Parameters
    ----------
    xp, dtype
        As for `RowKernel`.
    otherwise : callable
        The kernel for the exceptions of `RowKernel`, and for wrong labels, about which it raises the error.
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
        launch_row_kernel(self._xp, f"sparse_{labels.dtype}", [labels, logits], [loss, wrong], self._dtype)
        # int() waits for the device
        return self._otherwise(labels, logits) if int(wrong) else loss


def _has_rows(x: Any) -> bool:
    return bool(x.ndim and x.size and x.shape[-1] <= WIDEST)


def launch_row_kernel(xp: Any, name: str, arrays: Sequence[Any], made: Sequence[Any], dtype: np.dtype[Any]) -> None:
    """Run a kernel of ``rows.cu`` over the rows of its last input."""
    size, width = arrays[-1].size, arrays[-1].shape[-1]
    rows = size // width
    grid = over_rows(rows, width)
    function = find_function(xp, read_source("rows.cu"), name, dtype, size, grid)
    function(*grid, (as_index(rows, size), as_index(width, size), *make_contiguous(xp, arrays), *made))


@register(*NAMES)
def _find_rows(xp: Any, type: str, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Kernel) -> RowKernel:
    """Return the kernel of a softmax, or of a cross-entropy of probabilities."""
    return RowKernel(xp, NAMES[type], dtype, attrs["axis"], otherwise)


@register("SparseSoftmaxCrossEntropyWithLogits")
def _find_sparse(xp: Any, type: str, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Kernel) -> SparseKernel:
    """Return the kernel of the cross-entropy of class numbers."""
    return SparseKernel(xp, dtype, otherwise)

"""NumPy's Fourier transforms for arrays that are traced."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .arrays import handles
from .interface import Operand, Untraceable
from .linalg import apply_gufunc

_UFUNCS = import_module("numpy.fft._pocketfft_umath")


def _transform(name: str, x: Operand, axis: int, size: int, scale: int = 1) -> Any:
    """Append a transform along an axis to an array of another size there, multiplied by ``1 / scale``."""
    ufunc = getattr(_UFUNCS, name, None)
    if ufunc is None or x.dtype.char not in "fdFD" or not x.size or not size:
        raise Untraceable
    moved = np.moveaxis(x, axis, -1)
    real = moved.real.dtype if x.dtype.kind == "c" else x.dtype
    dtype = real if name == "irfft" else np.result_type(real, 1j)
    made = np.empty((*moved.shape[:-1], size), dtype)
    # NumPy computes in the precision that the ufunc takes for these, and for the number 1 that is float64.
    dtypes = ufunc.resolve_dtypes((x.dtype, int if scale == 1 else real, dtype))
    factor = np.asarray(1 if scale == 1 else np.reciprocal(scale, dtype=real), dtypes[1])
    found: Any = apply_gufunc(ufunc, [moved.astype(dtypes[0], copy=False), factor], [made.astype(dtypes[2])])[0]
    return np.moveaxis(found.astype(dtype, copy=False), -1, axis)


def _transform_all(name: str, x: Operand, axes: Sequence[int]) -> Any:
    for axis in reversed(axes):
        x = _transform(name, x, axis, x.shape[axis], x.shape[axis] if name == "ifft" else 1)
    return x


@handles(np.fft.fftn)
def _transform_complex(x: Operand, s: Any = None, axes: Any = None) -> Any:
    _check(s, axes)
    return _transform_all("fft", x, axes)


@handles(np.fft.ifftn)
def _invert_complex(x: Operand, s: Any = None, axes: Any = None) -> Any:
    _check(s, axes)
    return _transform_all("ifft", x, axes)


@handles(np.fft.rfftn)
def _transform_real(x: Operand, s: Any = None, axes: Any = None) -> Any:
    _check(s, axes)
    size = x.shape[axes[-1]]
    y = _transform("rfft_n_odd" if size % 2 else "rfft_n_even", x, axes[-1], size // 2 + 1)
    return _transform_all("fft", y, axes[:-1])


@handles(np.fft.irfftn)
def _invert_real(x: Operand, s: Any = None, axes: Any = None) -> Any:
    """Append the inverse of `rfftn`; `s` has the sizes of the result."""
    if s is None or axes is None or tuple(s[:-1]) != tuple(x.shape[axis] for axis in axes[:-1]):
        raise Untraceable
    y = x
    for axis in axes[:-1]:  # NumPy transforms the axes in this order here
        y = _transform("ifft", y, axis, y.shape[axis], y.shape[axis])
    return _transform("irfft", y, axes[-1], s[-1], s[-1])


def _check(s: Any, axes: Any) -> None:
    """Refuse transforms that cut or fill axes."""
    if s is not None or axes is None:
        raise Untraceable

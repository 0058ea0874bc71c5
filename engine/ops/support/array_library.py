"""Functions in which CuPy differs from NumPy, for kernels written once for both."""

from __future__ import annotations

import importlib
import math
from functools import cache
from typing import Any

import numpy as np

from ...base.array_libraries import is_numpy
from .interpreter import give_way

_PIECE = 1 << 16  # elements added without a break for other threads, which takes a fraction of a millisecond


def special_function(xp: Any, function: str) -> Any:
    """Return a function of ``scipy.special``, or of CuPy's own version of the module."""
    return getattr(_import_outside("scipy.special" if is_numpy(xp) else "cupyx.scipy.special"), function)


def scipy_linalg() -> Any:
    """Return the module ``scipy.linalg``, with its BLAS limited to as many threads as matrix products use."""
    from ...kernels.cpu.blas import load_blas  # with all kernels in C, which a graph does without

    load_blas()
    return _import_outside("scipy.linalg")


@cache
def _import_outside(module: str) -> Any:
    """Import a module for a kernel; arrays kept by the module are not allocated in the memory of the kernel's step."""
    from ...kernels.memory.contexts import outside

    return outside(importlib.import_module, module)


def cast_to_accumulator(xp: Any, x: Any) -> Any:
    """Return a two-byte float array as float32, in which its sums are computed; other arrays unchanged."""
    return x.astype(xp.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def by_special(function: str) -> Any:
    """Return the kernel of a function of ``scipy.special``; two-byte floats are computed in float32."""

    def compute_special(xp: Any, *operands: Any) -> Any:
        return special_function(xp, function)(*(cast_to_accumulator(xp, x) for x in operands))

    return compute_special


def compute_signs(xp: Any, x: Any) -> Any:
    """Return the sign, ``x / abs(x)`` for complex numbers: CuPy's `sign` uses the real part only."""
    if x.dtype.kind != "c":
        return xp.sign(x)
    size = xp.absolute(x)
    return x / xp.where(size == 0, xp.ones((), size.dtype), size)


def compute_power(xp: Any, x: Any, y: Any) -> Any:
    """Return ``x ** y``; ValueError, as in NumPy, for integers to a negative power: CuPy's result is arbitrary."""
    if y.dtype.kind == "i" and y.size and xp.min(y) < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    return xp.power(x, y)


def shifted_left(xp: Any, x: Any, y: Any) -> Any:
    """Return ``x << y``, 0 where all bits are shifted out: the result of a GPU is undefined there."""
    keeps_bits = _keeps_bits(y)
    shifted = xp.left_shift(x, xp.where(keeps_bits, y, xp.zeros((), y.dtype)))
    return xp.where(keeps_bits, shifted, xp.zeros((), x.dtype))


def shifted_right(xp: Any, x: Any, y: Any) -> Any:
    """Return ``x >> y``, 0 or -1 where all bits are shifted out: the result of a GPU is undefined there."""
    keeps_bits = _keeps_bits(y)
    shifted = xp.right_shift(x, xp.where(keeps_bits, y, xp.zeros((), y.dtype)))
    sign_bits = xp.where(x < 0, ~xp.zeros((), x.dtype), xp.zeros((), x.dtype))  # -1 or 0
    return xp.where(keeps_bits, shifted, sign_bits)


def _keeps_bits(y: Any) -> Any:
    """Return True where a shift by `y` places leaves some of the bits of an integer of the same dtype."""
    return (y >= 0) & (y < 8 * y.dtype.itemsize)


def add_rows(xp: Any, count: int, rows: Any, updates: Any) -> Any:
    """Sum updates[i] into row rows[i] of a zero array of `count` rows; flat, for the fast path of add.at."""
    width = updates.shape[-1]
    added = cast_to_accumulator(xp, updates)
    out = xp.zeros(count * width, dtype=added.dtype)
    places = (rows.astype(xp.intp).reshape(-1, 1) * width + xp.arange(width)).reshape(-1)
    add_at(xp, out, places, added.reshape(-1))
    return out.astype(updates.dtype, copy=False)


def add_at(xp: Any, out: Any, places: Any, updates: Any, function: str = "add") -> None:
    """Add updates to rows by index, or subtract them; updates of equal indices accumulate.

    Parameters
    ----------
    xp : module
        NumPy, or CuPy.
    out : array of shape [n, ...]
        Of any numeric dtype.
    places : integer array
        Indices of rows of `out`.
    updates : array of shape ``places.shape + out.shape[1:]``, or broadcastable to it
        Of the same dtype.
    function : {'add', 'subtract'}
    """
    if not is_numpy(xp) and out.dtype.kind == "c":
        # CuPy has no atomic addition of complex numbers; the parts are views, so that `out` is written.
        add_at(xp, out.real, places, updates.real, function)
        add_at(xp, out.imag, places, updates.imag, function)
    elif not is_numpy(xp) and out.dtype.kind in "iu" and out.dtype.itemsize != 4:
        _add_integers(xp, out, places, updates, function)
    elif not is_numpy(xp) or places.ndim == 0:
        getattr(xp, function).at(out, places, updates)
    else:
        _add_in_pieces(out, places, updates, getattr(xp, function))


def _add_in_pieces(out: Any, places: Any, updates: Any, function: np.ufunc) -> None:
    """Add pieces of rows, and yield to other threads between pieces: `ufunc.at` keeps the interpreter lock."""
    # Elements changed by the indices in one row of `places`.
    row_size = math.prod(places.shape[1:]) * math.prod(out.shape[1:])
    rows_per_piece = max(1, _PIECE // max(1, row_size))
    # Updates that are broadcast along the rows of `places` are not cut.
    has_all_rows = np.ndim(updates) == places.ndim + out.ndim - 1 and len(updates) == len(places)
    for start in range(0, len(places), rows_per_piece):
        if start:
            give_way()
        piece = slice(start, start + rows_per_piece)
        function.at(out, places[piece], updates[piece] if has_all_rows else updates)


def _add_integers(xp: Any, out: Any, places: Any, updates: Any, function: str) -> None:
    """Add integers of a width without atomic addition on GPUs as uint64: modulo 2^64 the sums are the same."""
    total = out.astype(xp.uint64)
    getattr(xp, function).at(total, places, updates.astype(xp.uint64))
    out[...] = total.astype(out.dtype)


def last_writers(xp: Any, places: Any, count: int) -> Any:
    """Return, for each of `count` places, the position of its last occurrence in `places`, -1 if absent.

    Of several assignments to a place NumPy keeps the last; a GPU may keep any.
    """
    if is_numpy(xp):
        last = xp.full(count, -1)
        last[places] = np.arange(places.size)
        return last
    last = xp.zeros(count, dtype=xp.uint64)  # positions counted from 1; 0 means none
    xp.maximum.at(last, places, xp.arange(1, places.size + 1, dtype=xp.uint64))
    return last.astype(xp.intp) - 1

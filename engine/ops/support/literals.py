"""Short constructors of the arrays in samples."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def f32(values: Any) -> Array:
    """Return a float32 array."""
    return np.asarray(values, np.float32)


def f64(values: Any) -> Array:
    """Return a float64 array."""
    return np.asarray(values, np.float64)


def c128(values: Any) -> Array:
    """Return a complex128 array."""
    return np.asarray(values, np.complex128)


def i32(values: Any) -> Array:
    """Return an int32 array."""
    return np.asarray(values, np.int32)


def i64(values: Any) -> Array:
    """Return an int64 array."""
    return np.asarray(values, np.int64)


def flags(values: Any) -> Array:
    """Return a bool array."""
    return np.asarray(values, np.bool_)

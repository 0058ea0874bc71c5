"""A second kernel of an existing operation: sums of float32 that are rounded once."""

import math

import numpy as np
from tagloom import operations

CALLS = []  # shapes of the summed arrays


def sum_exactly(xp, x, axis, keepdims):
    """Return the sums over axes, each rounded once."""
    CALLS.append(x.shape)
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in axis)
    rest = [a for a in range(x.ndim) if a not in axes]
    shape = tuple(1 if a in axes else x.shape[a] for a in range(x.ndim) if keepdims or a not in axes)
    rows = x.transpose([*rest, *axes]).reshape(math.prod(x.shape[a] for a in rest), -1)
    return np.array([math.fsum(row.tolist()) for row in rows], np.float32).reshape(shape)


def install():
    """Register the kernel; the registration's `unregister` takes it back."""
    return operations.register_kernel("Sum", sum_exactly, dtype="float32", device_kind="cpu")

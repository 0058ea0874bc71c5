"""The kernels of the accelerator, with a count of their calls."""

from collections import Counter

import numpy as np

from .arrays import inside, made

CALLS = Counter()


def matmul(xp, a, b, transpose_a, transpose_b):
    """Multiply matrices."""
    CALLS["MatMul"] += 1
    a, b = inside(a), inside(b)
    return made((a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b))


def add(xp, x, y):
    """Add arrays."""
    CALLS["Add"] += 1
    return made(inside(x) + inside(y))


def tanh(xp, x):
    """Return the hyperbolic tangent."""
    CALLS["Tanh"] += 1
    return made(np.tanh(inside(x)))

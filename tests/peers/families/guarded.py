"""Arithmetic that is guarded or cut off, and polynomials."""

import numpy as np

from tests.peers.calls import Call, family


def _pair(random, kind):
    shape = tuple(map(int, random.integers(1, 4, random.integers(0, 3))))
    if kind == "f":
        return [random.standard_normal(shape).astype(random.choice(["float32", "float64"])) for _ in range(2)]
    x, y = random.integers(-9, 10, shape), random.integers(1, 6, shape) * random.choice([-1, 1], shape)
    return [each.astype(np.int32) for each in (x, y)]


NAMES = [
    "truncatediv",
    "truncatemod",
    "multiply_no_nan",
    "reciprocal_no_nan",
    "polyval",
    "nextafter",
    "clip_by_value",
]


@family
def guarded(random):
    """Draw a call of such a function."""
    name = str(random.choice(NAMES))
    if name.startswith("truncate"):
        # Of floating numbers a remainder is C's there only on some devices.
        x, y = _pair(random, "i" if name == "truncatediv" or random.random() < 0.5 else "f")
        return Call(name, [x, y.astype(x.dtype)], differentiable=False)
    x, y = _pair(random, "f")
    y = y.astype(x.dtype)
    if name == "multiply_no_nan":
        y = np.where(random.random(y.shape) < 0.4, 0, y).astype(y.dtype)
        bad = random.random(y.shape) < 0.3
        x = np.where(bad & (y == 0), np.array(np.inf, x.dtype), x)
        return Call(name, [x, y], theirs="math.multiply_no_nan", differentiable=not bad.any())
    if name == "reciprocal_no_nan":
        x = np.where(random.random(x.shape) < 0.3, 0, x).astype(x.dtype)
        return Call(name, [x], theirs="math.reciprocal_no_nan")
    if name == "polyval":
        factors = [float(c) for c in random.standard_normal(random.integers(0, 4))]
        # TensorFlow makes float32 of numbers, whatever `x` is.
        return Call(name, [factors, x.astype(np.float32)], theirs="math.polyval")
    if name == "nextafter":
        return Call(name, [x, y], theirs="math.nextafter", differentiable=False, tolerance=0.0)
    low, high = sorted(map(float, random.standard_normal(2)))
    return Call(name, [x, low, high])

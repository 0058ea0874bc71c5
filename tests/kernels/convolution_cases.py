"""Random convolutions, with their gradients."""

import numpy as np


def geometry(rng, most=4):
    """Draw the shapes of images, filters and a result, and the attributes of a convolution."""
    rank = int(rng.integers(1, 4))
    window, strides, dilations = ([int(n) for n in rng.integers(1, 4, rank)] for _ in range(3))
    padding = rng.choice(["SAME", "VALID", "pairs"])
    pairs = tuple((int(a), int(b)) for a, b in rng.integers(0, 4, (rank, 2)))
    if padding != "pairs":
        pairs = ((0, 0),) * rank
    lengths = [(k - 1) * d + 1 for k, d in zip(window, dilations)]
    sizes = [max(1, n - a - b) + int(m) for n, (a, b), m in zip(lengths, pairs, rng.integers(0, 9, rank))]
    groups = int(rng.choice([1, 1, 1, 2, 5]))
    inner, outer = (int(n) for n in rng.choice([1, 2, 3, 7], 2))
    if rng.random() < 0.2:
        outer = int(rng.choice([16, 33, 70]))
    if rng.random() < 0.2:
        groups, inner, outer = int(rng.choice([17, 64, 70])), 1, int(rng.choice([1, 1, 2]))
    images = (int(rng.integers(1, most)), *sizes, groups * inner)
    filters = (*window, inner, groups * outer)
    count = [
        -(-n // s) if padding == "SAME" else (n + a + b - length) // s + 1
        for n, s, length, (a, b) in zip(sizes, strides, lengths, pairs)
    ]
    attrs = {
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "padding": pairs if padding == "pairs" else str(padding),
    }
    return images, filters, (images[0], *count, groups * outer), attrs


def drawer(type):
    """Return what draws the inputs and attributes of one of the operations."""

    def draw(rng):
        images, filters, result, attrs = geometry(rng)
        dtype = rng.choice(["float32", "float64"])
        x, w, g = (rng.standard_normal(shape).astype(dtype) for shape in (images, filters, result))
        kind = rng.choice(["int32", "int64"])
        if type == "ConvBias":
            return [x, w, rng.standard_normal(filters[-1]).astype(dtype)], {**attrs, "relu": bool(rng.integers(2))}
        if type == "Conv":
            return [x, w], attrs
        if type == "ConvInputGradMasked":
            return [np.asarray(images, kind), w, g, x], attrs
        if type == "ConvInputGrad":
            return [np.asarray(images, kind), w, g], attrs
        return [x, np.asarray(filters, kind), g], attrs

    return draw

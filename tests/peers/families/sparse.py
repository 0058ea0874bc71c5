"""Sparse tensors: given as three arrays, results as three tensors, so that both libraries build the same call."""

import numpy as np

from tests.peers.calls import Call, family


def places(random, shape, fraction=0.5):
    """Return the places of some elements of a shape, in the order of rows: one at least."""
    chosen = random.random(shape) < fraction
    chosen.flat[random.integers(chosen.size)] = True
    return np.argwhere(chosen)


def numbers(random, count):
    """Return so many numbers in float32, of which no two are equal."""
    return (random.permutation(count) - count / 2 + random.random(count) / 2).astype(np.float32)


def sparse(random, shape):
    """Return the indices, values and shape of a random sparse tensor."""
    indices = places(random, shape)
    return [indices, numbers(random, len(indices)), np.int64(shape)]


def dims(random, low, high):
    """Return random dimensions, so many as between two ranks."""
    return tuple(int(d) for d in random.integers(1, 5, random.integers(low, high)))


def call(name, parts, *rest, back=True, **keywords):
    """Return a call of a function whose first arguments are sparse tensors: see `tests.peers.calls.sparse_call`."""
    return Call(f"sparse_call:{name}", [len(parts), *(array for part in parts for array in part), *rest], keywords,
                differentiable=back)

"""Pooling of one to three dimensions, and normalization by channels near by."""

import numpy as np

from tests.peers.calls import Call, family


def image(random, rank, least=3, most=8):
    """Return a batch of images of so many spatial dimensions; some with equal elements."""
    shape = (*random.integers(1, 3, 1), *random.integers(least, most, rank), *random.integers(1, 4, 1))
    x = random.standard_normal(shape)
    return (np.round(x * 2) if random.random() < 0.25 else x).astype(np.float32)


def sizes(random, rank, most):
    """Return a number for each spatial dimension, as TensorFlow 1 wants them."""
    return [1, *(int(n) for n in random.integers(1, most + 1, rank)), 1]


def padding(random):
    """Return how to pad."""
    return str(random.choice(["SAME", "VALID"]))


def _pools(random, rank):
    name = str(random.choice(["max", "avg"])) + "_pool" + {1: "1d", 2: "", 3: "3d"}[rank]
    x = random.standard_normal(image(random, rank).shape).astype(np.float32) if rank == 3 else image(random, rank)
    window, strides = sizes(random, rank, 3), sizes(random, rank, 3)
    if rank == 3:  # where steps are longer than windows, TensorFlow's own kernels, without oneDNN, begin in the middle
        strides = [min(pair) for pair in zip(strides, window)]
    return Call(name, [x, window, strides, padding(random)], theirs=f"nn.{name}")


def _with_argmax(random):
    x = image(random, 2)
    arguments = [x, sizes(random, 2, 3), sizes(random, 2, 3), padding(random)]
    batch = bool(random.random() < 0.5)
    return Call("max_pool_with_argmax", arguments, {"include_batch_in_index": batch}, theirs="nn.max_pool_with_argmax")


def _pool(random):
    rank = int(random.integers(1, 4))
    x = random.standard_normal(image(random, rank, 5).shape).astype(np.float32)
    window = [int(n) for n in random.integers(1, 4, rank)]
    others = [int(random.integers(1, size + 1)) for size in window]
    kind = str(random.choice(["MAX", "AVG"]))
    if random.random() < 0.5:  # padding is 0 to TensorFlow where windows have gaps
        return Call(
            "pool",
            [x, window, kind, "VALID"],
            {"dilation_rate": [int(n) for n in random.integers(1, 3, rank)]},
            theirs="nn.pool",
        )
    return Call("pool", [x, window, kind, padding(random)], {"strides": others}, theirs="nn.pool")


def _lrn(random):
    numbers = {
        "depth_radius": int(random.integers(0, 4)),
        "bias": float(random.uniform(0.5, 2)),
        "alpha": float(random.uniform(0.1, 1)),
        "beta": float(random.uniform(0.3, 1)),
    }
    shape = (*random.integers(1, 4, 3), *random.integers(1, 9, 1))
    return Call("lrn", [random.standard_normal(shape).astype(np.float32)], numbers, theirs="nn.lrn")


@family
def pooling(random):
    """Draw a call of a function that pools."""
    kinds = [lambda r: _pools(r, 1), lambda r: _pools(r, 2), lambda r: _pools(r, 3), _with_argmax, _pool, _lrn]
    return kinds[int(random.integers(len(kinds)))](random)

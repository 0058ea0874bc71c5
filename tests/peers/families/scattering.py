"""Elements and blocks replaced, added and compared at index vectors."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

TENSORS = ("update", "add", "sub", "nd_max", "nd_min")


def vectors(random, shape, depth, repeats):
    """Return index vectors into the first dimensions of a shape, each different where they may not be repeated."""
    places = int(np.prod(shape[:depth]))
    count = int(random.integers(1, 6)) if repeats else int(random.integers(1, places + 1))
    flat = random.integers(0, places, count) if repeats else random.permutation(places)[:count]
    kind = random.choice([np.int32, np.int64])
    return np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(kind)


def into_a_tensor(random):
    """Draw a call that gives a changed tensor."""
    name = str(random.choice(TENSORS))
    shape = dims(random, random.integers(1, 4))
    depth = int(random.integers(1, len(shape) + 1))
    repeats = name in ("add", "sub")
    indices = vectors(random, shape, depth, repeats)
    updates = floats(random, (len(indices), *shape[depth:]))
    if random.random() < 0.3:
        indices, updates = indices[None], updates[None]
    return Call(f"tensor_scatter_{name}", [floats(random, shape), indices, updates])


def dealt(random):
    """Draw a call that deals rows out to parts."""
    shape = dims(random, random.integers(1, 4))
    lead = shape[: random.integers(1, len(shape) + 1)]
    parts = int(random.integers(1, 4))
    return Call("dynamic_partition", [floats(random, shape), random.integers(0, parts, lead).astype(np.int32), parts])


def stitched(random):
    """Draw a call that puts rows together."""
    row = dims(random, random.integers(0, 3))
    sizes = [int(n) for n in random.integers(1, 4, random.integers(1, 4))]
    places = random.permutation(sum(sizes)).astype(np.int32)
    cuts = np.cumsum(sizes)[:-1]
    return Call("dynamic_stitch", [np.split(places, cuts), [floats(random, (n, *row)) for n in sizes]])


@family
def scattering(random):
    """Draw a call of one kind."""
    return (into_a_tensor, into_a_tensor, dealt, stitched)[random.integers(4)](random)

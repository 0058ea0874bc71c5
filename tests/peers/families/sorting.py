"""Order along axes, counts, values without repetition, places in sorted rows."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats


def few(random, shape, high=6):
    """Return small whole numbers, of which some are equal."""
    return random.integers(0, high, shape)


def values(random, shape):
    """Return numbers, now and then with equals among them, or integers."""
    kind = random.integers(0, 3)
    return floats(random, shape) if kind else few(random, shape).astype(random.choice([np.float32, np.int32]))


def ordered(random):
    """Draw a call that sorts along an axis."""
    shape = dims(random, random.integers(1, 4))
    axis = int(random.integers(-len(shape), len(shape)))
    keywords = {"axis": axis, "direction": str(random.choice(["ASCENDING", "DESCENDING"]))}
    if random.random() < 0.5:
        return Call("sort", [floats(random, shape)], keywords)  # TensorFlow gives equals gradients of its own
    return Call("argsort", [values(random, shape)], {**keywords, "stable": True})


def largest(random):
    """Draw a call for the largest values."""
    shape = (*dims(random, random.integers(0, 3)), int(random.integers(1, 40)))
    k = int(random.integers(0, shape[-1] + 1))
    keywords = {"k": k, "sorted": bool(random.random() < 0.8 or k not in (1, shape[-1]))}
    return Call("top_k", [values(random, shape)], keywords, theirs="math.top_k")


def within_largest(random):
    """Draw a call whether targets are among the largest predictions."""
    batch, classes = (int(n) for n in random.integers(1, 6, 2))
    scores = values(random, (batch, classes)).astype(np.float32)
    if random.random() < 0.3:
        scores[random.integers(batch), random.integers(classes)] = random.choice([np.nan, np.inf, -np.inf])
    targets = random.integers(-1, classes + 1, batch).astype(random.choice([np.int32, np.int64]))
    k = int(random.integers(0, classes + 2))
    return Call("in_top_k", [scores, targets], {"k": k}, theirs="math.in_top_k", differentiable=False)


def searched(random):
    """Draw a call for places in sorted rows."""
    batch = dims(random, random.integers(0, 3))
    rows, found = (few(random, (*batch, int(random.integers(1, 9)))) for _ in range(2))
    kind = random.choice([np.float32, np.int32, np.int64])
    arguments = [np.sort(rows, -1).astype(kind), found.astype(kind)]
    keywords = {"side": str(random.choice(["left", "right"])), "out_type": str(random.choice(["int32", "int64"]))}
    return Call("searchsorted", arguments, keywords, differentiable=False)


def without_repetition(random):
    """Draw a call for the values of vectors."""
    kind = random.choice([np.float32, np.int32, np.int64])
    x, y = (few(random, int(random.integers(0, 9))).astype(kind) for _ in range(2))
    dtype = str(random.choice(["int32", "int64"]))
    name = str(random.choice(["unique", "unique_with_counts", "setdiff1d"]))
    if name == "setdiff1d":
        return Call(name, [x, y], {"index_dtype": dtype}, differentiable=False)
    return Call(name, [x], {"out_idx": dtype}, differentiable=False)


def counted(random):
    """Draw a call that counts integers."""
    shape = dims(random, random.integers(1, 3)) if random.random() < 0.9 else (0,)
    keywords = {key: int(random.integers(1, 9)) for key in ("minlength", "maxlength") if random.random() < 0.4}
    if len(keywords) == 2:
        keywords["maxlength"] += keywords["minlength"]
    arguments = [few(random, shape, 8).astype(np.int32)]
    if random.random() < 0.5:
        return Call("bincount", [*arguments, floats(random, shape)], keywords, differentiable=False)
    return Call("bincount", arguments, {**keywords, "dtype": str(random.choice(["int32", "float32", "int64"]))})


def pairs(random):
    """Draw a call that counts pairs of classes."""
    count = int(random.integers(1, 9))
    labels, predictions = (few(random, count, 4).astype(random.choice([np.int32, np.int64])) for _ in range(2))
    keywords = {"num_classes": 5} if random.random() < 0.5 else {}
    if random.random() < 0.3:
        predictions = predictions[:, None]
    if random.random() < 0.5:
        keywords |= {"weights": random.integers(1, 4, count).astype(np.float32), "dtype": "float32"}
    return Call("confusion_matrix", [labels, predictions], keywords, differentiable=False)


def binned(random):
    """Draw a call that counts numbers by interval."""
    name = str(random.choice(["histogram_fixed_width", "histogram_fixed_width_bins"]))
    x, bounds = floats(random, dims(random, random.integers(0, 4))), np.sort(floats(random, 2))
    return Call(name, [x, bounds], {"nbins": int(random.integers(1, 9))}, differentiable=False)


def inverted(random):
    """Draw a call that turns a permutation around."""
    x = random.permutation(int(random.integers(0, 9))).astype(random.choice([np.int32, np.int64]))
    return Call("invert_permutation", [x])


def nonzero(random):
    """Draw a call that counts what is not zero."""
    shape = dims(random, random.integers(1, 4))
    axes = [i for i in range(len(shape)) if random.random() < 0.5]
    keywords = {"axis": axes, "keepdims": bool(random.random() < 0.5), "dtype": str(random.choice(["int32", "int64"]))}
    return Call("count_nonzero", [few(random, shape, 3).astype(np.float32)], keywords, differentiable=False)


KINDS = (ordered, largest, within_largest, searched, without_repetition, counted, pairs, binned, inverted, nonzero)


@family
def sorting(random):
    """Draw a call of one kind."""
    return KINDS[random.integers(len(KINDS))](random)

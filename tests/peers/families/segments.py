"""Rows of one id made into one."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

SORTED = ("segment_sum", "segment_mean", "segment_prod", "segment_max", "segment_min")
SPARSE = ("sparse_segment_sum", "sparse_segment_mean", "sparse_segment_sqrt_n")
UNSORTED = ("sum", "mean", "prod", "max", "min", "sqrt_n")


def kind_of_ids(random):
    """Return one of the dtypes of ids."""
    return random.choice([np.int32, np.int64])


def rows(random, shape):
    """Return numbers; some are 0, so that products have no quotients for gradients."""
    x = floats(random, shape)
    return np.where(random.random(shape) < 0.2, np.float32(0), x)


def of_runs(random):
    """Draw a call that goes by sorted ids, of which some do not come."""
    name = str(random.choice(SORTED))
    count = int(random.integers(1, 9))
    shape = (count, *dims(random, random.integers(0, 3)))
    ids = np.sort(random.integers(0, 6, count)).astype(kind_of_ids(random))
    data = floats(random, shape) if name.endswith(("max", "min")) else rows(random, shape)
    return Call(name, [data, ids])


def of_chosen(random):
    """Draw a call that goes by sorted ids of rows chosen by index."""
    count, table = (int(n) for n in random.integers(1, 9, 2))
    data = floats(random, (table, *dims(random, random.integers(0, 3))))
    ids = np.sort(random.integers(0, 4, count)).astype(np.int32)
    keywords = {"num_segments": int(random.integers(ids[-1] + 1, 7))} if random.random() < 0.4 else {}
    chosen = random.integers(0, table, count).astype(kind_of_ids(random))
    return Call(str(random.choice(SPARSE)), [data, chosen, ids], keywords)


def in_any_order(random):
    """Draw a call that goes by ids in any order, some negative."""
    name = str(random.choice(UNSORTED))
    shape = dims(random, random.integers(1, 4))
    lead = shape[: random.integers(1, len(shape) + 1)]
    count = int(random.integers(1, 6))
    ids = random.integers(-1, count, lead).astype(kind_of_ids(random))
    if name not in ("max", "min"):
        return Call(f"unsorted_segment_{name}", [rows(random, shape), ids, count])
    if random.random() < 0.3:  # integers are compared exactly, also the limits of those that do not come
        return Call(f"unsorted_segment_{name}", [random.integers(-9, 9, shape).astype(np.int32), ids, count])
    all_ids = np.concatenate([np.arange(count), random.integers(-1, count, 4)])
    ids = random.permutation(all_ids).astype(kind_of_ids(random))
    return Call(f"unsorted_segment_{name}", [floats(random, (len(ids), *shape[1:])), ids, count])


@family
def segments(random):
    """Draw a call of one kind."""
    return (of_runs, of_chosen, in_any_order)[random.integers(3)](random)

"""Rows of tables in shards, and losses over a sample of classes."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats


def shards(random, count, rows, shape, strategy):
    """Return a table in shards as a strategy has them: a list of arrays."""
    table = floats(random, (rows, *shape))
    return [table[i::count] for i in range(count)] if strategy == "mod" else np.array_split(table, count)


def integers(random, most, shape):
    """Return numbers of rows."""
    return random.integers(0, most, shape).astype(str(random.choice(["int32", "int64"])))


def listed(values):
    """Return one shard as it is at times: without a list around it."""
    return values if len(values) > 1 else values[0]


@family
def embeddings(random):
    """Draw a look-up, or a loss with a given sample."""
    return (lookup, sampled, sampled, hits)[random.integers(4)](random)


def lookup(random):
    """Draw a look-up: ids of any shape, none of them at times."""
    count, strategy = int(random.integers(1, 5)), str(random.choice(["mod", "div"]))
    rows = int(random.integers(count, 12))
    parts = shards(random, count, rows, dims(random, random.integers(0, 3)), strategy)
    ids = integers(random, rows, dims(random, random.integers(0, 3)))
    if random.random() < 0.1:
        ids = ids.ravel()[:0]
    norm = float(random.choice([0.5, 1.0, 3.0])) if random.random() < 0.4 else None
    keywords = {"partition_strategy": strategy, "max_norm": norm}
    return Call("embedding_lookup", [listed(parts), ids], keywords, theirs="nn.embedding_lookup")


def sampled(random):
    """Draw a loss: weights and biases in shards, labels that the sample hits by accident."""
    count, strategy = int(random.integers(1, 4)), str(random.choice(["mod", "div"]))
    classes, width = int(random.integers(6, 12)), int(random.integers(1, 5))
    batch, true, number = int(random.integers(1, 6)), int(random.integers(1, 4)), int(random.integers(1, 6))
    sample = random.permutation(classes)[:number].astype(np.int64)
    expected = [random.uniform(0.1, 1, shape).astype(np.float32) for shape in ((batch, true), (number,))]
    weights, biases = (shards(random, count, classes, shape, strategy) for shape in ((width,), ()))
    labels = random.permuted(np.tile(np.arange(classes), (batch, 1)), axis=1)[:, :true].astype(np.int64)
    name = str(random.choice(["sampled_softmax_loss", "nce_loss"]))
    arguments = [listed(weights), listed(biases), labels, floats(random, (batch, width)), number, classes, true]
    arguments += [[sample, *expected], bool(random.random() < 0.5), strategy]
    return Call(name, arguments, theirs=f"nn.{name}")


def hits(random):
    """Draw true classes and a sample without repetition."""
    batch, true, classes = (int(n) for n in random.integers(1, 6, 3))
    sample = random.permutation(classes)[: random.integers(1, classes + 1)].astype(np.int64)
    labels = random.integers(0, classes, (batch, true))
    return Call(
        "compute_accidental_hits", [labels, sample, true], theirs="nn.compute_accidental_hits", differentiable=False
    )

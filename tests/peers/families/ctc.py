"""Losses and decoders of labels whose times are not known, and distances of sequences."""

import numpy as np

from tests.peers.calls import Call, Sparse, family


def _logits(random, most=7, scale=2):
    shape = (*random.integers(1, most, 1), *random.integers(1, 4, 1), random.integers(2, 5))
    return (random.standard_normal(tuple(map(int, shape))) * scale).astype(np.float32)


def _lengths(random, count, most, least=0):
    return random.integers(least, most + 1, count).astype(np.int32)


def _loss(random):
    x = _logits(random, 8, 1)  # a label that is nearly certain has a loss of which TensorFlow knows few digits
    time, batch, classes = x.shape
    times = _lengths(random, batch, time, 1)
    most = int(random.integers(1, 5))
    labels = random.integers(1, classes, (batch, most)).astype(np.int32)
    counts = np.minimum(_lengths(random, batch, most), [_fits(row, n) for row, n in zip(labels, times)])
    blank = 0
    if random.random() < 0.4:
        labels, blank = labels - 1, int(random.choice([-1, classes - 1]))
    keywords = {"blank_index": blank}
    if random.random() < 0.3:
        x, keywords["logits_time_major"] = np.ascontiguousarray(x.transpose(1, 0, 2)), False
    arguments = [labels, x, counts.astype(np.int32), times]
    return Call("ctc_loss", arguments, keywords, theirs="nn.ctc_loss_v2")


def _fits(labels, time):
    """Return how many of the labels can be read in so many steps: equal ones need a blank between them."""
    needed = np.cumsum(1 + np.append(0, labels[1:] == labels[:-1]))
    return int((needed <= time).sum())


def _greedy(random):
    x = _logits(random)
    keywords = {"merge_repeated": bool(random.random() < 0.5)}
    if random.random() < 0.3:
        keywords["blank_index"] = int(random.integers(0, x.shape[2]))
    arguments = [x, _lengths(random, x.shape[1], len(x))]
    return Call("ctc_greedy_decoder", arguments, keywords, theirs="nn.ctc_greedy_decoder", differentiable=False)


def _beams(random):
    x = _logits(random, 9)
    width = int(random.integers(1, 12))
    keywords = {"beam_width": width, "top_paths": 1, "merge_repeated": bool(random.random() < 0.5)}
    lengths = _lengths(random, x.shape[1], len(x))
    if lengths.min() > 1 and width > 1:
        keywords["top_paths"] = 2
    name = "ctc_beam_search_decoder"
    return Call(name, [x, lengths], keywords, theirs=f"nn.{name}", differentiable=False)


def _sparse(random, rows, longest, symbols):
    places = [[i, j] for i in range(rows) for j in range(random.integers(0, longest + 1))]
    values = random.integers(0, symbols, len(places))
    return Sparse(np.array(places, np.int64).reshape(-1, 2), values, np.array([rows, longest]))


def _distance(random):
    both = [_sparse(random, 3, int(random.integers(1, 7)), 3) for _ in range(2)]
    return Call("edit_distance", both, {"normalize": bool(random.random() < 0.5)}, differentiable=False)


def _collapsed(random):
    labels = random.integers(0, 3, (int(random.integers(1, 4)), int(random.integers(1, 8)))).astype(np.int32)
    arguments = [labels, _lengths(random, len(labels), labels.shape[1], 1)]
    return Call("collapse_repeated", arguments, theirs="nn.collapse_repeated")


@family
def ctc(random):
    """Draw a call of a function of sequences."""
    kinds = [_loss, _loss, _greedy, _beams, _beams, _distance, _collapsed]
    return kinds[int(random.integers(len(kinds)))](random)

"""Shapes, parts, joins, places by index, and running sums."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats, pick


def axis_of(random, rank):
    """Return an axis, counted from either end."""
    return int(random.integers(-rank, rank))


@family
def shaping(random):
    """Draw what changes a shape or an order."""
    shape = dims(random, random.integers(1, 4))
    x, rank = floats(random, shape), len(shape)
    draws = {
        "reshape": lambda: Call("reshape", [x, [-1, shape[0]]]),
        "transpose": lambda: Call("transpose", [x, [int(i) for i in random.permutation(rank)]]),
        "expand_dims": lambda: Call("expand_dims", [x], {"axis": axis_of(random, rank + 1)}),
        "squeeze": lambda: Call("squeeze", [x[None]], {"axis": [0]}),
        "tile": lambda: Call("tile", [x, [int(n) for n in random.integers(1, 3, rank)]]),
        "reverse": lambda: Call("reverse", [x, [axis_of(random, rank)]]),
        "broadcast_to": lambda: Call("broadcast_to", [x, [2, *shape]]),
        "zeros_like": lambda: Call("zeros_like", [x], differentiable=False),
        "ones_like": lambda: Call("ones_like", [x], differentiable=False),
        "shape": lambda: Call("shape", [x]),
        "size": lambda: Call("size", [x]),
        "rank": lambda: Call("rank", [x]),
        "eye": lambda: Call("eye", [shape[0], shape[-1]]),
        "fill": lambda: Call("fill", [list(shape), 2.5]),
        "linspace": lambda: Call("linspace", [-1.5, 2.0, shape[0]]),
        "one_hot": lambda: Call("one_hot", [random.integers(-1, 4, shape).astype(np.int32), 4]),
        "cast": lambda: Call("cast", [x, pick(random, ("int32", "float64", "bool"))], differentiable=False),
    }
    return draws[pick(random, draws)]()


@family
def padding(random):
    """Draw a padding with a constant or with mirrored elements."""
    x = floats(random, [n + 2 for n in dims(random, random.integers(1, 4))])
    pairs = [[int(n) for n in random.integers(0, 3, 2)] for _ in range(x.ndim)]
    keywords = {"mode": pick(random, ("CONSTANT", "REFLECT", "SYMMETRIC"))}
    if keywords["mode"] == "CONSTANT":
        keywords["constant_values"] = 1.5
    return Call("pad", [x, pairs], keywords)


@family
def parts(random):
    """Draw a slice, a split, or a stack."""
    shape = [n + 1 for n in dims(random, random.integers(1, 4))]
    x, axis = floats(random, shape), int(random.integers(0, len(shape)))
    begin = [int(random.integers(0, n)) for n in shape]
    strides = [int(random.choice([1, 2, -1])) for _ in shape]
    ends = [n if s > 0 else -n - 1 for n, s in zip(shape, strides)]
    begins = [b if s > 0 else n - 1 for b, s, n in zip(begin, strides, shape)]
    draws = {
        "slice": lambda: Call("slice", [x, begin, [n - b for n, b in zip(shape, begin)]]),
        "strided_slice": lambda: Call("strided_slice", [x, begins, ends, strides]),
        "split": lambda: Call("split", [np.concatenate([x, x], axis), 2], {"axis": axis}),
        "split_sizes": lambda: Call("split", [x, [1, shape[axis] - 1]], {"axis": axis}),
        "unstack": lambda: Call("unstack", [x], {"axis": axis}),
        "concat": lambda: Call("concat", [[x, 2 * x], axis]),
        "stack": lambda: Call("stack", [[x, 2 * x]], {"axis": axis}),
        "boolean_mask": lambda: Call("boolean_mask", [x, random.random(shape[:1]) < 0.5]),
        "where": lambda: Call("where", [random.random(shape) < 0.5, x, 2 * x]),
        "where_only": lambda: Call("where", [random.random(shape) < 0.5]),
    }
    return draws[pick(random, draws)]()


@family
def indexing(random):
    """Draw what takes or puts elements by index."""
    shape = [n + 1 for n in dims(random, random.integers(1, 4))]
    x, axis = floats(random, shape), int(random.integers(0, len(shape)))
    places = random.integers(0, shape[axis], dims(random, random.integers(0, 3))).astype(np.int32)
    depth = int(random.integers(1, len(shape) + 1))
    vectors = np.stack([random.integers(0, n, 5) for n in shape[:depth]], -1).astype(np.int32)
    rows = random.integers(0, 3, shape[0]).astype(np.int32)
    draws = {
        "gather": lambda: Call("gather", [x, places], {"axis": axis}),
        "gather_nd": lambda: Call("gather_nd", [x, vectors]),
        "scatter_nd": lambda: Call("scatter_nd", [vectors, floats(random, (5, *shape[depth:])), shape]),
        "unsorted_segment_sum": lambda: Call("unsorted_segment_sum", [x, rows, 3], theirs="math.unsorted_segment_sum"),
        "dynamic_partition": lambda: Call("dynamic_partition", [x, rows, 3]),
        "dynamic_stitch": lambda: Call("dynamic_stitch", [[np.arange(shape[0], dtype=np.int32)], [x]]),
        "argmax": lambda: Call("argmax", [x], {"axis": axis}),
        "argmin": lambda: Call("argmin", [x], {"axis": axis}),
    }
    return draws[pick(random, draws)]()


@family
def cumulative(random):
    """Draw a running sum or product."""
    shape = dims(random, random.integers(1, 4))
    keywords = {
        "axis": axis_of(random, len(shape)),
        "exclusive": bool(random.random() < 0.5),
        "reverse": bool(random.random() < 0.5),
    }
    return Call(pick(random, ("cumsum", "cumprod")), [floats(random, shape, "away")], keywords)


@family
def entropies(random):
    """Draw a cross-entropy, a norm, a clipping or moments."""
    batch, classes = dims(random, 2)
    classes += 1
    logits = floats(random, (batch, classes))
    labels = random.integers(0, classes, batch).astype(np.int32)
    dense = np.exp(floats(random, (batch, classes)))
    dense /= dense.sum(-1, keepdims=True)
    norm = float(np.linalg.norm(logits)) * float(random.choice([0.5, 2]))
    draws = {
        "sparse": lambda: named("sparse_softmax_cross_entropy_with_logits", labels=labels, logits=logits),
        "softmax": lambda: named("softmax_cross_entropy_with_logits", labels=dense, logits=logits),
        "sigmoid": lambda: named("sigmoid_cross_entropy_with_logits", labels=dense, logits=logits),
        "l2_loss": lambda: Call("l2_loss", [logits], theirs="nn.l2_loss"),
        "l2_normalize": lambda: Call("l2_normalize", [logits], {"axis": 1}, "nn.l2_normalize"),
        "clip_by_value": lambda: Call("clip_by_value", [logits, -0.5, 0.7]),
        "clip_by_norm": lambda: Call("clip_by_norm", [logits, norm]),
        "moments": lambda: Call("moments", [logits], {"axes": [0]}, "nn.moments"),
        "norm": lambda: Call("norm", [logits], {"axis": 1}),
        "bias_add": lambda: Call("bias_add", [logits, logits[0].copy()], theirs="nn.bias_add"),
    }
    return draws[pick(random, draws)]()


def named(name, *, labels, logits):
    """Return a call of a cross-entropy, whose arguments TensorFlow wants by name."""
    # Version 1 of the second stops the gradient of labels.
    theirs = f"nn.{name}_v2" if name == "softmax_cross_entropy_with_logits" else f"nn.{name}"
    return Call(name, [labels, logits], theirs=theirs, names=("labels", "logits"))

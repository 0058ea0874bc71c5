"""Sparse tensors, in the order of rows unless a function is about that, and rows of tables by sparse ids."""

import numpy as np

from tests.peers.calls import Call, Slices, Sparse, family


def dims(random, low, high, least=1):
    """Return random dimensions, so many as lie between two ranks."""
    return tuple(int(d) for d in random.integers(least, 5, random.integers(low, high)))


def numbers(random, count):
    """Return so many numbers in float32, of which no two are equal."""
    return (random.permutation(count) - count / 2 + random.random(count) / 2).astype(np.float32)


def sparse(random, shape, values=numbers):
    """Return a random sparse tensor, of one place at least."""
    chosen = random.random(shape) < random.choice([0.1, 0.4, 0.9])
    chosen.flat[random.integers(chosen.size)] = True
    indices = np.argwhere(chosen)
    return Sparse(indices, values(random, len(indices)), np.int64(shape))


def shuffled(random, sp):
    """Return the same sparse tensor in another order."""
    order = random.permutation(len(sp.indices))
    return Sparse(sp.indices[order], sp.values[order], sp.dense_shape)


def floats(random, shape):
    """Return normally distributed numbers in float32."""
    return random.standard_normal(shape).astype(np.float32)


def maybe(random):
    """Return True or False."""
    return bool(random.random() < 0.5)


def draw_product(random):
    """Draw a product of a sparse and a dense matrix, one or both transposed."""
    rows, inner, columns = map(int, random.integers(1, 7, 3))
    adjoint_a, adjoint_b = maybe(random), maybe(random)
    a = sparse(random, (inner, rows) if adjoint_a else (rows, inner))
    b = floats(random, (columns, inner) if adjoint_b else (inner, columns))
    arguments = [shuffled(random, a) if maybe(random) else a, b]
    return Call("sparse_tensor_dense_matmul", arguments, {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b})


def draw_to_dense(random):
    sp = sparse(random, dims(random, 1, 4))
    default = np.float32(random.random())
    if maybe(random):
        return Call("sparse_tensor_to_dense", [sp, default])
    return Call("sparse_to_dense", [sp.indices, sp.dense_shape.tolist(), sp.values, default])


def draw_from_dense(random):
    x = floats(random, dims(random, 1, 4)) * (random.random() < 0.5)
    return Call("sparse_from_dense", [np.float32(x)], theirs="sparse.from_dense")


def draw_indicator(random):
    sp = sparse(random, dims(random, 1, 4), lambda random, count: random.integers(0, 6, count))
    return Call("sparse_to_indicator", [sp, 6])


def draw_eye(random):
    return Call("sparse_eye", [int(random.integers(1, 5)), int(random.integers(1, 5))], theirs="sparse.eye")


def draw_sum(random):
    shape = dims(random, 1, 4)
    x, y = sparse(random, shape), sparse(random, shape)
    kind = random.choice(["sum", "dense", "left out", "chosen"])
    if kind == "chosen":  # TensorFlow has no gradient of these
        name = str(random.choice(["sparse_maximum", "sparse_minimum"]))
        return Call(name, [x, y], differentiable=False)
    if kind == "dense":
        arguments = [x, floats(random, shape)]
        return Call("sparse_add", arguments if maybe(random) else arguments[::-1])
    return Call("sparse_add", [x, y], {"thresh": 1.0} if kind == "left out" else {})


def draw_reduction(random):
    """Draw a reduction over some axes, or a softmax; of those to sparse tensors TensorFlow has no gradient."""
    sp = sparse(random, dims(random, 2, 5))
    name = str(random.choice(["sum", "sum_sparse", "max", "max_sparse", "softmax"]))
    if name == "softmax":
        return Call("sparse_softmax", [Sparse(sp.indices, floats(random, len(sp.values)), sp.dense_shape)])
    rank = sp.indices.shape[1]
    axes = [int(a) - rank * maybe(random) for a in range(rank) if maybe(random)]
    if name.endswith("sparse"):
        axes = axes[:-1] if len(axes) == rank else axes  # else it gives an empty place in another form
    keywords = {"axis": axes or None if not name.endswith("sparse") else axes or [0], "keepdims": maybe(random)}
    return Call(f"sparse_reduce_{name}", [sp], keywords, differentiable=name == "sum")


def draw_reorder(random):
    return Call("sparse_reorder", [shuffled(random, sparse(random, dims(random, 1, 4)))])


def draw_retain(random):
    sp = sparse(random, dims(random, 1, 4))
    return Call("sparse_retain", [sp, random.random(len(sp.values)) < 0.5])


def draw_slice(random):
    shape = dims(random, 1, 4)
    start = [int(random.integers(0, d)) for d in shape]
    size = [int(random.integers(1, d + 1)) for d in shape]
    return Call("sparse_slice", [sparse(random, shape), np.int64(start), np.int64(size)])


def draw_fill(random):
    return Call("sparse_fill_empty_rows", [sparse(random, dims(random, 2, 4)), np.float32(random.random())])


def draw_transpose(random):
    sp = sparse(random, dims(random, 1, 5))
    perm = [int(i) for i in random.permutation(sp.indices.shape[1])]
    return Call("sparse_transpose", [sp], {"perm": None if random.random() < 0.3 else perm})


def draw_reshape(random):
    shape = dims(random, 1, 4)
    count = int(np.prod(shape))
    factor = int(random.choice([d for d in range(1, count + 1) if count % d == 0]))
    new = [[factor, -1], [-1, 1, factor], [count // factor, factor], [-1]][random.integers(4)]
    return Call("sparse_reshape", [sparse(random, shape), new])


def draw_expand(random):
    sp = sparse(random, dims(random, 1, 4))
    rank = sp.indices.shape[1]
    axis = None if random.random() < 0.2 else int(random.integers(-rank - 1, rank + 1))
    return Call("sparse_expand_dims", [sp, axis], theirs="sparse.expand_dims")


def draw_concat(random):  # TensorFlow has no gradient of it
    shape = dims(random, 1, 4)
    axis, expand = int(random.integers(0, len(shape))), maybe(random)

    def other():
        free = [i == axis or expand for i in range(len(shape))]
        return sparse(random, [int(random.integers(1, 5)) if f else d for f, d in zip(free, shape, strict=True)])

    parts = [other() for _ in range(random.integers(1, 4))]
    given = axis - len(shape) * maybe(random)
    return Call("sparse_concat", [given, parts], {"expand_nonconcat_dim": expand}, differentiable=False)


def draw_split(random):  # TensorFlow has no gradient of it
    sp = sparse(random, dims(random, 1, 4))
    axis = int(random.integers(0, sp.indices.shape[1]))
    count = int(random.integers(1, sp.dense_shape[axis] + 1))
    return Call("sparse_split", [], {"sp_input": sp, "num_split": count, "axis": axis}, differentiable=False)


PLACES = [
    draw_reorder,
    draw_retain,
    draw_slice,
    draw_fill,
    draw_transpose,
    draw_reshape,
    draw_expand,
    draw_concat,
    draw_split,
]


@family
def sparse_places(random):
    """Draw a call that changes places, or chooses among them."""
    return random.choice(PLACES)(random)


def draw_ids(random, count):
    """Return sparse ids: in each row one, as TensorFlow divides by 0 where there is none, in the first two that differ.

    Otherwise the gradient of weights may be nothing but rounding.
    """
    rows, most = int(random.integers(1, 5)), int(random.integers(2, 6))
    chosen = random.random((rows, most)) < 0.5
    chosen[:, 0] = chosen[0, 1] = True
    indices = np.argwhere(chosen)
    ids = random.integers(0, count, len(indices))
    ids[:2] = random.permutation(count)[:2]
    return Sparse(indices, ids, np.int64([rows, most]))


def draw_lookup(random):
    count = int(random.integers(2, 6))
    table = floats(random, (count, *dims(random, 0, 3)))
    ids = draw_ids(random, count)
    weights = Sparse(ids.indices, np.float32(random.random(len(ids.values)) + 0.5), ids.dense_shape)
    keywords = {"combiner": str(random.choice(["mean", "sum", "sqrtn"]))}
    if table.ndim > 1 and random.random() < 0.3:
        keywords["max_norm"] = 0.7
    arguments = [table, ids, weights if maybe(random) else None]
    return Call("embedding_lookup_sparse", arguments, keywords, theirs="nn.embedding_lookup_sparse")


def draw_mask(random):
    count = int(random.integers(1, 6))
    rows = Slices(floats(random, (count, 2)), random.permutation(9)[:count])
    return Call("sparse_mask", [rows, random.permutation(9)[: random.integers(1, 5)]])


def draw_elementwise(random):
    """Draw a function that keeps zero; of the square root, numbers from 0 up."""
    name = str(random.choice(["abs", "negative", "sign", "square", "sqrt", "erf", "tanh"]))
    sp = sparse(random, dims(random, 1, 4))
    return Call(name, [Sparse(sp.indices, abs(sp.values) + np.float32(0.1), sp.dense_shape) if name == "sqrt" else sp])


def draw_merge(random):
    """Draw values at the places of ids, of which no row has one twice."""
    rows, most, size = map(int, random.integers(1, 5, 3))
    ids = [random.permutation(size + most)[: random.integers(1, most + 1)] for _ in range(rows)]
    indices = np.array([[row, k] for row, found in enumerate(ids) for k in range(len(found))], np.int64)
    shape = np.int64([rows, most])
    numbers = np.concatenate(ids).astype(np.int64)
    return Call(
        "sparse_merge",
        [Sparse(indices, numbers, shape), Sparse(indices, floats(random, len(numbers)), shape), size + most],
    )


def draw_reset(random):
    """Draw a shape that is as small as the places allow, or a given one."""
    sp = sparse(random, dims(random, 1, 4))
    larger = (sp.dense_shape + random.integers(0, 3, len(sp.dense_shape))).tolist()
    return Call("sparse_reset_shape", [sp] if maybe(random) else [sp, larger])


@family
def sparse_values(random):
    """Draw a call that computes with values, makes them dense, or takes rows of a table by them."""
    return random.choice(VALUES)(random)


VALUES = [
    draw_product,
    draw_product,
    draw_sum,
    draw_sum,
    draw_reduction,
    draw_reduction,
    draw_lookup,
    draw_to_dense,
    draw_from_dense,
    draw_indicator,
    draw_eye,
    draw_mask,
    draw_elementwise,
    draw_merge,
    draw_reset,
]

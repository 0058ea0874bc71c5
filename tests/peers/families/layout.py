"""How elements are laid out: blocks, sequences, grids, bits; and sums that run or go over axes."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats


def into_depth(random):
    """Draw a call between pixels and channels."""
    block = int(random.integers(2, 4))
    batch, height, width, channels = (int(n) for n in random.integers(1, 4, 4))
    if random.random() < 0.5:
        return Call("space_to_depth", [floats(random, (batch, height * block, width * block, channels)), block])
    return Call("depth_to_space", [floats(random, (batch, height, width, channels * block**2)), block])


def into_batch(random):
    """Draw a call between blocks and the batch."""
    count = int(random.integers(1, 3))
    blocks = random.integers(1, 4, count)
    edges = random.integers(0, 3, (count, 2))
    batch, rest = int(random.integers(1, 3)), dims(random, random.integers(0, 2))
    if random.random() < 0.5:
        sizes = random.integers(1, 6, count)
        edges[:, 1] += -(sizes + edges.sum(1)) % blocks
        arguments = [floats(random, (batch, *sizes, *rest)), blocks.tolist(), edges.tolist()]
        return Call("space_to_batch_nd", arguments)
    sizes = -(-(edges.sum(1) + random.integers(1, 4, count)) // blocks)
    arguments = [floats(random, (batch * int(blocks.prod()), *sizes, *rest)), blocks.tolist(), edges.tolist()]
    return Call("batch_to_space_nd", arguments)


def images_into_batch(random):
    """Draw a call between square blocks and the batch."""
    block, channels = 2, int(random.integers(1, 3))
    height, width = (int(n) for n in random.integers(1, 4, 2))
    if random.random() < 0.5:
        images = floats(random, (1, height * block - 1, width * block, channels))
        return Call("space_to_batch", [images, [[0, 1], [0, 0]], block])
    return Call("batch_to_space", [floats(random, (block**2, height, width, channels)), [[1, 0], [0, 0]], block])


def paddings(random):
    """Draw a call for the paddings that blocks need."""
    count = int(random.integers(1, 4))
    sizes, blocks = random.integers(1, 9, count).tolist(), random.integers(1, 4, count).tolist()
    base = [random.integers(0, 3, (count, 2)).tolist()] if random.random() < 0.5 else []
    return Call("required_space_to_batch_paddings", [sizes, blocks, *base])


def turned(random):
    """Draw a call that turns sequences around."""
    shape = dims(random, random.integers(2, 5))
    batch, axis = (int(n) for n in random.permutation(len(shape))[:2])
    lengths = random.integers(0, shape[axis] + 1, shape[batch]).astype(random.choice([np.int32, np.int64]))
    return Call("reverse_sequence", [floats(random, shape), lengths], {"seq_axis": axis, "batch_axis": batch})


def masked(random):
    """Draw a call that marks what is before the ends of sequences."""
    lengths = random.integers(0, 6, dims(random, random.integers(0, 3))).astype(np.int32)
    keywords = {"maxlen": int(random.integers(0, 8))} if random.random() < 0.5 else {}
    return Call("sequence_mask", [lengths], {**keywords, "dtype": str(random.choice(["bool", "float32"]))})


def moved_around(random):
    """Draw a call that moves elements along axes."""
    shape = dims(random, random.integers(1, 4))
    axes = random.integers(0, len(shape), random.integers(1, 4)).tolist()
    shifts = random.integers(-5, 6, len(axes)).tolist()
    if len(axes) == 1 and random.random() < 0.5:
        axes, shifts = axes[0], shifts[0]
    return Call("roll", [floats(random, shape), shifts, axes])


def repeated(random):
    """Draw a call that repeats rows, or elements."""
    shape = dims(random, random.integers(1, 4))
    axis = int(random.integers(-len(shape), len(shape))) if random.random() < 0.7 else None
    size = int(np.prod(shape)) if axis is None else shape[axis]
    times = int(random.integers(0, 4)) if random.random() < 0.4 else random.integers(0, 4, size).astype(np.int32)
    return Call("repeat", [floats(random, shape), times], {"axis": axis})


def spread(random):
    """Draw a call for a grid."""
    vectors = [floats(random, int(n)) for n in random.integers(1, 5, random.integers(1, 4))]
    return Call("meshgrid", vectors, {"indexing": str(random.choice(["xy", "ij"]))})


def as_bits(random):
    """Draw a call that takes bits as another dtype."""
    kinds = ["uint8", "int16", "float16", "int32", "float32", "int64", "float64", "complex64", "complex128"]
    source, target = (np.dtype(str(random.choice(kinds))) for _ in range(2))
    shape = dims(random, random.integers(0, 3))
    if source.itemsize < target.itemsize:
        shape = (*shape, target.itemsize // source.itemsize)
    bits = random.integers(0, 100, (*shape, source.itemsize)).astype(np.uint8)
    return Call("bitcast", [bits.view(source).reshape(shape), target.name], differentiable=False, tolerance=0)


def saturated(random):
    """Draw a call that converts to a dtype with limits; of integers in wider dtypes TensorFlow makes something else."""
    x = random.choice([1, 100, 1e5, 1e12]) * random.standard_normal(dims(random, random.integers(0, 3)))
    kinds = ["uint8", "int8", "int16", "uint16", "int32"]
    if random.random() < 0.5:
        source = random.choice([np.int32, np.int64])
        x = np.clip(x, np.iinfo(source).min / 2, np.iinfo(source).max / 2)
    else:
        source = random.choice([np.float32, np.float64])
        kinds += ["int64", "float16", "float32"]
    return Call("saturate_cast", [x.astype(source), str(random.choice(kinds))], differentiable=False)


def shapes(random):
    """Draw a call about shapes and positions."""
    shape = dims(random, random.integers(1, 4))
    kind = random.choice([np.int32, np.int64])
    if random.random() < 0.5:
        places = random.integers(0, np.prod(shape), dims(random, random.integers(0, 2))).astype(kind)
        return Call("unravel_index", [np.asarray(places), np.asarray(shape, kind)])
    if random.random() < 0.5:
        other = [d if random.random() < 0.5 else 1 for d in shape[random.integers(0, len(shape) + 1) :]]
        return Call("broadcast_dynamic_shape", [np.asarray(shape, np.int32), np.asarray(other, np.int32)])
    return Call("shape_n", [[floats(random, shape), floats(random, ())]], differentiable=False)


def ensured(random):
    """Draw a call that says what shape a tensor has."""
    shape = dims(random, random.integers(0, 4))
    return Call("ensure_shape", [floats(random, shape), [d if random.random() < 0.5 else None for d in shape]])


def dispersed(random):
    """Draw a reduction that is made of sums."""
    shape = (*dims(random, random.integers(0, 3)), int(random.integers(2, 6)))
    axes = [len(shape) - 1, *(i for i in range(len(shape) - 1) if random.random() < 0.5)]
    name = str(random.choice(["reduce_variance", "reduce_std", "reduce_euclidean_norm"]))
    x = floats(random, shape)
    if random.random() < 0.2:
        x = (x + 1j * floats(random, shape)).astype(np.complex64)
    real = x.dtype.kind == "f"
    return Call(name, [x], {"axis": axes, "keepdims": bool(random.random() < 0.5)}, f"math.{name}", differentiable=real)


def running(random):
    """Draw a running sum of exponentials."""
    shape = dims(random, random.integers(1, 4))
    keywords = {"axis": int(random.integers(-len(shape), len(shape))), "reverse": bool(random.random() < 0.5)}
    keywords["exclusive"] = bool(random.random() < 0.5)
    x = floats(random, shape) * random.choice([1, 30])
    return Call("cumulative_logsumexp", [x.astype(np.float32)], keywords, "math.cumulative_logsumexp")


KINDS = (
    into_depth,
    into_batch,
    images_into_batch,
    paddings,
    turned,
    masked,
    moved_around,
    repeated,
    spread,
    as_bits,
    saturated,
    shapes,
    ensured,
    dispersed,
    running,
)


@family
def layout(random):
    """Draw a call of one kind."""
    return KINDS[random.integers(len(KINDS))](random)

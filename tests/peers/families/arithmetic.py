"""Elementwise functions and reductions, on shapes that broadcast."""

import numpy as np

from tests.peers.calls import Call, family

# Where TensorFlow has another name; what is drawn for each: anything, or numbers in a range.
BINARY = {
    "add": "any",
    "subtract": "any",
    "multiply": "any",
    "divide": "away",
    "maximum": "any",
    "minimum": "any",
    "squared_difference": "any",
    "pow": "positive",
    "atan2": "away",
    "floormod": "away",
    "floordiv": "away",
    "xlogy": "positive",
    "div_no_nan": "any",
}
UNARY = {
    "abs": "away",
    "acos": "inside",
    "acosh": "large",
    "asin": "inside",
    "asinh": "any",
    "atan": "any",
    "atanh": "inside",
    "ceil": "away",
    "cos": "any",
    "cosh": "any",
    "elu": "any",
    "erf": "any",
    "erfc": "any",
    "exp": "any",
    "expm1": "any",
    "floor": "away",
    "leaky_relu": "away",
    "log": "positive",
    "log1p": "positive",
    "log_sigmoid": "any",
    "log_softmax": "any",
    "negative": "any",
    "reciprocal": "away",
    "relu": "away",
    "relu6": "away",
    "rint": "any",
    "rsqrt": "positive",
    "selu": "away",
    "sigmoid": "any",
    "sign": "away",
    "sin": "any",
    "sinh": "any",
    "softmax": "any",
    "softplus": "any",
    "softsign": "any",
    "sqrt": "positive",
    "square": "any",
    "tan": "inside",
    "tanh": "any",
}
THEIRS = {
    **{n: f"nn.{n}" for n in ("elu", "leaky_relu", "log_softmax", "relu", "relu6", "selu", "softmax", "softplus")},
    "softsign": "nn.softsign",
    "xlogy": "math.xlogy",
    "reciprocal": "math.reciprocal",
}
NO_GRADIENT = {"floordiv", "rint", "ceil", "floor", "sign"}
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


def floats(random, shape, kind="any"):
    """Return numbers in float32: normally distributed, positive, away from 0, inside of (-1, 1), larger than 1."""
    x = random.standard_normal(shape)
    x = {
        "any": x,
        "positive": np.abs(x) + 0.1,
        "away": np.where(x < 0, x - 0.2, x + 0.2),
        "inside": np.tanh(x) * 0.95,
        "large": np.abs(x) + 1.1,
    }[kind]
    return np.asarray(x, np.float32)


def dims(random, rank):
    """Return so many random dimensions."""
    return tuple(int(d) for d in random.integers(1, 5, rank))


def pick(random, choices):
    """Return one of some choices."""
    return list(choices)[int(random.integers(0, len(choices)))]


def broadcast_pair(random):
    """Return two shapes that broadcast, in any order."""
    shape = dims(random, random.integers(0, 4))
    cut = int(random.integers(0, len(shape) + 1))
    pair = [shape, tuple(d if random.random() < 0.7 else 1 for d in shape[cut:])]
    return pair[:: int(random.choice([1, -1]))]


@family
def binary(random):
    """Draw a call of an operation on two operands."""
    name = pick(random, BINARY)
    operands = [floats(random, shape, BINARY[name]) for shape in broadcast_pair(random)]
    theirs = "math.divide_no_nan" if name == "div_no_nan" else THEIRS.get(name, name)
    return Call(name, operands, theirs=theirs, differentiable=name not in NO_GRADIENT)


@family
def unary(random):
    """Draw a call of an operation on one operand."""
    name = pick(random, UNARY)
    x = floats(random, dims(random, random.integers(1, 4)), UNARY[name])
    return Call(
        name,
        [x],
        theirs=THEIRS.get(name, name),
        differentiable=name not in NO_GRADIENT,
    )


@family
def reductions(random):
    """Draw a reduction over some axes."""
    shape = dims(random, random.integers(1, 5))
    axes = [i for i in range(len(shape)) if random.random() < 0.5]
    keywords = {"axis": None if random.random() < 0.2 else axes, "keepdims": bool(random.random() < 0.5)}
    if random.random() < 0.2:
        return Call(pick(random, ("reduce_all", "reduce_any")), [random.random(shape) < 0.6], keywords)
    return Call(pick(random, REDUCTIONS), [floats(random, shape)], keywords)


@family
def comparisons(random):
    """Draw a comparison, a function of bools or one of bits."""
    pair = broadcast_pair(random)
    kind = random.random()
    if kind < 0.5:
        return Call(pick(random, COMPARISONS), [random.integers(0, 3, shape).astype(np.float32) for shape in pair])
    if kind < 0.7:
        bools = [random.random(shape) < 0.5 for shape in pair]
        return Call(pick(random, ("logical_and", "logical_or", "logical_xor")), bools)
    if kind < 0.85:
        name = pick(random, BITS)
        return Call(name, [random.integers(0, 8, shape).astype(np.int32) for shape in pair], theirs=f"bitwise.{name}")
    x = np.where(random.random(pair[0]) < 0.3, np.float32(np.inf), floats(random, pair[0]))
    name = pick(random, ("is_finite", "is_inf", "is_nan"))
    return Call(name, [np.asarray(x, np.float32)], theirs=f"math.{name}", differentiable=False)


@family
def complex_numbers(random):
    """Draw a function of complex numbers."""
    shape = dims(random, random.integers(1, 3))
    z = (floats(random, shape, "away") + 1j * floats(random, shape, "away")).astype(np.complex64)
    name = pick(random, ("real", "imag", "conj", "angle", "abs", "exp", "square", "sqrt", "multiply", "matmul"))
    if name == "multiply":
        return Call(name, [z, z[..., ::-1].copy()])
    if name == "matmul":
        a, b, c = dims(random, 3)
        x, y = (floats(random, s) + 1j * floats(random, s) for s in ((a, b), (b, c)))
        return Call(name, [x.astype(np.complex64), y.astype(np.complex64)])
    return Call(name, [z], theirs=f"math.{name}" if name in ("real", "imag", "conj", "angle") else name)


@family
def products(random):
    """Draw a product of matrices, or many, with either side transposed."""
    a, b, c = dims(random, 3)
    leading, flips = dims(random, random.integers(0, 3)), [bool(random.random() < 0.5) for _ in range(2)]
    left = (*leading, b, a) if flips[0] else (*leading, a, b)
    right = (*leading, c, b) if flips[1] else (*leading, b, c)
    keywords = {"transpose_a": flips[0], "transpose_b": flips[1]}
    return Call("matmul", [floats(random, left), floats(random, right)], keywords)

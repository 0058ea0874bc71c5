"""Elementwise arithmetic and reductions, on shapes that broadcast."""

import numpy as np

from tests.peers.calls import Call, family

BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "squared_difference")
UNARY = (
    "exp",
    "tanh",
    "sigmoid",
    "square",
    "abs",
    "sin",
    "cos",
    "sinh",
    "log1p",
    "softplus",
    "softsign",
    "relu",
    "elu",
)
NN = {"softplus", "softsign", "relu", "elu"}
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp")


def floats(random, shape):
    """Return normally distributed numbers in float32."""
    return random.standard_normal(shape).astype(np.float32)


def dims(random, rank):
    """Return so many random dimensions."""
    return tuple(int(d) for d in random.integers(1, 5, rank))


@family
def binary(random):
    """Draw a call of an operation on two operands."""
    shape = dims(random, random.integers(0, 4))
    cut = int(random.integers(0, len(shape) + 1))
    other = tuple(d if random.random() < 0.7 else 1 for d in shape[cut:])
    operands = [floats(random, shape), floats(random, other)]
    if random.random() < 0.5:
        operands.reverse()
    return Call(str(random.choice(BINARY)), operands)


@family
def unary(random):
    """Draw a call of an operation on one operand."""
    name = str(random.choice(UNARY))
    x = floats(random, dims(random, random.integers(0, 4)))
    return Call(name, [np.abs(x) if name == "log1p" else x], theirs=f"nn.{name}" if name in NN else name)


@family
def reductions(random):
    """Draw a reduction over some axes."""
    shape = dims(random, random.integers(1, 5))
    axes = [i for i in range(len(shape)) if random.random() < 0.5]
    axis = None if random.random() < 0.2 else axes
    return Call(
        str(random.choice(REDUCTIONS)),
        [floats(random, shape)],
        {"axis": axis, "keepdims": bool(random.random() < 0.5)},
    )

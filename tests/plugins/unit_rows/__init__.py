"""An operation with a batching rule: vectors of length 1, computed for many iterations of a loop at once."""

import tagloom as tg
from tagloom import operations

CALLS = []  # shapes of the inputs


def batch(op, varying):
    """Return a function that emits the operation for many instances: it treats rows of any number."""
    return lambda builder, operands: builder.emit("unit_rows.UnitRows", *operands).outputs


def kernel(xp, x):
    """Divide each vector along the last axis by its length."""
    CALLS.append(x.shape)
    return x / xp.sqrt(xp.sum(x * x, -1, keepdims=True))


def gradient(op, g):
    """Return the part of the cotangent across each vector, divided by its length."""
    (x,), (y,) = op.inputs, op.outputs
    along = y * tg.reduce_sum(g * y, axis=-1, keepdims=True)
    return [(g - along) / tg.sqrt(tg.reduce_sum(x * x, axis=-1, keepdims=True))]


def define():
    """Define the operation."""
    return operations.define(
        "unit_rows.UnitRows",
        "x: T -> y: T",
        where={"T": (tg.float32, tg.float64)},
        shape=lambda op: op.inputs[0].shape.with_rank_at_least(1),
        kernel=kernel,
        gradient=gradient,
        rules=[operations.Batch(batch)],
    )


def unit_rows(x):
    """Return vectors of length 1 in the directions of the vectors along the last axis."""
    return operations.apply("unit_rows.UnitRows", x)

"""Draws of class indices by probability, and random orders of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ..math.random import DISCRETE, instance_generator, seed_or_next
from ..support.context import KernelContext
from ..support.vectorizing.families import one_by_one

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 18  # Gumbel numbers drawn at a time: the product of samples and classes may not fit into memory

# The optional input `instance` of the operations is a frame and an iteration. Its draws are those of the instance with
# these numbers, so that a gradient which runs a segment of a loop again repeats the draws.


def _compute_categorical(
    xp: Any, context: KernelContext, logits: Any, count: Any, *instance: Any, dtype: DType, seed: int
) -> Array:
    return draw_classes(xp, instance_generator(context, seed, instance), logits, int(count), dtype)


def draw_classes(xp: Any, generator: np.random.Generator, logits: Any, count: int, dtype: DType) -> Array:
    """Draw `count` class indices for each row of logits, of shape [batch, classes]; the result is [batch, count]."""
    logits = logits.astype(xp.float64)
    classes = logits.shape[-1]
    samples = xp.empty(len(logits) * count, dtype.numpy)
    samples_per_block = max(1, _BLOCK // max(1, classes))
    for start in range(0, len(samples), samples_per_block):
        stop = min(start + samples_per_block, len(samples))
        # Sample i is drawn from row i // count.
        rows = xp.arange(start, stop) // count
        # Gumbel-max: the argmax of logits plus Gumbel noise has the distribution softmax(logits).
        noise = xp.asarray(generator.gumbel(size=(len(rows), classes)))
        samples[start:stop] = xp.argmax(logits[rows] + noise, axis=-1)
    drawn: Array = samples.reshape(len(logits), count)
    return drawn


def categorical_shape(op: Operation) -> Shape:
    """Return the shape [batch, num_samples] of drawn indices."""
    logits = op.inputs[0].shape.merge(Shape([None, None]))
    count = static_value(op.inputs[1])
    return Shape([logits[0], None if count is None else int(count)])


define(
    "Categorical",
    "logits: T, num_samples: host int32, instance: host *int64 -> samples: @dtype",
    where={"T": dtypes.FLOATING},
    attrs={"dtype": dtypes.int64, "seed": REQUIRED},
    shape=categorical_shape,
    rules=[Vectorize(one_by_one), Elements(lambda logits, count, *_, **attrs: logits.size * int(count))],
    kernel=_compute_categorical,
    gradient=DISCRETE,
    effects=Effect.RANDOM,
)


@public
def categorical(
    logits: Any, num_samples: Any, dtype: Any = "int64", seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draw class indices with probabilities ``softmax(logits)`` (TensorFlow 1 calls it multinomial).

    Parameters
    ----------
    logits : Tensor of a floating dtype, of shape [batch, classes]
        Unnormalised log probabilities.
    num_samples : scalar int32 Tensor
        Draws for each row.
    dtype : dtype-like
        An integer dtype that holds the largest class index, ``classes - 1``.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype` and shape [batch, num_samples].

    Examples
    --------
    >>> import tagloom as tg
    >>> never = float("-inf")
    >>> tg.function(lambda: tg.categorical([[0.0, never], [never, 0.0]], num_samples=3)).sync()
    array([[0, 0, 0],
           [1, 1, 1]])
    """
    return apply(
        "Categorical", logits, num_samples, [], name=name, dtype=dtypes.as_dtype(dtype), seed=seed_or_next(seed)
    )


def rows_shape(op: Operation) -> Shape:
    """Return the shape of the first input; ShapeError if it has no rows."""
    shape: Shape = op.inputs[0].shape
    if shape.rank == 0:
        raise ShapeError(
            "a shuffle takes rows",
            wanted="rank 1 or more",
            got=shape,
            operation=op,
            hint="reshape to [-1] to shuffle all elements",
        )
    return shape


def _compute_shuffle(xp: Any, context: KernelContext, value: Any, *instance: Any, seed: int) -> Array:
    if not value.ndim:
        raise ValueError("random_shuffle takes rows, got a scalar")
    order = instance_generator(context, seed, instance).permutation(value.shape[0])
    shuffled: Array = value[xp.asarray(order), ...]
    return shuffled


define(
    "RandomShuffle",
    "value: T, instance: host *int64 -> output: T",
    shape=rows_shape,
    rules=[Vectorize(one_by_one)],
    kernel=_compute_shuffle,
    gradient=NotDifferentiable("shuffle indices and gather instead, which has a gradient"),
    attrs={"seed": REQUIRED},
    effects=Effect.RANDOM,
)


@public
def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Put the rows of a tensor, along dimension 0, in a random order; all orders are equally probable.

    Parameters
    ----------
    value : Tensor of any dtype
        Rank 1 or more.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape; in another order in each step, iteration and frame; without a gradient.

    Raises
    ------
    ShapeError
        If `value` is a scalar.

    Examples
    --------
    >>> import tagloom as tg
    >>> cards = tg.function(lambda: tg.random_shuffle(tg.range(52))).sync()
    >>> sorted(cards.tolist()) == list(range(52))
    True
    """
    return apply("RandomShuffle", value, [], name=name, seed=seed_or_next(seed))

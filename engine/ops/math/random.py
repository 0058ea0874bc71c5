"""Random numbers determined by the drawing instance, never by the time of the draw.

Every draw is a function of (graph seed, operation seed) as the key of a Philox generator and of (step number,
frame, iteration) as its counter. So the ready order, the partition and a recomputation in a gradient change nothing:
an operation that repeats the draws of another instance receives the frame and iteration of this instance. The host
draws for GPUs too; the numbers are copied there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import GraphError
from ...base.shapes import SCALAR, Shape
from ...ir import scopes
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.graph import Graph, checked_seed
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ..support.arguments import shape_in, shape_vector
from ..support.context import KernelContext
from ..support.vectorizing.shapes import draw_for_examples

Array = np.ndarray[Any, Any]

_WORD_BITS = 64
_WORD = (1 << _WORD_BITS) - 1
# Bits of a uniform draw: as many as the significand holds, so that rounding does not reach 1.
_SIGNIFICANDS = {dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}
_OWN_SEEDS = 1 << 32  # first seed of operations without a `seed`, beyond all seeds of 32 bits
DRAWS = frozenset(
    {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "Categorical", "RandomShuffle"}
    | {"RandomGamma", "RandomPoisson", "RandomCandidates"}
)
_BY_KEY = {"Normal", "TruncatedNormal", "UniformInt", "Gamma", "Poisson", "Categorical", "Shuffle"}
# All except uniform floats, which `_fractions_from_bits` computes from Philox words without NumPy's Generator.
_DRAWS_BY_NUMPY = DRAWS - {"RandomUniform"} | {f"Stateless{name}" for name in _BY_KEY}
DISCRETE = NotDifferentiable("its result is drawn from a discrete set")
_DRAW = NotDifferentiable("a standard draw has no continuous inputs; range, mean and scale are applied outside it")


def instance_generator(context: KernelContext, seed: int, instance: Sequence[Any] = ()) -> np.random.Generator:
    """Return NumPy's generator of the running instance of a random operation, or of a frame and an iteration."""
    return np.random.Generator(philox_words(context, seed, instance))


def philox_words(context: KernelContext, seed: int, instance: Sequence[Any] = ()) -> np.random.Philox:
    """Return the Philox words of the running instance of a random operation, or of a frame and an iteration."""
    step = context.step
    frame, iteration = map(int, instance or (context.frame_id, context.iteration))
    key = np.array([step.seed & _WORD, seed & _WORD], np.uint64)
    # The lowest word counts the blocks drawn, so it starts at zero.
    counter = np.array([0, (step.number + step.drawn) & _WORD, frame & _WORD, iteration & _WORD], np.uint64)
    return np.random.Philox(key=key, counter=counter)


def numpy_draws_of(graph: Graph) -> list[str]:
    """Return the types of a graph's operations whose values depend on the version of NumPy, sorted."""
    return sorted({op.type for op in graph.root.walk()} & _DRAWS_BY_NUMPY)


define(
    "Instance",
    "-> frame: host int64, iteration: host int64",
    shape=lambda op: [SCALAR, SCALAR],
    # Frame numbers have 64 bits, so an int64 may be negative; `philox_words` masks it.
    kernel=lambda xp, context: (np.uint64(context.frame_id).astype(np.int64), np.int64(context.iteration)),
    gradient=NotDifferentiable("it has no inputs"),
    effects=Effect.INSTANCE,
)


@public
def set_random_seed(seed: int | None) -> None:
    """Set the seed of the current graph, on which all its random operations depend, also with their own `seed`.

    The default, 0, is the same in every graph, so each run of a program draws the same numbers. An operation without a
    `seed` takes the next seed of its graph while being built: building another random operation before changes its
    draws, but the order in which operations run and their devices never do.

    Parameters
    ----------
    seed : int or None
        None for a seed of the operating system, so that each run draws other numbers.

    Returns
    -------
    None

    Raises
    ------
    GraphError
        If `seed` is something else, or no graph is open.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     tg.set_random_seed(7)
    >>> graph.seed
    7
    """
    scopes.get_default_graph().seed = checked_seed(seed)


def seed_or_next(seed: int | None) -> int:
    """Return `seed`, or the next seed of the current graph for None."""
    if seed is not None:
        return checked_seed(seed)
    made = scopes.get_default_graph().collections.setdefault("random_seeds", [])
    # Numbered in the order of building, so that the same program draws the same numbers.
    made.append(_OWN_SEEDS + len(made))
    number: int = made[-1]
    return number


def _infer_drawn_shape(op: Operation) -> Shape:
    return static_shape(op.inputs[0])


def copied_in(xp: Any, drawn: Any, dtype: DType) -> Array:
    """Return numbers drawn by the host as an array of the library `xp`."""
    copied: Array = xp.asarray(drawn.astype(dtype.numpy, copy=False))
    return copied


def generator_of(bits: Any) -> Any:
    """Return the generator of Philox words; of those of a kernel that is traced, its steps."""
    return np.random.Generator(bits) if isinstance(bits, np.random.BitGenerator) else bits.generator()


def _compute_uniform(xp: Any, context: KernelContext, shape: Any, *instance: Any, dtype: DType, seed: int) -> Array:
    return copied_in(
        xp, draw_uniform(philox_words(context, seed, instance), tuple(int(d) for d in shape), dtype), dtype
    )


def draw_uniform(bits: np.random.Philox, size: tuple[int, ...], dtype: DType) -> Array:
    """Return numbers in [0, 1) of a generator's words."""
    return _fractions_from_bits(bits, prod(size), dtype).reshape(size)


def _fractions_from_bits(bits: np.random.Philox, count: int, dtype: DType) -> Array:
    """Return numbers in [0, 1) made of a generator's words: as many bits as the dtype's significand holds.

    NumPy promises the words for all versions and machines, but no numbers of its Generator; these are the same as its
    `random` draws so far.
    """
    if dtype is dtypes.float64:
        # Exact: the product with a power of two changes the exponent alone.
        numbers = bits.random_raw(count) >> np.uint64(_WORD_BITS - _SIGNIFICANDS[dtype])
        wide: Array = numbers.view(np.int64) * 2.0 ** -_SIGNIFICANDS[dtype]
        return wide
    halves = bits.random_raw(-(-count // 2)).astype("<u8", copy=False).view("<u4")[:count]  # the lower one first
    # Numbers of float16 and bfloat16 have few enough bits that the later cast from float32 is exact.
    halves >>= np.uint32(_WORD_BITS // 2 - _SIGNIFICANDS[dtype])
    fractions: Array = halves.view("<i4").astype(np.float32)
    fractions *= np.float32(2.0 ** -_SIGNIFICANDS[dtype])
    return fractions


def _compute_normal(xp: Any, context: KernelContext, shape: Any, *instance: Any, dtype: DType, seed: int) -> Array:
    return copied_in(xp, draw_normal(philox_words(context, seed, instance), tuple(int(d) for d in shape), dtype), dtype)


def draw_normal(bits: np.random.Philox, size: tuple[int, ...], dtype: DType) -> Array:
    """Return standard normal numbers, in float64 or float32."""
    wide = np.float64 if dtype is dtypes.float64 else np.float32
    drawn: Array = generator_of(bits).standard_normal(size, wide)
    return drawn


def _compute_truncated_normal(
    xp: Any, context: KernelContext, shape: Any, *instance: Any, dtype: DType, seed: int
) -> Array:
    return copied_in(xp, draw_truncated(philox_words(context, seed, instance), tuple(int(d) for d in shape)), dtype)


def draw_truncated(bits: np.random.Philox, size: tuple[int, ...], dtype: DType = dtypes.float64) -> Array:
    """Return `size` standard normal numbers between -2 and 2 from Philox `bits`, in float64 for any `dtype`."""
    draw = generator_of(bits)
    if not isinstance(draw, np.random.Generator):  # it is traced
        steps: Array = draw.truncated_normal(size)
        return steps
    values: Array = draw.standard_normal(size)
    # Each pass redraws one of 22 numbers of the last pass.
    while (outside := np.abs(values) > 2).any():
        values[outside] = draw.standard_normal(int(outside.sum()))
    return values


for _type, _kernel in (
    ("RandomUniform", _compute_uniform),
    ("RandomStandardNormal", _compute_normal),
    ("TruncatedNormal", _compute_truncated_normal),
):
    define(
        _type,
        "shape: host I, instance: host *int64 -> value: @dtype",
        where={"I": dtypes.INDEX},
        attrs={"dtype": dtypes.float32, "seed": REQUIRED},
        shape=_infer_drawn_shape,
        rules=[Vectorize(draw_for_examples), Elements(shape_in(0))],
        kernel=_kernel,
        gradient=_DRAW,
        effects=Effect.RANDOM,
    )


def _compute_random_integers(
    xp: Any, context: KernelContext, shape: Any, low: Any, high: Any, *instance: Any, seed: int
) -> Array:
    drawn = draw_integers(philox_words(context, seed, instance), tuple(int(d) for d in shape), low, high)
    return copied_in(xp, drawn, dtypes.as_dtype(drawn.dtype))


def draw_integers(bits: np.random.Philox, size: tuple[int, ...], low: Any, high: Any) -> Array:
    """Return integers in [`low`, `high`), of the dtype of `low`; raise ValueError if the range is empty."""
    if not np.all(low < high):
        raise ValueError(f"random_uniform needs minval < maxval, got {low} and {high}")
    kind = dtypes.as_dtype(np.result_type(low))
    drawn: Array = generator_of(bits).integers(low, high, size, kind.numpy)
    return drawn


define(
    "RandomUniformInt",
    "shape: host I, minval: host T, maxval: host T, instance: host *int64 -> value: T",
    where={"I": dtypes.INDEX, "T": dtypes.INTEGER},
    attrs={"seed": REQUIRED},
    shape=_infer_drawn_shape,
    rules=[Vectorize(draw_for_examples), Elements(shape_in(0))],
    kernel=_compute_random_integers,
    gradient=DISCRETE,
    effects=Effect.RANDOM,
)


@public
def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from the uniform distribution over [minval, maxval).

    Parameters
    ----------
    shape : int32 or int64 vector
        Shape of the result.
    minval, maxval : scalar of `dtype`, or Tensor that broadcasts to `shape`
        The range; gradients reach both ends. The default of `maxval` is 1; an integer `dtype` needs a `maxval`.
    dtype : dtype-like
        A floating or integer dtype.
    seed : int, optional
        Operations of a graph with equal seeds draw equal numbers; the default differs for each operation.

    Returns
    -------
    Tensor
        Of `dtype` and `shape`; different in each step, iteration and frame.

    Raises
    ------
    GraphError
        If an integer `dtype` has no `maxval`.

    Examples
    --------
    >>> import tagloom as tg
    >>> roll = tg.function(lambda: tg.random_uniform([1000], 1, 7, "int32"))
    >>> dice = roll.sync()
    >>> int(dice.min()), int(dice.max())
    (1, 6)
    >>> bool((dice == roll.sync()).all())
    False
    """
    wanted, size = dtypes.as_dtype(dtype), shape_vector(shape)
    if wanted.is_integer:
        low, high = convert_to_tensor(minval, wanted), bound_of(maxval, wanted)
        return apply("RandomUniformInt", size, low, high, [], name=name, seed=seed_or_next(seed))
    draw: Tensor = apply("RandomUniform", size, [], name=name, dtype=wanted, seed=seed_or_next(seed))
    return scale_draw(draw, 1 if maxval is None else maxval, minval)


def bound_of(maxval: Any, dtype: DType) -> Tensor:
    """Return the upper end of a range of integers; raise GraphError without `maxval`."""
    if maxval is None:
        raise GraphError(
            "random_uniform of an integer dtype needs a maxval",
            wanted=f"a number or tensor of {dtype}",
            got="none",
            hint="pass maxval=, one more than the largest number to draw",
        )
    return convert_to_tensor(maxval, dtype)


def scale_draw(draw: Tensor, high: Any, low: Any) -> Tensor:
    """Return draws from [0, 1) scaled to [`low`, `high`)."""
    if _is_number(low, 0) and _is_number(high, 1):
        return draw
    first, last = convert_to_tensor(low, draw.dtype), convert_to_tensor(high, draw.dtype)
    return draw * (last - first) + first


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


@public
def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from a normal distribution.

    Parameters
    ----------
    shape : int32 or int64 vector
        Shape of the result.
    mean, stddev : scalar of `dtype`, or Tensor that broadcasts to `shape`
        Gradients reach both.
    dtype : dtype-like
        A floating dtype.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype` and `shape`; different in each step, iteration and frame.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.random_normal([10000], mean=5.0, stddev=0.1))
    >>> round(float(draw.sync().mean()), 1)
    5.0
    >>> bool((draw.sync() == draw.sync()).all())
    False
    """
    return shift_and_scale(_draw_normal("RandomStandardNormal", shape, dtype, seed, name), mean, stddev)


@public
def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from a normal distribution, redrawing numbers beyond two standard deviations from the mean.

    Parameters
    ----------
    shape, mean, stddev, dtype, seed
        As for `random_normal`.

    Returns
    -------
    Tensor
        Of `dtype` and `shape`; different in each step, iteration and frame.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.truncated_normal([10000], stddev=0.1))
    >>> bool(abs(draw.sync()).max() <= 0.2)
    True
    """
    return shift_and_scale(_draw_normal("TruncatedNormal", shape, dtype, seed, name), mean, stddev)


def _draw_normal(type: str, shape: Any, dtype: Any, seed: int | None, name: str | None) -> Tensor:
    wanted = dtypes.as_dtype(dtype)
    return apply(type, shape_vector(shape), [], name=name, dtype=wanted, seed=seed_or_next(seed))


def shift_and_scale(draw: Tensor, mean: Any, stddev: Any) -> Tensor:
    """Return standard normal draws with another mean and standard deviation."""
    if not _is_number(stddev, 1):
        draw = draw * convert_to_tensor(stddev, draw.dtype)
    return draw if _is_number(mean, 0) else draw + convert_to_tensor(mean, draw.dtype)

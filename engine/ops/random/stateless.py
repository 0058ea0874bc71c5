"""Stateless draws: pure functions of a key, which step, frame and iteration do not change.

The kernels share their arithmetic with the stateful draws and use the generator of the key. Without state and effects,
equal draws are computed once, draws by constant keys while compiling, and loops hoist invariant draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.shapes import Shape
from ...ir.apply import apply, as_typed, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..math.random import (
    bound_of,
    copied_in,
    draw_integers,
    draw_normal,
    draw_truncated,
    draw_uniform,
    generator_of,
    scale_draw,
    shift_and_scale,
)
from ..support.arguments import as_sizes, shape_in, shape_vector
from ..support.common import zeros_like
from ..support.literals import f64, i32
from ..support.vectorizing.families import one_by_one
from .discrete import categorical_shape, draw_classes, rows_shape
from .distributions import at_least_smallest, checked_floating, checked_real, draw_poisson, gamma_gradient
from .keys import NO_GRADIENT, key_tensor, words_of

Array = np.ndarray[Any, Any]

_STANDARD = NotDifferentiable("a standard draw has no continuous inputs; range, mean and scale are applied outside it")
_KEY = i32([5, 6])


def _numpy_generator(key: Array) -> np.random.Generator:
    """Return NumPy's generator of a key, for the expectations of samples."""
    return np.random.Generator(np.random.Philox(key=(int(key[1]) << 64) + int(key[0])))


@dataclass(frozen=True)
class _Standard:
    """Operation type of a standard draw by shape and key, its drawing function, and NumPy's expected result."""

    type: str
    draw: Callable[..., Array]
    expected: Callable[..., Array]


def _truncated_by_numpy(shape: Array, key: Array) -> Array:
    """Return the truncated normal numbers that NumPy draws, redrawing all numbers beyond 2 at a time."""
    draw, values = _numpy_generator(key), np.empty(0)
    first = draw.standard_normal(int(np.prod(shape)))
    values = first
    while (out := np.abs(values) > 2).any():
        values = values.copy()
        values[out] = draw.standard_normal(int(out.sum()))
    return values.reshape(shape)


def _standard_kernel(draw: Callable[..., Array]) -> Callable[..., Array]:
    """Return the kernel of a standard draw."""

    def draw_standard(xp: Any, shape: Any, key: Any, *, dtype: Any) -> Array:
        kind = dtypes.as_dtype(dtype)
        return copied_in(xp, draw(words_of(xp, key), tuple(int(d) for d in shape), kind), kind)

    return draw_standard


for _each in (
    _Standard("StatelessUniform", draw_uniform, lambda shape, key: _numpy_generator(key).random(tuple(shape))),
    _Standard("StatelessNormal", draw_normal, lambda shape, key: _numpy_generator(key).standard_normal(tuple(shape))),
    _Standard("StatelessTruncatedNormal", draw_truncated, _truncated_by_numpy),
):
    define(
        _each.type,
        "shape: host I, key: host K -> value: @dtype",
        where={"I": dtypes.INDEX, "K": dtypes.INDEX},
        attrs={"dtype": dtypes.float32},
        shape=lambda op: static_shape(op.inputs[0]),
        rules=[Vectorize(one_by_one), Elements(shape_in(0))],
        kernel=_standard_kernel(_each.draw),
        gradient=_STANDARD,
        samples=[Sample([i32([3, 4]), _KEY], _each.expected, {"dtype": dtypes.float64})],
    )


def _compute_stateless_integers(xp: Any, shape: Any, low: Any, high: Any, key: Any) -> Array:
    kind = dtypes.as_dtype(np.result_type(low))
    return copied_in(xp, draw_integers(words_of(xp, key), tuple(int(d) for d in shape), low, high), kind)


define(
    "StatelessUniformInt",
    "shape: host I, minval: host T, maxval: host T, key: host K -> value: T",
    where={"I": dtypes.INDEX, "T": dtypes.INTEGER, "K": dtypes.INDEX},
    shape=lambda op: static_shape(op.inputs[0]),
    rules=[Vectorize(one_by_one), Elements(shape_in(0))],
    kernel=_compute_stateless_integers,
    gradient=NO_GRADIENT,
    samples=[
        Sample(
            [i32([9]), i32(-3), i32(3), _KEY], lambda n, a, b, key: _numpy_generator(key).integers(a, b, n[0], np.int32)
        )
    ],
)


def _compute_stateless_gamma(xp: Any, shape: Any, alpha: Any, key: Any) -> Array:
    draw = generator_of(words_of(xp, key))
    size = (*as_sizes(shape), *alpha.shape)
    # Drawn in float64 and rounded, so that draws of all dtypes agree.
    return copied_in(xp, draw.standard_gamma(alpha.astype(np.float64), size), dtypes.as_dtype(alpha.dtype))


def _with_parameters(op: Operation) -> Shape:
    drawn: Shape = static_shape(op.inputs[0])
    return drawn + op.inputs[1].shape


def _count_drawn(shape: Any, parameters: Any, *_: Any, **attrs: Any) -> int:
    return prod(as_sizes(shape)) * int(parameters.size)


define(
    "StatelessGamma",
    "shape: host I, alpha: host T, key: host K -> value: T",
    where={"I": dtypes.INDEX, "T": dtypes.FLOATING, "K": dtypes.INDEX},
    shape=_with_parameters,
    rules=[Vectorize(one_by_one), Elements(_count_drawn)],
    kernel=_compute_stateless_gamma,
    gradient=gamma_gradient,
    samples=[
        Sample(
            [i32([3]), f64([0.5, 2]), _KEY],
            lambda shape, alpha, key: _numpy_generator(key).standard_gamma(alpha, (*shape, 2)),
            differentiable=False,  # numbers are drawn again where the proposal of another is refused
        )
    ],
)


def _compute_stateless_poisson(xp: Any, shape: Any, rate: Any, key: Any, *, dtype: Any) -> Array:
    kind = dtypes.as_dtype(dtype)
    return copied_in(xp, draw_poisson(generator_of(words_of(xp, key)), shape, rate, kind), kind)


define(
    "StatelessPoisson",
    "shape: host I, rate: host T, key: host K -> value: @dtype",
    where={"I": dtypes.INDEX, "T": dtypes.REAL, "K": dtypes.INDEX},
    attrs={"dtype": REQUIRED},
    shape=_with_parameters,
    rules=[Vectorize(one_by_one), Elements(_count_drawn)],
    kernel=_compute_stateless_poisson,
    gradient=NO_GRADIENT,
    samples=[
        Sample(
            [i32([4]), f64([0.5, 20]), _KEY],
            lambda shape, rate, key: _numpy_generator(key).poisson(rate, (*shape, 2)),
            {"dtype": dtypes.int64},
        )
    ],
)


def _compute_stateless_categorical(xp: Any, logits: Any, count: Any, key: Any, *, dtype: Any) -> Array:
    return draw_classes(xp, generator_of(words_of(xp, key)), logits, int(count), dtypes.as_dtype(dtype))


def _classes_by_numpy(logits: Array, count: Array, key: Array) -> Array:
    noise = _numpy_generator(key).gumbel(size=(len(logits) * int(count), logits.shape[1]))
    return np.asarray(np.argmax(np.repeat(logits, int(count), 0) + noise, 1)).reshape(len(logits), -1)


define(
    "StatelessCategorical",
    "logits: T, num_samples: host int32, key: host K -> samples: @dtype",
    where={"T": dtypes.FLOATING, "K": dtypes.INDEX},
    attrs={"dtype": dtypes.int64},
    shape=categorical_shape,
    rules=[Vectorize(one_by_one), Elements(lambda logits, count, *_, **attrs: logits.size * int(count))],
    kernel=_compute_stateless_categorical,
    gradient=NO_GRADIENT,
    samples=[Sample([f64([[0, 1, 2], [2, 0, 0]]), i32(4), _KEY], _classes_by_numpy)],
)


def _compute_stateless_shuffle(xp: Any, value: Any, key: Any) -> Array:
    if not value.ndim:
        raise ValueError("stateless_shuffle takes rows, got a scalar")
    # The host orders the row numbers; the rows themselves may be on a device.
    order = generator_of(words_of(xp, key)).permutation(value.shape[0])
    shuffled: Array = xp.take(value, xp.asarray(order), axis=0)
    return shuffled


define(
    "StatelessShuffle",
    "value: T, key: host K -> output: T",
    where={"K": dtypes.INDEX},
    shape=rows_shape,
    rules=[Vectorize(one_by_one)],
    kernel=_compute_stateless_shuffle,
    gradient=NotDifferentiable("shuffle indices and gather instead, which has a gradient"),
    samples=[
        Sample([i32([[1, 2], [3, 4], [5, 6]]), _KEY], lambda rows, key: rows[_numpy_generator(key).permutation(3)])
    ],
)


@public
def stateless_random_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Draw from the uniform distribution over [minval, maxval), by a key alone.

    The same key gives the same bits in each step and iteration, on every executor and device.

    Parameters
    ----------
    shape : int32 or int64 vector
        Shape of the result.
    seed : int32 or int64 vector of 2
        A key, which may be fed or computed; see :func:`fold_in` and :func:`stateless_split`.
    minval, maxval : scalar of `dtype`, or Tensor that broadcasts to `shape`
        The range; gradients reach both ends. The default of `maxval` is 1; an integer `dtype` needs a `maxval`.
    dtype : dtype-like
        A floating or integer dtype.

    Returns
    -------
    Tensor
        Of `dtype` and `shape`.

    Raises
    ------
    ShapeError
        If `seed` is known not to be two integers; a DtypeError if its dtype is not int32 or int64.
    GraphError
        If an integer `dtype` has no `maxval`.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda key: tg.stateless_random_uniform([1000], key, 1, 7, "int32"))
    >>> dice = draw.sync([7, 1])
    >>> bool((dice == draw.sync([7, 1])).all()), bool((dice == draw.sync([7, 2])).all())
    (True, False)
    """
    wanted, size, key = dtypes.as_dtype(dtype), shape_vector(shape), key_tensor(seed)
    if wanted.is_integer:
        low, high = convert_to_tensor(minval, wanted), bound_of(maxval, wanted)
        return apply("StatelessUniformInt", size, low, high, key, name=name)
    draw: Tensor = apply("StatelessUniform", size, key, name=name, dtype=wanted)
    return scale_draw(draw, 1 if maxval is None else maxval, minval)


@public
def stateless_random_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Draw from a normal distribution, by a key alone.

    Parameters
    ----------
    shape, seed
        As for `stateless_random_uniform`.
    mean, stddev, dtype
        As for `random_normal`.

    Returns
    -------
    Tensor
        Of `dtype` and `shape`.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.stateless_random_normal([10000], [7, 1], mean=5.0, stddev=0.1))
    >>> round(float(draw.sync().mean()), 1), bool((draw.sync() == draw.sync()).all())
    (5.0, True)
    """
    return shift_and_scale(_draw_normal("StatelessNormal", shape, seed, dtype, name), mean, stddev)


@public
def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Draw from a normal distribution cut at two standard deviations, by a key alone.

    Parameters
    ----------
    shape, seed
        As for `stateless_random_uniform`.
    mean, stddev, dtype
        As for `truncated_normal`.

    Returns
    -------
    Tensor
        Of `dtype` and `shape`.

    Examples
    --------
    >>> import tagloom as tg
    >>> bool(abs(tg.function(lambda: tg.stateless_truncated_normal([10000], [7, 1])).sync()).max() <= 2)
    True
    """
    return shift_and_scale(_draw_normal("StatelessTruncatedNormal", shape, seed, dtype, name), mean, stddev)


def _draw_normal(type: str, shape: Any, seed: Any, dtype: Any, name: str | None) -> Tensor:
    return apply(type, shape_vector(shape), key_tensor(seed), name=name, dtype=checked_floating(dtype, "normal"))


@public
def stateless_random_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Draw from gamma distributions, by a key alone.

    Parameters
    ----------
    shape, alpha, beta, dtype
        As for `random_gamma`; the result has shape ``shape + broadcast(alpha, beta).shape``.
    seed : int32 or int64 vector of 2
        As for `stateless_random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype`. Gradients reach `alpha` and `beta`.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.stateless_random_gamma([100000], [7, 1], [2.0, 8.0], beta=2.0))
    >>> draw.sync().mean(axis=0).round(1)
    array([1., 4.], dtype=float32)
    """
    wanted = checked_floating(dtype, "gamma")
    # Draws are of rate 1, and divided by the rate in the end.
    concentration = convert_to_tensor(alpha, wanted)
    rate = None if beta is None else convert_to_tensor(beta, wanted)
    if rate is not None:
        concentration = concentration + zeros_like(rate)  # broadcast, since each pair has draws of its own
    draw: Tensor = apply("StatelessGamma", shape_vector(shape), concentration, key_tensor(seed), name=name)
    return at_least_smallest(draw if rate is None else draw / rate)


@public
def stateless_random_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
    """Draw from Poisson distributions, by a key alone.

    Parameters
    ----------
    shape, lam
        As for `random_poisson`; the result has shape ``shape + lam.shape``.
    seed : int32 or int64 vector of 2
        As for `stateless_random_uniform`.
    dtype : dtype-like
        An integer or floating dtype.

    Returns
    -------
    Tensor
        Of `dtype`.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.stateless_random_poisson([100000], [7, 1], [0.0, 3.0], "float32"))
    >>> draw.sync().mean(axis=0).round(1)
    array([0., 3.], dtype=float32)
    """
    rate = convert_to_tensor(lam) if as_typed(lam) is not None else convert_to_tensor(lam, dtypes.float32)
    key = key_tensor(seed)
    return apply("StatelessPoisson", shape_vector(shape), rate, key, name=name, dtype=checked_real(dtype))


@public
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """Draw class indices with probabilities ``softmax(logits)``, by a key alone (also called stateless multinomial).

    Parameters
    ----------
    logits, num_samples, dtype
        As for `categorical`.
    seed : int32 or int64 vector of 2
        As for `stateless_random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype` and shape [batch, num_samples].

    Examples
    --------
    >>> import tagloom as tg
    >>> never = float("-inf")
    >>> tg.function(lambda: tg.stateless_categorical([[0.0, never], [never, 0.0]], 3, [7, 1])).sync()
    array([[0, 0, 0],
           [1, 1, 1]])
    """
    kind: DType = dtypes.as_dtype(dtype)
    return apply("StatelessCategorical", logits, num_samples, key_tensor(seed), name=name, dtype=kind)


@public
def stateless_shuffle(value: Any, seed: Any, name: str | None = None) -> Tensor:
    """Put the rows of a tensor in an order decided by a key alone, all orders being equally probable.

    Parameters
    ----------
    value : Tensor of any dtype
        Rank 1 or more.
    seed : int32 or int64 vector of 2
        As for `stateless_random_uniform`; equal keys put tensors of equal numbers of rows in the same order.

    Returns
    -------
    Tensor
        Same dtype and shape, without a gradient.

    Raises
    ------
    ShapeError
        If `value` is a scalar.

    Examples
    --------
    >>> import tagloom as tg
    >>> order = tg.function(lambda key: tg.stateless_shuffle(tg.range(5), key))
    >>> xs, ys = order.sync([7, 1]), order.sync([7, 1])
    >>> bool((xs == ys).all()), sorted(xs.tolist())
    (True, [0, 1, 2, 3, 4])
    """
    return apply("StatelessShuffle", value, key_tensor(seed), name=name)

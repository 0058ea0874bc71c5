"""Draws from gamma and Poisson distributions, and random crops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType, float_info
from ...base.errors import DtypeError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, as_typed, convert_to_tensor
from ...ir.definition import REQUIRED, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape, static_value
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ..math.random import DISCRETE, copied_in, instance_generator, seed_or_next
from ..support.arguments import as_sizes, index_tensor, shape_vector
from ..support.common import scalar_like, shape_of, with_static_shape, zeros_like
from ..support.context import KernelContext
from ..support.vectorizing.shapes import draw_for_examples

Array = np.ndarray[Any, Any]


def _infer_drawn_shape(op: Operation) -> Shape:
    drawn: Shape = static_shape(op.inputs[0])
    return drawn + op.inputs[1].shape


def _count_drawn(shape: Any, parameters: Any, *_: Any, **attrs: Any) -> int:
    return math.prod(as_sizes(shape)) * int(parameters.size)


def _compute_gamma(xp: Any, context: KernelContext, shape: Any, alpha: Any, *instance: Any, seed: int) -> Array:
    draw, size = instance_generator(context, seed, instance), (*as_sizes(shape), *alpha.shape)
    return copied_in(xp, draw.standard_gamma(alpha.astype(np.float64), size), dtypes.as_dtype(alpha.dtype))


def gamma_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the cotangents of the inputs of `op` from `g`, the cotangent of the draws.

    Implicit reparameterization: each draw keeps its quantile (Figurnov et al. 2018, arXiv:1805.08498).
    """
    alpha, value = op.inputs[1], op.outputs[0]
    # P(alpha, value) stays constant, so d value / d alpha = -(dP / d alpha) / (dP / d value), the slope.
    moved = -(g * apply("IgammaSlope", alpha, value, order=1))
    return [None, with_static_shape(apply("SumTo", moved, shape_of(alpha)), alpha), *[None] * (len(op.inputs) - 2)]


define(
    "RandomGamma",
    "shape: host I, alpha: host T, instance: host *int64 -> value: T",
    where={"I": dtypes.INDEX, "T": dtypes.FLOATING},
    attrs={"seed": REQUIRED},
    shape=_infer_drawn_shape,
    rules=[Vectorize(draw_for_examples), Elements(_count_drawn)],
    kernel=_compute_gamma,
    gradient=gamma_gradient,
    effects=Effect.RANDOM,
)


@public
def random_gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = "float32", seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draw from gamma distributions, with the density ``beta**alpha * x**(alpha - 1) * exp(-beta * x) / gamma(alpha)``.

    Parameters
    ----------
    shape : int32 or int64 vector
        Shape of the draws for each pair of parameters.
    alpha, beta : Tensor of `dtype`
        Positive; shapes broadcast; the default of `beta` is 1. Gradients reach both, `alpha` by implicit
        reparameterization (Figurnov et al. 2018, arXiv:1805.08498).
    dtype : dtype-like
        A floating dtype.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype` and shape ``shape + broadcast(alpha, beta).shape``, at least the smallest normal number.

    Raises
    ------
    OpError
        When a step runs it, if `alpha` is negative.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.random_gamma([100000], [2.0, 8.0], beta=2.0))
    >>> draw.sync().mean(axis=0).round(1)
    array([1., 4.], dtype=float32)
    """
    wanted = checked_floating(dtype, "gamma")
    concentration = convert_to_tensor(alpha, wanted)
    rate = None if beta is None else convert_to_tensor(beta, wanted)
    if rate is not None:
        concentration = concentration + zeros_like(rate)  # broadcast, since each pair has draws of its own
    draw = apply("RandomGamma", shape_vector(shape), concentration, [], name=name, seed=seed_or_next(seed))
    return at_least_smallest(draw if rate is None else draw / rate)


def checked_floating(dtype: Any, what: str) -> DType:
    """Return the dtype of draws; DtypeError if it is not floating."""
    wanted = dtypes.as_dtype(dtype)
    if not wanted.is_floating:
        raise DtypeError(
            f"{what} draws are of a floating dtype", wanted="float32, say", got=wanted, hint="cast the result"
        )
    return wanted


def at_least_smallest(draw: Tensor) -> Tensor:
    """Return `draw` with numbers below the smallest normal number raised to the latter."""
    # Draws for a small alpha underflow to 0, where a density or logarithm would be infinite.
    return apply("Maximum", draw, scalar_like(_smallest_normal(draw.dtype), draw))


def _smallest_normal(dtype: DType) -> float:
    """Return the smallest normal number of a dtype."""
    return float(float_info(dtype.numpy).smallest_normal)


def _compute_poisson(
    xp: Any, context: KernelContext, shape: Any, rate: Any, *instance: Any, dtype: DType, seed: int
) -> Array:
    kind = dtypes.as_dtype(dtype)
    return copied_in(xp, draw_poisson(instance_generator(context, seed, instance), shape, rate, kind), kind)


def draw_poisson(draw: np.random.Generator, shape: Any, rate: Any, kind: DType) -> Array:
    """Return Poisson draws; raise ValueError if a draw exceeds an integer dtype."""
    drawn: Array = draw.poisson(rate.astype(np.float64), (*as_sizes(shape), *rate.shape))
    if kind.is_integer and drawn.size and drawn.max() > kind.max:
        raise ValueError(f"random_poisson: a draw is {drawn.max()}, but {kind} ends at {kind.max}: draw a wider dtype")
    return drawn


define(
    "RandomPoisson",
    "shape: host I, rate: host T, instance: host *int64 -> value: @dtype",
    where={"I": dtypes.INDEX, "T": dtypes.REAL},
    attrs={"dtype": REQUIRED, "seed": REQUIRED},
    shape=_infer_drawn_shape,
    rules=[Vectorize(draw_for_examples), Elements(_count_drawn)],
    kernel=_compute_poisson,
    gradient=DISCRETE,
    effects=Effect.RANDOM,
)


@public
def random_poisson(
    lam: Any, shape: Any, dtype: Any = "float32", seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draw from Poisson distributions.

    Parameters
    ----------
    lam : Tensor of an integer or floating dtype
        Means, not negative; a literal is float32. Means have no gradient, because draws are whole numbers.
    shape : int32 or int64 vector
        Shape of the draws for each mean.
    dtype : dtype-like
        An integer or floating dtype.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype` and shape ``shape + lam.shape``.

    Raises
    ------
    DtypeError
        If `dtype` or the dtype of `lam` is not integer or floating.
    OpError
        When a step runs it, if a mean is negative, or a draw is larger than an integer of `dtype`.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.random_poisson([0.0, 3.0], [100000]))
    >>> draw.sync().mean(axis=0).round(1)
    array([0., 3.], dtype=float32)
    """
    wanted = checked_real(dtype)
    rate = convert_to_tensor(lam) if as_typed(lam) is not None else convert_to_tensor(lam, dtypes.float32)
    return apply("RandomPoisson", shape_vector(shape), rate, [], name=name, dtype=wanted, seed=seed_or_next(seed))


def checked_real(dtype: Any) -> DType:
    """Return the dtype of Poisson draws; DtypeError if it is not integer or floating."""
    wanted = dtypes.as_dtype(dtype)
    if wanted not in dtypes.REAL:
        raise DtypeError(
            "Poisson draws are numbers", wanted="an integer or floating dtype", got=wanted, hint="int64, say"
        )
    return wanted


def _check_crop(value: Tensor, sizes: Tensor) -> None:
    """Raise ShapeError if the sizes are no vector, or known not to fit into `value`."""
    known = static_value(sizes)
    if sizes.rank not in (None, 1):
        raise ShapeError(
            "the size of a crop has a number for each dimension",
            wanted="a vector, as [32, 32, 3]",
            got=sizes if known is None else known.tolist(),
            hint="random_crop(image, [32, 32, 3])",
        )
    if known is None or value.rank is None:
        return
    if (
        known.ndim != 1
        or known.size != value.rank
        or any(d is not None and n > d for n, d in zip(known.tolist(), value.shape))
    ):
        raise ShapeError(
            "a crop has to fit into the tensor",
            wanted=f"a size for each dimension, at most {value.shape}",
            got=known.tolist(),
            hint="take whole dimensions by their size",
        )


@public
def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Cut a block out of a tensor at a place drawn uniformly.

    Parameters
    ----------
    value : Tensor of any dtype
    size : int32 or int64 vector
        A size for each dimension, at most the size of `value`.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Of the same dtype and shape `size`. Gradients pass to the block that was cut out.

    Raises
    ------
    ShapeError
        If the block is known not to fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> crop = tg.function(lambda: tg.random_crop(tg.range(100), [3])).sync()
    >>> (crop - crop[0]).tolist()
    [0, 1, 2]
    """
    tensor, sizes = convert_to_tensor(value), index_tensor(size)
    _check_crop(tensor, sizes)
    places = apply("Cast", shape_of(tensor), dtype=dtypes.int64) - apply("Cast", sizes, dtype=dtypes.int64) + 1
    # Draws below 2 ** 62 have a negligible bias modulo the number of places.
    low, high = (np.int64(v) for v in (0, 1 << 62))
    draw = apply("RandomUniformInt", apply("Shape", places), low, high, [], seed=seed_or_next(seed))
    return apply("Slice", tensor, draw % places, sizes, name=name)

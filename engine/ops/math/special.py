"""Special functions: inverses of the error function, integrals; and products and quotients with 0 where `x` is 0."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support import array_library as arrays
from ..support.arguments import convert_alike
from ..support.families import Unary, UnaryOperation, keep_dtype, make_samples
from ..support.literals import f64
from .elementwise import exp, log, log1p, square
from .trigonometry import cos, sin
from .zero_products import multiply_unless_zero

# Derivatives of quantiles have exp(y * y), of a `y` that is infinite at the ends of the domain. There the derivative of
# `square(y)`, 2 * y, would turn an incoming gradient of 0 into NaN, so `y` is multiplied by `multiply_unless_zero`.
erfinv: Unary = UnaryOperation(
    "Erfinv",
    "erfinv",
    "Inverse of ``erf``, elementwise; NaN outside of [-1, 1].",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("erfinv")),
    keeps_zero=True,
    gradient=lambda x, y, g: multiply_unless_zero(g, exp(multiply_unless_zero(y, y)) * (math.sqrt(math.pi) / 2)),
    samples=[
        *make_samples(lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2), [0.5, -0.9, 0.1]),
        Sample([f64([1, -1, 0, 2])], f64([np.inf, -np.inf, 0, np.nan]), differentiable=False),
    ],
    examples={"np.array([0.0, 0.5, 1.0])": "array([0.        , 0.47693628,        inf])"},
).declare_type()

ndtri: Unary = UnaryOperation(
    "Ndtri",
    "ndtri",
    "Quantile function of the standard normal distribution, elementwise; NaN outside of [0, 1].",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("ndtri")),
    gradient=lambda x, y, g: multiply_unless_zero(g, exp(multiply_unless_zero(y, y) * 0.5) * math.sqrt(2 * math.pi)),
    samples=[
        *make_samples(NormalDist().inv_cdf, [0.5, 0.975, 0.1]),
        Sample([f64([1, 0, -1])], f64([np.inf, -np.inf, np.nan]), differentiable=False),
    ],
    examples={"np.array([0.5, 0.975, 0.0])": "array([0.        , 1.95996398,       -inf])"},
).declare_type()


@public
def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """Inverse of ``erfc``, elementwise.

    Parameters
    ----------
    x : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Of the same dtype and shape; NaN outside of [0, 2].

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.erfcinv(np.array([0.5, 1e-30]))).sync()
    array([0.47693628, 8.14861622])
    """
    # The quantile of x / 2 is -sqrt(2) * erfcinv(x); `erfinv(1 - x)` would lose the digits of a small x.
    return apply("Mul", ndtri(convert_to_tensor(x) * 0.5), -math.sqrt(0.5), name=name)


expint: Unary = UnaryOperation(
    "Expint",
    "expint",
    "Exponential integral Ei, that of ``exp(t) / t`` from minus infinity to x, elementwise.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("expi")),
    gradient=lambda x, y, g: multiply_unless_zero(g, exp(x) / x),
    samples=[
        Sample(
            [f64([1, 0.5, -1, 10])],
            f64([1.8951178163559368, 0.4542199048631736, -0.21938393439552029, 2492.2289762418777]),
        ),
        Sample([f64([0])], f64([-np.inf]), differentiable=False),
    ],
    examples={"np.array([1.0, -1.0])": "array([ 1.89511782, -0.21938393])"},
).declare_type()

dawsn: Unary = UnaryOperation(
    "Dawsn",
    "dawsn",
    "Dawson's integral, ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to x, elementwise.",
    where=dtypes.FLOATING,
    on_host=True,
    kernel=keep_dtype(arrays.by_special("dawsn")),
    gradient=lambda x, y, g: g * (1 - x * y * 2),
    samples=[Sample([f64([0, 1, -2, 10])], f64([0, 0.5380795069127684, -0.30134038892379195, 0.05025384718759853]))],
    examples={"np.array([0.0, 1.0])": "array([0.        , 0.53807951])"},
).declare_type()

# Distance from 1 up to which a series replaces log(x) / (1 - x). The first term left out, of size 1e-3 ** 10 beside
# 1, is below the rounding errors of float64, and so are its first derivatives.
_NEAR = 1e-3
_TERMS = 10


def _spence_slope(x: Tensor) -> Tensor:
    """Return ``log(x) / (1 - x)``, by a series near 1, where derivatives would lose digits otherwise."""
    u = x - 1
    is_near = apply("Abs", u) < _NEAR
    # Each formula gets constants where the other is chosen, so that its derivatives are finite there too.
    near_u = apply("Where", is_near, u, 0)
    far_u, far_x = apply("Where", is_near, 1, u), apply("Where", is_near, 2, x)
    # Horner's rule for the series of log(1 + u) / u: 1 - u / 2 + u**2 / 3 - ...
    series: Any = 0.0
    for k in range(_TERMS, 0, -1):
        series = series * -near_u + 1 / k
    return apply("Where", is_near, -series, -(log(far_x) / far_u))


spence: Unary = UnaryOperation(
    "Spence",
    "spence",
    "Spence's integral, that of ``log(t) / (1 - t)`` from 1 to x, elementwise.",
    where=dtypes.FLOATING,
    on_host=True,
    kernel=keep_dtype(arrays.by_special("spence")),
    gradient=lambda x, y, g: multiply_unless_zero(g, _spence_slope(x)),
    samples=[
        Sample(
            [f64([0.5, 1, 2, 3.5])],
            f64([math.pi**2 / 12 - math.log(2) ** 2 / 2, 0, -(math.pi**2) / 12, -1.69889584199501417]),
        ),
        Sample([f64([0, -1])], f64([math.pi**2 / 6, np.nan]), differentiable=False),
    ],
    examples={"np.array([0.0, 1.0, 2.0])": "array([ 1.64493407,  0.        , -0.82246703])"},
).declare_type()


def _fresnel_kernel(index: int) -> Any:
    """Return the kernel of an integral: index 0 for sine, 1 for cosine, of the pair that SciPy computes at once."""
    kernel = arrays.by_special("fresnel")
    return keep_dtype(lambda xp, x: kernel(xp, x)[index])


fresnel_sin: Unary = UnaryOperation(
    "FresnelSin",
    "fresnel_sin",
    "Fresnel's integral of ``sin(pi * t**2 / 2)`` from 0 to x, elementwise.",
    where=dtypes.FLOATING,
    on_host=True,
    kernel=_fresnel_kernel(0),
    gradient=lambda x, y, g: g * sin(square(x) * (math.pi / 2)),
    samples=[Sample([f64([0, 1, -1, 2])], f64([0, 0.4382591473903548, -0.4382591473903548, 0.3434156783636982]))],
    examples={"np.array([0.0, 1.0])": "array([0.        , 0.43825915])"},
).declare_type()

fresnel_cos: Unary = UnaryOperation(
    "FresnelCos",
    "fresnel_cos",
    "Fresnel's integral of ``cos(pi * t**2 / 2)`` from 0 to x, elementwise.",
    where=dtypes.FLOATING,
    on_host=True,
    kernel=_fresnel_kernel(1),
    gradient=lambda x, y, g: g * cos(square(x) * (math.pi / 2)),
    samples=[Sample([f64([0, 1, -1, 2])], f64([0, 0.7798934003768228, -0.7798934003768228, 0.4882534060753408]))],
    examples={"np.array([0.0, 1.0])": "array([0.       , 0.7798934])"},
).declare_type()


@public
def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x / y``, with 0 where `x` is 0, elementwise.

    Parameters
    ----------
    x, y : Tensor of a floating or complex dtype
        Same dtype; shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape. Where `x` is 0, so are the gradients.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.xdivy([0.0, 3.0], [0.0, 2.0])).sync()
    array([0. , 1.5], dtype=float32)
    """
    a, b = convert_alike(x, y, default=dtypes.float32)
    is_zero = apply("Equal", a, 0)
    # The inner choice keeps the gradient of the dropped quotient finite.
    return apply("Where", is_zero, 0, a / apply("Where", is_zero, 1, b), name=name)


@public
def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x * log1p(y)``, with 0 where `x` is 0, elementwise.

    Parameters
    ----------
    x, y : Tensor of a floating or complex dtype
        Same dtype; shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape. Where `x` is 0, so are the gradients.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.xlog1py(np.array([0.0, 2.0]), np.array([-1.0, 1e-20]))).sync()
    array([0.e+00, 2.e-20])
    """
    a, b = convert_alike(x, y, default=dtypes.float32)
    is_zero = apply("Equal", a, 0)
    # The inner choice keeps the gradient of the dropped logarithm finite.
    return apply("Where", is_zero, 0, a * log1p(apply("Where", is_zero, 0, b)), name=name)

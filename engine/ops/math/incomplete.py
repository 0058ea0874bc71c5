"""Incomplete gamma and beta functions, regularised: distribution functions of the gamma and beta distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support import array_library as arrays
from ..support.batching import batch_pointwise
from ..support.common import broadcast_all, sum_to
from ..support.families import BinaryOperation, keep_dtype
from ..support.literals import f64
from ..support.vectorizing.families import pointwise
from .casting import cast
from .elementwise import exp, log
from .gamma import digamma, lgamma, polygamma
from .gamma_slopes import by_order, count_expanded_terms, incomplete_gamma_slopes
from .zero_products import multiply_unless_zero


def _log_power(a: Tensor, x: Tensor) -> Tensor:
    """Return ``(a - 1) * log(x)``, 0 where both factors are at their limits; `xlogy` has other derivatives by `a`."""
    is_nothing = apply("LogicalAnd", apply("Equal", a, 1), apply("Equal", x, 0))
    return (a - 1) * log(apply("Where", is_nothing, 1, x))


def _cast_to_float64(*tensors: Tensor) -> list[Tensor]:
    """Return tensors in float64: where parameters are large, few digits are left of differences of logarithms."""
    return [cast(t, dtypes.float64) for t in tensors]


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of ``igamma(a, x)`` by `x`."""
    wide_a, wide_x = _cast_to_float64(a, x)
    return cast(exp(_log_power(wide_a, wide_x) - wide_x - lgamma(wide_a)), x.dtype)


def _igamma_gradient(a: Tensor, x: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    inside = x > 0
    # P is 0 at 0 for all `a`; 1 stands in for 0, where the slope has no logarithm.
    positive: Tensor = apply("Where", inside, x, 1)
    by_a = _gamma_density(a, positive) * apply("IgammaSlope", a, positive, order=1)
    return multiply_unless_zero(g, apply("Where", inside, by_a, 0)), multiply_unless_zero(g, _gamma_density(a, x))


def _igammac_gradient(a: Tensor, x: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    by_a, by_x = _igamma_gradient(a, x, y, g)
    return -by_a, -by_x


_SHAPE, _AT = f64([[1], [2], [0.5]]), f64([0.25, 1.5, 6])


def _expected_igamma(a: Any, x: Any) -> Any:
    """Return P(a, x) for a = 1, 2 and 0.5, where the integral is elementary."""
    return np.stack([1 - np.exp(-x), 1 - (1 + x) * np.exp(-x), np.vectorize(math.erf)(np.sqrt(x))])


BinaryOperation(
    "Igamma",
    "igamma",
    "Regularised lower incomplete gamma function.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("gammainc")),
    gradient=_igamma_gradient,
    samples=[
        Sample([_SHAPE, _AT], _expected_igamma),
        Sample([f64([2, 3, -1]), f64([0, np.inf, 1])], f64([0, 1, np.nan]), differentiable=False),
    ],
).declare_type()

BinaryOperation(
    "Igammac",
    "igammac",
    "Regularised upper incomplete gamma function.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("gammaincc")),
    gradient=_igammac_gradient,
    samples=[
        Sample([_SHAPE, _AT], lambda a, x: 1 - _expected_igamma(a, x)),
        Sample([f64([1, 1]), f64([40, 700])], np.exp(f64([-40, -700])), differentiable=False),
    ],
).declare_type()


@public
def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Regularised lower incomplete gamma function P(a, x), elementwise.

    The integral of ``t ** (a - 1) * exp(-t) / gamma(a)`` over t from 0 to x.

    Parameters
    ----------
    a, x : Tensor of a floating dtype
        Same dtype; shapes broadcast; `a` is positive and `x` not negative. Both have gradients.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.igamma(1.0, np.array([0.0, 1.0, np.inf]))).sync()
    array([0.        , 0.63212056, 1.        ])
    """
    return apply("Igamma", a, x, name=name)


@public
def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Regularised upper incomplete gamma function ``1 - igamma(a, x)``, without loss of digits, elementwise.

    Parameters
    ----------
    a, x : Tensor of a floating dtype
        As for `igamma`.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.igammac(1.0, np.array([0.0, 1.0, 100.0]))).sync()
    array([1.00000000e+00, 3.67879441e-01, 3.72007598e-44])
    """
    return apply("Igammac", a, x, name=name)


def _log_slopes(a: Tensor, x: Tensor, order: int) -> Tensor:
    """Return the derivative by `a`, of an order, of ``x ** a / gamma(a)``, divided by this function."""
    slopes = [log(x) - digamma(a), *(-polygamma(float(k), a) for k in range(1, order))]
    # With f' = f * s, Leibniz's rule makes f(n + 1) the sum of comb(n, k) * f(n - k) * s(k). `found` holds f(n) / f.
    found: list[Any] = [1.0]
    for n in range(order):
        found.append(sum(math.comb(n, k) * found[n - k] * slopes[k] for k in range(n + 1)))
    slope: Tensor = found[order]
    return slope


def _igamma_slope_gradient(op: Operation, g: Tensor) -> list[Any]:
    (a, x), n, slope = op.inputs, op.attrs["order"], op.outputs[0]
    # The quotient rule, with a divisor whose logarithm is (a - 1) * log(x) - x - lgamma(a).
    by_a = apply("IgammaSlope", a, x, order=n + 1) - slope * (log(x) - digamma(a))
    by_x = _log_slopes(a, x, n) - slope * ((a - 1) / x - 1)
    return [sum_to(multiply_unless_zero(g, by_a), a), sum_to(multiply_unless_zero(g, by_x), x)]


define(
    "IgammaSlope",  # derivative of Igamma by a, of an order, divided by the derivative by x
    "a: host T, x: host T -> slope: host T",
    where={"T": dtypes.FLOATING},
    attrs={"order": REQUIRED},
    rules=[Vectorize(pointwise), Batch(batch_pointwise), Elements(count_expanded_terms)],
    shape=broadcast_all,
    kernel=by_order(incomplete_gamma_slopes),
    gradient=_igamma_slope_gradient,
    samples=[
        Sample([f64([1, 1]), f64([0.5, 3])], f64([-0.80697911682531802, -1.93791169382496105]), {"order": 1}),
        Sample([f64([60, 2.5]), f64([40, 20])], f64([-0.813173415122403785, -2.52368600245117405]), {"order": 1}),
        Sample([f64([2, 0.3]), f64([1, 4])], f64([0.557570767307947297, -11.8015149735978855]), {"order": 2}),
        Sample([f64([50]), f64([55])], f64([0.0114945015572749284]), {"order": 3}, differentiable=False),
        Sample([f64([1, 0, 1]), f64([0, 1, -1])], f64([0, np.nan, np.nan]), {"order": 1}, differentiable=False),
    ],
)


def _betainc_gradient(op: Operation, g: Tensor) -> list[Any]:
    a, b, x = _cast_to_float64(*op.inputs)
    # The logarithm of the beta function.
    scale = lgamma(a) + lgamma(b) - lgamma(a + b)
    density = exp(_log_power(a, x) + _log_power(b, 1 - x) - scale)
    return [None, None, sum_to(multiply_unless_zero(g, cast(density, g.dtype)), op.inputs[2])]


_BETA = f64([0.25, 0.5, 0.9])

define(
    "Betainc",
    "a: T, b: T, x: T -> y: T",
    where={"T": dtypes.FLOATING},
    rules=[Vectorize(pointwise), Batch(batch_pointwise)],
    shape=broadcast_all,
    kernel=keep_dtype(arrays.by_special("betainc")),
    gradient=_betainc_gradient,
    samples=[  # without gradients by a and b: tests/ops/test_special.py moves x
        Sample([f64([[2], [1]]), f64(1), _BETA], np.stack([_BETA**2, _BETA]), {}, False),
        Sample([f64(2), f64(3), _BETA], 6 * _BETA**2 - 8 * _BETA**3 + 3 * _BETA**4, {}, False),
        Sample([f64([2, 2, -1]), f64([3, 3, 1]), f64([0, 1, 0.5])], f64([0, 1, np.nan]), {}, False),
    ],
)


@public
def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """Regularised incomplete beta function, elementwise.

    The integral of ``t ** (a - 1) * (1 - t) ** (b - 1)`` over t from 0 to x, divided by the integral from 0 to 1.

    Parameters
    ----------
    a, b, x : Tensor of a floating dtype
        Same dtype; shapes broadcast; `a` and `b` are positive, `x` is between 0 and 1. Only `x` has a gradient.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.betainc(2.0, 1.0, np.array([0.5, 1.0]))).sync()
    array([0.25, 1.  ])
    """
    return apply("Betainc", a, b, x, name=name)

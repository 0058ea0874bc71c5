"""The logarithm of the gamma function, its derivatives, the beta function, Hurwitz's zeta function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
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
from ..support.families import BinaryOperation, Unary, UnaryOperation, keep_dtype, make_samples
from ..support.literals import f32, f64
from ..support.vectorizing.families import pointwise
from .gamma_slopes import by_order, count_expanded_terms, zeta_slopes
from .reductions import reduce_sum
from .zero_products import multiply_unless_zero

_EULER = 0.5772156649015329

lgamma: Unary = UnaryOperation(
    "Lgamma",
    "lgamma",
    "Logarithm of the absolute value of the gamma function, elementwise.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("gammaln")),
    gradient=lambda x, y, g: multiply_unless_zero(g, digamma(x)),
    samples=[
        *make_samples(math.lgamma, [0.5, 3.7, -1.3, 12.0]),
        Sample([f64([0, -2, np.inf])], f64([np.inf] * 3), differentiable=False),
        Sample([np.zeros((0, 2))], np.zeros((0, 2))),
    ],
    examples={"np.array([4.0, 0.5, 0.0])": "array([1.79175947, 0.57236494,        inf])"},
).declare_type()

digamma: Unary = UnaryOperation(
    "Digamma",
    "digamma",
    "Derivative of ``lgamma``, elementwise.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("digamma")),
    gradient=lambda x, y, g: multiply_unless_zero(g, polygamma(1.0, x)),
    samples=[
        Sample([f64([1, 2, 0.5, 3.5])], f64([0, 1, -2 * math.log(2), 46 / 15 - 2 * math.log(2)]) - _EULER),
        Sample([f64([-0.5])], f64([2 - 2 * math.log(2) - _EULER])),
    ],
    examples={"np.array([1.0, 2.0])": "array([-0.57721566,  0.42278434])"},
).declare_type()


@keep_dtype
def _compute_polygamma(xp: Any, a: Any, x: Any) -> Any:
    """Compute ``(-1) ** (a + 1) * gamma(a + 1) * zeta(a + 1, x)``, and ``digamma(x)`` for order 0."""
    a, x = (t.astype(xp.float32) if t.dtype.itemsize == 2 else t for t in (a, x))
    # DLMF, 25.11.12; the sign (-1) ** (a + 1) is -1 for even orders and 1 for odd ones.
    half = a / 2
    sign = xp.where(xp.floor(half) == half, -xp.ones((), a.dtype), xp.ones((), a.dtype))
    # Order 2 stands in for orders without a result here, so that both functions are finite.
    order = xp.where(a > 0, a + 1, xp.full((), 2, a.dtype))
    rest = sign * arrays.special_function(xp, "gamma")(order) * arrays.special_function(xp, "zeta")(order, x)
    found = xp.where(a == 0, arrays.special_function(xp, "digamma")(x), rest)
    return xp.where((a >= 0) & (xp.floor(a) == a), found, xp.full((), np.nan, x.dtype))


def _polygamma_gradient(op: Operation, g: Tensor) -> list[Any]:
    a, x = op.inputs
    return [None, sum_to(multiply_unless_zero(g, polygamma(a + 1, x)), x)]


define(
    "Polygamma",
    "a: T, x: T -> y: T",
    where={"T": dtypes.FLOATING},
    rules=[Vectorize(pointwise), Batch(batch_pointwise)],
    shape=broadcast_all,
    kernel=_compute_polygamma,
    gradient=_polygamma_gradient,
    samples=[  # numerical differentiation cannot move `a`, a whole number
        Sample(
            [f64([1, 1, 2]), f64([1, 0.5, 1])], f64([math.pi**2 / 6, math.pi**2 / 2, -2.4041138063191886]), {}, False
        ),
        Sample([f64([[0], [3]]), f64(1)], f64([[-_EULER], [math.pi**4 / 15]]), {}, False),
        Sample([f64([0.5, -1, 1]), f64([1, 1, 0])], f64([np.nan, np.nan, np.inf]), {}, False),
        Sample([f32([1]), f32([-0.5])], f32([math.pi**2 / 2 + 4]), {}, False),
    ],
)


@public
def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Derivative of order `a` of ``digamma``, elementwise.

    Parameters
    ----------
    a, x : Tensor of a floating dtype
        Same dtype; shapes broadcast. The order `a` is a whole number; only `x` has a gradient.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape; NaN where `a` is negative or no whole number.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.polygamma(1.0, np.array([1.0, 2.0]))).sync()
    array([1.64493407, 0.64493407])
    """
    return apply("Polygamma", a, x, name=name)


def _zeta_gradient(x: Tensor, q: Tensor, y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # DLMF, 25.11.17; the derivative by x has no closed form and is summed by ZetaSlope.
    by_x, by_q = apply("ZetaSlope", x, q, order=1), zeta(x + 1, q)
    return multiply_unless_zero(g, by_x), -multiply_unless_zero(g * x, by_q)


BinaryOperation(
    "Zeta",
    "zeta",
    "Hurwitz's zeta function.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("zeta")),
    gradient=_zeta_gradient,
    samples=[
        Sample([f64([2, 4, 2]), f64([1, 1, 2])], f64([math.pi**2 / 6, math.pi**4 / 90, math.pi**2 / 6 - 1])),
        Sample([f64([[3.5], [1.25]]), f64([0.75, 4])], lambda x, q: _summed_zeta(x, q)),
        Sample([f64([1, 0.5, 2]), f64([1, 1, 0])], f64([np.inf, np.nan, np.inf]), differentiable=False),
    ],
).declare_type()


def _summed_zeta(x: Any, q: Any) -> Any:
    """Sum the first terms, and the tail by the leading terms of the Euler-Maclaurin formula."""
    terms = np.arange(2.0e5)[:, None, None]
    end = q + 2.0e5
    return ((q + terms) ** -x).sum(0) + end ** (1 - x) / (x - 1) + end**-x / 2


@public
def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of ``(q + k) ** -x`` over k = 0, 1, ..., elementwise.

    Parameters
    ----------
    x, q : Tensor of a floating dtype
        Same dtype; shapes broadcast; `x` is more than 1. Both have gradients, `x` where `q` is positive.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.zeta(np.array([2.0, 4.0]), 1.0)).sync()
    array([1.64493407, 1.08232323])
    """
    return apply("Zeta", x, q, name=name)


def _zeta_slope_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x, q), n = op.inputs, op.attrs["order"]
    # The derivative of the order below, which for order 1 is the function itself.
    lower = zeta(x + 1, q) if n == 1 else apply("ZetaSlope", x + 1, q, order=n - 1)
    by_x = apply("ZetaSlope", x, q, order=n + 1)
    # The n-th derivative by x of -x * zeta(x + 1, q), by Leibniz's rule: only two terms because x is linear.
    by_q = -(x * apply("ZetaSlope", x + 1, q, order=n) + float(n) * lower)
    return [sum_to(multiply_unless_zero(g, by_x), x), sum_to(multiply_unless_zero(g, by_q), q)]


define(
    "ZetaSlope",  # derivative of Zeta by x, of an order
    "x: host T, q: host T -> slope: host T",
    where={"T": dtypes.FLOATING},
    attrs={"order": REQUIRED},
    rules=[Vectorize(pointwise), Batch(batch_pointwise), Elements(count_expanded_terms)],
    shape=broadcast_all,
    kernel=by_order(zeta_slopes),
    gradient=_zeta_slope_gradient,
    samples=[
        Sample([f64([2, 3.5]), f64([1, 0.5])], f64([-0.937548254315843754, 7.66924225068964957]), {"order": 1}),
        Sample([f64([2]), f64([1])], f64([1.98928023429890102]), {"order": 2}),
        Sample([f64([1, 2]), f64([1, 0])], f64([np.nan, np.nan]), {"order": 1}, differentiable=False),
    ],
)


@public
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Logarithm of the absolute value of the beta function of the values along the last dimension.

    Parameters
    ----------
    x : floating Tensor of rank 1 or more

    Returns
    -------
    Tensor
        ``reduce_sum(lgamma(x), -1) - lgamma(reduce_sum(x, -1))``.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.exp(tg.lbeta(np.array([[1.0, 1.0], [2.0, 3.0]])))).sync()
    array([1.        , 0.08333333])
    """
    values = convert_to_tensor(x)
    return apply("Sub", reduce_sum(lgamma(values), -1), lgamma(reduce_sum(values, -1)), name=name)

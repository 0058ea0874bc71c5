"""Bessel functions of orders 0 and 1, and the functions of higher orders in their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...ir.apply import apply
from ...ir.definition import REQUIRED, Sample, define
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support import array_library as arrays
from ..support.batching import batch_pointwise
from ..support.common import same_as
from ..support.families import Unary, UnaryOperation, keep_dtype
from ..support.literals import f64
from ..support.vectorizing.families import pointwise
from .elementwise import sign
from .zero_products import multiply_unless_zero

_X = f64([0, 0.5, -2, 6.25])
_POSITIVE = f64([0.25, 0.5, 2, 6.25])
_FAR = 1e9  # beyond, SciPy fails for scaled functions of higher orders; two terms of their expansion suffice
# Midpoints of 4000 intervals of [0, pi], half a period of the even integrands below: sums over a period of a smooth
# periodic function converge exponentially, so far fewer would do.
_ANGLES = (np.arange(4000) + 0.5) * (math.pi / 4000)


def _integral_of_i(order: int, scaled: bool = False) -> Callable[[Any], Any]:
    """Return the function I by its integral, the mean of ``exp(x * cos(t)) * cos(order * t)`` over t in [0, pi]."""

    def integrate_i(x: Any) -> Any:
        # The scale ``exp(-abs(x))`` is a part of the exponent, so that large arguments do not overflow.
        exponent = x[:, None] * np.cos(_ANGLES) - (np.abs(x)[:, None] if scaled else 0)
        return (np.exp(exponent) * np.cos(order * _ANGLES)).mean(-1)

    return integrate_i


def _integral_of_j(order: int) -> Callable[[Any], Any]:
    """Return the function J by its integral, the mean of ``cos(order * t - x * sin(t))`` over t in [0, pi]."""
    return lambda x: np.cos(order * _ANGLES - x[:, None] * np.sin(_ANGLES)).mean(-1)


def _integral_of_k(order: int, scaled: bool = False) -> Callable[[Any], Any]:
    """Return the function K by its integral of ``exp(-x * cosh(t)) * cosh(order * t)`` over t from 0 to infinity."""
    width = 1e-3  # of an interval; 8000 reach to 8, where the integrand of all samples has vanished
    t = (np.arange(8000) + 0.5) * width

    def integrate_k(x: Any) -> Any:
        # The scale ``exp(x)`` is a part of the exponent.
        exponent = -x[:, None] * (np.cosh(t) - (1 if scaled else 0))
        return (np.exp(exponent) * np.cosh(order * t)).sum(-1) * width

    return integrate_k


def _scaled_i(order: int) -> Callable[..., Any]:
    """Return the kernel of the function I of an order, times ``exp(-abs(x))``.

    For large arguments CuPy multiplies 0 by infinity. So libraries other than NumPy use an expansion there (DLMF,
    10.40.1).
    """
    by_library = arrays.by_special(f"i{order}e")

    def compute_scaled_i(xp: Any, x: Any) -> Any:
        near = by_library(xp, x)
        if is_numpy(xp):
            return near
        x = arrays.cast_to_accumulator(xp, x)
        size = xp.absolute(x)
        # Half of the range of exp: a kernel that multiplies I by exp(-x) is finite up to twice this value, and eight
        # terms are exact to the last digit from here on (44 for float32, 354 for float64).
        is_far = size > math.log(np.finfo(x.dtype).max) / 2
        # 1 stands in for near arguments, whose expansion is not used, so that there is no division by 0.
        size = xp.where(is_far, size, xp.ones((), x.dtype))
        term = total = xp.ones(x.shape, x.dtype)
        for k in range(1, 9):
            term = term * (((2 * k - 1) ** 2 - 4 * order**2) / (8 * k)) / size
            total = total + term
        far = total / xp.sqrt(size * (2 * math.pi))
        # The expansion is of abs(x), and functions I of odd orders are odd.
        return xp.where(is_far, far * xp.sign(x) if order % 2 else far, near)

    return compute_scaled_i


def _declare_bessel(
    function: str,
    what: str,
    gradient: Callable[[Tensor, Tensor], Tensor],
    samples: list[Sample],
    examples: dict[str, str],
) -> Unary:
    """Declare a function of `scipy.special`.

    Parameters
    ----------
    function : str
        Name in `scipy.special`: a letter, the order, and "e" for a scaled function.
    what : str
        Noun phrase for the first line of the docstring.
    gradient : callable
        ``gradient(x, y)`` returns the derivative at `x`, where the function is `y`.
    samples, examples
        As of `UnaryOperation`.
    """
    return UnaryOperation(
        f"Bessel{function.upper()}",
        f"bessel_{function}",
        f"{what}, elementwise.",
        where=dtypes.FLOATING,
        kernel=keep_dtype(_scaled_i(int(function[1])) if function in ("i0e", "i1e") else arrays.by_special(function)),
        gradient=lambda x, y, g: multiply_unless_zero(g, gradient(x, y)),
        samples=samples,
        examples=examples,
    ).declare_type()


bessel_i0: Unary = _declare_bessel(
    "i0",
    "Modified Bessel function of the first kind and order 0",
    lambda x, y: bessel_i1(x),
    [Sample([_X], _integral_of_i(0))],
    {"np.array([0.0, 1.0])": "array([1.        , 1.26606588])"},
)

bessel_i1: Unary = _declare_bessel(
    "i1",
    "Modified Bessel function of the first kind and order 1",
    # DLMF, 10.29.1; the shorter I0 - I1 / x divides by 0 at 0.
    lambda x, y: (bessel_i0(x) + apply("BesselI", x, order=2)) * 0.5,
    [Sample([_X], _integral_of_i(1))],
    {"np.array([0.0, 1.0])": "array([0.       , 0.5651591])"},
)

bessel_i0e: Unary = _declare_bessel(
    "i0e",
    "Modified Bessel function of the first kind and order 0, times ``exp(-abs(x))``",
    # The last term is the derivative of the factor exp(-abs(x)).
    lambda x, y: bessel_i1e(x) - sign(x) * y,
    [
        Sample([_X[1:]], _integral_of_i(0, True)),
        Sample([f64([0, 800])], f64([1, 0.014106945005869184]), differentiable=False),
    ],
    {"np.array([0.0, 1000.0])": "array([1.        , 0.01261724])"},
)

bessel_i1e: Unary = _declare_bessel(
    "i1e",
    "Modified Bessel function of the first kind and order 1, times ``exp(-abs(x))``",
    lambda x, y: (bessel_i0e(x) + apply("BesselI", x, order=2, scaled=True)) * 0.5 - sign(x) * y,
    [
        Sample([_X[1:]], _integral_of_i(1, True)),
        Sample([f64([0, -800])], f64([0, -0.014098125406526996]), differentiable=False),
    ],
    {"np.array([0.0, 1000.0])": "array([0.        , 0.01261093])"},
)

bessel_j0: Unary = _declare_bessel(
    "j0",
    "Bessel function of the first kind and order 0",
    lambda x, y: -bessel_j1(x),
    [Sample([_X], _integral_of_j(0))],
    {"np.array([0.0, 1.0])": "array([1.        , 0.76519769])"},
)

bessel_j1: Unary = _declare_bessel(
    "j1",
    "Bessel function of the first kind and order 1",
    # DLMF, 10.6.1; J0 - J1 / x divides by 0 at 0.
    lambda x, y: (bessel_j0(x) - apply("BesselJ", x, order=2)) * 0.5,
    [Sample([_X], _integral_of_j(1))],
    {"np.array([0.0, 1.0])": "array([0.        , 0.44005059])"},
)

bessel_y0: Unary = _declare_bessel(
    "y0",
    "Bessel function of the second kind and order 0; NaN for negative numbers",
    lambda x, y: -bessel_y1(x),
    [
        Sample([f64([0.5, 1, 6.25])], f64([-0.44451873350670656, 0.08825696421567696, -0.23693546237904966])),
        Sample([f64([0, -1])], f64([-np.inf, np.nan]), differentiable=False),
    ],
    {"np.array([0.0, 1.0])": "array([      -inf, 0.08825696])"},
)

bessel_y1: Unary = _declare_bessel(
    "y1",
    "Bessel function of the second kind and order 1; NaN for negative numbers",
    # DLMF, 10.6.2; the division is harmless because Y1 itself has no limit at 0.
    lambda x, y: bessel_y0(x) - y / x,
    [
        Sample([f64([0.5, 1, 6.25])], f64([-1.4714723926702431, -0.7812128213002887, -0.23258974169251221])),
        Sample([f64([0, -1])], f64([-np.inf, np.nan]), differentiable=False),
    ],
    {"np.array([0.0, 1.0])": "array([       -inf, -0.78121282])"},
)

bessel_k0: Unary = _declare_bessel(
    "k0",
    "Modified Bessel function of the second kind and order 0; NaN for negative numbers",
    lambda x, y: -bessel_k1(x),
    [Sample([_POSITIVE], _integral_of_k(0)), Sample([f64([0, -1])], f64([np.inf, np.nan]), differentiable=False)],
    {"np.array([0.0, 1.0])": "array([       inf, 0.42102444])"},
)

bessel_k1: Unary = _declare_bessel(
    "k1",
    "Modified Bessel function of the second kind and order 1; NaN for negative numbers",
    # DLMF, 10.29.2.
    lambda x, y: -bessel_k0(x) - y / x,
    [Sample([_POSITIVE], _integral_of_k(1)), Sample([f64([0, -1])], f64([np.inf, np.nan]), differentiable=False)],
    {"np.array([0.0, 1.0])": "array([       inf, 0.60190723])"},
)

bessel_k0e: Unary = _declare_bessel(
    "k0e",
    "Modified Bessel function of the second kind and order 0, times ``exp(x)``; NaN for negative numbers",
    lambda x, y: y - bessel_k1e(x),
    [Sample([_POSITIVE], _integral_of_k(0, True)), Sample([f64([0, -1])], f64([np.inf, np.nan]), differentiable=False)],
    {"np.array([1.0, 1000.0])": "array([1.14446308, 0.03962832])"},
)

bessel_k1e: Unary = _declare_bessel(
    "k1e",
    "Modified Bessel function of the second kind and order 1, times ``exp(x)``; NaN for negative numbers",
    # The sum of K1 and its derivative -K0 - K1 / x, times exp(x).
    lambda x, y: y * (1 - 1 / x) - bessel_k0e(x),
    [Sample([_POSITIVE], _integral_of_k(1, True)), Sample([f64([0, -1])], f64([np.inf, np.nan]), differentiable=False)],
    {"np.array([1.0, 1000.0])": "array([1.63615349, 0.03964813])"},
)


def _compute_by_scipy(x: Any, order: int, function: str) -> Any:
    """Return the values of a function of `scipy.special` that takes the order as an argument."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return arrays.special_function(np, function)(order, wide)


def _compute_i(xp: Any, x: Any, order: int, scaled: bool) -> Any:
    """Return the function I of an order; scaled, arguments beyond `_FAR` get two terms of DLMF, 10.40.1."""
    if not scaled:
        return _compute_by_scipy(x, order, "iv")
    size = np.absolute(x)
    is_far = size > _FAR
    with np.errstate(all="ignore"):  # near arguments, whose expansion is not used, may be 0
        far = (1 - (4 * order**2 - 1) / (8 * size)) / np.sqrt(2 * math.pi * size)
    # The expansion is of abs(x), and functions I of odd orders are odd.
    far = far * np.sign(x) if order % 2 else far
    near = _compute_by_scipy(np.where(is_far, 0, x), order, "ive")
    return np.where(is_far, far, near)


def _i_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x,), n, scaled = op.inputs, op.attrs["order"], op.attrs["scaled"]
    # Orders 0 and 1 are operations of their own, which run on devices as well.
    order_1 = bessel_i1e if scaled else bessel_i1
    lower = order_1(x) if n == 2 else apply("BesselI", x, order=n - 1, scaled=scaled)
    # DLMF, 10.29.1; of the scaled function, the factor exp(-abs(x)) has a derivative too.
    slope = (lower + apply("BesselI", x, order=n + 1, scaled=scaled)) * 0.5
    return [multiply_unless_zero(g, slope - sign(x) * op.outputs[0] if scaled else slope)]


def _j_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x,), n = op.inputs, op.attrs["order"]
    lower = bessel_j1(x) if n == 2 else apply("BesselJ", x, order=n - 1)
    # DLMF, 10.6.1.
    return [g * ((lower - apply("BesselJ", x, order=n + 1)) * 0.5)]


# BesselI and BesselJ are the orders from 2 up, needed by derivatives only; on the host, because CuPy lacks them.
define(
    "BesselI",
    "x: host T -> y: host T",
    where={"T": dtypes.FLOATING},
    attrs={"order": REQUIRED, "scaled": False},
    rules=[Vectorize(pointwise), Batch(batch_pointwise)],
    shape=same_as(0),
    kernel=keep_dtype(_compute_i),
    gradient=_i_gradient,
    samples=[
        Sample([_X], _integral_of_i(2), {"order": 2}),
        Sample([_X], _integral_of_i(3), {"order": 3}),
        Sample([_X[1:]], _integral_of_i(2, True), {"order": 2, "scaled": True}),
    ],
)

define(
    "BesselJ",
    "x: host T -> y: host T",
    where={"T": dtypes.FLOATING},
    attrs={"order": REQUIRED},
    rules=[Vectorize(pointwise), Batch(batch_pointwise)],
    shape=same_as(0),
    kernel=keep_dtype(lambda xp, x, order: _compute_by_scipy(x, order, "jv")),
    gradient=_j_gradient,
    samples=[Sample([_X], _integral_of_j(2), {"order": 2}), Sample([_X], _integral_of_j(3), {"order": 3})],
)

"""Derivatives by parameters of the incomplete gamma function and of Hurwitz's zeta function, of any order.

The expansions of the functions are differentiated term by term. Arrays represent a function f of `a` by its truncated
power series in e, the coefficients of ``f(a + e)`` along the first axis: the last coefficient times n! is the n-th
derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...ir.definition import Kernel
from ...kernels.memory.contexts import outside
from ..support.array_library import special_function
from ..support.families import keep_dtype

Array = np.ndarray[Any, Any]

_EPSILON = 1e-15
_TERMS = 12
_LARGE, _NEAR = 1e8, 1e-2  # parameters, and relative distances of `x`, where two expansions have many terms


@cache
def _bernoulli_numbers() -> Array:
    """Return the Bernoulli numbers of even order, from the second on."""
    numbers: Array = outside(special_function(np, "bernoulli"), 2 * _TERMS)[
        2::2
    ]  # cached, so not in the memory of a step
    return numbers


def _multiply_series(x: Array, y: Array) -> Array:
    """Return the product of two power series."""
    result = np.zeros_like(x)
    for i in range(len(x)):
        result[i:] += x[i] * y[: len(y) - i]
    return result


def _divide_series(x: Array, y: Array) -> Array:
    """Return the quotient of two power series."""
    result = np.empty_like(y)
    for i in range(len(y)):
        result[i] = (x[i] - sum(result[j] * y[i - j] for j in range(i))) / y[0]
    return result


def _exponentiate_series(x: Array) -> Array:
    """Return the exponential of a power series whose first coefficient is 0."""
    result = np.ones_like(x)
    for i in range(1, len(x)):
        # f = exp(x) fulfills f' = x' * f, coefficient by coefficient.
        result[i] = sum(k * x[k] * result[i - k] for k in range(1, i + 1)) / i
    return result


def _series_to_order(order: int, *coefficients: Any) -> Array:
    """Return a power series to an order, from its first coefficients."""
    result = np.zeros((order + 1, *np.shape(coefficients[0])))
    for i, value in enumerate(coefficients):
        result[i] = value
    return result


def _power_over_gamma(a: Array, x: Array, order: int) -> Array:
    """Return the series of ``x ** e * gamma(a) / gamma(a + e)``."""
    # The logarithm of the result; its first derivative at e = 0 is log(x) - digamma(a).
    exponent = _series_to_order(order, np.zeros_like(a), np.log(x) - special_function(np, "digamma")(a))
    # Higher derivatives of the logarithm of gamma, the polygamma functions, are zeta functions of whole orders.
    for m in range(2, order + 1):
        exponent[m] = (-1) ** (m + 1) * special_function(np, "zeta")(m, a) / m
    return _exponentiate_series(exponent)


def incomplete_gamma_slopes(a: Array, x: Array, order: int) -> Array:
    """Return the derivative by `a` of the lower incomplete gamma function P, divided by the derivative by `x`.

    The latter, the density ``x ** (a - 1) * exp(-x) / gamma(a)``, would underflow long before the quotient does.

    Parameters
    ----------
    a, x : float64 arrays of equal shape
    order : int
        Order of the derivative, at least 1.

    Returns
    -------
    float64 array
        NaN where `a` is not positive or `x` is negative.
    """
    result = np.full(a.shape, np.nan)
    defined = (a > 0) & (x >= 0)
    # P is 0 at 0, and 1 at infinity, for every `a`.
    result[defined & ((x == 0) | np.isinf(x))] = 0
    inside = defined & (x > 0) & np.isfinite(x) & np.isfinite(a)
    with np.errstate(all="ignore"):
        middle = inside & (a > _LARGE) & (np.abs(x / a - 1) < _NEAR)
    # The sum converges fast below `a`, the fraction above; both are slow around a large `a`, where the normal
    # approximation is accurate.
    low = inside & ~middle & (x <= a + 1)
    high = inside & ~middle & (x > a + 1)
    result[low] = _by_sum(a[low], x[low], order)
    # The fraction expands Q = 1 - P.
    result[high] = -_by_fraction(a[high], x[high], order)
    result[middle] = -_by_normal(a[middle], x[middle], order)
    return result


def _by_sum(a: Array, x: Array, order: int) -> Array:
    """Differentiate ``P = x ** a * exp(-x) / gamma(a + 1) * (1 + x / (a + 1) * (1 + x / (a + 2) * ...))``."""
    term = _series_to_order(order, np.ones_like(a))
    total, k = term.copy(), 0
    # The first term is constant: its derivatives, all 0, must not end the sum.
    while k < 2 or (np.abs(term) > _EPSILON * np.abs(total)).any():
        k += 1
        term[0] *= x / (a + k)
        for i in range(1, order + 1):
            # The division by a + k + e, coefficient by coefficient.
            term[i] = (term[i] * x - term[i - 1]) / (a + k)
        total += term
    # x / a is the factor of the sum, divided by the density.
    slopes: Array = x / a * math.factorial(order) * _multiply_series(_power_over_gamma(a + 1, x, order), total)[order]
    return slopes


def _by_fraction(a: Array, x: Array, order: int) -> Array:
    """Differentiate ``Q = x ** a * exp(-x) / gamma(a) / (x + 1 - a - (1 - a) / (x + 3 - a - ...))`` by Lentz's rule."""
    one = _series_to_order(order, np.ones_like(a))
    below = _series_to_order(order, x + 1 - a, -np.ones_like(a))
    # An infinite first ratio makes the first quotient by it vanish.
    last_ratio, ratio = _series_to_order(order, np.full_like(a, np.inf)), _divide_series(one, below)
    value = ratio.copy()
    for i in range(1, 500 + int(20 * math.sqrt(x.max(initial=0)))):
        # Level i has the numerator -i * (i - a), whose derivative by a is i, and the denominator x + 2 * i + 1 - a.
        above = _series_to_order(order, i * (a - i), np.full_like(a, i))
        below[0] += 2
        ratio = _divide_series(one, below + _multiply_series(above, ratio))
        last_ratio = below + _divide_series(above, last_ratio)
        change = _multiply_series(last_ratio, ratio)
        value = _multiply_series(value, change)
        # Comparisons with NaN are false, so that NaN ends the loop too.
        if not (np.abs(change - one) > _EPSILON).any():
            break
    slopes: Array = x * math.factorial(order) * _multiply_series(_power_over_gamma(a, x, order), value)[order]
    return slopes


def _by_normal(a: Array, x: Array, order: int) -> Array:
    """Differentiate the normal approximation of P (Temme, 1979), where other expansions have many terms.

    There, raising `a` by d changes P as lowering `x` by ``d * ((1 + m) * log(1 + m) / m + 1 / (6 * a))`` does, where m
    is ``x / a - 1``.
    """
    inverse = _series_to_order(order, *((-1) ** i * (1 / a) ** (i + 1) for i in range(order + 1)))
    m = x * inverse
    # The higher coefficients are those of x / (a + e), which do not cancel.
    m[0] = (x - a) / a  # not x / a - 1, which cancels digits
    # Horner's rule for the series of (1 + m) * log(1 + m) / m, which cancels digits near m = 0.
    moved = np.zeros_like(m)
    for k in range(_TERMS, 0, -1):
        moved = _multiply_series(moved, -m)
        moved[0] += 1 / (k * (k + 1))
    moved = _multiply_series(moved, m) + inverse / 6
    moved[0] += 1
    slopes: Array = math.factorial(order - 1) * _multiply_series(_power_over_gamma(a, x, order), moved)[order - 1]
    return slopes


def zeta_slopes(x: Array, q: Array, order: int) -> Array:
    """Return the derivative by `x` of Hurwitz's zeta function, the sum of ``(q + k) ** -x``.

    Parameters
    ----------
    x, q : float64 arrays of equal shape
    order : int

    Returns
    -------
    float64 array
        NaN where `x` is not more than 1 or `q` is not positive.
    """
    result = np.full(x.shape, np.nan)
    defined = (x > 1) & (q > 0)
    result[defined] = _euler_maclaurin(x[defined], q[defined], order)
    return result


def _euler_maclaurin(x: Array, q: Array, order: int) -> Array:
    """Sum the first terms, and the tail by the Euler-Maclaurin formula; return the derivative by `x`."""
    total = np.sum([_power_series(q + k, x, order) for k in range(_TERMS)], axis=0)
    # The tail from here on: its integral, half of its first term, and its derivatives times Bernoulli numbers.
    last = q + _TERMS
    power, rising = _power_series(last, x, order), _series_to_order(order, x, np.ones_like(x))
    total += _divide_series(power * last, _series_to_order(order, x - 1, np.ones_like(x))) + power / 2
    for j, bernoulli in enumerate(_bernoulli_numbers(), 1):
        # `rising` is x * (x + 1) * ... * (x + 2 * j - 2), `power` is last ** -x.
        total += bernoulli / math.factorial(2 * j) * _multiply_series(rising, power) * last ** (1.0 - 2 * j)
        for k in (2 * j - 1, 2 * j):
            rising = _multiply_series(rising, _series_to_order(order, x + k, np.ones_like(x)))
    slopes: Array = total[order] * math.factorial(order)
    return slopes


def _power_series(base: Array, x: Array, order: int) -> Array:
    """Return the series of ``base ** -(x + e)``."""
    return base**-x * np.stack([(-np.log(base)) ** i / math.factorial(i) for i in range(order + 1)])


def count_expanded_terms(x: Array, y: Array, order: int) -> int:
    """Return the approximate number of terms in expansions of some `order` for two operands."""
    return 50 * (order + 1) * max(x.size, y.size)


def by_order(slopes: Callable[[Array, Array, int], Array]) -> Kernel:
    """Return a kernel on the host for `slopes` of the order in its attribute."""

    def compute_slopes(xp: Any, x: Any, y: Any, order: int) -> Any:
        # Always in float64: high coefficients of series cancel digits.
        wide = np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
        with np.errstate(all="ignore"):
            return slopes(np.atleast_1d(wide[0]), np.atleast_1d(wide[1]), order).reshape(wide[0].shape)

    return keep_dtype(compute_slopes)

"""Numbers with their derivatives along some directions, for kernels with gradients of any order.

A jet of n directions is an array whose first dimension has 2^n rows. Row 0 is the value, and row S the derivative along
the directions that are bits of S, each once: the products of a direction with itself are left out. So with a and b jets
of n - 1 directions, ``a + e b`` is one of n, and a function of it is ``f(a) + e f'(a) b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def jet(xp: Any, value: Any, directions: Sequence[Any]) -> Any:
    """Return the jet of an array, moving along directions of the same shape."""
    rows = [xp.zeros(value.shape, dtype=value.dtype) for _ in range(2 ** len(directions))]
    rows[0] = value
    for i, direction in enumerate(directions):
        rows[2**i] = direction
    return xp.stack(rows)


def _halves(x: Any) -> tuple[Any, Any]:
    return x[: len(x) // 2], x[len(x) // 2 :]


def times(xp: Any, x: Any, y: Any) -> Any:
    """Return the product of two jets."""
    if len(x) == 1:
        return x * y
    # (a + e b)(c + e d) = a c + e (a d + b c), because e squared is 0.
    (a, b), (c, d) = _halves(x), _halves(y)
    return xp.concatenate([times(xp, a, c), times(xp, a, d) + times(xp, b, c)])


def exponential(xp: Any, x: Any) -> Any:
    """Return the exponential of a jet; for minus infinity 0, with zero derivatives."""
    if len(x) == 1:
        return xp.exp(x)
    a, b = _halves(x)
    e = exponential(xp, a)
    return xp.concatenate([e, times(xp, e, b)])


def _inverse(xp: Any, x: Any) -> Any:
    if len(x) == 1:
        return 1 / x
    a, b = _halves(x)
    inverse = _inverse(xp, a)
    return xp.concatenate([inverse, -times(xp, times(xp, inverse, inverse), b)])


def _logarithm(xp: Any, x: Any) -> Any:
    if len(x) == 1:
        return xp.log(x)
    a, b = _halves(x)
    return xp.concatenate([_logarithm(xp, a), times(xp, _inverse(xp, a), b)])


def hidden(xp: Any, x: Any, shown: Any, value: float = 0.0) -> Any:
    """Return a jet equal to `value`, with zero derivatives, where not `shown`."""
    zero = xp.zeros((), dtype=x.dtype)
    result = xp.where(shown, x, zero)
    if value:
        result[0] = xp.where(shown, result[0], zero + value)
    return result


def log_sum_exp(xp: Any, terms: Any, axis: int) -> Any:
    """Return the logarithm of the sum of exponentials of a jet along an axis, which is kept with size 1.

    The result for minus infinities alone is minus infinity, with zero derivatives.
    """
    # The maximum is a constant that cancels, so that only the values are shifted and not the derivatives.
    top = xp.max(terms[:1], axis, keepdims=True)
    is_finite = xp.isfinite(top)
    top = xp.where(is_finite, top, xp.zeros((), dtype=top.dtype))
    shifted = terms.copy()
    shifted[:1] -= top
    total = xp.sum(exponential(xp, shifted), axis, keepdims=True)
    there = total[0] != 0
    result = _logarithm(xp, hidden(xp, total, there, 1.0))
    result[:1] += top
    return hidden(xp, result, there, -float("inf"))

"""Numbers with their derivatives along some directions, for kernels with gradients of any order.

A jet of n directions is an array whose first dimension has 2^n rows. Row 0 is the value, and row S the derivative along
the directions that are bits of S, each once: the products of a direction with itself are left out. So with a and b jets
of n - 1 directions, ``a + e b`` is one of n, and a function of it is ``f(a) + e f'(a) b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def make_jet(xp: Any, value: Any, directions: Sequence[Any]) -> Any:
    """Return the jet of an array, moving along directions of the same shape."""
    rows = [xp.zeros(value.shape, dtype=value.dtype) for _ in range(2 ** len(directions))]
    rows[0] = value
    for i, direction in enumerate(directions):
        # The set of direction i alone is bit i.
        rows[2**i] = direction
    return xp.stack(rows)


def _split_halves(x: Any) -> tuple[Any, Any]:
    return x[: len(x) // 2], x[len(x) // 2 :]


def multiply_jets(xp: Any, x: Any, y: Any) -> Any:
    """Return the product of two jets."""
    if len(x) == 1:
        return x * y
    # (a + e b)(c + e d) = a c + e (a d + b c), because e squared is 0.
    (a, b), (c, d) = _split_halves(x), _split_halves(y)
    return xp.concatenate([multiply_jets(xp, a, c), multiply_jets(xp, a, d) + multiply_jets(xp, b, c)])


def exponentiate_jet(xp: Any, x: Any) -> Any:
    """Return the exponential of a jet; for minus infinity 0, with zero derivatives."""
    if len(x) == 1:
        return xp.exp(x)
    a, b = _split_halves(x)
    e = exponentiate_jet(xp, a)
    return xp.concatenate([e, multiply_jets(xp, e, b)])


def _invert_jet(xp: Any, x: Any) -> Any:
    if len(x) == 1:
        return 1 / x
    a, b = _split_halves(x)
    inverse = _invert_jet(xp, a)
    return xp.concatenate([inverse, -multiply_jets(xp, multiply_jets(xp, inverse, inverse), b)])


def _jet_logarithm(xp: Any, x: Any) -> Any:
    if len(x) == 1:
        return xp.log(x)
    a, b = _split_halves(x)
    return xp.concatenate([_jet_logarithm(xp, a), multiply_jets(xp, _invert_jet(xp, a), b)])


def hide_jet(xp: Any, x: Any, shown: Any, value: float = 0.0) -> Any:
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
    total = xp.sum(exponentiate_jet(xp, shifted), axis, keepdims=True)
    there = total[0] != 0
    result = _jet_logarithm(xp, hide_jet(xp, total, there, 1.0))
    result[:1] += top
    return hide_jet(xp, result, there, -float("inf"))

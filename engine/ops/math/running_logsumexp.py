"""``log(sum(exp(x)))`` along an axis up to each element.

The derivatives are sums of terms ``g[i] * exp(a[j] + b[i])`` over all i after j, or before j. Such sums are a separate
operation, whose derivatives are sums of the same kind; so there are gradients of any order, and no exponential of a
large number: along the axis run pairs of the largest exponent so far and the sum relative to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ...kernels.elementary.functions import elementary_function
from ..support.arguments import axis_within, check_same_shape, same_with_axis
from ..support.array_library import cast_to_accumulator
from ..support.attributes import takes_attributes
from ..support.literals import f32, f64
from ..support.vectorizing.families import along
from .cumulative import apply_scan

_X = f64([[0.5, -1, 2], [3, 0.25, -2]])
_RUNNING = {"axis": 0, "exclusive": False, "reverse": False}


def _scan_exponentials(xp: Any, size: Any, term: Any) -> tuple[Any, Any]:
    """Add up ``term * exp(size)`` along the last axis: return the largest size so far, and the sum relative to it."""
    # A parallel prefix sum: each pass doubles the number of terms in a sum, in log2(n) passes over whole arrays.
    step, exp = 1, elementary_function(xp, "exp")
    while step < size.shape[-1]:
        largest, total = size.copy(), term.copy()
        before, own = size[..., :-step], size[..., step:]
        largest[..., step:] = xp.maximum(before, own)
        finite = xp.where(xp.isfinite(largest[..., step:]), largest[..., step:], xp.zeros((), size.dtype))
        with np.errstate(invalid="ignore"):  # infinity times 0, in empty sums that are left out in the end
            total[..., step:] = term[..., :-step] * exp(before - finite) + term[..., step:] * exp(own - finite)
        size, term, step = largest, total, 2 * step
    return size, term


def _shift_by_one(xp: Any, values: Any, neutral: float) -> Any:
    """Shift values by one place along the last axis, so that results exclude their own elements."""
    moved = xp.full_like(values, neutral)
    moved[..., 1:] = values[..., :-1]
    return moved


@dataclass(frozen=True, slots=True)
class _Direction:
    """Attributes of a running sum: its axis, if without each element itself, and if from the end."""

    axis: int
    exclusive: bool
    reverse: bool


def _scan_along_axis(xp: Any, size: Any, term: Any, along: _Direction) -> tuple[Any, Any]:
    """Scan along an axis and leave it last."""
    size, term = (xp.moveaxis(v, axis_within(along.axis, v.ndim), -1) for v in (size, term))
    if along.reverse:
        size, term = (xp.flip(v, -1) for v in (size, term))
    size, term = _scan_exponentials(xp, size, term)
    if along.exclusive:
        size, term = _shift_by_one(xp, size, -np.inf), _shift_by_one(xp, term, 0)
    if along.reverse:
        size, term = (xp.flip(v, -1) for v in (size, term))
    return size, term


@takes_attributes(_Direction)
def _compute_cumulative_logsumexp(xp: Any, x: Any, attrs: _Direction) -> Any:
    terms = cast_to_accumulator(xp, x)
    size, total = _scan_along_axis(xp, terms, xp.ones_like(terms), attrs)
    finite = xp.where(xp.isfinite(size), size, xp.zeros((), size.dtype))
    with np.errstate(divide="ignore"):
        # An infinite largest exponent is the result, also minus infinity of an empty sum.
        y = xp.where(xp.isfinite(size), finite + xp.log(total), size)
    return xp.ascontiguousarray(xp.moveaxis(y, -1, attrs.axis)).astype(x.dtype)


def _logsumexp_gradient(op: Operation, g: Tensor) -> list[Any]:
    # The sum of g[j] * exp(x[i] - y[j]) over all results j that include element i.
    return [_exp_sum(op, g, op.inputs[0], -op.outputs[0])]


def _exp_sum(op: Operation, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the CumulativeExpSum in the other direction."""
    attrs = {key: op.attrs[key] for key in _RUNNING}
    return apply("CumulativeExpSum", g, a, b, **{**attrs, "reverse": not attrs["reverse"]})


@takes_attributes(_Direction)
def _exp_sums(xp: Any, g: Any, a: Any, b: Any, attrs: _Direction) -> Any:
    check_same_shape("CumulativeExpSum", g, a, b)
    size, total = _scan_along_axis(xp, cast_to_accumulator(xp, b), cast_to_accumulator(xp, g), attrs)
    with np.errstate(invalid="ignore"):
        factor = elementary_function(xp, "exp")(xp.moveaxis(cast_to_accumulator(xp, a), attrs.axis, -1) + size)
        # Empty sums stay 0 beside an infinite factor.
        y = xp.where(total == 0, xp.zeros((), total.dtype), total * factor)
    return xp.ascontiguousarray(xp.moveaxis(y, -1, attrs.axis)).astype(g.dtype)


def _exp_sum_gradient(op: Operation, h: Tensor) -> list[Any]:
    g, a, b = op.inputs
    to_g = _exp_sum(op, h, b, a)
    # y is its own derivative by `a`, and `b` enters each term as a factor exp(b[i]) next to g[i].
    return [to_g, h * op.outputs[0], g * to_g]


def _expected_exp_sum(g: Any, a: Any, b: Any) -> Any:
    """Add up along axis 0, from the end: ``sum(g[i] * exp(a[j] + b[i]) for i in range(j, n))``."""
    return np.stack([(g[j:] * np.exp(a[j] + b[j:])).sum(0) for j in range(len(g))])


define(
    "CumulativeExpSum",
    "g: T, a: T, b: T -> y: T",
    where={"T": dtypes.FLOATING},
    attrs={"axis": REQUIRED, "exclusive": False, "reverse": False},
    shape=same_with_axis,
    rules=[Vectorize(along())],
    kernel=_exp_sums,
    gradient=_exp_sum_gradient,
    samples=[
        Sample([_X.T.copy(), -_X.T, _X.T[::-1].copy()], _expected_exp_sum, {"axis": 0, "reverse": True}),
        Sample(
            [_X, _X * 0.5, -_X],
            lambda g, a, b: np.cumsum(g * np.exp(b), 1) * np.exp(a),
            {"axis": -1},
        ),
        Sample(
            [_X, _X * 0.5, -_X],
            lambda g, a, b: (np.cumsum(g * np.exp(b), 1) - g * np.exp(b)) * np.exp(a),
            {"axis": 1, "exclusive": True},
        ),
        Sample([f64([1, 1]), f64([900, 900]), f64([-900, -1000])], f64([1, 1 + np.exp(-100)]), {"axis": 0}),
    ],
)

define(
    "CumulativeLogsumexp",
    "x: T -> y: T",
    where={"T": dtypes.FLOATING},
    attrs=_RUNNING,
    shape=same_with_axis,
    rules=[Vectorize(along())],
    kernel=_compute_cumulative_logsumexp,
    gradient=_logsumexp_gradient,
    samples=[
        Sample([_X], lambda x: np.log(np.cumsum(np.exp(x), 0))),
        Sample([_X], lambda x: np.log(np.cumsum(np.exp(x[:, ::-1]), 1))[:, ::-1], {"axis": -1, "reverse": True}),
        Sample([f32([1, 2])], f32([-np.inf, 1]), {"exclusive": True}),
        Sample(
            [f64([1, 2, 3])],
            lambda x: np.append(np.log(np.cumsum(np.exp(x[::-1])))[1::-1], -np.inf),
            {"exclusive": True, "reverse": True},
            differentiable=False,
        ),
        Sample([f64([1000, 1000, -1000])], f64([1000, 1000 + np.log(2), 1000 + np.log(2)])),
        Sample([f64([-np.inf, 1, np.inf])], f64([-np.inf, 1, np.inf]), differentiable=False),
        Sample([np.zeros((2, 0))], np.zeros((2, 0)), {"axis": 1}),
    ],
)


@public
def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """``log(sum(exp(x)))`` along an axis up to each element, without overflow.

    Parameters
    ----------
    x : Tensor of a floating dtype, of rank at least 1
    axis, exclusive, reverse
        As in `cumsum`; the empty sum is minus infinity.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.cumulative_logsumexp(np.array([1000.0, 1000.0]))).sync()
    array([1000.        , 1000.69314718])
    """
    return apply_scan("CumulativeLogsumexp", x, axis, exclusive, reverse, name)

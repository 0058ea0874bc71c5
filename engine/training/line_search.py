"""A line search for the strong Wolfe conditions, as a loop in the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.dtypes import float_info
from ..frontend.control.loops import while_loop
from ..ir.apply import constant
from ..ir.tensor import Tensor
from ..ops.array.where import where
from ..ops.math.arithmetic import maximum, minimum
from ..ops.math.comparison import logical_not
from ..ops.math.elementwise import abs as absolute
from ..ops.math.elementwise import is_finite, sign, sqrt
from ..ops.math.reductions import reduce_all, reduce_sum

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]  # the value and the gradient at a vector

_DECREASE, _CURVATURE = 1e-4, 0.9  # c1 and c2 of the conditions, usual for quasi-Newton directions
_EXPANSION = 2.0
_MARGIN = 0.1  # least distance of a trial from the interval's ends, as a fraction of the interval


@dataclass
class Point:
    """The objective at one step along the line."""

    step: Tensor
    value: Tensor
    slope: Tensor
    gradient: Tensor


@dataclass
class _Search:
    """The state between two trials.

    The interval from `low` to `high` contains steps that fulfil the conditions. `low` is the best step so far, 0 at
    first; `high` is infinite until a bound is known. `high` needs no gradient, so only its numbers are kept.
    """

    low: Point
    high: Tensor
    high_value: Tensor
    high_slope: Tensor
    trial: Tensor
    is_done: Tensor
    evaluations: Tensor


def line_search(
    objective: Objective, x: Tensor, direction: Tensor, start: Point, trial: Tensor, limit: int
) -> tuple[Point, Tensor, Tensor]:
    """Find a step that fulfils the strong Wolfe conditions (Nocedal and Wright, 2006, algorithms 3.5 and 3.6).

    Where values differ by no more than rounding, the approximate conditions of Hager and Zhang (2005) apply.

    Parameters
    ----------
    objective : callable
    x, direction : Tensor of shape [n]
    start : Point
        At step 0; its slope is negative.
    trial : Tensor
        The first step to try.
    limit : int
        Most evaluations.

    Returns
    -------
    point : Point
        The found step; without one, the best step tried, which may be 0.
    is_done : Tensor of bool
        True if the step fulfils the conditions.
    evaluations : Tensor of int32
    """

    def evaluate_step(step: Tensor) -> Point:
        value, gradient = objective(x + step * direction)
        return Point(step, value, reduce_sum(gradient * direction), gradient)

    def goes_on(s: _Search) -> Tensor:
        width = absolute(s.high - s.low.step)
        # An interval of the size of rounding cannot be divided any more.
        apart = width > 4 * machine_epsilon(x) * maximum(s.low.step, s.trial)
        return logical_not(s.is_done) & (s.evaluations < limit) & apart

    def try_next_step(s: _Search) -> _Search:
        return _update_search(s, evaluate_step(s.trial), start)

    infinite = start.step + float("inf")
    begin = _Search(start, infinite, infinite, infinite, trial, start.step < 0, constant(0))
    end = while_loop(goes_on, try_next_step, [begin])
    return end.low, end.is_done, end.evaluations


def machine_epsilon(x: Tensor) -> float:
    """Return the machine epsilon of a tensor's dtype."""
    return float(float_info(x.dtype.numpy).eps)


def _update_search(s: _Search, new: Point, start: Point) -> _Search:
    """Return the state after a trial: a narrower interval and the next trial."""
    # A value that is not finite is an upper end, never a better step.
    known = is_finite(new.value) & reduce_all(is_finite(new.gradient))
    falls = new.value <= start.value + _DECREASE * new.step * start.slope
    near = absolute(new.value - start.value) <= 8 * machine_epsilon(new.step) * absolute(start.value)
    # Among values equal up to rounding, only the slope tells whether the objective falls.
    falls = falls | (near & (new.slope <= (2 * _DECREASE - 1) * start.slope))
    lower = (new.value < s.low.value) | near | (s.low.step <= 0)
    is_better = known & falls & lower
    is_flat = absolute(new.slope) <= -_CURVATURE * start.slope
    # A better step is the new `low`; if the objective rises from there towards `high`, the old `low` is the new `high`.
    turns = is_better & (new.slope * sign(s.high - s.low.step) >= 0)
    low = Point(*(where(is_better, a, b) for a, b in zip(_fields_of(new), _fields_of(s.low), strict=True)))
    ends = [(new.step, s.low.step, s.high), (new.value, s.low.value, s.high_value)]
    ends += [(new.slope, s.low.slope, s.high_slope)]
    high, value, slope = (where(is_better, where(turns, old, kept), fresh) for fresh, old, kept in ends)
    # Without an upper end yet, expand.
    trial = where(is_finite(high), _minimize_cubic(low, high, value, slope), low.step * _EXPANSION)
    return _Search(low, high, value, slope, trial, is_better & is_flat, s.evaluations + 1)


def _fields_of(point: Point) -> tuple[Tensor, ...]:
    return point.step, point.value, point.slope, point.gradient


def _minimize_cubic(low: Point, high: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """Return the minimum of the cubic through both ends (Nocedal and Wright, 2006, eq. 3.59), off the ends."""
    width = high - low.step
    d1 = low.slope + slope - 3 * (value - low.value) / width
    square = d1 * d1 - low.slope * slope
    d2 = sign(width) * sqrt(maximum(square, 0))
    bottom = high - width * (slope + d2 - d1) / (slope - low.slope + 2 * d2)
    left, right = low.step + _MARGIN * width, high - _MARGIN * width
    inside = minimum(maximum(bottom, minimum(left, right)), maximum(left, right))
    # Bisect where the cubic has no minimum, or where values at `high` are not finite.
    return where(is_finite(bottom) & (square >= 0), inside, (low.step + high) / 2)


def point_at(step: object, value: Tensor, gradient: Tensor, direction: Tensor) -> Point:
    """Return the Point of a step where value and gradient are known."""
    return Point(value * 0 + step, value, reduce_sum(gradient * direction), gradient)

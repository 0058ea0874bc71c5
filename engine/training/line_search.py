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
_EXPANSION = 2.0  # from a step to the next trial, until an upper end is known
_MARGIN = 0.1  # least distance of a trial from the interval's ends, as a fraction of the interval


@dataclass
class Point:
    """The objective at one step along the line.

    Attributes
    ----------
    step : scalar Tensor
        Distance from the start, in lengths of the direction.
    value : scalar Tensor
        The objective.
    slope : scalar Tensor
        Derivative of the value by the step.
    gradient : Tensor of shape [n]
    """

    step: Tensor
    value: Tensor
    slope: Tensor
    gradient: Tensor


@dataclass
class _Search:
    """The state between two trials.

    The interval between `low` and `high` contains steps that fulfil the conditions; `high` may be the smaller step.
    `low` is the best step so far, 0 at first; `high` is infinite until a bound is known. `high` needs no gradient, so
    only its numbers are kept. `trial` is the next step to try, `is_done` is true if `low` fulfils the conditions.
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
        ``objective(x)`` returns the value and the gradient at a vector of shape [n].
    x, direction : Tensor of shape [n]
        The vectors at steps 0 and 1 are `x` and ``x + direction``.
    start : Point
        At step 0; its slope is negative.
    trial : scalar Tensor
        The first step to try, of the dtype of `x`.
    limit : int
        Most evaluations of the objective.

    Returns
    -------
    point : Point
        The found step; without one, the best step tried, which may be 0.
    is_done : scalar bool Tensor
        True if the step fulfils the conditions.
    evaluations : scalar int32 Tensor
        Number of evaluations of the objective.
    """

    def evaluate_step(step: Tensor) -> Point:
        value, gradient = objective(x + step * direction)
        return Point(step, value, reduce_sum(gradient * direction), gradient)

    def goes_on(s: _Search) -> Tensor:
        width = absolute(s.high - s.low.step)
        # An interval of a few rounding errors of its ends cannot be divided any more.
        is_divisible = width > 4 * machine_epsilon(x) * maximum(s.low.step, s.trial)
        return logical_not(s.is_done) & (s.evaluations < limit) & is_divisible

    def try_next_step(s: _Search) -> _Search:
        return _update_search(s, evaluate_step(s.trial), start)

    # Made of the step, so that both are scalars of the right dtypes: infinity, and False, as the step is 0.
    infinite, is_done = start.step + float("inf"), start.step < 0
    begin = _Search(start, infinite, infinite, infinite, trial, is_done, constant(0))
    end = while_loop(goes_on, try_next_step, [begin])
    return end.low, end.is_done, end.evaluations


def machine_epsilon(x: Tensor) -> float:
    """Return the machine epsilon of a tensor's dtype."""
    return float(float_info(x.dtype.numpy).eps)


def _update_search(s: _Search, new: Point, start: Point) -> _Search:
    """Return the state after a trial: a narrower interval and the next trial."""
    # A value that is not finite is an upper end, never a better step.
    has_finite_values = is_finite(new.value) & reduce_all(is_finite(new.gradient))
    decreases = new.value <= start.value + _DECREASE * new.step * start.slope
    is_near_start = absolute(new.value - start.value) <= 8 * machine_epsilon(new.step) * absolute(start.value)
    # Of values equal up to a few rounding errors, only the slope tells if the objective decreases: the approximate
    # condition of Hager and Zhang (2005), whose delta is c1.
    decreases = decreases | (is_near_start & (new.slope <= (2 * _DECREASE - 1) * start.slope))
    is_lowest = (new.value < s.low.value) | is_near_start | (s.low.step <= 0)
    is_better = has_finite_values & decreases & is_lowest
    # The curvature condition; the slope at the start is negative.
    is_flat = absolute(new.slope) <= -_CURVATURE * start.slope
    # A better step is the new `low`; if the objective rises from there towards `high`, the old `low` is the new `high`.
    rises_to_high = is_better & (new.slope * sign(s.high - s.low.step) >= 0)
    low = Point(*(where(is_better, a, b) for a, b in zip(_fields_of(new), _fields_of(s.low), strict=True)))

    def choose_high(of_new: Tensor, of_low: Tensor, of_high: Tensor) -> Tensor:
        # A step that is not better is the new `high`.
        return where(is_better, where(rises_to_high, of_low, of_high), of_new)

    high = choose_high(new.step, s.low.step, s.high)
    high_value = choose_high(new.value, s.low.value, s.high_value)
    high_slope = choose_high(new.slope, s.low.slope, s.high_slope)
    # Without an upper end yet, expand.
    trial = where(is_finite(high), _minimize_cubic(low, high, high_value, high_slope), low.step * _EXPANSION)
    return _Search(low, high, high_value, high_slope, trial, is_better & is_flat, s.evaluations + 1)


def _fields_of(point: Point) -> tuple[Tensor, ...]:
    return point.step, point.value, point.slope, point.gradient


def _minimize_cubic(low: Point, high: Tensor, high_value: Tensor, high_slope: Tensor) -> Tensor:
    """Return the step at the minimum of the cubic with the values and slopes of both ends, kept off the ends.

    The names d1 and d2 are those of Nocedal and Wright (2006), eq. 3.59.
    """
    width = high - low.step  # negative if `high` is the smaller step
    d1 = low.slope + high_slope - 3 * (high_value - low.value) / width
    square = d1 * d1 - low.slope * high_slope
    d2 = sign(width) * sqrt(maximum(square, 0))
    minimum_step = high - width * (high_slope + d2 - d1) / (high_slope - low.slope + 2 * d2)
    near_low, near_high = low.step + _MARGIN * width, high - _MARGIN * width
    inside = minimum(maximum(minimum_step, minimum(near_low, near_high)), maximum(near_low, near_high))
    # Bisect where the cubic has no minimum, or where values at `high` are not finite.
    return where(is_finite(minimum_step) & (square >= 0), inside, (low.step + high) / 2)


def point_at(step: object, value: Tensor, gradient: Tensor, direction: Tensor) -> Point:
    """Return the Point of a step where value and gradient are known."""
    # The sum makes of a number a tensor with the dtype of the value.
    return Point(value * 0 + step, value, reduce_sum(gradient * direction), gradient)

"""The loop of L-BFGS, over the position and the latest changes of position and gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.errors import GraphError
from ..frontend.control.loops import while_loop
from ..ir.apply import constant
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from ..ops.array.shapes import reshape
from ..ops.array.where import where
from ..ops.math.arithmetic import maximum, minimum
from ..ops.math.comparison import logical_not
from ..ops.math.elementwise import abs as absolute
from ..ops.math.elementwise import sqrt
from ..ops.math.reductions import reduce_max, reduce_sum
from .line_search import Objective, Point, line_search, machine_epsilon, point_at


@dataclass(frozen=True)
class Options:
    """Options of `minimize_lbfgs`, from its arguments of the same names."""

    num_correction_pairs: int
    tolerance: float
    f_relative_tolerance: float
    x_tolerance: float
    max_iterations: int
    max_line_search_iterations: int

    def __post_init__(self) -> None:
        for name in ("num_correction_pairs", "max_line_search_iterations"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise GraphError(
                    f"{name} is an integer from 1 up", wanted="1 or more", got=getattr(self, name), hint="leave it out"
                )


@dataclass
class State:
    """State of one iteration: the position, and the latest changes of position and gradient, newest last."""

    x: Tensor
    value: Tensor
    gradient: Tensor
    steps: Tensor  # [pairs, n]
    changes: Tensor  # [pairs, n]
    curvatures: Tensor  # [pairs]: dot products of steps and changes, 0 in rows without a pair
    converged: Tensor
    failed: Tensor
    iterations: Tensor
    evaluations: Tensor


def _dot_product(a: Tensor, b: Tensor) -> Tensor:
    return reduce_sum(a * b)


def _compute_direction(s: State, pairs: int) -> Tensor:
    """Return the quasi-Newton direction by the two-loop recursion (Nocedal and Wright, 2006, algorithm 7.4)."""
    # Rows without a pair get the weight 0; the inner `where` keeps their quotient finite.
    inverse = where(s.curvatures > 0, 1 / where(s.curvatures > 0, s.curvatures, 1), 0)
    q, alphas = s.gradient, []
    for i in reversed(range(pairs)):
        alphas.append(inverse[i] * _dot_product(s.steps[i], q))
        q = q - alphas[-1] * s.changes[i]
    newest = s.changes[pairs - 1]
    known = s.curvatures[pairs - 1] > 0
    # Scale by the newest curvature estimate (Nocedal and Wright, equation 7.20), so that unit steps fit.
    q = q * where(known, s.curvatures[pairs - 1] / where(known, _dot_product(newest, newest), 1), 1)
    for i in range(pairs):
        q = q + s.steps[i] * (alphas[pairs - 1 - i] - inverse[i] * _dot_product(s.changes[i], q))
    return -q


def _run_iteration(objective: Objective, s: State, options: Options) -> State:
    """Make one step along the quasi-Newton direction.

    If no step lowers the value, clear the pairs, so that the next iteration is steepest descent; without pairs, fail.
    """
    direction = _compute_direction(s, options.num_correction_pairs)
    is_new = s.curvatures[options.num_correction_pairs - 1] <= 0
    downhill = _dot_product(direction, s.gradient) < 0
    direction = where(downhill, direction, -s.gradient)
    # Steepest descent has no natural scale: its first trial moves at most a distance of 1.
    first = minimum(1 / maximum(sqrt(_dot_product(direction, direction)), 1e-30), 1)
    trial = where(is_new | logical_not(downhill), first, 1)
    start = point_at(0, s.value, s.gradient, direction)
    end, is_done, count = line_search(objective, s.x, direction, start, trial, options.max_line_search_iterations)
    # Rounding may prevent the conditions near a minimum; a lower value is progress all the same.
    moved = (end.step > 0) & (is_done | (end.value < s.value))
    step, change = end.step * direction, end.gradient - s.gradient
    x = where(moved, s.x + step, s.x)
    curvature = _dot_product(step, change)
    # Only pairs of clearly positive curvature keep the inverse Hessian positive definite.
    keeps = moved & (curvature > machine_epsilon(x) * _dot_product(change, change))
    steps, changes, curvatures = (
        _push_row(old, where(keeps, new, old[0]), keeps, logical_not(moved))
        for old, new in ((s.steps, step), (s.changes, change), (s.curvatures, curvature))
    )
    converged = moved & _has_converged(s.value, end, step, options)
    return State(
        x,
        where(moved, end.value, s.value),
        where(moved, end.gradient, s.gradient),
        steps,
        changes,
        curvatures,
        converged,
        # Without progress the next iteration begins without pairs; if this one did already, nothing is left to try.
        logical_not(moved) & is_new,
        s.iterations + 1,
        s.evaluations + count,
    )


def _has_converged(before: Tensor, end: Point, step: Tensor, options: Options) -> Tensor:
    reached = _largest_magnitude(end.gradient) <= options.tolerance
    if options.x_tolerance > 0:
        reached = reached | (_largest_magnitude(step) <= options.x_tolerance)
    if options.f_relative_tolerance > 0:
        scale = maximum(maximum(absolute(before), absolute(end.value)), 1)
        reached = reached | (before - end.value <= options.f_relative_tolerance * scale)
    return reached


def _push_row(old: Tensor, new: Tensor, keeps: Tensor, forgets: Tensor) -> Tensor:
    """Return `old` shifted by one row with `new` last if `keeps`, unchanged if not, and zeros if `forgets`."""
    rows = concat([old[1:], reshape(new, [1, *new.shape.as_tuple()])], 0)
    return where(forgets, 0, where(keeps, rows, old))


def _largest_magnitude(x: Tensor) -> Tensor:
    return reduce_max(absolute(x))


def run_iterations(objective: Objective, x: Tensor, options: Options) -> State:
    """Return the final state of the iterations that begin at `x`."""
    value, gradient = objective(x)
    none = np.zeros((options.num_correction_pairs, *x.shape.as_tuple()), x.dtype.numpy)
    start = State(
        x,
        value,
        gradient,
        constant(none),
        constant(none),
        constant(none[:, 0]),
        _largest_magnitude(gradient) <= options.tolerance,
        constant(False),
        constant(0),
        constant(1),
    )
    end: State = while_loop(
        lambda s: logical_not(s.converged | s.failed) & (s.iterations < options.max_iterations),
        lambda s: _run_iteration(objective, s, options),
        [start],
    )
    return end

"""L-BFGS: a quasi-Newton method whose iterations are one loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import nest
from ..base.errors import DtypeError, GraphError, ShapeError
from ..frontend.control.scopes import control_dependencies, name_scope
from ..frontend.state.variables import Variable
from ..gradients import gradients
from ..ir.apply import convert_to_tensor
from ..ir.entry import builds, public
from ..ir.fields import takes_fields
from ..ir.tensor import Tensor
from ..ops.array.concat import concat, split
from ..ops.array.shapes import reshape
from ..ops.control.placeholders import identity
from .lbfgs_iterations import Options, State, run_iterations
from .optimizer import flat_variables


@dataclass
class LBFGSResult:
    """Result of a minimization by `minimize_lbfgs` or `LBFGS`.

    Attributes
    ----------
    position : structure of Tensor
        Final position, in the structure of the initial position.
    objective_value : floating scalar Tensor
        Value of the function at `position`.
    objective_gradient : structure of Tensor
        Gradient of the function at `position`.
    converged : bool scalar Tensor
        True if a tolerance was reached.
    failed : bool scalar Tensor
        True if no step along the steepest descent lowered the value, as where the value is not finite or not smooth.
        Where both flags are False, the iterations did not suffice.
    num_iterations, num_objective_evaluations : int32 scalar Tensor

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> square = tg.function(lambda x: tg.training.minimize_lbfgs(lambda v: tg.reduce_sum((v - 2.0) ** 2), x))
    >>> found = square.sync(np.array([5.0, 7.0]))
    >>> found.position.round(6).tolist(), bool(found.converged)
    ([2.0, 2.0], True)
    """

    position: Any
    objective_value: Tensor
    objective_gradient: Any
    converged: Tensor
    failed: Tensor
    num_iterations: Tensor
    num_objective_evaluations: Tensor


class _Packing:
    """Conversion between tensors of known shapes and one vector."""

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        for leaf in leaves:
            if not leaf.shape.is_fully_known:
                raise ShapeError(
                    "L-BFGS needs known shapes",
                    wanted="a known shape",
                    got=leaf.shape,
                    operation=leaf.op,
                    hint="give placeholders and variables shapes",
                )
            if leaf.dtype is not leaves[0].dtype or not leaf.dtype.is_floating:
                raise DtypeError(
                    "L-BFGS goes through floating numbers of one dtype",
                    wanted=leaves[0].dtype if leaves[0].dtype.is_floating else "float",
                    got=leaf.dtype,
                    operation=leaf.op,
                    hint="float64 is best; cast the others inside of the function",
                )
        self._shapes = [leaf.shape.as_tuple() for leaf in leaves]
        self._sizes = [int(np.prod(shape)) for shape in self._shapes]
        if not sum(self._sizes):
            raise ShapeError("there is nothing to minimize over", wanted="1 number or more", got=0, hint="see shapes")

    def pack_leaves(self, leaves: Sequence[Any]) -> Tensor:
        return concat([reshape(leaf, [-1]) for leaf in leaves], 0)

    def unpack_vector(self, vector: Tensor) -> list[Tensor]:
        parts = split(vector, self._sizes, 0)
        return [reshape(part, shape) for part, shape in zip(parts, self._shapes, strict=True)]


def _checked_value(value: object, x: Tensor) -> Tensor:
    """Return the objective's value as a tensor; refuse anything except a scalar of the position's dtype."""
    found: Tensor = convert_to_tensor(value)
    if found.shape.rank not in (0, None) or found.dtype is not x.dtype:
        raise ShapeError(
            "the function to minimize gives a scalar",
            wanted=f"{x.dtype}[]",
            got=f"{found.dtype}{found.shape}",
            operation=found.op,
            hint="reduce it with reduce_sum or reduce_mean, and cast it",
        )
    return found


@builds
def minimize_lbfgs(
    function: Callable[[Any], Any],
    initial_position: Any,
    num_correction_pairs: int = 10,
    tolerance: float = 1e-8,
    f_relative_tolerance: float = 0.0,
    x_tolerance: float = 0.0,
    max_iterations: int = 1000,
    max_line_search_iterations: int = 50,
    name: str | None = None,
) -> LBFGSResult:
    """Find a minimum of a smooth function by L-BFGS (Liu and Nocedal, 1989) within one step.

    Each iteration computes a direction by the two-loop recursion and searches it for the strong Wolfe conditions.

    Parameters
    ----------
    function : callable
        Differentiable; maps a position, structured as `initial_position`, to a scalar of the same dtype.
    initial_position : Tensor or structure of Tensor
        Of one floating dtype, preferably float64, and of known shapes.
    num_correction_pairs : int
        Number of recent steps that the estimate of the curvature uses.
    tolerance : float
        Stop when no element of the gradient exceeds `tolerance`.
    f_relative_tolerance : float
        If above 0, stop when a step lowers the value by no more than this fraction of the value or of 1, whichever is
        larger.
    x_tolerance : float
        If above 0, stop when a step moves no element by more.
    max_iterations, max_line_search_iterations : int
        Most steps, and most evaluations per step.
    name : str, optional

    Returns
    -------
    LBFGSResult

    Raises
    ------
    ShapeError, DtypeError
        If shapes are unknown, dtypes differ, or the value is not a scalar.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> def rosenbrock(x):
    ...     return tg.reduce_sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    >>> found = tg.function(lambda x: tg.training.minimize_lbfgs(rosenbrock, x)).sync(np.array([-1.2, 1.0, -1.0]))
    >>> found.position.round(6).tolist(), bool(found.converged)
    ([1.0, 1.0, 1.0], True)
    """
    options = Options(
        num_correction_pairs, tolerance, f_relative_tolerance, x_tolerance, max_iterations, max_line_search_iterations
    )
    with name_scope(name, "minimize_lbfgs"):
        leaves = [convert_to_tensor(leaf) for leaf in nest.flatten(initial_position)]
        packing = _Packing(leaves)

        def evaluate_packed(x: Tensor) -> tuple[Tensor, Tensor]:
            value = _checked_value(function(nest.pack_as(initial_position, packing.unpack_vector(x))), x)
            # An element that does not affect the value is no error: it stays where it is.
            (gradient,) = gradients([value], [x], unconnected_gradients="zero")
            return value, gradient

        end = run_iterations(evaluate_packed, packing.pack_leaves(leaves), options)
        return _make_result(end, lambda x: nest.pack_as(initial_position, packing.unpack_vector(x)))


def _make_result(end: State, unpacked: Callable[[Tensor], Any]) -> LBFGSResult:
    return LBFGSResult(
        unpacked(end.x), end.value, unpacked(end.gradient), end.converged, end.failed, end.iterations, end.evaluations
    )


@takes_fields
class LBFGS:
    """L-BFGS on variables: one step that computes a part of `minimize`'s result runs the whole minimization.

    Parameters
    ----------
    num_correction_pairs, tolerance, f_relative_tolerance, x_tolerance, max_iterations, max_line_search_iterations
        As for `minimize_lbfgs`.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     v, w = tg.Variable(5.0, name="v"), tg.Variable([1.0, 2.0], name="w")
    ...     found = tg.training.LBFGS().minimize(lambda: (v - 3.0) ** 2 + tg.reduce_sum((w - v) ** 2))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     bool(session.run(found.converged))
    ...     [value.round(4).tolist() for value in session.run([v, w])]
    True
    [3.0, [3.0, 3.0]]
    """

    num_correction_pairs: int = 10
    tolerance: float = 1e-8
    f_relative_tolerance: float = 0.0
    x_tolerance: float = 0.0
    max_iterations: int = 1000
    max_line_search_iterations: int = 50
    name: str = "LBFGS"

    def __post_init__(self) -> None:
        self._options = Options(
            self.num_correction_pairs,
            self.tolerance,
            self.f_relative_tolerance,
            self.x_tolerance,
            self.max_iterations,
            self.max_line_search_iterations,
        )

    @public
    def minimize(
        self, loss: Callable[[], Any], var_list: Variable | Sequence[Variable] | None = None, name: str | None = None
    ) -> LBFGSResult:
        """Return a result whose computation moves variables to a minimum of a loss.

        Parameters
        ----------
        loss : callable
            Without arguments; builds the loss, a scalar of the variables' dtype, from their values. A tensor is
            refused, because one step evaluates the loss at many positions.
        var_list : Variable or sequence of Variable, optional
            Variables to change, sharded variables included, of one floating dtype and of known shapes; all trainable
            variables by default.
        name : str, optional

        Returns
        -------
        LBFGSResult
            With lists in the order of `var_list`, one item per shard. The variables are assigned before any part of
            the result is available.

        Raises
        ------
        GraphError
            If there is no variable, or `loss` is not callable.
        ShapeError, DtypeError
            As for `minimize_lbfgs`.
        """
        if not callable(loss):
            raise GraphError(
                "L-BFGS evaluates the loss at many places in one step",
                wanted="a function that builds it",
                got=loss,
                hint="give lambda: tg.reduce_mean(...), which reads the variables",
            )
        variables = flat_variables(var_list)
        with name_scope(name, self.name):
            return self._build_minimization(loss, variables)

    def _build_minimization(self, loss: Callable[[], Any], variables: list[Variable]) -> LBFGSResult:
        """Build the minimization over variables, and the final assignment that each part of the result waits for."""
        packing = _Packing([v.value() for v in variables])

        def evaluate_packed(x: Tensor) -> tuple[Tensor, Tensor]:
            # The loss reads the variables themselves, so a trial position is assigned before the loss is computed.
            with control_dependencies(_assign_values(variables, packing.unpack_vector(x))):
                value = _checked_value(loss(), x)
                found = gradients([value], variables, unconnected_gradients="zero")
                return value, packing.pack_leaves(found)

        end = run_iterations(evaluate_packed, packing.pack_leaves([v.value() for v in variables]), self._options)
        result = _make_result(end, packing.unpack_vector)
        # The last trial need not be the best: assign the final position.
        with control_dependencies(_assign_values(variables, result.position)):
            assigned: LBFGSResult = nest.map_structure(identity, result)
            return assigned


def _assign_values(variables: Sequence[Variable], values: Sequence[Tensor]) -> list[Any]:
    return [v.assign(value).op for v, value in zip(variables, values, strict=True)]

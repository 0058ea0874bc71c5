"""L-BFGS: a quasi-Newton method whose steps are all made by one loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import nest
from ..base.errors import DtypeError, GraphError, ShapeError
from ..frontend.scopes import control_dependencies, name_scope
from ..frontend.variables import Variable
from ..gradients import gradients
from ..ir.apply import convert_to_tensor
from ..ir.entry import builds, public
from ..ir.tensor import Tensor
from ..ops.array.concat import concat, split
from ..ops.array.shapes import reshape
from ..ops.control.placeholders import identity
from .lbfgs_iterations import Options, State, minimized
from .optimizer import flat_variables


@dataclass
class LBFGSResult:
    """Where a minimization by `minimize_lbfgs` or `LBFGS` has ended.

    Attributes
    ----------
    position : structure of Tensor
        The place, in the structure of the initial one.
    objective_value : floating scalar Tensor
        The function's value there.
    objective_gradient : structure of Tensor
        Its gradient there.
    converged : bool scalar Tensor
        Whether one of the tolerances was reached.
    failed : bool scalar Tensor
        Whether no step along the steepest descent lowers the value, as where it is not finite or not smooth. With
        neither, there were not enough iterations.
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
    """Tensors of known shapes as one vector, and back."""

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

    def vector(self, leaves: Sequence[Any]) -> Tensor:
        return concat([reshape(leaf, [-1]) for leaf in leaves], 0)

    def leaves(self, vector: Tensor) -> list[Tensor]:
        parts = split(vector, self._sizes, 0)
        return [reshape(part, shape) for part, shape in zip(parts, self._shapes, strict=True)]


def _checked_value(value: Any, x: Tensor) -> Tensor:
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
    """Find a minimum of a smooth function by L-BFGS (Liu and Nocedal, 1989), all in one step.

    A loop in the graph: the direction by the two-loop recursion, then a line search for the strong Wolfe conditions.

    Parameters
    ----------
    function : callable
        Takes what has the structure of `initial_position` and returns a scalar of its dtype. It is differentiated.
    initial_position : Tensor or structure of Tensor
        Of one floating dtype, float64 if the minimum is to be exact, and of known shapes.
    num_correction_pairs : int
        How many of the last steps the curvature is estimated from.
    tolerance : float
        End where no element of the gradient is larger.
    f_relative_tolerance : float
        End where a step lowers the value by no more, relative to the value or to 1, whichever is larger; if above 0.
    x_tolerance : float
        End where a step moves no element by more; if above 0.
    max_iterations, max_line_search_iterations : int
        Most steps, and most evaluations for one step.
    name : str, optional

    Returns
    -------
    LBFGSResult

    Raises
    ------
    ShapeError, DtypeError
        If shapes are not known, dtypes not the same, or the value is no scalar.

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

        def objective(x: Tensor) -> tuple[Tensor, Tensor]:
            value = _checked_value(function(nest.pack_as(initial_position, packing.leaves(x))), x)
            (gradient,) = gradients([value], [x], unconnected_gradients="zero")
            return value, gradient

        end = minimized(objective, packing.vector(leaves), options)
        return _result(end, lambda x: nest.pack_as(initial_position, packing.leaves(x)))


def _result(end: State, unpacked: Callable[[Tensor], Any]) -> LBFGSResult:
    return LBFGSResult(
        unpacked(end.x), end.value, unpacked(end.gradient), end.converged, end.failed, end.iterations, end.evaluations
    )


class LBFGS:
    """L-BFGS on variables: one run of what `minimize` returns goes on until it has converged.

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

    def __init__(
        self,
        num_correction_pairs: int = 10,
        tolerance: float = 1e-8,
        f_relative_tolerance: float = 0.0,
        x_tolerance: float = 0.0,
        max_iterations: int = 1000,
        max_line_search_iterations: int = 50,
        name: str = "LBFGS",
    ) -> None:
        self.name = name
        self._options = Options(
            num_correction_pairs,
            tolerance,
            f_relative_tolerance,
            x_tolerance,
            max_iterations,
            max_line_search_iterations,
        )

    @public
    def minimize(
        self, loss: Callable[[], Any], var_list: Variable | Sequence[Variable] | None = None, name: str | None = None
    ) -> LBFGSResult:
        """Return what moves variables to a minimum of a loss, once any part of it is computed.

        Parameters
        ----------
        loss : callable
            Without arguments; builds the loss, a scalar of the dtype of the variables, from their values. It is
            evaluated at many places in one step, so a tensor does not do.
        var_list : Variable or sequence of Variable, optional
            What to change, those in shards too, of one floating dtype and of known shapes; all trainable variables by
            default.
        name : str, optional

        Returns
        -------
        LBFGSResult
            Of lists in the order of `var_list`, shards one by one. The variables have the values of `position` before
            it is there.

        Raises
        ------
        GraphError
            If there is no variable, or the loss is a tensor.
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
            return self._minimized(loss, variables)

    def _minimized(self, loss: Callable[[], Any], variables: list[Variable]) -> LBFGSResult:
        packing = _Packing([v.value() for v in variables])

        def objective(x: Tensor) -> tuple[Tensor, Tensor]:
            with control_dependencies(_assigned(variables, packing.leaves(x))):
                value = _checked_value(loss(), x)
                found = gradients([value], variables, unconnected_gradients="zero")
                return value, packing.vector(found)

        end = minimized(objective, packing.vector([v.value() for v in variables]), self._options)
        result = _result(end, packing.leaves)
        with control_dependencies(_assigned(variables, result.position)):
            return nest.map_structure(identity, result)  # type: ignore[no-any-return]


def _assigned(variables: Sequence[Variable], values: Sequence[Tensor]) -> list[Any]:
    return [v.assign(value).op for v, value in zip(variables, values, strict=True)]

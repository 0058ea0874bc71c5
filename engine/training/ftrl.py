"""Follow the regularized leader, per coordinate."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..ir.fields import takes_fields
from ..ir.tensor import Tensor
from ..ops.array.where import where
from ..ops.math.arithmetic import pow as power
from ..ops.math.elementwise import abs as absolute
from ..ops.math.elementwise import sign, square
from .adaptive import filled_slot
from .elementwise import ElementwiseOptimizer, Part
from .optimizer import cast_hyperparameter, check_number


@takes_fields
class FtrlOptimizer(ElementwiseOptimizer):
    """FTRL-Proximal (McMahan et al., 2013, algorithm 1), which holds unhelpful weights at exactly 0.

    At each update, with ``p = -learning_rate_power``::

        new = accum + gradient**2
        linear += gradient + 2 * l2_shrinkage * variable - (new**p - accum**p) / learning_rate * variable
        variable = 0 if abs(linear) <= l1 else (sign(linear) * l1 - linear) / (new**p / learning_rate + 2 * l2)
        accum = new

    A sparse gradient changes only its rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    learning_rate_power : float or floating scalar Tensor
        Exponent of the rate's decay, at most 0; with 0 the rate is constant.
    initial_accumulator_value : float or floating scalar Tensor
        Initial value of the sums of squares, at least 0.
    l1_regularization_strength, l2_regularization_strength : float or floating scalar Tensor
        Penalties on the updated weights, at least 0.
    use_locking : bool, optional
        Ignored; keeps TensorFlow's argument order.
    name : str, optional
    accum_name, linear_name : str, optional
        Names of the slots.
    l2_shrinkage_regularization_strength : float or floating scalar Tensor
        Penalty on the current weights, applied only where there is a gradient.
    beta : float or floating scalar Tensor
        The paper's beta, added to the root of the sum of squares.

    Raises
    ------
    GraphError
        If a number is out of its range.

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import FtrlOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([0.0, 0.0], name="w")
    ...     loss = tg.reduce_sum(w * [3.0, 0.25])
    ...     train = FtrlOptimizer(1.0, initial_accumulator_value=0.0, l1_regularization_strength=0.5).minimize(loss)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     [round(value, 4) for value in session.run(w).tolist()]
    [-0.8333, 0.0]
    """

    learning_rate: InitVar[Any]
    learning_rate_power: Any = -0.5
    initial_accumulator_value: Any = 0.1
    l1_regularization_strength: Any = 0.0
    l2_regularization_strength: Any = 0.0
    use_locking: bool = False
    name: str = "Ftrl"
    accum_name: str | None = None
    linear_name: str | None = None
    l2_shrinkage_regularization_strength: Any = 0.0
    beta: Any = 0.0

    def __post_init__(self, learning_rate: Any) -> None:
        check_number("learning_rate_power", self.learning_rate_power, lambda x: x <= 0, "at most 0")
        for parameter in (
            "initial_accumulator_value",
            "l1_regularization_strength",
            "l2_regularization_strength",
            "l2_shrinkage_regularization_strength",
        ):
            check_number(parameter, getattr(self, parameter), lambda x: x >= 0, "0 or more")
        super().__init__(learning_rate, self.name)

    def update(self, gradient: Tensor, part: Part) -> None:
        var, dtype = part.var, part.dtype
        rate, exponent, l1, l2, shrinkage, beta = (
            cast_hyperparameter(value, dtype)
            for value in (
                self.rate(dtype),
                self.learning_rate_power,
                self.l1_regularization_strength,
                self.l2_regularization_strength,
                self.l2_shrinkage_regularization_strength,
                self.beta,
            )
        )
        sums = filled_slot(self, var, self.accum_name or "accum", self.initial_accumulator_value)
        leader = self.zeros_slot(var, self.linear_name or "linear")
        # Read before the write: the formula needs the old sums too.
        weights, before = part.read(var), part.read(sums)
        after = part.write(sums, before + square(gradient))
        # `learning_rate_power` is at most 0: with its default, -0.5, these are square roots.
        new, old = power(after, -exponent) / rate, power(before, -exponent) / rate
        moved = gradient + 2 * shrinkage * weights - (new - old) * weights
        linear = part.write(leader, part.read(leader) + moved)
        ends = (sign(linear) * l1 - linear) / (new + 2 * l2 + beta / rate)
        # Written, not subtracted: the new weight follows from the sums alone.
        part.write(var, where(absolute(linear) > l1, ends, 0))

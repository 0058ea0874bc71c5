"""Optimizers that divide steps by the size of earlier gradients: Adagrad, Adadelta, RMSProp."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..frontend.state.variables import Variable
from ..ir.fields import takes_fields
from ..ir.tensor import Tensor
from ..ops.array.creation import fill
from ..ops.math.arithmetic import maximum
from ..ops.math.elementwise import rsqrt, sqrt, square
from ..ops.support.common import shape_of
from .elementwise import ElementwiseOptimizer, Part
from .optimizer import Optimizer, cast_hyperparameter, check_number


def filled_slot(optimizer: Optimizer, var: Variable, name: str, value: object) -> Variable:
    """Return a slot with the shape and dtype of a variable, initially filled with `value`."""

    def make_initial_value() -> Tensor:
        return fill(shape_of(var.initial_value), cast_hyperparameter(value, var.dtype))

    return optimizer.slot(var, name, make_initial_value, var.shape)


class AdagradOptimizer(ElementwiseOptimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011): steps divided by the root of the sum of squared gradients.

    ``accumulator += gradient**2``, then ``variable -= learning_rate * gradient / sqrt(accumulator)``. A sparse
    gradient changes only its rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    initial_accumulator_value : float or floating scalar Tensor
        Initial value of the sums, above 0.
    name : str, optional

    Raises
    ------
    GraphError
        If `initial_accumulator_value` is a number of 0 or less.

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import AdagradOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([0.0, 0.0], name="w")
    ...     train = AdagradOptimizer(0.5, initial_accumulator_value=1e-9).minimize(tg.reduce_sum(w * [1.0, 100.0]))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     session.run(w).tolist()  # whatever the size of the gradient
    [-0.5, -0.5]
    """

    def __init__(self, learning_rate: Any, initial_accumulator_value: Any = 0.1, name: str = "Adagrad") -> None:
        check_number("initial_accumulator_value", initial_accumulator_value, lambda x: x > 0, "above 0")
        super().__init__(learning_rate, name)
        self._initial = initial_accumulator_value

    def update(self, gradient: Tensor, part: Part) -> None:
        slot = filled_slot(self, part.var, "accumulator", self._initial)
        total = part.write(slot, part.read(slot) + square(gradient))
        part.lower(self.rate(part.dtype) * gradient * rsqrt(total))


class AdadeltaOptimizer(ElementwiseOptimizer):
    """Adadelta (Zeiler, 2012): steps scaled by the running size of earlier steps over that of gradients.

    At each update, with slots "accum" and "accum_update", initially 0::

        accum = rho * accum + (1 - rho) * gradient**2
        step = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * gradient
        accum_update = rho * accum_update + (1 - rho) * step**2
        variable -= learning_rate * step

    A sparse gradient changes only its rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
        1.0 for the paper's method.
    rho : float or floating scalar Tensor
        Decay of both means, in [0, 1).
    epsilon : float or floating scalar Tensor
        Added to both means; determines the size of the first step.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import AdadeltaOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(3.0, name="w")
    ...     train = AdadeltaOptimizer(1.0, rho=0.75, epsilon=0.25).minimize(tg.square(w))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     round(float(session.run(w)), 4)  # 3 - sqrt(0.25) / sqrt(0.25 * 36 + 0.25) * 6
    2.0136
    """

    def __init__(
        self, learning_rate: Any = 0.001, rho: Any = 0.95, epsilon: Any = 1e-8, name: str = "Adadelta"
    ) -> None:
        super().__init__(learning_rate, name)
        self._rho = rho
        self._epsilon = epsilon

    def update(self, gradient: Tensor, part: Part) -> None:
        var, dtype = part.var, part.dtype
        rho, epsilon = cast_hyperparameter(self._rho, dtype), cast_hyperparameter(self._epsilon, dtype)
        gradients_slot, steps_slot = self.zeros_slot(var, "accum"), self.zeros_slot(var, "accum_update")
        squared_gradients = part.write(gradients_slot, rho * part.read(gradients_slot) + (1 - rho) * square(gradient))
        # The step is computed from earlier steps only, so the numerator lags by one update.
        squared_steps = part.read(steps_slot)
        step = sqrt(squared_steps + epsilon) / sqrt(squared_gradients + epsilon) * gradient
        part.write(steps_slot, rho * squared_steps + (1 - rho) * square(step))
        part.lower(self.rate(dtype) * step)


@takes_fields
class RMSPropOptimizer(ElementwiseOptimizer):
    """RMSProp (Tieleman and Hinton, 2012; centered as by Graves, 2013): steps divided by a running root mean square.

    At each update::

        rms = decay * rms + (1 - decay) * gradient**2
        mg = decay * mg + (1 - decay) * gradient                  # if centered, else 0
        step = momentum * step + learning_rate * gradient / sqrt(rms - mg**2 + epsilon)
        variable -= step

    The slots are "rms", a mean of squares, initially 1, "mg", the mean gradient, and "momentum", the last step. A
    sparse gradient changes only its rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    decay, momentum : float or floating scalar Tensor
        In [0, 1).
    epsilon : float or floating scalar Tensor
        Added to the denominator, to keep the quotient finite.
    use_locking : bool, optional
        Ignored; keeps TensorFlow's argument order.
    centered : bool, optional
        Divide by the running standard deviation.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import RMSPropOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(1.0, name="w")
    ...     optimizer = RMSPropOptimizer(0.1, decay=0.5, centered=True)
    ...     train = optimizer.minimize(tg.square(w))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     [float(session.run(optimizer.get_slot(w, name))) for name in ("rms", "mg")]
    [2.5, 1.0]
    """

    learning_rate: InitVar[Any]
    decay: Any = 0.9
    momentum: Any = 0.0
    epsilon: Any = 1e-10
    use_locking: bool = False
    centered: bool = False
    name: str = "RMSProp"

    def __post_init__(self, learning_rate: Any) -> None:
        super().__init__(learning_rate, self.name)

    def update(self, gradient: Tensor, part: Part) -> None:
        var, dtype = part.var, part.dtype
        # As in TensorFlow 1 the mean square begins at 1, not 0, which keeps the first steps small.
        variance = self._update_mean(part, filled_slot(self, var, "rms", 1.0), square(gradient))
        if self.centered:
            mean = self._update_mean(part, self.zeros_slot(var, "mg"), gradient)
            variance = maximum(variance - square(mean), 0)  # below 0 by rounding, where gradients hardly change
        slot = self.zeros_slot(var, "momentum")
        step = self.rate(dtype) * gradient / sqrt(variance + cast_hyperparameter(self.epsilon, dtype))
        part.lower(part.write(slot, cast_hyperparameter(self.momentum, dtype) * part.read(slot) + step))

    def _update_mean(self, part: Part, slot: Variable, value: Tensor) -> Tensor:
        """Update a running mean in a slot by a value, and return the new mean."""
        decay = cast_hyperparameter(self.decay, part.dtype)
        return part.write(slot, decay * part.read(slot) + (1 - decay) * value)

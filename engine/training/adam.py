"""Adam: steps scaled by running moments of the gradient."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import DType, accumulator_dtype
from ..frontend.state.variables import Variable
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ops.math.elementwise import sqrt, square
from .elementwise import ElementwiseOptimizer, Part
from .optimizer import cast_hyperparameter


class AdamOptimizer(ElementwiseOptimizer):
    """Adam (Kingma and Ba, 2015, algorithm 1, computed in the order given at the end of section 2).

    At update t::

        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        variable -= learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + epsilon)

    A sparse gradient changes only its rows and their moments; the moments of other rows do not decay meanwhile.
    (TensorFlow's LazyAdamOptimizer does the same; its AdamOptimizer updates all rows at each step.)

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    beta1, beta2 : float or floating scalar Tensor
        Decay of the first and second moment, in [0, 1).
    epsilon : float or floating scalar Tensor
        Added to the denominator, to keep the quotient finite.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import AdamOptimizer
    >>> with tg.Graph().as_default():
    ...     w = tg.Variable([5.0, -3.0], name="w")
    ...     optimizer = AdamOptimizer(0.1)
    ...     train = optimizer.minimize(tg.reduce_sum(tg.square(w)))
    >>> optimizer.get_slot_names()
    ['beta1_power', 'beta2_power', 'm', 'v']
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        name: str = "Adam",
    ) -> None:
        super().__init__(learning_rate, name)
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._first: dict[tuple[Graph, DType], Variable] = {}
        self._counted: list[Variable] = []

    def prepare(self, variables: list[Variable]) -> None:
        """Choose the owners of the powers of beta: the first variable of each dtype among `variables`."""
        # One pair of powers per dtype, not per variable: all variables are updated equally often.
        first = [self._first.setdefault((v.graph, v.dtype), v) for v in variables]
        self._counted = list({v.dtype: v for v in first}.values())

    def _beta_powers(self, var: Variable) -> tuple[Variable, Variable]:
        first, dtype = self._first[var.graph, var.dtype], accumulator_dtype(var.dtype)
        beta1, beta2 = (lambda beta=beta: cast_hyperparameter(beta, dtype) for beta in (self._beta1, self._beta2))
        return self.slot(first, "beta1_power", beta1, dtype=dtype), self.slot(first, "beta2_power", beta2, dtype=dtype)

    def moments(self, gradient: Tensor, part: Part) -> tuple[Tensor, Tensor]:
        """Update the running moments of a part.

        Parameters
        ----------
        gradient : Tensor
        part : Part

        Returns
        -------
        m, v : Tensor
            The updated moments.
        """
        beta1, beta2 = cast_hyperparameter(self._beta1, part.dtype), cast_hyperparameter(self._beta2, part.dtype)
        m_slot, v_slot = self.zeros_slot(part.var, "m"), self.zeros_slot(part.var, "v")
        m = part.write(m_slot, beta1 * part.read(m_slot) + (1 - beta1) * gradient)
        v = part.write(v_slot, beta2 * part.read(v_slot) + (1 - beta2) * square(gradient))
        return m, v

    def update(self, gradient: Tensor, part: Part) -> None:
        dtype = part.dtype
        power1, power2 = self._beta_powers(part.var)
        # Both bias corrections in a scalar factor, instead of two divisions per element.
        rate = self.rate(dtype) * sqrt(1 - power2) / (1 - power1)
        m, v = self.moments(gradient, part)
        part.lower(rate * m / (sqrt(v) + cast_hyperparameter(self._epsilon, dtype)))

    def finish(self) -> list[Any]:
        # After all updates, which read the powers of this step.
        return [
            power.assign(power * cast_hyperparameter(beta, power.dtype))
            for var in self._counted
            for power, beta in zip(self._beta_powers(var), (self._beta1, self._beta2), strict=True)
        ]

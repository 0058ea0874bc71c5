"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any

from ..frontend.state.variables import Variable
from ..ir.tensor import Tensor
from ..ops.support.indexed_slices import IndexedSlices
from .elementwise import ElementwiseOptimizer, Part
from .optimizer import Optimizer, cast_hyperparameter


class GradientDescentOptimizer(Optimizer):
    """Gradient descent: ``variable -= learning_rate * gradient``. A sparse gradient changes only its rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import GradientDescentOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(5.0, name="w")
    ...     train = GradientDescentOptimizer(0.1).minimize(tg.square(w))
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(w.initializer)
    ...     session.run(train)
    ...     float(session.run(w))
    4.0
    """

    def __init__(self, learning_rate: Any, name: str = "GradientDescent") -> None:
        super().__init__(learning_rate, name)

    def apply_dense(self, gradient: Tensor, var: Variable) -> Tensor:
        return var.assign_sub(self.rate(var.dtype) * gradient)

    def apply_sparse(self, gradient: IndexedSlices, var: Variable) -> Tensor:
        # Repeated rows add up in a subtraction, so they need not be summed first.
        return var.scatter_sub(gradient.indices, self.rate(var.dtype) * gradient.values)


class MomentumOptimizer(ElementwiseOptimizer):
    """Gradient descent along a decaying sum of gradients (Polyak, 1964; Sutskever et al., 2013).

    ``momentum = momentum * decay + gradient``, then ``variable -= learning_rate * momentum``. A sparse gradient
    changes only its rows and their sums; the sums of other rows do not decay meanwhile.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    momentum : float or floating scalar Tensor
        The decay, in [0, 1).
    name : str, optional
    use_nesterov : bool, optional
        Nesterov's look-ahead: step along ``gradient + decay * momentum``.

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import MomentumOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(8.0, name="w")
    ...     train = MomentumOptimizer(0.125, momentum=0.5).minimize(tg.square(w))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     [(session.run(train), float(session.run(w)))[1] for _ in range(3)]
    [6.0, 3.5, 1.375]
    """

    def __init__(self, learning_rate: Any, momentum: Any, name: str = "Momentum", use_nesterov: bool = False) -> None:
        super().__init__(learning_rate, name)
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def update(self, gradient: Tensor, part: Part) -> None:
        dtype = part.dtype
        decay, slot = cast_hyperparameter(self._momentum, dtype), self.zeros_slot(part.var, "momentum")
        total = part.write(slot, decay * part.read(slot) + gradient)
        # With Nesterov's momentum the variables track theta + mu * v of Sutskever et al., so gradients are taken there.
        part.lower(self.rate(dtype) * (gradient + decay * total if self._use_nesterov else total))

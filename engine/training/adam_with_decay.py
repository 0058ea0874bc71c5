"""Adam with weight decay: AdamW and LAMB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import InitVar
from typing import Any

from ..frontend.state.variables import Variable
from ..ir.fields import takes_fields
from ..ir.tensor import Tensor
from ..ops.array.where import where
from ..ops.math.elementwise import sqrt, square
from ..ops.math.reductions import reduce_sum
from .adam import AdamOptimizer
from .elementwise import Part
from .optimizer import cast_hyperparameter


class _WithDecay(AdamOptimizer):
    """Base of AdamW and LAMB: Adam's direction from bias-corrected moments, plus the decayed weights."""

    weight_decay: Any
    exclude_from_weight_decay: Sequence[str] | None

    def __post_init__(self, learning_rate: Any, beta1: Any, beta2: Any, epsilon: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, self.name)
        self._exclude = tuple(self.exclude_from_weight_decay or ())

    def _compute_direction(self, gradient: Tensor, part: Part) -> Tensor:
        m, v = self.moments(gradient, part)
        power1, power2 = self._beta_powers(part.var)
        # Moments are corrected one by one, because Adam's common factor would scale the decayed weights too.
        direction = m / (1 - power1) / (sqrt(v / (1 - power2)) + cast_hyperparameter(self._epsilon, part.dtype))
        if _matches_any(self._exclude, part.var):
            return direction
        return direction + cast_hyperparameter(self.weight_decay, part.dtype) * part.read(part.var)


def _matches_any(patterns: Sequence[str], var: Variable) -> bool:
    return any(re.search(pattern, var.name) for pattern in patterns)


@takes_fields
class AdamWOptimizer(_WithDecay):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019, algorithm 2).

    At update t::

        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        direction = m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + epsilon)
        variable -= learning_rate * (direction + weight_decay * variable)

    A sparse gradient changes and decays only its rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    weight_decay : float or floating scalar Tensor
    beta1, beta2, epsilon
        As for `AdamOptimizer`.
    name : str, optional
    exclude_from_weight_decay : sequence of str, optional
        Regular expressions such as ``["bias", "norm"]``; variables whose names have a match do not decay.

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import AdamWOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w, bias = tg.Variable(8.0, name="w"), tg.Variable(8.0, name="bias")
    ...     optimizer = AdamWOptimizer(0.5, weight_decay=0.25, exclude_from_weight_decay=["bias"])
    ...     train = optimizer.minimize(w + bias)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     [round(float(value), 4) for value in session.run([w, bias])]
    [6.5, 7.5]
    """

    learning_rate: InitVar[Any] = 0.001
    weight_decay: Any = 0.01
    beta1: InitVar[Any] = 0.9
    beta2: InitVar[Any] = 0.999
    epsilon: InitVar[Any] = 1e-8
    name: str = "AdamW"
    exclude_from_weight_decay: Sequence[str] | None = None

    def update(self, gradient: Tensor, part: Part) -> None:
        part.lower(self.rate(part.dtype) * self._compute_direction(gradient, part))


@takes_fields
class LambOptimizer(_WithDecay):
    """LAMB (You et al., 2020, algorithm 2): Adam for large batches, the step of each variable scaled to its norm.

    At each update ``variable -= learning_rate * norm(variable) / norm(direction) * direction``, with the direction of
    `AdamWOptimizer`, weight decay included. Where a norm is 0, the quotient of the norms is taken as 1. A sparse
    gradient changes only its rows, and the norms are taken over these rows.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
    beta1, beta2, epsilon
        As for `AdamOptimizer`.
    weight_decay : float or floating scalar Tensor
    exclude_from_weight_decay, exclude_from_layer_adaptation : sequence of str, optional
        Regular expressions; variables whose names have a match do not decay, or take unscaled steps.
        `exclude_from_layer_adaptation` defaults to `exclude_from_weight_decay`.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import LambOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([30.0, 40.0], name="w")
    ...     train = LambOptimizer(0.5).minimize(tg.reduce_sum(w))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     step = session.run(w) - [30.0, 40.0]
    >>> round(float((step**2).sum() ** 0.5), 3)  # half of the norm of w
    25.0
    """

    learning_rate: InitVar[Any] = 0.001
    beta1: InitVar[Any] = 0.9
    beta2: InitVar[Any] = 0.999
    epsilon: InitVar[Any] = 1e-6
    weight_decay: Any = 0.0
    exclude_from_weight_decay: Sequence[str] | None = None
    exclude_from_layer_adaptation: Sequence[str] | None = None
    name: str = "Lamb"

    def __post_init__(self, learning_rate: Any, beta1: Any, beta2: Any, epsilon: Any) -> None:
        super().__post_init__(learning_rate, beta1, beta2, epsilon)
        layers = self.exclude_from_layer_adaptation
        self._unscaled = self._exclude if layers is None else tuple(layers)

    def update(self, gradient: Tensor, part: Part) -> None:
        direction, rate = self._compute_direction(gradient, part), self.rate(part.dtype)
        if not _matches_any(self._unscaled, part.var):
            rate = rate * _compute_trust_ratio(part.read(part.var), direction)
        part.lower(rate * direction)


def _compute_trust_ratio(weights: Tensor, direction: Tensor) -> Tensor:
    """Return ``norm(weights) / norm(direction)``, 1 where either norm is 0."""
    of_weights, of_direction = (sqrt(reduce_sum(square(x))) for x in (weights, direction))
    both = (of_weights > 0) & (of_direction > 0)
    # The inner `where` keeps the unselected quotient finite.
    return where(both, of_weights / where(both, of_direction, 1), 1)

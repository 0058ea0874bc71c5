"""One replica of a training step."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.tensor import Tensor


# Compared by identity, because the comparison of tensors builds operations.
@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A training step on one device: computes gradients, and applies or contributes them.

    Attributes
    ----------
    number : int
        Counted from 0.
    local_step : Tensor
        An int64 scalar to feed: a lower bound of the number of updates in the parameters used. The preceding step's
        `next_step`; for the first step the value of the global step, or 0.
    counted : Tensor
        A bool scalar: True if the gradients were used.
    next_step : Tensor
        An int64 scalar: the number of updates after the step.
    staleness : Tensor
        An int64 scalar: the number of updates by others between the parameters read and the intended update.
    drains : bool
        True if the gradients depend on elements taken from a queue.

    Examples
    --------
    A step by hand, without runners:

    >>> import tagloom as tg
    >>> from tagloom.training import AsyncReplicas, GradientDescentOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(3.0)
    ...     replica = AsyncReplicas(GradientDescentOptimizer(0.5), replicas=1).minimize(w * w)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run([replica.counted, replica.next_step, replica.staleness])
    [array(True), array(1), array(0)]
    """

    number: int
    local_step: Tensor
    counted: Tensor
    next_step: Tensor
    staleness: Tensor
    drains: bool

    @property
    def step(self) -> tuple[Tensor, Tensor, Tensor]:
        """Tensors to fetch to make a step."""
        return self.counted, self.next_step, self.staleness

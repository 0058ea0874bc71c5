"""One replica of a training step."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A training step on one device: computes gradients and hands them on.

    Attributes
    ----------
    number : int
        Counted from 0.
    local_step : Tensor
        An int64 scalar to be fed: the number of updates of the parameters that it computes with, at least. What the
        step before gave as `next_step`; for the first that of the global step, or 0.
    counted : Tensor
        A bool scalar: whether its gradients were used.
    next_step : Tensor
        An int64 scalar: the number of updates behind its step.
    staleness : Tensor
        An int64 scalar: how many updates others have made between those that it has read and the one it had to be in.
    drains : bool
        Whether its gradients are computed from what a queue gives that steps feed.

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
        """What is fetched to do its step."""
        return self.counted, self.next_step, self.staleness

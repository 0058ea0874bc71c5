"""One replica of a training step, and what asynchronous and synchronous ones have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError
from ...frontend.variables import Variable
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..global_step import get_or_create_global_step
from ..optimizer import Gradient, Optimizer


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
        Whether its gradients are computed from what a queue gives.
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


class Replicas(ABC):
    """What `AsyncReplicas` and `SyncReplicas` have in common.

    Attributes
    ----------
    optimizer : Optimizer
    replicas : tuple of Replica
        Those built so far.
    global_step : Variable
        Counts the updates.
    """

    def __init__(self, optimizer: Optimizer, replicas: int, global_step: Variable | None, name: str) -> None:
        if not isinstance(replicas, int) or replicas < 1:
            raise GraphError("there is no such number of replicas", wanted="1 or more", got=replicas, hint="replicas=4")
        self.optimizer: Optimizer = optimizer
        self.name: str = name
        self.replicas: tuple[Replica, ...] = ()
        self.global_step: Variable = get_or_create_global_step() if global_step is None else global_step
        self._count = replicas

    @public
    def minimize(
        self, loss: Any, var_list: Variable | Sequence[Variable] | None = None, grad_loss: Any = None
    ) -> Replica:
        """Build the next replica: gradients of its loss, on the device open here, and what becomes of them.

        Parameters
        ----------
        loss : floating Tensor
            Of this replica, over its own data.
        var_list : Variable or sequence of Variable, optional
            As for `Optimizer.minimize`; the same for all replicas.
        grad_loss : Tensor, optional
            Cotangent of `loss`.

        Returns
        -------
        Replica

        Raises
        ------
        GraphError
            If all replicas are built, or `loss` depends on no variable, or on others than that of the replica before.
        """
        return self.apply_gradients(self.optimizer.compute_gradients(loss, var_list, grad_loss))

    @public
    def apply_gradients(self, grads_and_vars: Iterable[tuple[Gradient, Variable]]) -> Replica:
        """Build the next replica from its gradients, clipped perhaps: see `minimize`.

        Parameters
        ----------
        grads_and_vars : iterable of (Tensor, IndexedSlices or None, Variable)
            As `compute_gradients` of the optimizer gives them; pairs whose gradient is None are left out.

        Returns
        -------
        Replica
        """
        if len(self.replicas) == self._count:
            raise GraphError(
                f"all replicas of '{self.name}' are built",
                wanted=f"{self._count} calls of minimize or apply_gradients",
                got=f"{self._count + 1}",
                hint="make it with more replicas",
            )
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if not pairs:
            raise GraphError(
                f"replica {len(self.replicas)} of '{self.name}' has no gradient",
                wanted="a loss that depends on a variable",
                hint="look for stop_gradient or an integer cast",
            )
        replica = self._replica(len(self.replicas), pairs)
        self.replicas = (*self.replicas, replica)
        if len(self.replicas) == self._count:
            self._complete()
        return replica

    @abstractmethod
    def _replica(self, number: int, pairs: list[tuple[Any, Variable]]) -> Replica:
        """Build a replica."""

    def _complete(self) -> None:
        """Build what is behind all replicas."""

    def _check_complete(self) -> None:
        if len(self.replicas) < self._count:
            raise GraphError(
                f"not all replicas of '{self.name}' are built",
                wanted=self._count,
                got=len(self.replicas),
                hint="call minimize or apply_gradients for each, on its device",
            )

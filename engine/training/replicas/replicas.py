"""What asynchronous and synchronous replicas have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...base.errors import GraphError
from ...frontend.variables import Variable
from ...ir.entry import public
from ...runtime.runners import Runners
from ...runtime.scheduling.feeds import Feeds
from ..global_step import get_or_create_global_step
from ..optimizer import Gradient, Optimizer
from .options import Options
from .replica import Replica
from .running import ReplicaGroup


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

    def start(
        self,
        group: Runners,
        *,
        steps: int | None = None,
        feeds: Sequence[Feeds] | None = None,
        fetches: Sequence[Any] | None = None,
        on_step: Callable[[int, Any], object] | None = None,
        on_update: Callable[[int], object] | None = None,
        restarts: float = 0,
        backoff: float = 0.1,
        longest_backoff: float = 30.0,
        minimum: int | None = None,
    ) -> ReplicaGroup:
        """Run all replicas, and what makes updates of their gradients, in a group of runners.

        Parameters
        ----------
        group : Runners
        steps : int, optional
            Number of updates after which training is over; without it, it ends with the feeds, or when the group is
            stopped.
        feeds : sequence, optional
            For each replica what `Runners.add` takes: a mapping, or an iterable or async iterable of them. A replica
            whose feeds have ended, or the queue that it takes from, leaves: updates wait for the others only.
        fetches : sequence, optional
            For each replica what its steps fetch besides.
        on_step : callable, optional
            Called with the number of the replica and what its step has fetched; may be an async function.
        on_update : callable, optional
            Called with the number of updates after each; may be an async function. With `SyncReplicas` the next update
            waits for it: a place to save.
        restarts, backoff, longest_backoff
            Of each replica, as of `Runners.add`.
        minimum : int, optional
            How many replicas must be left when one fails for good; with fewer its error ends the group. By default as
            many as an update needs, or 1 where each makes its own.

        Returns
        -------
        ReplicaGroup

        Raises
        ------
        GraphError
            If not all replicas are built, or an option does not fit.
        """
        if len(self.replicas) < self._count:
            raise self._incomplete()
        options = Options(steps, feeds, fetches, on_step, on_update, restarts, backoff, longest_backoff, minimum)
        options.check(self._count)
        return self._group(group, options).begin()

    @abstractmethod
    def _replica(self, number: int, pairs: list[tuple[Any, Variable]]) -> Replica:
        """Build a replica."""

    @abstractmethod
    def _complete(self) -> None:
        """Build what is behind all replicas."""

    @abstractmethod
    def _group(self, group: Runners, options: Options) -> ReplicaGroup:
        """Return what runs the replicas."""

    def _incomplete(self) -> GraphError:
        return GraphError(
            f"not all replicas of '{self.name}' are built",
            wanted=self._count,
            got=len(self.replicas),
            hint="call minimize or apply_gradients for each, on its device",
        )

"""Base of asynchronous and synchronous replicas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...base.errors import GraphError
from ...frontend.state.variables import Variable
from ...ir.entry import public
from ...runtime.runners.feeds import Feeds
from ...runtime.runners.group import Runners
from ..global_step import get_or_create_global_step
from ..optimizer import Gradient, Optimizer
from .options import Options
from .replica import Replica
from .running import ReplicaGroup


class Replicas(ABC):
    """Base of `AsyncReplicas` and `SyncReplicas`.

    Attributes
    ----------
    optimizer : Optimizer
    replicas : tuple of Replica
        Replicas built so far.
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
        """Build the next replica: the gradients of its loss, on the current device, and their use.

        Parameters
        ----------
        loss : floating Tensor
            Loss of this replica, over its own data.
        var_list : Variable or sequence of Variable, optional
            As for `Optimizer.minimize`; equal for all replicas.
        grad_loss : Tensor, optional
            Cotangent of `loss`.

        Returns
        -------
        Replica

        Raises
        ------
        GraphError
            If all replicas are built, `loss` depends on no variable, or the variables differ from earlier replicas'.
        """
        return self.apply_gradients(self.optimizer.compute_gradients(loss, var_list, grad_loss))

    @public
    def apply_gradients(self, grads_and_vars: Iterable[tuple[Gradient, Variable]]) -> Replica:
        """Build the next replica from gradients, for example clipped gradients; see `minimize`.

        Parameters
        ----------
        grads_and_vars : iterable of (Tensor, IndexedSlices or None, Variable)
            As the optimizer's `compute_gradients` returns them; pairs whose gradient is None are skipped.

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
        replica = self._build_replica(len(self.replicas), pairs)
        self.replicas = (*self.replicas, replica)
        # The update of synchronous replicas takes the gradients of all.
        if len(self.replicas) == self._count:
            self._build_shared_operations()
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
        """Run all replicas, and the updates of their gradients, in a group of runners.

        Parameters
        ----------
        group : Runners
        steps : int, optional
            Number of updates after which training is over. By default training ends with the feeds, or when the group
            is stopped.
        feeds : sequence, optional
            One item per replica, as for `Runners.add`: a mapping, or an iterable or async iterable of mappings. A
            replica whose feeds or queue have ended leaves: updates wait for the others only.
        fetches : sequence, optional
            One item per replica: additional fetches of its steps.
        on_step : callable, optional
            Called with the number of the replica and the fetched values of each step; may be an async function.
        on_update : callable, optional
            Called after each update with the number of updates; may be an async function. With `SyncReplicas` the next
            update waits for the call, so that the call may save a checkpoint.
        restarts, backoff, longest_backoff
            As for `Runners.add`, for each replica.
        minimum : int, optional
            Number of replicas that must remain when one fails for good; with fewer, its error ends the group. By
            default the number of gradients of an update with `SyncReplicas`, 1 with `AsyncReplicas`.

        Returns
        -------
        ReplicaGroup

        Raises
        ------
        GraphError
            If a replica is missing, or an option does not fit.
        """
        if len(self.replicas) < self._count:
            raise self._missing_replicas_error()
        options = Options(steps, feeds, fetches, on_step, on_update, restarts, backoff, longest_backoff, minimum)
        options.check(self._count)
        return self._make_group(group, options).begin()

    @abstractmethod
    def _build_replica(self, number: int, pairs: list[tuple[Any, Variable]]) -> Replica:
        """Build a replica."""

    @abstractmethod
    def _build_shared_operations(self) -> None:
        """Build the operations that follow all replicas; called after the last replica is built."""

    @abstractmethod
    def _make_group(self, group: Runners, options: Options) -> ReplicaGroup:
        """Return the ReplicaGroup that runs the replicas."""

    def _missing_replicas_error(self) -> GraphError:
        return GraphError(
            f"not all replicas of '{self.name}' are built",
            wanted=self._count,
            got=len(self.replicas),
            hint="call minimize or apply_gradients for each, on its device",
        )

"""Asynchronous replicas: each reads and updates the current parameters on its own (OSDI'16, Figure 4(a))."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...frontend.control.scopes import control_dependencies, name_scope
from ...frontend.state.variables import Variable
from ...ops.control.placeholders import identity, placeholder_with_default
from ...ops.math.casting import cast
from ...runtime.runners.group import Runners
from ...runtime.runners.repeating_step import await_result
from ...runtime.steps.queue_uses import uses_of
from ..optimizer import Optimizer
from .options import Options
from .replica import Replica
from .replicas import Replicas
from .running import ReplicaGroup


class AsyncReplicas(Replicas):
    """Replicas without mutual waiting: others may update the parameters between a replica's read and its update.

    Devices are always busy, at the price of stale gradients. Updates of one variable follow each other; updates of
    several variables by several replicas may interleave.

    Parameters
    ----------
    optimizer : Optimizer
        Applies the gradients.
    replicas : int
        Number of replicas; build each by `minimize` or `apply_gradients`, on its device.
    global_step : Variable of an integer dtype, optional
        Counts the updates; the graph's global step by default.
    name : str

    Raises
    ------
    GraphError
        If `replicas` is not a positive integer.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> from tagloom.training import AsyncReplicas, GradientDescentOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([5.0, -3.0])
    ...     replicas = AsyncReplicas(GradientDescentOptimizer(0.1), replicas=2)
    ...     for k in range(2):
    ...         with tg.device(f"/cpu:{k}"):
    ...             _ = replicas.minimize(tg.reduce_sum(tg.square(w)))
    ...     init = tg.global_variables_initializer()
    >>> async def main():
    ...     async with tg.Session(graph, devices=2) as session:
    ...         await session.run(init)
    ...         async with tg.runners(session) as group:
    ...             training = replicas.start(group, steps=40)
    ...         return training.step, bool(abs(await session.run(w)).max() < 0.1)
    >>> asyncio.run(main())
    (40, True)
    """

    def __init__(
        self, optimizer: Optimizer, replicas: int, *, global_step: Variable | None = None, name: str = "async_replicas"
    ) -> None:
        super().__init__(optimizer, replicas, global_step, name)

    def _build_shared_operations(self) -> None:
        """Do nothing: each replica has an update of its own."""

    def _make_group(self, group: Runners, options: Options) -> ReplicaGroup:
        return AsyncGroup(self.name, self.replicas, group, options)

    def _build_replica(self, number: int, pairs: list[tuple[Any, Variable]]) -> Replica:
        """Build a replica whose step ends with its own update of the variables."""
        with name_scope(f"{self.name}_{number}"):
            local = placeholder_with_default(cast(self.global_step.value(), dtypes.int64), [], name="local_step")
            begun = identity(local)  # read before the update, because built before it
            update = self.optimizer.apply_gradients([*pairs], self.global_step)
            with control_dependencies([begun, update]):
                step_after = cast(self.global_step.value(), dtypes.int64)
                counted = identity(True)
        # A replica that takes from a queue ends when the queue is closed and empty.
        drains = bool(uses_of(self.global_step.graph, [gradient for gradient, _ in pairs]).takes)
        # Of the updates since the read, one is the replica's own; the others make its gradient stale.
        return Replica(number, local, counted, step_after, step_after - begun - 1, drains)


class AsyncGroup(ReplicaGroup):
    """Running asynchronous replicas."""

    def __init__(self, name: str, replicas: Sequence[Replica], group: Runners, options: Options) -> None:
        super().__init__(name, replicas, group, options)
        self._begun = 0  # steps begun, except failed ones
        # Nothing to wait for: there is no common update that must be ready first.
        self._ready.set()

    async def _run_step(self, replica: Replica, fetches: object, feeds: object) -> Any:
        """Run one step, counted against the limit from its beginning, then call `on_update`."""
        # Counted before the step: replicas that begin steps concurrently must not exceed the limit together.
        self._begun += 1
        try:
            values = await super()._run_step(replica, fetches, feeds)
        except BaseException:
            self._begun -= 1
            raise
        if self._options.on_update is not None:
            await await_result(self._options.on_update(self.step))
        return values

    def _record_step(self, number: int, counted: bool, step: int, staleness: int) -> None:
        super()._record_step(number, counted, step, staleness)
        self._records[number].counted += 1
        self._note_update(max(self.step, step))

    def _is_enough(self) -> bool:
        return self._options.steps is not None and self._begun >= self._options.steps

    def _extra_feeds(self, replica: Replica) -> dict[Any, Any]:
        return {}  # the graph reads the global step itself

    def _minimum_replicas(self) -> int:
        return 1 if self._options.minimum is None else self._options.minimum

    async def _go_on_without(self, number: int) -> None:
        """Do nothing: no replica waits for another."""

"""Synchronous replicas with backups (OSDI'16, section 4.4, Figures 4(b) and 4(c))."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...frontend.control.loops import while_loop
from ...frontend.control.scopes import control_dependencies, name_scope
from ...frontend.queues.accumulators import ConditionalAccumulator
from ...frontend.queues.queues import FIFOQueue
from ...frontend.state.variables import Variable
from ...ir import scopes
from ...ir.apply import convert_to_tensor
from ...ir.tensor import Tensor
from ...ops.control.placeholders import identity, placeholder, placeholder_with_default
from ...ops.math.arithmetic import maximum
from ...ops.math.casting import cast
from ...ops.math.comparison import logical_not, logical_or
from ...runtime.runners.group import Runners
from ...runtime.steps.queue_uses import uses_of
from ..optimizer import Optimizer
from .options import Options
from .replica import Replica
from .replicas import Replicas
from .running import ReplicaGroup
from .sync_group import SyncGroup, Update


class SyncReplicas(Replicas):
    """Replicas whose first `aggregate` gradients make an update together; gradients that come later are dropped.

    In the graph, each replica applies its gradients to one accumulator per variable, labelled with the number of
    updates in its parameters, then counts its arrival in another accumulator. The update waits for `aggregate`
    arrivals, applies the mean gradients by the optimizer, and enqueues a token for each replica in the replica's own
    queue; replicas end their steps by taking a token. Gradients with an older label are dropped.

    With backup replicas an update waits neither for stragglers nor for failed replicas. Sparse gradients
    (IndexedSlices) are made dense. A gradient that arrives while an update begins may count for some variables and
    not for others, and is reported as late.

    Parameters
    ----------
    optimizer : Optimizer
        Applies the mean gradients.
    replicas : int
        Number of replicas; build each by `minimize` or `apply_gradients`, on its device.
    aggregate : int, optional
        Number of gradients per update; by default ``replicas - backup``.
    backup : int, optional
        Number of replicas beyond `aggregate`; 0 by default.
    global_step : Variable of an integer dtype, optional
        Counts the updates, and must not be changed otherwise; the graph's global step by default.
    name : str

    Attributes
    ----------
    update : Update
        Available when all replicas are built.

    Raises
    ------
    GraphError
        If `aggregate` and `backup` do not sum to `replicas`, or `aggregate` is below 1.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> from tagloom.training import GradientDescentOptimizer, SyncReplicas
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([5.0, -3.0])
    ...     replicas = SyncReplicas(GradientDescentOptimizer(0.1), replicas=3, backup=1)
    ...     for k in range(3):
    ...         with tg.device(f"/cpu:{k}"):
    ...             _ = replicas.minimize(tg.reduce_sum(tg.square(w)))
    ...     init = tg.global_variables_initializer()
    >>> async def main():
    ...     async with tg.Session(graph, devices=3) as session:
    ...         await session.run(init)
    ...         async with tg.runners(session) as group:
    ...             training = replicas.start(group, steps=20)
    ...         return training.step, bool(abs(await session.run(w)).max() < 0.1)
    >>> asyncio.run(main())
    (20, True)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        replicas: int,
        aggregate: int | None = None,
        *,
        backup: int | None = None,
        global_step: Variable | None = None,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(optimizer, replicas, global_step, name)
        if aggregate is None:
            aggregate = replicas - (backup or 0)
        if (
            not 1 <= aggregate <= replicas
            or aggregate + (replicas - aggregate if backup is None else backup) != replicas
        ):
            raise GraphError(
                f"an update of '{name}' cannot be made from these gradients",
                wanted=f"aggregate + backup = {replicas} replicas, aggregate at least 1",
                got=f"aggregate={aggregate}, backup={backup}",
                hint="give one of the two",
            )
        self.aggregate: int = aggregate
        self._sums: dict[Tensor, tuple[ConditionalAccumulator, Variable]] = {}  # by handle, in order
        self._arrivals: ConditionalAccumulator | None = None
        self._tokens: list[FIFOQueue] = []
        self._update: Update | None = None

    @property
    def update(self) -> Update:
        """Tensors of the step that makes an update."""
        if self._update is None:
            raise self._missing_replicas_error()
        return self._update

    def _make_group(self, group: Runners, options: Options) -> ReplicaGroup:
        return SyncGroup(self.name, self.replicas, group, options, self.update, self.aggregate)

    def _build_replica(self, number: int, pairs: list[tuple[Any, Variable]]) -> Replica:
        """Build a replica: gradients into the accumulators, an arrival, then a wait for the token."""
        sums = self._get_accumulators(number, pairs)
        assert self._arrivals is not None
        with name_scope(f"{self.name}_{number}"):
            tokens = FIFOQueue(-1, "int64", shapes=[[]], name="tokens")
            self._tokens.append(tokens)
            local = placeholder("int64", [], name="local_step")
            gradients = [convert_to_tensor(gradient) for gradient, _ in pairs]
            with control_dependencies(gradients):  # all or none: a failed step must not have contributed a part
                gradients = [identity(each) for each in gradients]
            applied = []
            for each, gradient in zip(sums, gradients, strict=True):
                with _request_device(each.accumulator_ref.device):
                    applied.append(each.apply_grad(gradient, local))
            # The arrival comes last: an update that has enough arrivals finds all their gradients accumulated.
            with control_dependencies(applied), _request_device(self.global_step.device):
                # A unit vector per replica: the sum shows whose gradients are in the update.
                mark = np.eye(self._count, dtype=np.int32)[number]
                counted = self._arrivals.apply_grad(mark, local).outputs[0]
            with control_dependencies([counted]):
                # The step ends with the next update, not with its gradient: a fast replica waits for the others.
                step_after = _await_newer_step(tokens, local, cast(self.global_step.read_value(), dtypes.int64))
            staleness = (step_after - local) * cast(logical_not(counted), dtypes.int64)
        drains = bool(uses_of(self.global_step.graph, [gradient for gradient, _ in pairs]).takes)
        return Replica(number, local, counted, step_after, staleness, drains)

    def _get_accumulators(self, number: int, pairs: list[tuple[Any, Variable]]) -> list[ConditionalAccumulator]:
        """Return the variables' accumulators, made for the first replica and shared by all."""
        if self._arrivals is None:
            with scopes.within(control_inputs=()), name_scope(self.name):
                for _, variable in pairs:
                    with _request_device(variable.device):
                        made = ConditionalAccumulator(variable.dtype, variable.shape, name="sum")
                    self._sums[variable.handle] = made, variable
                with _request_device(self.global_step.device):
                    self._arrivals = ConditionalAccumulator(
                        "int32", [self._count], name="arrivals", reduction_type="SUM"
                    )
        if {variable.handle for _, variable in pairs} != set(self._sums):
            raise GraphError(
                f"replica {number} of '{self.name}' has gradients of other variables than those before",
                wanted=sorted(variable.name for _, variable in self._sums.values()),
                got=sorted(variable.name for _, variable in pairs),
                hint="build all replicas by one function, and give them one var_list",
            )
        return [self._sums[variable.handle][0] for _, variable in pairs]

    def _build_shared_operations(self) -> None:
        """Build the step of the update, see `Update`."""
        assert self._arrivals is not None
        arrivals, sums = self._arrivals, [made for made, _ in self._sums.values()]
        with scopes.within(control_inputs=(), device=()), name_scope(f"{self.name}_update"):
            required = placeholder_with_default(self.aggregate, [], name="required")
            contributions = arrivals.take_grad(required)
            # With all arrivals in, the sums are complete: `take_grad(1)` returns their means at once.
            with control_dependencies([contributions]):
                pairs: list[Any] = [(made.take_grad(1), variable) for made, variable in self._sums.values()]
            applied = self.optimizer.apply_gradients(pairs, self.global_step)
            with control_dependencies([applied]):
                step = cast(self.global_step.read_value(), dtypes.int64)
            with control_dependencies([each.enqueue(step) for each in self._tokens]):
                done = identity(step)
            # A restored global step is ahead of the accumulators', which begin at 0 in a new session.
            now = cast(self.global_step.read_value(), dtypes.int64)
            with control_dependencies([each.set_global_step(now) for each in [arrivals, *sums]]):
                begin = identity(now)
            label = placeholder("int64", [], name="label")
            absence = arrivals.apply_grad(np.zeros(self._count, np.int32), label).outputs[0]
        self._update = Update(required, done, contributions, begin, label, absence)


def _await_newer_step(tokens: FIFOQueue, local: Tensor, now: Tensor) -> Tensor:
    """Return the number of updates as soon as it exceeds `local`, the number in the replica's parameters.

    Takes all tokens from the replica's own queue, also tokens of updates that the replica missed.
    """

    def needs_more(step: Tensor) -> Tensor:
        return logical_or(step <= local, tokens.size() > 0)

    def take_tokens(step: Tensor) -> Tensor:
        return maximum(step, tokens.dequeue_many(maximum(tokens.size(), 1))[-1])

    step: Tensor = while_loop(needs_more, take_tokens, [now], back_prop=False)
    return step


def _request_device(device: str) -> Any:
    """Return a scope with exactly the given device request, or without any for an empty string."""
    return scopes.within(device=(device,) if device else ())

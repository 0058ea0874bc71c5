"""Synchronous replicas: the first gradients of each update count (OSDI'16, section 4.4, Figures 4(b) and 4(c))."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...frontend.accumulators import ConditionalAccumulator
from ...frontend.loops import while_loop
from ...frontend.queues import FIFOQueue
from ...frontend.scopes import control_dependencies, name_scope
from ...frontend.variables import Variable
from ...ir import scopes
from ...ir.apply import convert_to_tensor
from ...ir.tensor import Tensor
from ...ops.control.placeholders import identity, placeholder, placeholder_with_default
from ...ops.math.arithmetic import maximum
from ...ops.math.casting import cast
from ...ops.math.comparison import logical_not, logical_or
from ...runtime.runners import Runners
from ...runtime.steps.queue_uses import uses_of
from ..optimizer import Optimizer
from .options import Options
from .replica import Replica
from .replicas import Replicas
from .running import ReplicaGroup
from .sync_group import SyncGroup, Update


class SyncReplicas(Replicas):
    """Replicas whose first `aggregate` gradients make an update together; the others wait for it, or are late.

    In the graph: each replica applies its gradients to an accumulator for each variable, labelled with the number of
    the update whose result it has computed with, then 1 to an accumulator that counts. The update waits for
    `aggregate` of these, takes the means, lets the optimizer apply them, and puts a token for each replica into a queue
    of its own, for which replicas wait at the end of their step. What is labelled with an earlier update is dropped.

    With backup replicas an update waits for no straggler, and none for a replica that fails. Sparse gradients
    (IndexedSlices) are made dense. A gradient that comes while an update begins may be counted for some
    variables and not for others; it is reported as late.

    Parameters
    ----------
    optimizer : Optimizer
        Makes the updates.
    replicas : int
        How many there will be; build each by `minimize` or `apply_gradients`, on its device.
    aggregate : int, optional
        How many gradients make an update: all replicas but for the backup.
    backup : int, optional
        How many replicas there are beyond `aggregate`; 0 by default.
    global_step : Variable of an integer dtype, optional
        Counts the updates, and nothing else may; the graph's own by default.
    name : str

    Attributes
    ----------
    update : Update
        When all replicas are built.

    Raises
    ------
    GraphError
        If `aggregate` and `backup` are not `replicas` together, or nothing is to be aggregated.

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
                f"an update of '{name}' can not be made of these gradients",
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
        """The step that makes an update."""
        if self._update is None:
            raise self._incomplete()
        return self._update

    def _group(self, group: Runners, options: Options) -> ReplicaGroup:
        return SyncGroup(self.name, self.replicas, group, options, self.update, self.aggregate)

    def _replica(self, number: int, pairs: list[tuple[Any, Variable]]) -> Replica:
        sums = self._accumulators(number, pairs)
        assert self._arrivals is not None
        with name_scope(f"{self.name}_{number}"):
            tokens = FIFOQueue(-1, "int64", shapes=[[]], name="tokens")
            self._tokens.append(tokens)
            local = placeholder("int64", [], name="local_step")
            gradients = [convert_to_tensor(gradient) for gradient, _ in pairs]
            with control_dependencies(gradients):  # all of them or none: a step that fails has sent nothing
                gradients = [identity(each) for each in gradients]
            applied = []
            for each, gradient in zip(sums, gradients, strict=True):
                with _at(each.accumulator_ref.device):
                    applied.append(each.apply_grad(gradient, local))
            with control_dependencies(applied), _at(self.global_step.device):
                mark = np.eye(self._count, dtype=np.int32)[number]
                counted = self._arrivals.apply_grad(mark, local).outputs[0]
            with control_dependencies([counted]):
                behind = _newer(tokens, local, cast(self.global_step.read_value(), dtypes.int64))
            staleness = (behind - local) * cast(logical_not(counted), dtypes.int64)
        drains = bool(uses_of(self.global_step.graph, [gradient for gradient, _ in pairs]).takes)
        return Replica(number, local, counted, behind, staleness, drains)

    def _accumulators(self, number: int, pairs: list[tuple[Any, Variable]]) -> list[ConditionalAccumulator]:
        """Return the accumulators of the variables, which the first replica makes."""
        if self._arrivals is None:
            with scopes.within(control_inputs=()), name_scope(self.name):
                for _, variable in pairs:
                    with _at(variable.device):
                        made = ConditionalAccumulator(variable.dtype, variable.shape, name="sum")
                    self._sums[variable.handle] = made, variable
                with _at(self.global_step.device):
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

    def _complete(self) -> None:
        """Build the update."""
        assert self._arrivals is not None
        arrivals, sums = self._arrivals, [made for made, _ in self._sums.values()]
        with scopes.within(control_inputs=(), device=()), name_scope(f"{self.name}_update"):
            required = placeholder_with_default(self.aggregate, [], name="required")
            contributions = arrivals.take_grad(required)
            with control_dependencies([contributions]):
                pairs: list[Any] = [(made.take_grad(1), variable) for made, variable in self._sums.values()]
            applied = self.optimizer.apply_gradients(pairs, self.global_step)
            with control_dependencies([applied]):
                step = cast(self.global_step.read_value(), dtypes.int64)
            with control_dependencies([each.enqueue(step) for each in self._tokens]):
                done = identity(step)
            now = cast(self.global_step.read_value(), dtypes.int64)
            with control_dependencies([each.set_global_step(now) for each in [arrivals, *sums]]):
                begin = identity(now)
            label = placeholder("int64", [], name="label")
            absence = arrivals.apply_grad(np.zeros(self._count, np.int32), label).outputs[0]
        self._update = Update(required, done, contributions, begin, label, absence)


def _newer(tokens: FIFOQueue, local: Tensor, now: Tensor) -> Tensor:
    """Return the number of updates as soon as it is more than a replica has computed with.

    It takes all tokens that are in, as nobody else takes any: some are of updates that it was late for.
    """

    def more(step: Tensor) -> Tensor:
        return logical_or(step <= local, tokens.size() > 0)

    def take(step: Tensor) -> Tensor:
        return maximum(step, tokens.dequeue_many(maximum(tokens.size(), 1))[-1])

    return while_loop(more, take, [now], back_prop=False)  # type: ignore[no-any-return]


def _at(device: str) -> Any:
    """Ask for the device of what is used, or for none, where that asks for none."""
    return scopes.within(device=(device,) if device else ())

"""Running synchronous replicas, and their updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.tensor import Tensor
from ...runtime.runners.group import Runners
from ...runtime.runners.repeating_step import Runner, await_result
from .options import Options
from .replica import Replica
from .running import ReplicaGroup


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """Tensors of the step that makes an update from the first gradients.

    Attributes
    ----------
    required : Tensor
        An int32 scalar that may be fed: the number of gradients to wait for.
    done : Tensor
        An int64 scalar: the number of updates, this update included.
    contributions : Tensor
        An int32 vector: the number of gradients from each replica.
    begin : Tensor
        An int64 scalar: the number of updates so far. Fetching `begin` sets the accumulators to this number; fetch it
        before the first step of a replica.
    label : Tensor
        An int64 scalar to feed for `absence`: the number of an update.
    absence : Tensor
        A bool scalar. Fetching `absence` counts as an empty gradient of the update `label`; True if in time.
    """

    required: Tensor
    done: Tensor
    contributions: Tensor
    begin: Tensor
    label: Tensor
    absence: Tensor


class SyncGroup(ReplicaGroup):
    """Running synchronous replicas, and the runner of their updates."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        group: Runners,
        options: Options,
        update: Update,
        aggregate: int,
    ) -> None:
        super().__init__(name, replicas, group, options)
        self._update = update
        self._aggregate = aggregate
        self._wanted = 0  # gradients that the running update waits for, 0 between updates
        self._updating: Runner | None = None  # runner of the updates

    def begin(self) -> ReplicaGroup:
        """Start all replicas and the updates; return the group."""
        super().begin()
        self._updating = self._group.add(
            self._make_update,
            name=f"{self._name} update",
            times=self._options.steps,
            drains=True,
            on_end=self._cancel_replicas,
        )
        return self

    async def _make_update(self) -> None:
        """Make one update; the first call also releases the replicas."""
        session, update = self._group.session, self._update
        if not self._ready.is_set():
            self.step = int(await session.run(update.begin))
            self._ready.set()
        if not self._active:  # the last replica has left, and this runner was asked to stop
            return
        # Replicas that have left send no gradients.
        self._wanted = min(self._aggregate, len(self._active))
        try:
            step, contributions = await session.run(
                [update.done, update.contributions], {update.required: self._wanted}
            )
        finally:
            self._wanted = 0
        self._note_update(int(step))
        for number, count in enumerate(contributions.tolist()):
            if count:
                # Counted here, because the replica's step may be cancelled before its end.
                self._records[number].counted += count
        if self._options.on_update is not None:
            await await_result(self._options.on_update(self.step))

    def _extra_feeds(self, replica: Replica) -> dict[Any, Any]:
        """Return the feed of `local_step`: a lower bound, because the step has read no parameters yet."""
        record = self._records[replica.number]
        record.step = max(record.step, self.step)
        return {replica.local_step: record.step}

    def _minimum_replicas(self) -> int:
        return self._aggregate if self._options.minimum is None else self._options.minimum

    async def _go_on_without(self, number: int) -> None:
        """Reduce the gradients that the running update waits for; the next ones count active replicas anyway."""
        if self._is_over:
            return
        if not self._active:
            self._end_updates()
            return
        update, label = self._update, self.step
        short = max(0, self._wanted - len(self._active))
        # Noted before the first await, because another replica may leave during the awaits.
        self._wanted -= short
        for _ in range(short):  # labelled, so that it is dropped if the update is made meanwhile
            await self._group.session.run(update.absence, {update.label: label})

    def _end_updates(self) -> None:
        """End the updates, because no replica is left; an update that has its gradients is completed."""
        assert self._updating is not None
        # An update that still waits for gradients will get none; a stop would wait for it forever.
        is_waiting = self._wanted > 0 and max(each.step for each in self._records.values()) <= self.step
        if is_waiting:
            self._updating.cancel()
        else:
            self._updating.stop()

    def _cancel_replicas(self, _: Runner) -> None:
        """Cancel the replicas, which would wait for another update forever."""
        self._is_over = True
        for each in self._records.values():
            each.runner.cancel()

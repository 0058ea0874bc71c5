"""Synchronous replicas that are running, and the updates that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.tensor import Tensor
from ...runtime.runners import Runners
from ...runtime.scheduling.runner import Runner, finished
from .options import Options
from .replica import Replica
from .running import ReplicaGroup


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """The step that makes an update of the first gradients.

    Attributes
    ----------
    required : Tensor
        An int32 scalar that may be fed: how many gradients it waits for.
    done : Tensor
        An int64 scalar: the number of updates behind it.
    contributions : Tensor
        Of int32: how many of the gradients are of each replica.
    begin : Tensor
        An int64 scalar: the number of updates so far. Lets gradients count that are computed from now on; to be
        fetched before the first replica's step.
    label : Tensor
        An int64 scalar to be fed for `absence`: the number of an update.
    absence : Tensor
        A bool scalar: counts as a gradient of that update, where none is to come, and whether it did.
    """

    required: Tensor
    done: Tensor
    contributions: Tensor
    begin: Tensor
    label: Tensor
    absence: Tensor


class SyncGroup(ReplicaGroup):
    """Synchronous replicas that are running."""

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
        self._wanted = 0  # gradients that the update under way has waited for
        self._updating: Runner | None = None  # what makes updates

    def begin(self) -> ReplicaGroup:
        """Add the runners."""
        super().begin()
        self._updating = self._group.add(
            self._make_update,
            name=f"{self._name} update",
            times=self._options.steps,
            drains=True,
            on_end=self._end,
        )
        return self

    async def _make_update(self) -> None:
        session, update = self._group.session, self._update
        if not self._ready.is_set():
            self.step = int(await session.run(update.begin))
            self._ready.set()
        if not self._active:  # the last one has left, and so this was asked to stop
            return
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
                self._records[number].counted += count
        if self._options.on_update is not None:
            await finished(self._options.on_update(self.step))

    def _labelled(self, replica: Replica) -> dict[Any, Any]:
        """Return the number of updates that its parameters have at least: none were read before it was known."""
        record = self._records[replica.number]
        record.step = max(record.step, self.step)
        return {replica.local_step: record.step}

    def _minimum(self) -> int:
        return self._aggregate if self._options.minimum is None else self._options.minimum

    async def _go_on_without(self, number: int) -> None:
        """Let the update under way wait for no more replicas than there are; the next ones wait for fewer anyway."""
        if self._is_over:
            return
        if not self._active:
            self._end_updates()
            return
        update, label = self._update, self.step
        short = max(0, self._wanted - len(self._active))
        self._wanted -= short
        for _ in range(short):  # of an update that is made meanwhile this is too late, and does nothing
            await self._group.session.run(update.absence, {update.label: label})

    def _end_updates(self) -> None:
        """End the updates, as there are no replicas: behind the one that is being made, if any."""
        assert self._updating is not None
        is_waiting = self._wanted > 0 and max(each.step for each in self._records.values()) <= self.step
        if is_waiting:
            self._updating.cancel()
        else:
            self._updating.stop()

    def _end(self, _: Runner) -> None:
        """End the replicas, which would wait for another update."""
        self._is_over = True
        for each in self._records.values():
            each.runner.cancel()

"""Start the machines of a step: one, or a group of them that meet, one for each device that has a share in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..kernels.cpu.contexts import KernelContexts
from ..kernels.scheduler.exchange import Rendezvous
from ..kernels.scheduler.group import MachineGroup
from ..kernels.scheduler.machine import StepMachine
from ..kernels.scheduler.tracing import Recorder
from ..kernels.scheduler.workers import Workers
from .devices import SessionDevice
from .shares import Share
from .step import CompiledStep

Drain = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class Launch:
    """How machines are started.

    Attributes
    ----------
    seed, guard, recorder, workers
        As the step machine takes them.
    """

    seed: int | None
    guard: Callable[[Any], None] | None
    recorder: Recorder | None
    workers: Workers | None

    def __call__(
        self, step: CompiledStep, context: Any, feeds: list[Any], devices: Sequence[SessionDevice]
    ) -> tuple[StepMachine | MachineGroup, Drain]:
        """Return the started machines of a step as one, and how to drain it.

        Parameters
        ----------
        context : StepContext
            Offered to stateful kernels; each share is given its own device's.
        feeds : list of numpy.ndarray
            One for each feed of the step.
        """
        if len(step.shares) == 1:
            share = step.shares[0]
            contexts = contexts_of(share, context, devices)
            machine = self._machine(share, context, contexts, feeds)
            return machine, lambda seconds: contexts.run(machine.drain, seconds)
        group = self._group(step, context, feeds, devices)
        return group, group.drain

    def _machine(
        self, share: Share, context: Any, contexts: KernelContexts, feeds: list[Any], meeting: Rendezvous | None = None
    ) -> StepMachine:
        if contexts is not context.contexts:
            context = context._replace(contexts=contexts)
        return StepMachine(
            share.machine, context, feeds, self.seed, self.guard, self.recorder, self.workers, meeting
        )

    def _group(
        self, step: CompiledStep, context: Any, feeds: list[Any], devices: Sequence[SessionDevice]
    ) -> MachineGroup:
        meeting = Rendezvous(len(step.channels))
        contexts = [contexts_of(share, context, devices) for share in step.shares]
        machines = [
            self._machine(share, context, own, [feeds[k] for k in share.feeds], meeting)
            for share, own in zip(step.shares, contexts, strict=True)
        ]
        places = {k: (i, n) for i, share in enumerate(step.shares) for n, k in enumerate(share.fetches)}
        return MachineGroup(machines, contexts, meeting, [places[k] for k in range(len(places))])


def contexts_of(share: Share, context: Any, devices: Sequence[SessionDevice]) -> KernelContexts:
    """Return the private contexts of a share's device."""
    return devices[share.device].contexts if devices else context.contexts


def hold(step: CompiledStep, context: Any, feeds: list[Any], devices: Sequence[SessionDevice]) -> list[Any]:
    """Charge fed arrays to the devices they go to, as long as what is returned lives."""
    held: list[Any] = []
    for share in step.shares:
        pool = contexts_of(share, context, devices).pool
        if pool is not None:
            held += pool.hold(feeds[k] for k in share.feeds)
    return held


def switch_outcomes(step: CompiledStep, machine: Any) -> dict[int, Any]:
    """Return which way the Switches of the root frame went, by their nodes in the plan of the whole step."""
    if not isinstance(machine, MachineGroup):
        return machine.switch_outcomes()  # type: ignore[no-any-return]
    nodes = {node.name: i for i, node in enumerate(step.plan.nodes)}
    return {nodes[name]: went for name, went in machine.switch_outcomes().items() if name in nodes}

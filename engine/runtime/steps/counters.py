"""Counters of a step for reports; they outlive the step's machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...compile.plan.plan import Plan
from ...kernels.native.program import NativeProgram
from ...kernels.scheduler.rendezvous import Rendezvous
from ...swap.counts import SwapCounts
from ..devices.simulated_time import Usage

Cluster = tuple[NativeProgram, int, str | None]


@dataclass(frozen=True, slots=True)
class StepCounters:
    """Counters of a step.
    Attributes
    ----------
    machines : sequence of (Plan, callable, callable)
        For each participating device its plan, a function returning the counts of its frames, and a function returning
        the counts of its clusters.
    rendezvous : Rendezvous or None
        Rendezvous of the devices, if there are several.
    usages : sequence of mapping
        Usage of each device's compute stream, by frame; empty where no device has simulated time.
    swaps : sequence of SwapCounts
        Moves of saved values, on each device where they might move.
    unmoved : str
        Reason why saved values might not move on the other devices.
    """

    machines: Sequence[tuple[Plan, Callable[[], Sequence[dict[str, Any]]], Callable[[], Sequence[Cluster]]]]
    rendezvous: Rendezvous | None = None
    usages: Sequence[Mapping[int, Usage]] = ()
    swaps: Sequence[SwapCounts] = ()
    unmoved: str = "it has no memory_limit"

    def loops(self) -> list[tuple[Plan, Sequence[dict[str, Any]]]]:
        """Return for each device its plan and the counts of its frames."""
        return [(plan, counts()) for plan, counts, _ in self.machines]

    def clusters(self) -> list[Cluster]:
        """Return for each cluster its program, its number of runs, and why its latest run was not native, or None."""
        return [each for *_, clusters in self.machines for each in clusters()]

    def traffic(self) -> list[dict[str, int]]:
        """Return the counts of each channel's messages."""
        return [] if self.rendezvous is None else self.rendezvous.traffic()

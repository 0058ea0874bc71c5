"""What a step counted, for reports: kept when its machines are gone."""

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
    """What a step counted.

    Attributes
    ----------
    machines : sequence of (Plan, callable, callable)
        For each device that takes part in the step, its plan, what returns the counts of its frames, and what returns
        those of its clusters.
    rendezvous : Rendezvous or None
        Where they met, if there are several.
    usages : sequence of mapping
        How each device's compute stream was used, by frame; empty where no device has a time of its own.
    swaps : sequence of SwapCounts
        What saved values did, on each device where they might move.
    unmoved : str
        Why they might not on the others.
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
        """Return for each cluster its program, how often that ran, and why it did not the last time."""
        return [each for *_, clusters in self.machines for each in clusters()]

    def traffic(self) -> list[dict[str, int]]:
        """Return what went over each channel."""
        return [] if self.rendezvous is None else self.rendezvous.traffic()

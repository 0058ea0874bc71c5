"""Resources and settings shared by the steps of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...base.settings import DEFAULTS, Settings
from ...compile import Target
from ...streams.contract import Clock
from ..devices.session_devices import SessionDevice
from ..memory.arbiter import MemoryArbiter
from ..memory.session_swap import Swapping
from ..resources.manager import ResourceManager
from ..scheduling.blocking_calls import BlockingCalls
from ..scheduling.worker_pool import WorkerPool

Guard = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class StepEnvironment:
    """Environment of an execution besides its step, feeds and context; the defaults suffice for a step alone.

    Attributes
    ----------
    settings : Settings
    devices : tuple of SessionDevice
        Devices of the steps' device plans; without devices, only the memory of the context is used.
    soft_placement : bool
        Move operations that ask for a missing device, or for two devices, to another device.
    resources : ResourceManager
        Owner of all state that outlives steps.
    blocking_calls : BlockingCalls or None
        Threads for functions that block.
    worker_pool : WorkerPool or None
        Workers for long kernels; without workers, the event loop runs all kernels.
    arbiter : MemoryArbiter
        Arbiter shared by steps that may release memory for each other.
    swapping : Swapping or None
        Swapping of saved values out of the devices' memory.
    guard : callable or None
        Called with each floating array that a kernel returns; an error of the guard fails the step.
    """

    settings: Settings = DEFAULTS
    devices: tuple[SessionDevice, ...] = ()
    soft_placement: bool = False
    resources: ResourceManager = field(default_factory=ResourceManager)
    blocking_calls: BlockingCalls | None = None
    worker_pool: WorkerPool | None = None
    arbiter: MemoryArbiter = field(default_factory=MemoryArbiter)
    swapping: Swapping | None = None
    guard: Guard | None = None

    def __post_init__(self) -> None:
        if self.long_calls is not None:
            self.long_calls.clocks = self.clocks

    @property
    def clocks(self) -> tuple[Clock, ...]:
        """The clocks of devices with simulated time, which may be free to jump."""
        return tuple(dict.fromkeys(each.device.clock for each in self.devices if each.is_simulated))

    @property
    def long_calls(self) -> BlockingCalls | None:
        """Threads for long Python kernels; None if all kernels run on the event loop."""
        return None if self.worker_pool is None else self.worker_pool.calls

    def target(
        self,
        partial_run: bool = False,
        observed: bool = False,
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> Target:
        """Return the compiler's target for the session's steps, or for feeds of the shapes `shapes` alone."""
        # A guard sees every array, and a simulated device times every kernel: neither can look into native programs.
        observed = observed or self.guard is not None or any(each.is_simulated for each in self.devices)
        devices = tuple(each.target() for each in self.devices)
        swap = None if self.swapping is None else self.swapping.everywhere
        return Target(self.settings, devices, self.soft_placement, swap, partial_run, observed, shapes)

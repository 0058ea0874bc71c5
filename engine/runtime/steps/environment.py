"""What the steps of one session share."""

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
    """What an execution is given besides its step, feeds and context; by default what a step needs alone.

    Attributes
    ----------
    settings : Settings
    devices : tuple of SessionDevice
        Which the device plans of steps are for; only the memory that the context names unless given.
    soft_placement : bool
        Place operations elsewhere that ask for a device that is not there, or for two.
    resources : ResourceManager
        What outlives steps.
    blocking_calls : BlockingCalls or None
        Threads for functions that block.
    worker_pool : WorkerPool or None
        Whose workers do the long kernels; without, all are done on the event loop.
    arbiter : MemoryArbiter
        Shared by steps that may give each other memory.
    swapping : Swapping or None
        How saved values leave the devices' memory.
    guard : callable or None
        Called with each floating array that a kernel gives; what it raises fails the step.
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
        """The clocks of devices with a time of their own, which may be free to jump."""
        return tuple(dict.fromkeys(each.device.clock for each in self.devices if each.is_simulated))

    @property
    def long_calls(self) -> BlockingCalls | None:
        """Threads for Python kernels that take long; None if all run on the event loop."""
        return None if self.worker_pool is None else self.worker_pool.calls

    def target(
        self,
        partial_run: bool = False,
        observed: bool = False,
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> Target:
        """Return what steps are compiled for; `shapes`, of feeds, if one is for those alone."""
        observed = observed or self.guard is not None or any(each.is_simulated for each in self.devices)
        devices = tuple(each.target() for each in self.devices)
        swap = None if self.swapping is None else self.swapping.everywhere
        return Target(self.settings, devices, self.soft_placement, swap, partial_run, observed, shapes)

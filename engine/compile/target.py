"""Target: the devices and settings for which a step is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.device_names import DeviceSpec
from ..base.settings import DEFAULTS, Settings
from ..ir.operation import Operation
from ..ir.own_kernels import ON_HOST, KernelSource, any_registered
from ..kernels.native.generator import C, CodeGenerator
from .plan.build import DeviceBackend

_BLOCKS_IN_LIMIT = 12  # a block of rows or of products takes at most 1/12 of a memory limit


@dataclass(frozen=True, slots=True)
class DeviceTarget:
    """A device available to a step.

    Attributes
    ----------
    spec : DeviceSpec
        The device's full name.
    memory_limit : int or None
        Most bytes for the device's arrays; None for no limit.
    backend : callable or None
        Returns the DeviceBackend of a compiled step, on a device whose arrays are not NumPy's.
    generator : CodeGenerator or None
        Writer of kernels for whole programs: the C kernels by default.
    kernels : KernelSource
        Kernels registered for the device's kind, and the dtypes of its arrays.
    """

    spec: DeviceSpec
    memory_limit: int | None = None
    backend: Callable[[Settings], DeviceBackend] | None = None
    generator: CodeGenerator | None = C
    kernels: KernelSource = ON_HOST


@dataclass(frozen=True, slots=True)
class Target:
    """Devices of a session, and options for the compilation of a step.

    Attributes
    ----------
    settings : Settings
        Which passes run, and how.
    devices : tuple of DeviceTarget
        The default device first. Without devices the whole step is for a single device, whatever operations ask for.
    soft_placement : bool
        Ignore a device constraint if no device matches or two constraints contradict each other.
    swap : bool or None
        Let saved values leave the device's memory in all loops, in none, or (None) in loops with
        ``swap_memory=True``.
    partial_run : bool
        Compile a step that takes its feeds and returns its fetches while it runs.
    observed : bool
        True if a trace, a step report or a guard observes instances, so every operation must have some.
    shapes : tuple of tuple of int, or None
        Shapes of the feeds, if the step serves no others.
    task : DeviceSpec or None
        Job, replica and task of a process that plans its own devices alone; None to plan all devices of a step.
    """

    settings: Settings = DEFAULTS
    devices: tuple[DeviceTarget, ...] = ()
    soft_placement: bool = False
    swap: bool | None = None
    partial_run: bool = False
    observed: bool = False
    shapes: tuple[tuple[int, ...], ...] | None = None
    task: DeviceSpec | None = None

    def plans(self, device: DeviceSpec) -> bool:
        """True if a device is planned for this target."""
        return self.task is None or self.task.allows(device)

    def has_own_kernel(self, op: Operation) -> bool:
        """Return True if a kernel is registered for an operation on one of the devices: no pass may replace it."""
        if not any_registered():
            return False
        kernels = {device.kernels for device in self.devices} or {ON_HOST}
        return any(each.find(op) is not None for each in kernels)

    @property
    def block_bytes(self) -> int:
        """Most bytes of a block of rows or products: a small part of the lowest memory limit."""
        return self._within_limits(self.settings.switches.block_bytes)

    @property
    def hoist_bytes(self) -> int:
        """Most bytes computed before a loop for all its iterations: bounded as a block is."""
        return self._within_limits(self.settings.switches.hoist_bytes)

    def _within_limits(self, bytes: int) -> int:
        """Return a number of bytes, reduced to a part of the lowest memory limit."""
        limits = [device.memory_limit for device in self.devices if device.memory_limit is not None]
        return min([bytes, *(limit // _BLOCKS_IN_LIMIT for limit in limits)])

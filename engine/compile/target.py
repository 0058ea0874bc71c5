"""What a step is compiled for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.device_names import DeviceSpec
from ..base.settings import DEFAULTS, Settings
from .plan.build import DeviceBackend

_BLOCKS = 12  # a block of rows or of products takes at most one of so many parts of a memory limit


@dataclass(frozen=True, slots=True)
class DeviceTarget:
    """One device that a step may run on.

    Attributes
    ----------
    spec : DeviceSpec
        Its full name.
    memory_limit : int or None
        Bytes that its arrays may take; None for any number.
    backend : callable or None
        Returns the DeviceBackend of one compiled step, on a device whose arrays are not NumPy's.
    compiles_cuda : bool
        Whether kernels in CUDA C run on it.
    """

    spec: DeviceSpec
    memory_limit: int | None = None
    backend: Callable[[Settings], DeviceBackend] | None = None
    compiles_cuda: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The devices of a session and what it asks of every step.

    Attributes
    ----------
    settings : Settings
        Which passes run, and how.
    devices : tuple of DeviceTarget
        The default device first. Without any, all is for one device, whatever the operations ask for.
    soft_placement : bool
        Place operations elsewhere if the device asked for is not there, or two contradict each other.
    swap : bool or None
        Let saved values leave the device's memory in all loops, in none, or (None) in those that say
        ``swap_memory=True``.
    partial_run : bool
        Compile a step whose feeds come, and whose fetches go, while it runs.
    observed : bool
        Each instance of an operation is looked at, by a trace, a report of one step or a guard: then all have some.
    shapes : tuple of tuple of int, or None
        Those of the values that are fed, if the step is for no others.
    """

    settings: Settings = DEFAULTS
    devices: tuple[DeviceTarget, ...] = ()
    soft_placement: bool = False
    swap: bool | None = None
    partial_run: bool = False
    observed: bool = False
    shapes: tuple[tuple[int, ...], ...] | None = None

    @property
    def block_bytes(self) -> int:
        """Most bytes of a block of rows or products: little of the least memory limit."""
        return self._within_limits(self.settings.block_bytes)

    @property
    def hoist_bytes(self) -> int:
        """Most bytes of what is computed in front of a loop for all its iterations: as much as a block may have."""
        return self._within_limits(self.settings.hoist_bytes)

    def _within_limits(self, bytes: int) -> int:
        limits = [device.memory_limit for device in self.devices if device.memory_limit is not None]
        return min([bytes, *(limit // _BLOCKS for limit in limits)])

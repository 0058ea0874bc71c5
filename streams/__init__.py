"""Devices with memory and streams: the contract, the CPU, and devices for tests and experiments."""

import typing as _typing
from importlib import import_module as _import_module

if _typing.TYPE_CHECKING:
    from .capabilities import SimulatedTime, SwapSupport
    from .clock import LoopClock, VirtualClock
    from .contract import Buffer, Clock, Device, Stream, StreamStatistics
    from .cpu import CpuDevice
    from .cuda import CudaBuffer, CudaDevice, CudaUnavailable, cuda_devices
    from .distributions import Distribution, Exponential, Lognormal, Mixture, Sum
    from .event import DeviceClosed, Event, Withdrawn
    from .host import HostDevice
    from .kinds import DeviceUnavailable
    from .library import LibraryDevice
    from .simulated import InjectedError, LatencyDevice, ManualDevice
else:
    _HOMES = {
        "capabilities": ("SimulatedTime", "SwapSupport"),
        "clock": ("LoopClock", "VirtualClock"),
        "contract": ("Buffer", "Clock", "Device", "Stream", "StreamStatistics"),
        "cpu": ("CpuDevice",),
        "cuda": ("CudaBuffer", "CudaDevice", "CudaUnavailable", "cuda_devices"),
        "distributions": ("Distribution", "Exponential", "Lognormal", "Mixture", "Sum"),
        "event": ("DeviceClosed", "Event", "Withdrawn"),
        "host": ("HostDevice",),
        "kinds": ("DeviceUnavailable",),
        "library": ("LibraryDevice",),
        "simulated": ("InjectedError", "LatencyDevice", "ManualDevice"),
    }
    _HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

    def __getattr__(name):
        """Load a name when it is used: a session needs the contract and one device."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return getattr(_import_module(f".{_HOME_OF[name]}", __name__), name)


__all__ = [
    "Buffer",
    "Clock",
    "CpuDevice",
    "CudaBuffer",
    "CudaDevice",
    "CudaUnavailable",
    "Device",
    "DeviceClosed",
    "DeviceUnavailable",
    "Distribution",
    "Event",
    "Exponential",
    "HostDevice",
    "InjectedError",
    "LatencyDevice",
    "LibraryDevice",
    "Lognormal",
    "LoopClock",
    "ManualDevice",
    "Mixture",
    "SimulatedTime",
    "Stream",
    "StreamStatistics",
    "Sum",
    "SwapSupport",
    "VirtualClock",
    "Withdrawn",
    "cuda_devices",
]


def __dir__() -> list[str]:
    """Return the public names, without the modules that they are in."""
    return sorted(__all__)

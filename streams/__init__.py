"""Devices with memory and streams: the contract, the CPU, and devices for tests and experiments."""

from .capabilities import SimulatedTime, SwapSupport
from .clock import LoopClock, VirtualClock
from .contract import Buffer, Clock, Device, Stream, StreamStatistics
from .cpu import CpuDevice
from .cuda import CudaBuffer, CudaDevice, CudaUnavailable, cuda_devices
from .distributions import Distribution, Exponential, Lognormal, Mixture, Sum
from .event import DeviceClosed, Event, Withdrawn
from .host import HostDevice
from .simulated import InjectedError, LatencyDevice, ManualDevice

__all__ = [
    "Buffer",
    "Clock",
    "CpuDevice",
    "CudaBuffer",
    "CudaDevice",
    "CudaUnavailable",
    "Device",
    "DeviceClosed",
    "Distribution",
    "Event",
    "Exponential",
    "HostDevice",
    "InjectedError",
    "LatencyDevice",
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

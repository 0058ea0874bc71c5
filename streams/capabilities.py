"""Optional parts of the device contract: swapping of saved values, and simulated time.

A device declares a part by its base class; callers test with ``isinstance``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..kernels.memory.swappable import SwappableArray
from .contract import Device


class HostMemory(Protocol):
    """Allocator of host memory outside the limits of devices.

    Attributes
    ----------
    limit : int or None
        Bytes for its arrays, None for any number.
    """

    limit: int | None

    @property
    def live_bytes(self) -> int:
        """Bytes of the arrays in use."""
        ...

    @property
    def peak_bytes(self) -> int:
        """The most bytes in use so far."""
        ...

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new, uninitialised array; MemoryError if there is no room."""
        ...

    def close(self) -> None:
        """Free the memory cached for new arrays."""


class SwapSupport(Device):
    """A device whose saved values may leave its memory: the methods used by `tagloom.swap` besides copies."""

    @abstractmethod
    def host_memory(self, limit: int | None = None) -> HostMemory:
        """Return an allocator of host memory for direct copies from and to this device (page-locked for a GPU)."""

    @abstractmethod
    def allocate_unreserved(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new Buffer on no iteration's account; None if iterations have reserved all free room."""

    @abstractmethod
    def charge(self, buffer: Any) -> None:
        """Charge a buffer to the running iteration instead of its previous account."""

    @abstractmethod
    def is_sole_owner(self, holder: SwappableArray) -> bool:
        """Return True if `holder` is the only owner of its buffer, and the buffer is a whole block.

        Then all bytes of the buffer are free as soon as the holder drops its reference.
        """

    @abstractmethod
    def make_readonly(self, buffer: Any) -> bool:
        """Keep kernels from writing results into a buffer; return False where this is impossible.

        With `Device.arrays` no kernel ever writes into its inputs.
        """


class SimulatedTime(ABC):
    """A device for tests and experiments, on which work is computed first and counts as done later."""

    @abstractmethod
    def models_time(self, kind: str, nbytes: int = 0) -> bool:
        """Return True if work of `kind` with `nbytes` to move takes simulated time on this device."""


def models_time(device: Device, kind: str, nbytes: int = 0) -> bool:
    """Return True if work of `kind` takes simulated time on `device`; False for devices without `SimulatedTime`."""
    return isinstance(device, SimulatedTime) and device.models_time(kind, nbytes)

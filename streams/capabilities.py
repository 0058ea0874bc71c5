"""Parts of the contract that only some devices keep: saved values that leave their memory, time that is made up.

A device says that it keeps a part by its base class, and ``isinstance`` asks.
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
        Bytes that its arrays may take, None for any number.
    """

    limit: int | None

    @property
    def live_bytes(self) -> int:
        """Bytes of the arrays in use."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were in use."""

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new array, not initialised; MemoryError if there is no room."""

    def close(self) -> None:
        """Give back the memory that is kept for new arrays."""


class SwapSupport(Device):
    """A device whose saved values may leave its memory: what `tagloom.swap` needs to know beyond what it copies."""

    @abstractmethod
    def host_memory(self, limit: int | None = None) -> HostMemory:
        """Return an allocator of host memory that this device copies to and from directly, as a GPU page-locked."""

    @abstractmethod
    def allocate_unreserved(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new Buffer on no iteration's account; None if there is no room that no iteration has reserved."""

    @abstractmethod
    def charge(self, buffer: Any) -> None:
        """Count a buffer on the account of the iteration that runs, whichever it counted on before."""

    @abstractmethod
    def is_sole_owner(self, holder: SwappableArray) -> bool:
        """Say whether a holder is the only owner of its buffer, and that the whole of a block.

        Then all bytes of the buffer are free as soon as the holder lets go of it.
        """

    @abstractmethod
    def make_readonly(self, buffer: Any) -> bool:
        """Let no kernel write its result into a buffer; False where that can not be.

        Where `Device.arrays` compute, no kernel ever does.
        """


class SimulatedTime(ABC):
    """A device, for tests and experiments, on which work counts as done later than it was computed."""

    @abstractmethod
    def models_time(self, kind: str, nbytes: int = 0) -> bool:
        """Say whether work of a kind, which moves so many bytes, takes time on this device."""


def models_time(device: Device, kind: str, nbytes: int = 0) -> bool:
    """Say whether work of a kind takes made-up time on a device: on none but those of `SimulatedTime`."""
    return isinstance(device, SimulatedTime) and device.models_time(kind, nbytes)

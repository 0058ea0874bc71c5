"""Tiers for saved values: host memory outside a device's limit, and a file for the overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..streams.capabilities import HostMemory, SwapSupport
from ..streams.contract import Clock
from .disk import DiskTier, Extent
from .entry import Array, SwapEntry
from .policy import SwapPolicy

STAGING = 1 << 25  # bytes on their way to the disk; a single value may be larger


class HostTier:
    """A tier in host memory, of a kind for direct copies from and to each device.

    Parameters
    ----------
    limit : int or None
        Bytes for the arrays in the tier, of all devices together.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._memories: dict[SwapSupport, HostMemory] = {}

    @property
    def live_bytes(self) -> int:
        """Bytes of the arrays in the tier."""
        return sum(memory.live_bytes for memory in self._memories.values())

    @property
    def peak_bytes(self) -> int:
        """Sum of the devices' peaks, an upper bound of the tier's own."""
        return sum(memory.peak_bytes for memory in self._memories.values())

    def take(self, device: SwapSupport, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Return a new, uninitialised array for a value of a device; None if there is no room."""
        memory = self._memories.get(device)
        if memory is None:
            memory = self._memories[device] = device.host_memory(self._limit)
        if self._limit is not None and len(self._memories) > 1:  # one limit for all: a device has the others' remainder
            memory.limit = max(0, self._limit - self.live_bytes + memory.live_bytes)
        try:
            return memory.take(shape, dtype)
        except MemoryError:
            return None

    def close(self) -> None:
        """Free the memory cached for new arrays."""
        for memory in self._memories.values():
            memory.close()


class Tiers:
    """Tiers of a session, shared by its devices.

    Parameters
    ----------
    policy : SwapPolicy
    clock : Clock
        Clock of the device, for the times of reads and writes of the file.
    """

    def __init__(self, policy: SwapPolicy, clock: Clock) -> None:
        limit, most = policy.host_limit, policy.disk_limit
        assert limit is None or isinstance(limit, int)
        assert most is None or isinstance(most, int)
        self.host: HostTier = HostTier(limit)
        self.staging: HostTier = HostTier(None)
        self.disk: DiskTier | None = None if policy.disk is None else DiskTier(policy.disk, most, clock)

    def take_staging(
        self, device: SwapSupport, shape: tuple[int, ...], dtype: np.dtype[Any], size: int
    ) -> Array | None:
        """Return host memory for a value on its way to the file; None while other values fill the staging memory."""
        if self.staging.live_bytes and self.staging.live_bytes + size > STAGING:
            return None
        return self.staging.take(device, shape, dtype)

    def host_array(self, entry: SwapEntry) -> Array:
        """Return a swapped-out value as a host array, read at once if in the file."""
        if isinstance(entry.location, Extent):
            return self.read_now(entry, None)
        array: Array = entry.location
        return array

    def read_now(self, entry: SwapEntry, into: Array | None) -> Array:
        """Copy a swapped-out value at once into a host array, by default a new array; return the array."""
        into = np.empty(entry.shape, entry.dtype) if into is None else into
        if isinstance(entry.location, Extent):
            assert self.disk is not None
            self.disk.read_now(entry.location, into)
        else:
            np.copyto(into, entry.location)
        return into

    @property
    def bytes_by_tier(self) -> dict[str, tuple[int, int]]:
        """Current and peak bytes of each tier."""
        staged = self.staging
        figures = {"host": (self.host.live_bytes + staged.live_bytes, self.host.peak_bytes + staged.peak_bytes)}
        if self.disk is not None:
            figures["disk"] = self.disk.live_bytes, self.disk.peak_bytes
        return figures

    async def aclose(self) -> None:
        """Close the file and free cached memory; arrays in use stay valid."""
        if self.disk is not None:
            await self.disk.aclose()
        for tier in (self.host, self.staging):
            tier.close()

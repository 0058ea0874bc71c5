"""Where saved values go: memory of the host outside a device's limit, and a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..kernels.cpu.contexts import KernelContexts
from ..kernels.cpu.pool import Pool
from ..streams.contract import Clock
from .disk import DiskTier
from .policy import SwapPolicy

Array = np.ndarray[Any, Any]
_KEPT = 1 << 30  # most bytes of freed arrays that are kept for the next ones
STAGING = 1 << 25  # bytes on their way to the disk; at least one value


class HostTier:
    """Memory of the host.

    Parameters
    ----------
    limit : int or None
        Bytes that the arrays in it may take.
    """

    def __init__(self, limit: int | None) -> None:
        self._pool = Pool(_KEPT, limit)
        self._contexts = KernelContexts(self._pool)

    @property
    def live_bytes(self) -> int:
        """Bytes of the arrays in it."""
        return self._pool.live_bytes

    @property
    def peak_bytes(self) -> int:
        """The most they were."""
        return self._pool.peak_bytes

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Return a new array, not initialised; None where there is no room."""
        try:
            return self._contexts.run(np.empty, shape, dtype)
        except MemoryError:
            return None

    def close(self) -> None:
        """Give back what is kept for new arrays."""
        self._pool.close()


class Tiers:
    """The tiers of a session, shared by its devices.

    Parameters
    ----------
    policy : SwapPolicy
    clock : Clock
        Of the device whose values they take; for what the disk does.
    """

    def __init__(self, policy: SwapPolicy, clock: Clock) -> None:
        limit, most = policy.host_limit, policy.disk_limit
        assert limit is None or isinstance(limit, int)
        assert most is None or isinstance(most, int)
        self.host = HostTier(limit)
        self.staging = HostTier(None)
        self.disk = None if policy.disk is None else DiskTier(policy.disk, most, clock)

    def stage(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array | None:
        """Return memory for a value on its way to the disk; None while others take what there is for that."""
        if self.staging.live_bytes and self.staging.live_bytes + size > STAGING:
            return None
        return self.staging.take(shape, dtype)

    @property
    def figures(self) -> dict[str, tuple[int, int]]:
        """Bytes in each tier, now and at most."""
        staged = self.staging
        found = {"host": (self.host.live_bytes + staged.live_bytes, self.host.peak_bytes + staged.peak_bytes)}
        if self.disk is not None:
            found["disk"] = self.disk.live_bytes, self.disk.peak_bytes
        return found

    async def aclose(self) -> None:
        """Give everything back; what is still held stays valid as long as it is."""
        if self.disk is not None:
            await self.disk.aclose()
        for tier in self._memories():
            tier.close()

    def _memories(self) -> Iterable[HostTier]:
        return self.host, self.staging

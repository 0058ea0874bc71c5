"""A session's settings of swapping, and the memory tiers for the values saved by loops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...base.errors import GraphError
from ...streams.capabilities import SwapSupport
from ...swap.policy import SwapPolicy
from ..devices.session_devices import SessionDevice

if TYPE_CHECKING:
    from ...swap.swapper import StepSwapper
    from ...swap.tiers import Tiers

Swap = SwapPolicy | bool | None


class Swapping:
    """Swapping of a session: its policy, and its tiers from the first use on.

    Parameters
    ----------
    wanted : SwapPolicy, bool or None
        A policy, or True for the default policy, for all loops; False for no loop at all; None for the loops with
        ``swap_memory=True``.
    devices : iterable of SessionDevice

    Raises
    ------
    GraphError
        If `wanted` is none of these, or no file can be made in the policy's directory.

    Attributes
    ----------
    everywhere : bool or None
        True if all loops swap, False if none do, None if each loop decides.
    """

    def __init__(self, wanted: Swap, devices: Iterable[SessionDevice]) -> None:
        if wanted is not None and not isinstance(wanted, (bool, SwapPolicy)):
            raise GraphError(
                "swap= of a session",
                wanted="a SwapPolicy, True or False",
                got=repr(wanted),
                hint="leave it out for the loops that say swap_memory=True",
            )
        self.policy: SwapPolicy = wanted if isinstance(wanted, SwapPolicy) else SwapPolicy()
        self.everywhere: bool | None = None if wanted is None else wanted is not False
        self._tiers: Tiers | None = None
        limited = next(filter(self._may_swap, devices), None)
        # Tiers on a disk are opened at once, so that a missing directory is an error of the constructor.
        if limited is not None and self.policy.disk is not None:
            self._tiers = self._open_tiers(limited)

    def begin(self, device: SessionDevice) -> StepSwapper | None:
        """Return the swapper of a step's saved values on a device; None for a device without a limit."""
        if not self._may_swap(device):
            return None
        assert isinstance(device.device, SwapSupport)
        # Opened by the first step that swaps: most sessions with a limit never need buffers or files.
        if self._tiers is None:
            self._tiers = self._open_tiers(device)
        from ...swap.swapper import StepSwapper

        return StepSwapper(device.device, self._tiers, self.policy, str(device.spec))

    def _open_tiers(self, device: SessionDevice) -> Tiers:
        from ...swap.tiers import Tiers  # only a step with a memory limit may swap

        return Tiers(self.policy, device.device.clock)

    def _may_swap(self, device: SessionDevice) -> bool:
        is_limited = device.pool is not None and device.pool.limit is not None
        return self.everywhere is not False and is_limited and isinstance(device.device, SwapSupport)

    @property
    def live_bytes(self) -> dict[str, int]:
        """Bytes in each tier now; empty before the first use of tiers."""
        return {} if self._tiers is None else {tier: live for tier, (live, _) in self._tiers.bytes_by_tier.items()}

    async def aclose(self) -> None:
        """Release the tiers."""
        if self._tiers is not None:
            await self._tiers.aclose()

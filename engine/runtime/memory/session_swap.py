"""Whether and how the steps of a session swap what their loops save."""

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
    """What a session knows of swapping.

    Parameters
    ----------
    wanted : SwapPolicy, bool or None
        True for the default policy, in all loops as with any policy; False for no loop at all; None for the loops that
        ask for it.
    devices : iterable of SessionDevice

    Raises
    ------
    GraphError
        If it is none of these, or no file can be made where the policy wants one.

    Attributes
    ----------
    everywhere : bool or None
        Whether all loops swap, or none; None if they say so themselves.
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
        limited = next(filter(self._swaps, devices), None)
        if limited is not None and self.policy.disk is not None:  # a directory that is none is found now
            self._tiers = self._open_tiers(limited)

    def begin(self, device: SessionDevice) -> StepSwapper | None:
        """Return what keeps the saved values of a step on a device; None where there is no limit to keep."""
        if not self._swaps(device):
            return None
        assert isinstance(device.device, SwapSupport)
        if self._tiers is None:
            self._tiers = self._open_tiers(device)
        from ...swap.swapper import StepSwapper

        return StepSwapper(device.device, self._tiers, self.policy, str(device.spec))

    def _open_tiers(self, device: SessionDevice) -> Tiers:
        from ...swap.tiers import Tiers  # only a step with a memory limit may swap

        return Tiers(self.policy, device.device.clock)

    def _swaps(self, device: SessionDevice) -> bool:
        is_limited = device.pool is not None and device.pool.limit is not None
        return self.everywhere is not False and is_limited and isinstance(device.device, SwapSupport)

    @property
    def live_bytes(self) -> dict[str, int]:
        """Bytes in each tier now; nothing where there are no tiers yet."""
        return {} if self._tiers is None else {tier: live for tier, (live, _) in self._tiers.figures.items()}

    async def aclose(self) -> None:
        """Give the tiers back."""
        if self._tiers is not None:
            await self._tiers.aclose()

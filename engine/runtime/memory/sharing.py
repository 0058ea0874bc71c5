"""Sharing of devices with a limit, and of memory budgets, among sessions of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...base.errors import TagloomError
from ...kernels.memory.pool import SharedLimit
from ...streams.contract import Device
from ..devices.session_devices import SessionDevice

if TYPE_CHECKING:
    from .arbiter import MemoryArbiter

_Sharers = WeakValueDictionary[int, "MemoryArbiter"]
# Arbiters of the sessions that share a device or a budget. A device that a session made itself is not shared.
_sharers: WeakKeyDictionary[Device | SharedLimit, _Sharers] = WeakKeyDictionary()


class MemorySharing:
    """Membership of a session's arbiter among the sharers of its devices and budgets.

    Parameters
    ----------
    arbiter : MemoryArbiter
        The arbiter of the session; other sessions see it until `leave`.
    devices : sequence of SessionDevice
        Devices of the session.

    Attributes
    ----------
    is_shared : bool
        True if the session has a device or a budget that other sessions may have too.
    loop : asyncio.AbstractEventLoop or None
        Event loop of the session's latest step.
    """

    __slots__ = ("_arbiter", "_budgets", "_devices", "_shared", "is_shared", "loop")

    def __init__(self, arbiter: MemoryArbiter, devices: Sequence[SessionDevice]) -> None:
        self._arbiter, self._devices = arbiter, devices
        self.loop: asyncio.AbstractEventLoop | None = None
        self._budgets = {each.pool.shared for each in devices if each.pool is not None and each.pool.shared is not None}
        shared: list[Device | SharedLimit] = [each.device for each in devices if not each.owned]
        shared += self._budgets
        self._shared = [_sharers.setdefault(each, WeakValueDictionary()) for each in shared]
        self.is_shared: bool = bool(self._shared)
        for sharers in self._shared:
            sharers[id(arbiter)] = arbiter

    def bind_loop(self) -> None:
        """Note the running event loop, on which the session shares from now on."""
        self.loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """End the membership: the session neither holds nor waits for shared memory any longer."""
        for sharers in self._shared:
            sharers.pop(id(self._arbiter), None)
        self._shared, self._budgets, self.is_shared = [], set(), False

    def sharing_arbiters(self) -> set[MemoryArbiter]:
        """Return the session's arbiter and those of all sessions that share with it directly, on whichever loop."""
        return {self._arbiter, *(each for sharers in self._shared for each in _living_arbiters(sharers))}

    def connected_arbiters(self) -> set[MemoryArbiter]:
        """Return the arbiters of all sessions on this loop sharing with this session, directly or through others."""
        # Transitive: A may wait for B's memory on one device while B waits for C's on another.
        found, unseen = {self._arbiter}, [self]
        while unseen:
            near = {each for sharers in unseen.pop()._shared for each in _living_arbiters(sharers)}
            new = {each for each in near - found if each.sharing.loop is self.loop}
            unseen += [each.sharing for each in new]
            found |= new
        return found

    def check_loops(self) -> None:
        """Raise TagloomError if a step of another event loop shares a limit: nobody here could wait for its end."""
        limited = [each.device for each in self._devices if not each.owned and each.device.limit is not None]
        for device in limited:
            if self._is_used_elsewhere(device):
                raise TagloomError(
                    f"{device.name} has a limit, so it serves one loop at a time, and steps of another one are under "
                    "way",
                    hint="await them first, or give each loop a device of its own",
                )
        if any(map(self._is_used_elsewhere, self._budgets)):
            raise TagloomError(
                "a MemoryBudget serves one event loop at a time, and steps of another one are under way",
                hint="await them first, open all sessions of a budget on one event loop, let threads share one "
                "SyncSession, as each has a loop of its own, or give each loop a budget of its own",
            )

    def _is_used_elsewhere(self, shared: Device | SharedLimit) -> bool:
        """Return True if a session of another event loop, which shares a device or a budget, has steps under way."""
        loops = {each.sharing.loop for each in _living_arbiters(_sharers[shared]) if each.has_running}
        return any(loop is not None and loop is not self.loop and not loop.is_closed() for loop in loops)


def _living_arbiters(sharers: _Sharers) -> list[MemoryArbiter]:
    """Return the arbiters that still live; other threads may add or drop some meanwhile."""
    return [each for found in sharers.valuerefs() if (each := found()) is not None]

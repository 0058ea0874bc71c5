"""Steps that wait for memory, since another step may give some back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...base.errors import TagflowError
from ..devices.device_values import forget_constants
from ..devices.session_devices import SessionDevice

_SECONDS = 0.01  # between two looks at what runs on in threads although its step is over
_number = count()  # of the steps of all sessions, in the order in which they began
# Arbiters of sessions that were given a device, by device; a device that a session made is its own.
_sharing: WeakKeyDictionary[Any, WeakValueDictionary[int, MemoryArbiter]] = WeakKeyDictionary()


class MemoryArbiter:
    """Knows which steps are under way, and which of them can only wait for memory.

    These are the steps of a session, of those on the same event loop that were given some of its devices, and so on:
    who waits for one of these may have what another one needs. When all of them wait, the last one that began fails,
    and what it had is given back to the others.

    Parameters
    ----------
    *outliving : BlockingCalls or WorkerPool
        What runs on, when its step has ended; it will give back what it has.
    devices : sequence of SessionDevice
        Of the session.
    """

    __slots__ = ("__weakref__", "_devices", "_loop", "_outliving", "_running", "_shared", "_waiting")

    def __init__(self, *outliving: Any, devices: Sequence[SessionDevice] = ()) -> None:
        self._outliving, self._devices = outliving, devices
        self._running: dict[Any, int] = {}  # executions, with their numbers
        self._waiting: set[Any] = set()
        self._loop: Any = None
        self._shared = [_sharing.setdefault(each.device, WeakValueDictionary()) for each in devices if not each.owned]
        for sharers in self._shared:
            sharers[id(self)] = self

    @property
    def waiting(self) -> bool:
        """Whether any step can only wait for memory."""
        return bool(self._waiting) or (bool(self._shared) and any(each._waiting for each in self._all()))

    def register(self, execution: Any) -> None:
        """Note that a step is under way.

        Raises
        ------
        TagflowError
            If a step of another event loop has some of a limited device's memory, of which nobody here could wait.
        """
        if self._shared:
            self._loop = asyncio.get_running_loop()
        self._running[execution] = next(_number)
        if self._shared:
            self._check_loops()  # now that those of other loops see this one

    def unregister(self, execution: Any) -> None:
        """Note that a step is over; what it had is there for others."""
        self._running.pop(execution, None)
        self._wake_all()

    def poll(self) -> None:
        """Let those that wait go on for which memory was given back."""
        for execution in [each for part in self._all() for each in part._waiting]:
            if execution.machine.can_progress:
                execution._wake()

    def _all(self) -> set[MemoryArbiter]:
        """Return this one, and those of the sessions that share devices with its own, or with theirs."""
        found, unseen = {self}, [self]
        while unseen:
            near = {each for sharers in unseen.pop()._shared for each in _present(sharers) if each._loop is self._loop}
            unseen += near - found
            found |= near
        return found

    def _check_loops(self) -> None:
        for device in (each.device for each in self._devices if not each.owned and each.device.limit is not None):
            for other in _present(_sharing[device]):
                if other._running and other._loop is not self._loop and not other._loop.is_closed():
                    raise TagflowError(
                        f"{device.name} has a limit, so it serves one loop at a time, and steps of another one are "
                        "under way",
                        hint="await them first, or give each loop a device of its own",
                    )

    def _wake_all(self) -> None:
        for execution in [each for part in self._all() for each in part._waiting]:
            execution._wake()

    def block(self, execution: Any) -> None:
        """Let a step wait until another one gives memory back; if none can, one fails."""
        self._waiting.add(execution)
        parts = self._all()
        running = {each: number for part in parts for each, number in part._running.items()}
        waiting = {each for part in parts for each in part._waiting}
        if any(swap.free_some() for each in sorted(running, key=running.__getitem__) for swap in each.swaps):
            return  # it wakes whom it belongs to
        if any(each not in waiting or each.waiter.done() for each in running):
            return  # who was woken up or cancelled will look again, or leave
        if any(each.orphaned for part in parts for each in part._outliving):
            asyncio.get_running_loop().call_later(_SECONDS, self._wake_all)
            return
        if any(forget_constants(each.device for each in part._devices) for part in parts):
            self._wake_all()
            return
        newest = max(running, key=running.__getitem__)
        newest.machine.fail_out_of_memory()
        newest._wake()

    def unblock(self, execution: Any) -> None:
        """Note that a step does not wait, or no longer."""
        self._waiting.discard(execution)


def _present(sharers: WeakValueDictionary[int, MemoryArbiter]) -> list[MemoryArbiter]:
    """Return those that are, whatever other threads add or drop meanwhile."""
    return [each for found in sharers.valuerefs() if (each := found()) is not None]

"""Steps that wait for memory, since another step may give some back.

A step machine that can start no instance for want of memory asks here whether anybody else may free some. The order of
the answers in `MemoryArbiter.block` is the policy: copies to other memory first, then steps that still run, then
threads that outlive their steps, then constants that can be copied in again, and a failed step only when nothing is
left. See docs/design/0011-memory-limits.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...base.errors import TagloomError
from ...streams.contract import Device
from ..devices.device_values import forget_constants
from ..devices.session_devices import SessionDevice

_SECONDS = 0.01  # between two looks at kernels that run on in threads although their step is over
_number = count()  # of the steps of all sessions, in the order in which they began
# Arbiters of sessions that were given a device, by device; a device that a session made is its own.
_sharing: WeakKeyDictionary[Device, WeakValueDictionary[int, MemoryArbiter]] = WeakKeyDictionary()


class StepSwap(Protocol):
    """What moves the saved values of a step out of a device's memory."""

    def free_some(self) -> bool: ...


class RunningStep(Protocol):
    """A step under way, as the arbiter knows it: an `Execution`.

    Attributes
    ----------
    can_progress : bool
        Whether a parked instance fits into memory that was given back, or anything else is ready.
    swaps : sequence of StepSwap
        One for each device whose saved values may move.
    waiter : asyncio.Future or None
        What the step's task awaits; done when the step was woken or cancelled and has not had its turn yet.
    """

    @property
    def can_progress(self) -> bool: ...
    @property
    def swaps(self) -> Sequence[StepSwap]: ...
    @property
    def waiter(self) -> asyncio.Future[None] | None: ...
    def wake(self) -> None: ...
    def fail_out_of_memory(self) -> None: ...


class Outliving(Protocol):
    """Threads whose kernels may outlive the step that called them: BlockingCalls, WorkerPool."""

    @property
    def orphaned(self) -> int: ...


class MemoryArbiter:
    """Arbiter of the steps of one session: which are under way, and which can do nothing but wait for memory.

    Sessions that were given the same device on the same event loop decide together, and so do sessions that share a
    device only through a third one: a step that waits on one device may hold the memory of another. When all steps of
    these sessions wait, the step that began last fails, and its memory goes to the others.

    Parameters
    ----------
    *outliving : BlockingCalls or WorkerPool
        Threads whose kernels hold memory after their step has ended, and give it back when they return.
    devices : sequence of SessionDevice
        Of the session.
    """

    __slots__ = ("__weakref__", "_devices", "_loop", "_outliving", "_running", "_shared", "_waiting")

    def __init__(self, *outliving: Outliving, devices: Sequence[SessionDevice] = ()) -> None:
        self._outliving, self._devices = outliving, devices
        self._running: dict[RunningStep, int] = {}  # with their numbers
        self._waiting: set[RunningStep] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shared = [_sharing.setdefault(each.device, WeakValueDictionary()) for each in devices if not each.owned]
        for sharers in self._shared:
            sharers[id(self)] = self

    @property
    def waiting(self) -> bool:
        """Whether any step can only wait for memory."""
        return bool(self._waiting) or (bool(self._shared) and any(each._waiting for each in self._all()))

    def register(self, execution: RunningStep) -> None:
        """Note that a step is under way.

        Raises
        ------
        TagloomError
            If a step of another event loop has some of a limited device's memory, of which nobody here could wait.
        """
        if self._shared:
            self._loop = asyncio.get_running_loop()
        self._running[execution] = next(_number)
        if self._shared:
            self._check_loops()  # now that those of other loops see this one

    def unregister(self, execution: RunningStep) -> None:
        """Note that a step is over; its memory is there for others."""
        self._running.pop(execution, None)
        if self._waiting or self._shared:  # most steps have nobody to wake
            self._wake_all()

    def poll(self) -> None:
        """Wake the waiting steps whose parked instances fit into memory that was given back."""
        for execution in [each for part in self._all() for each in part._waiting]:
            if execution.can_progress:
                execution.wake()

    def _all(self) -> set[MemoryArbiter]:
        """Return this arbiter and those of all sessions that share a device with it, directly or through others."""
        found, unseen = {self}, [self]
        while unseen:
            near = {each for sharers in unseen.pop()._shared for each in _present(sharers) if each._loop is self._loop}
            unseen += near - found
            found |= near
        return found

    def _check_loops(self) -> None:
        for device in (each.device for each in self._devices if not each.owned and each.device.limit is not None):
            for other in _present(_sharing[device]):
                loop = other._loop
                if other._running and loop is not None and loop is not self._loop and not loop.is_closed():
                    raise TagloomError(
                        f"{device.name} has a limit, so it serves one loop at a time, and steps of another one are "
                        "under way",
                        hint="await them first, or give each loop a device of its own",
                    )

    def _wake_all(self) -> None:
        for execution in [each for part in self._all() for each in part._waiting]:
            execution.wake()

    def block(self, execution: RunningStep) -> None:
        """Note that a step waits for memory; if no step, copy or thread can free any, fail the newest step.

        A step that is woken and still finds no room blocks again, so every return below that does not fail a step must
        leave somebody who will wake one: that is what keeps the loop of waiting and waking from standing still.
        """
        self._waiting.add(execution)
        parts = self._all()
        running = {each: number for part in parts for each, number in part._running.items()}
        waiting = {each for part in parts for each in part._waiting}
        # Saved values of the oldest step move out first: the oldest is the one that should end first. The copy's end
        # wakes the step whose swapper it belongs to, and that step polls the others.
        if any(swap.free_some() for each in sorted(running, key=running.__getitem__) for swap in each.swaps):
            return
        # A step that computes will free memory, or block in its turn. One that was woken or cancelled in this turn of
        # the event loop is still in `_waiting`, but its future is done: it will look again, or unregister.
        if any(each not in waiting or each.waiter is None or each.waiter.done() for each in running):
            return
        # A kernel in a thread can not be interrupted, and nothing tells the arbiter when it returns: look again soon.
        if any(each.orphaned for part in parts for each in part._outliving):
            asyncio.get_running_loop().call_later(_SECONDS, self._wake_all)
            return
        # Constants on a device are copies; dropping them costs another copy, so they go only before a step must fail.
        if any(forget_constants(each.device for each in part._devices) for part in parts):
            self._wake_all()
            return
        # The newest fails, not the one that asks for most: so the oldest step always ends, whatever comes after it.
        max(running, key=running.__getitem__).fail_out_of_memory()

    def unblock(self, execution: RunningStep) -> None:
        """Note that a step does not wait for memory, or no longer."""
        self._waiting.discard(execution)


def _present(sharers: WeakValueDictionary[int, MemoryArbiter]) -> list[MemoryArbiter]:
    """Return the arbiters that still live; other threads may add or drop some meanwhile."""
    return [each for found in sharers.valuerefs() if (each := found()) is not None]

"""Steps of a session that wait for memory, since another step may give some back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from .devices import SessionDevice
from .residence import forget_constants

_SECONDS = 0.01  # between two looks at what runs on in threads although its step is over


class Shortage:
    """Knows which steps of a session are under way, and which of them can only wait for memory.

    When all of them wait, the last one that began fails, and what it had is given back to the others.

    Parameters
    ----------
    *outliving : Threads or Cores
        What runs on, when its step has ended; it will give back what it has.
    devices : sequence of SessionDevice
        Of the session.
    """

    __slots__ = ("_devices", "_outliving", "_running", "waiting")

    def __init__(self, *outliving: Any, devices: Sequence[SessionDevice] = ()) -> None:
        self._outliving, self._devices = outliving, devices
        self._running: dict[Any, None] = {}  # executions, in the order in which they began
        self.waiting: set[Any] = set()

    def enter(self, execution: Any) -> None:
        """Note that a step is under way."""
        self._running[execution] = None

    def leave(self, execution: Any) -> None:
        """Note that a step is over; what it had is there for others."""
        self._running.pop(execution, None)
        self._wake_all()

    def look(self) -> None:
        """Let those that wait go on for which memory was given back."""
        for execution in list(self.waiting):
            if execution.machine.hopeful:
                execution._wake()

    def _wake_all(self) -> None:
        for execution in list(self.waiting):
            execution._wake()

    def wait(self, execution: Any) -> None:
        """Let a step wait until another one gives memory back; if none can, one fails."""
        self.waiting.add(execution)
        if any(swap.relieve() for each in self._running for swap in each.swaps):
            return  # it wakes whom it belongs to
        if any(each not in self.waiting or each.waiter.done() for each in self._running):
            return  # who was woken up or cancelled will look again, or leave
        if any(each.orphaned for each in self._outliving):
            asyncio.get_running_loop().call_later(_SECONDS, self._wake_all)
            return
        if forget_constants(self._devices):
            self._wake_all()
            return
        newest = next(reversed(self._running))
        newest.machine.give_up()
        newest._wake()

    def stop(self, execution: Any) -> None:
        """Note that a step does not wait, or no longer."""
        self.waiting.discard(execution)

"""Saved values under swap: where each one is, and what may happen to it next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from ..kernels.scheduler.series import Stored
from ..streams.event import Event

Array = np.ndarray[Any, Any]


class State(Enum):
    """Where a saved value is."""

    __hash__ = object.__hash__  # that of Enum is a call in Python

    RESIDENT = "in the device's memory only"
    LEAVING = "in the device's memory, and being copied out"
    AWAY = "in a tier only"
    ARRIVING = "in a tier, and being copied in"
    BACK = "in the device's memory and in a tier"


# What may follow: a copy out ends, or fails and leaves all as it was; a copy in does too; a copy is dropped. What is
# a copy of something in the host's memory is so from its beginning.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.RESIDENT: frozenset({State.LEAVING, State.BACK}),
    State.LEAVING: frozenset({State.AWAY, State.RESIDENT}),
    State.AWAY: frozenset({State.ARRIVING}),
    State.ARRIVING: frozenset({State.BACK, State.AWAY}),
    State.BACK: frozenset({State.AWAY}),
}

# Whether it has an array in the device's memory, a place in a tier, and a copy under way.
HOLDINGS: dict[State, tuple[bool, bool, bool]] = {
    State.RESIDENT: (True, False, False),
    State.LEAVING: (True, False, True),
    State.AWAY: (False, True, False),
    State.ARRIVING: (False, True, True),
    State.BACK: (True, True, False),
}


class SwapEntry(Stored):
    """A saved value that may move; slots of series hold it in the place of the array.

    Parameters
    ----------
    array : Buffer
        Of the device, as what is fetched.
    kept : float
        When it was saved, in seconds by the device's clock.
    fetch : callable
        Copies what its place holds, at once, to an array that is given, or to a new one; returns that.

    Attributes
    ----------
    state : State
    place : object or None
        What a tier keeps it in; given back when nobody has it any more.
    copy : Event or None
        The copy under way.
    lent : bool
        Whether its place is somebody else's memory, which stays.
    waiters : list of asyncio.Future
        Readers that wait for it to arrive.
    """

    __slots__ = ("copy", "dtype", "fetch", "kept", "lent", "place", "shape", "size", "state", "waiters")

    def __init__(self, array: Array, kept: float, fetch: Callable[[SwapEntry, Array | None], Array]) -> None:
        super().__init__(array)
        self.state = State.RESIDENT
        self.shape, self.dtype, self.size = array.shape, array.dtype, array.nbytes
        self.kept = kept
        self.fetch = fetch
        self.place: Any = None
        self.copy: Event[Any] | None = None
        self.lent = False
        self.waiters: list[asyncio.Future[Array]] = []

    def lend(self) -> None:
        """Begin as a value that is in the host's memory and not on the device."""
        self.array, self.place, self.state, self.lent = None, self.array, State.AWAY, True

    def become(
        self, state: State, *, array: Array | None = None, place: Any = None, copy: Event[Any] | None = None
    ) -> None:
        """Go to another state with what it has there; RuntimeError if that may not follow, or is not what it takes."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"internal error: a saved value went from {self.state} to {state}")
        if (array is not None, place is not None, copy is not None) != HOLDINGS[state]:
            raise RuntimeError(f"internal error: a saved value has not what it takes to be {state.value}")
        self.state, self.array, self.place, self.copy = state, array, place, copy

    def now(self) -> Array:
        """Return the array; if it is away it is read at once, while nothing else goes on."""
        return self.fetch(self, None) if self.array is None else self.array

    def copy_to(self, target: Array) -> None:
        """Copy the array at once to a contiguous one."""
        if self.array is None:
            self.fetch(self, target)
        else:
            target[...] = self.array

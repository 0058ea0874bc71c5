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
    SWAPPING_OUT = "in the device's memory, and being copied out"
    SWAPPED_OUT = "in a tier only"
    SWAPPING_IN = "in a tier, and being copied in"
    CACHED = "in the device's memory and in a tier"


# What may follow: a copy out ends, or fails and leaves all as it was; a copy in does too; a copy is dropped. What is
# a copy of something in the host's memory is so from its beginning.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.RESIDENT: frozenset({State.SWAPPING_OUT, State.CACHED}),
    State.SWAPPING_OUT: frozenset({State.SWAPPED_OUT, State.RESIDENT}),
    State.SWAPPED_OUT: frozenset({State.SWAPPING_IN}),
    State.SWAPPING_IN: frozenset({State.CACHED, State.SWAPPED_OUT}),
    State.CACHED: frozenset({State.SWAPPED_OUT}),
}

# Whether it has an array in the device's memory, a location in a tier, and a copy under way.
HOLDINGS: dict[State, tuple[bool, bool, bool]] = {
    State.RESIDENT: (True, False, False),
    State.SWAPPING_OUT: (True, False, True),
    State.SWAPPED_OUT: (False, True, False),
    State.SWAPPING_IN: (False, True, True),
    State.CACHED: (True, True, False),
}


class SwapEntry(Stored):
    """A saved value that may move; slots of series hold it in the place of the array.

    Parameters
    ----------
    array : Buffer
        Of the device, as what is fetched.
    saved_at : float
        When it was saved, in seconds by the device's clock.
    fetch : callable
        Copies what its location holds, at once, to an array that is given, or to a new one; returns that.

    Attributes
    ----------
    state : State
    location : object or None
        What a tier keeps it in; given back when nobody has it any more.
    copy : Event or None
        The copy under way.
    host_backed : bool
        Whether its location is somebody else's memory, which stays.
    waiters : list of asyncio.Future
        Readers that wait for it to arrive.
    """

    __slots__ = ("copy", "dtype", "fetch", "saved_at", "host_backed", "location", "shape", "size", "state", "waiters")

    def __init__(self, array: Array, saved_at: float, fetch: Callable[[SwapEntry, Array | None], Array]) -> None:
        super().__init__(array)
        self.state = State.RESIDENT
        self.shape, self.dtype, self.size = array.shape, array.dtype, array.nbytes
        self.saved_at = saved_at
        self.fetch = fetch
        self.location: Any = None
        self.copy: Event[Any] | None = None
        self.host_backed = False
        self.waiters: list[asyncio.Future[Array]] = []

    def begin_on_host(self) -> None:
        """Begin as a value that is in the host's memory and not on the device."""
        self.array, self.location, self.state, self.host_backed = None, self.array, State.SWAPPED_OUT, True

    def become(
        self, state: State, *, array: Array | None = None, location: Any = None, copy: Event[Any] | None = None
    ) -> None:
        """Go to another state with what it has there; RuntimeError if that may not follow, or is not what it takes."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"internal error: a saved value went from {self.state} to {state}")
        if (array is not None, location is not None, copy is not None) != HOLDINGS[state]:
            raise RuntimeError(f"internal error: a saved value has not what it takes to be {state.value}")
        self.state, self.array, self.location, self.copy = state, array, location, copy

    def now(self) -> Array:
        """Return the array; if it is away it is read at once, while nothing else goes on."""
        return self.fetch(self, None) if self.array is None else self.array

    def copy_to(self, target: Array) -> None:
        """Copy the array at once to a contiguous one."""
        if self.array is None:
            self.fetch(self, target)
        else:
            target[...] = self.array

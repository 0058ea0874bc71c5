"""Entry of a saved value under swap, with its states and their transitions. See docs/design/0012-swap.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.memory.swappable import SwappableArray
from ..streams.event import Event

Array = np.ndarray[Any, Any]


class State(Enum):
    """State of a saved value: the memories with its bytes, and whether a copy is under way."""

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...
    else:
        __hash__ = object.__hash__  # Enum's own is a Python function, and states are keys of tables

    RESIDENT = "in the device's memory only"
    SWAPPING_OUT = "in the device's memory, and being copied out"
    SWAPPED_OUT = "in a tier only"
    SWAPPING_IN = "in a tier, and being copied in"
    CACHED = "in the device's memory and in a tier"


# The next states of each state. A copy out succeeds, or fails and leaves the array where it was; so does a copy in. The
# array of a CACHED value can be dropped at no cost, as that of a clean page can. An array that was copied from host
# memory (RESIDENT -> CACHED) is CACHED from its beginning: its source still holds the bytes.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.RESIDENT: frozenset({State.SWAPPING_OUT, State.CACHED}),
    State.SWAPPING_OUT: frozenset({State.SWAPPED_OUT, State.RESIDENT}),
    State.SWAPPED_OUT: frozenset({State.SWAPPING_IN}),
    State.SWAPPING_IN: frozenset({State.CACHED, State.SWAPPED_OUT}),
    State.CACHED: frozenset({State.SWAPPED_OUT}),
}

# Whether a value in this state has an array in the device's memory, a location in a tier, and a copy under way.
HOLDINGS: dict[State, tuple[bool, bool, bool]] = {
    State.RESIDENT: (True, False, False),
    State.SWAPPING_OUT: (True, False, True),
    State.SWAPPED_OUT: (False, True, False),
    State.SWAPPING_IN: (False, True, True),
    State.CACHED: (True, True, False),
}


class SwapEntry(SwappableArray):
    """Entry of a saved value that may move; slots of series hold the entry instead of the array.

    Parameters
    ----------
    array : Buffer
        Buffer of the device whose memory the value may leave, an instance of `Device.buffer`.
    saved_at : float
        Time of saving, in seconds by the device's clock.
    fetch : callable
        Called with the entry and a contiguous array or None; copies the bytes at the entry's location into the array,
        or a new array, before the call returns, and returns the array.

    Attributes
    ----------
    state : State
    shape, dtype, size
        Shape and dtype of the value, and its size in bytes.
    location : numpy.ndarray, Extent or None
        Place of the bytes in a tier, or in the feed of a `host_backed` value; freed with its last reference.
    copy : Event or None
        The copy under way.
    host_backed : bool
        Whether the location is rows of a feed, in host memory owned by the feed.
    waiters : list of asyncio.Future
        Futures of the reads waiting for the copy in.
    """

    __slots__ = ("copy", "dtype", "fetch", "host_backed", "location", "saved_at", "shape", "size", "state", "waiters")

    def __init__(self, array: Array, saved_at: float, fetch: Callable[[SwapEntry, Array | None], Array]) -> None:
        super().__init__(array)
        self.state: State = State.RESIDENT
        self.shape: tuple[int, ...] = array.shape
        self.dtype: Any = array.dtype
        self.size: int = array.nbytes
        self.saved_at: float = saved_at
        self.fetch: Callable[[SwapEntry, Array | None], Array] = fetch
        self.location: Any = None
        self.copy: Event[Any] | None = None
        self.host_backed: bool = False
        self.waiters: list[asyncio.Future[Array]] = []

    def begin_on_host(self) -> None:
        """Begin as SWAPPED_OUT, for an entry of an array in host memory instead of the device's."""
        self.array, self.location, self.state, self.host_backed = None, self.array, State.SWAPPED_OUT, True

    def enter_state(
        self, state: State, *, array: Array | None = None, location: object = None, copy: Event[Any] | None = None
    ) -> None:
        """Enter another state, with the value's array, location and copy in this state.

        Raises
        ------
        RuntimeError
            If `TRANSITIONS` does not allow the state, or the arguments do not agree with `HOLDINGS`.
        """
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"internal error: a saved value went from {self.state} to {state}")
        if (array is not None, location is not None, copy is not None) != HOLDINGS[state]:
            raise RuntimeError(f"internal error: a saved value has not what it takes to be {state.value}")
        self.state, self.array, self.location, self.copy = state, array, location, copy

    def now(self) -> Array:
        """Return the array; copy in a swapped-out value at once, which blocks the calling thread."""
        return self.fetch(self, None) if self.array is None else self.array

    def copy_to(self, target: Array) -> None:
        """Copy the array at once into a contiguous array."""
        if self.array is None:
            self.fetch(self, target)
        else:
            target[...] = self.array

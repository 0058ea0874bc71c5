"""What a session counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..devices.session_devices import DeviceMemory


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot of a session.

    Attributes
    ----------
    steps_started, steps_running : int
        Since the session was opened; now.
    cached_steps : int
        Compiled steps kept.
    orphaned : int
        Kernels that could not be interrupted and still finish in the background.
    steps_waiting, steps_refused : int
        Now waiting to be admitted; ended with Overloaded since the session was opened.
    live_bytes, peak_bytes : int or None
        Bytes of the arrays on the session's device: now, the most so far. Those are what kernels made and variables
        hold; and from elsewhere, as long as they are used, feeds, what functions of Python return, and the constants
        of compiled steps. A view counts as what it is a view of, a fetched array not at all. None without a pool.
    cached_bytes : int or None
        Bytes of freed arrays kept for new ones.
    devices : mapping of str to DeviceMemory
        The same of each device, by its full name; the figures above are their sums.
    """

    steps_started: int
    steps_running: int
    cached_steps: int
    orphaned: int = 0
    steps_waiting: int = 0
    steps_refused: int = 0
    live_bytes: int | None = None
    peak_bytes: int | None = None
    cached_bytes: int | None = None
    devices: Mapping[str, DeviceMemory] = field(default_factory=dict)

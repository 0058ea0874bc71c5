"""Counts of a step's saved values: bytes moved, and reasons for values to stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..streams.event import Event


@dataclass(slots=True)
class SwapCounts:
    """Running counts of a step on a device.

    Attributes
    ----------
    device : str
    limit : int
        Memory limit of the device, in bytes.
    swappable : int
        Saved values large enough to move, if necessary after all larger values.
    small, held, soon, full : int
        How often a value was too small to move; had another owner, or was part of a larger array; would have been
        read before a copy out and back could end; found no room in a tier.
    peak : int
        Most bytes in use on the device when a value was saved.
    hits, misses : int
        Reads of prefetched values; reads that had to wait.
    bytes_out, bytes_in : dict of str to int
        Bytes copied out and in by tier, "host", "disk" or "feed".
    copy_seconds : float
        Total duration of the copies.
    stalled_seconds : float
        Time in which the step only waited for copies.
    tiers : mapping of str to (int, int)
        Bytes in the session's tiers when the step ended, and the peaks so far.
    """

    device: str
    limit: int
    swappable: int = 0
    small: int = 0
    held: int = 0
    soon: int = 0
    full: int = 0
    peak: int = 0
    hits: int = 0
    misses: int = 0
    bytes_out: dict[str, int] = field(default_factory=dict)
    bytes_in: dict[str, int] = field(default_factory=dict)
    copy_seconds: float = 0.0
    stalled_seconds: float = 0.0
    tiers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def add_duration(self, copy: Event[Any]) -> None:
        """Add the duration of a copy."""
        if copy.began is not None and copy.ended is not None:
            self.copy_seconds += copy.ended - copy.began

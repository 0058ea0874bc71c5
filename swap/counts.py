"""Counts of a step's saved values: how many bytes moved, and why none did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..streams.event import Event


@dataclass(slots=True)
class SwapCounts:
    """Counts of one step on one device, which grow as it goes on.

    Attributes
    ----------
    device : str
    limit : int
        Bytes.
    swappable : int
        Saved values that were large enough to move, if only where no larger one was left to.
    small, held, soon, full : int
        How often a value was too small to move; had another owner, or was part of something larger; would have been
        read again before it could be out and back; found no room in a tier.
    peak : int
        Most bytes in use on the device when a value was saved.
    hits, misses : int
        Reads of values that had been prefetched; reads that had to wait.
    bytes_out, bytes_in : dict of str to int
        By tier, "host", "disk" or "feed".
    copy_seconds : float
        That the copies took, all together.
    stalled_seconds : float
        In which the step did nothing but wait for copies.
    tiers : mapping of str to (int, int)
        Bytes in the session's tiers when the step ended, and the most there ever were.
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

    def timed(self, copy: Event[Any]) -> None:
        """Count the time of a copy."""
        if copy.began is not None and copy.ended is not None:
            self.copy_seconds += copy.ended - copy.began

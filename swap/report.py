"""Reports of a step's swapping, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.sizes import format_size
from ..base.wording import format_number, short_device
from .counts import SwapCounts


@dataclass(frozen=True, slots=True)
class SwapReport:
    """Report of a step's saved values on a device.

    Attributes
    ----------
    device : str
    bytes_out, bytes_in : mapping of str to int
        Bytes copied out of the device's memory to "host" and "disk", and in from there and from "feed", the host memory
        of feeds.
    peak_bytes : mapping of str to int
        Most bytes in each tier of the session so far.
    hits, misses : int
        Reads of prefetched values; reads that had to wait.
    copy_seconds : float
        Total duration of the copies, most of them beside other work.
    stalled_seconds : float
        Time in which the step could only wait for copies.
    reason : str or None
        Reason why nothing left the device's memory, if so; rows of feeds may have come in all the same.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.ones([16384])
    ...     _, y = tg.while_loop(lambda i, a: i < 40, lambda i, a: (i + 1, tg.sin(a)), [0, x])
    ...     (g,) = tg.gradients(y, [x])
    >>> with tg.SyncSession(graph, swap=True, memory_limit="1MiB") as session:
    ...     value = session.run(g)
    ...     (report,) = session.report().swap
    >>> report.bytes_out["host"] > 0, report.reason
    (True, None)
    """

    device: str
    bytes_out: Mapping[str, int]
    bytes_in: Mapping[str, int]
    peak_bytes: Mapping[str, int]
    hits: int = 0
    misses: int = 0
    copy_seconds: float = 0.0
    stalled_seconds: float = 0.0
    reason: str | None = None

    def __str__(self) -> str:
        device = short_device(self.device)
        if self.reason is not None and not self.bytes_in:
            return f"swapping on {device}: nothing moved, since {self.reason}"
        out, back = (_format_sizes(sizes) for sizes in (self.bytes_out, self.bytes_in))
        reads = self.hits + self.misses
        stalled, copied = (format_number(1e3 * seconds) for seconds in (self.stalled_seconds, self.copy_seconds))
        if self.reason is not None:
            return f"swapping on {device}: {back} in; nothing left, since {self.reason}"
        return (
            f"swapping on {device}: {out or 'nothing'} out, {back or 'nothing'} in; {self.hits} of {reads} values "
            f"that were away were back before they were read; waited {stalled} ms for copies that took {copied} ms; "
            f"peak {_format_sizes(self.peak_bytes)}"
        )


def swap_report(counts: SwapCounts) -> SwapReport:
    """Return the report for a step's counts on a device."""
    return SwapReport(
        counts.device,
        dict(counts.bytes_out),
        dict(counts.bytes_in),
        {tier: peak for tier, (_, peak) in counts.tiers.items()},
        counts.hits,
        counts.misses,
        counts.copy_seconds,
        counts.stalled_seconds,
        None if counts.bytes_out else _explain_stay(counts),
    )


def not_swapped(device: str, reason: str) -> SwapReport:
    """Return the report of a device whose values could not move."""
    return SwapReport(device, {}, {}, {}, reason=reason)


def _explain_stay(counts: SwapCounts) -> str:
    """Explain why no value left, by the obstacle closest to a swap."""
    if not counts.swappable:
        return "every saved value is too small, see SwapPolicy.minimum" if counts.small else "no loop saved anything"
    if counts.full:
        return "there was no room in the tiers: see host_limit and disk of SwapPolicy"
    if counts.soon:
        return "the values would have been wanted again before they could be out and back"
    if counts.held:
        return "all values were held by somebody else, or parts of something larger"
    return (
        f"at most {format_size(counts.peak)} of {format_size(counts.limit)} were in use when a value was saved, below "
        "the threshold"
    )


def _format_sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{format_size(size)} {tier}" for tier, size in sizes.items())

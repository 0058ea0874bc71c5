"""Policy of swapping: conditions for saved values to leave a device's memory, and their tiers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real
from typing import SupportsIndex

from ..base.errors import GraphError
from ..base.sizes import parse_size

Size = SupportsIndex | str
MOST_AHEAD = 64  # slots brought back before their reads, at most
NEGLIGIBLE = 256  # bytes; the bookkeeping for a smaller value takes about as much memory as the value


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """Policy for swapping the values saved by a session's loops for gradients: ``Session(swap=SwapPolicy(...))``.

    Nothing moves unless the session has a ``memory_limit``. Variables, feeds, and values with another owner never
    move.

    Attributes
    ----------
    threshold : float
        Share of a device's limit, above 0 and at most 1. Above the threshold saved values leave the device, oldest
        first; below, they are brought back ahead of need (Yu et al., 2018, section 5.3).
    minimum : int or str
        Smallest size in bytes for a value to move. Moving smaller values costs more than the freed memory is worth:
        they move only after all larger values, and not at all below 256 bytes, unless the minimum is less.
    host_limit : int, str or None
        Bytes of host memory, outside the devices' limits, for moved values; None for any number. Values on their way to
        or from the disk take up to 32 MiB more, or a single value.
    disk : str, path or None
        Directory of a file for values beyond the host limit; None for no file. The file has no name and disappears with
        the session, even if the process is killed.
    disk_limit : int, str or None
        Bytes for this file; None for any number.
    prefetch : int or 'auto'
        Number of slots of a series to bring back ahead of the current read; "auto" derives the number from the duration
        of copies and the interval of reads.

    Raises
    ------
    GraphError
        If a field is out of range, or the directory does not exist.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.SwapPolicy(host_limit="2GiB", disk="/var/tmp").threshold
    0.8
    """

    threshold: float = 0.8
    minimum: Size = "2KiB"
    host_limit: Size | None = None
    disk: str | os.PathLike[str] | None = None
    disk_limit: Size | None = None
    prefetch: int | str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, Real) or not 0 < self.threshold <= 1:
            raise GraphError(
                "the threshold of a SwapPolicy is a share of the memory limit",
                wanted="a number above 0, at most 1",
                got=repr(self.threshold),
                hint="0.8 moves values once 80 % of the limit are in use",
            )
        for name in ("minimum", "host_limit", "disk_limit"):
            value = getattr(self, name)
            if value is not None:
                least = 0 if name == "minimum" else 1
                object.__setattr__(self, name, parse_size(value, f"{name} of a SwapPolicy", least))
        if self.prefetch != "auto" and not self._is_depth():
            raise GraphError(
                "prefetch of a SwapPolicy is a number of slots",
                wanted=f"0 to {MOST_AHEAD}, or 'auto'",
                got=repr(self.prefetch),
                hint="leave it out for as many as hide the copies",
            )
        is_path = isinstance(self.disk, (str, os.PathLike))
        if self.disk is not None and not (is_path and os.path.isdir(self.disk)):
            raise GraphError(
                "the directory for swapped values is not there",
                wanted="a directory",
                got=repr(self.disk),
                hint="make it first, or name one that is there, as '/var/tmp'",
            )
        if self.disk_limit is not None and self.disk is None:
            raise GraphError(
                "disk_limit without disk", wanted="a directory", got="disk=None", hint="give disk= as well"
            )

    def _is_depth(self) -> bool:
        depth = self.prefetch
        return isinstance(depth, int) and not isinstance(depth, bool) and 0 <= depth <= MOST_AHEAD

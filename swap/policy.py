"""When saved values leave a device's memory, and where they go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real
from typing import SupportsIndex

from ..base.errors import GraphError
from ..base.sizes import parse_size

Size = SupportsIndex | str
MOST_AHEAD = 64  # slots that are brought back before they are read
NEGLIGIBLE = 256  # bytes of a value below which what is noted of one that moved is hardly less than itself


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """Policy by which a session swaps what its loops save for their gradients: ``Session(swap=SwapPolicy(...))``.

    Nothing moves unless the session has a ``memory_limit``. Variables, feeds and values that somebody else still holds
    never do.

    Attributes
    ----------
    threshold : float
        Share of a device's limit, above 0 and at most 1, from which on saved values leave it, oldest first; up to it
        they are brought back ahead of need (Yu et al., 2018, section 5.3).
    minimum : int or str
        Bytes from which on a value moves. Moving a smaller one costs more than it gives: it moves only where no larger
        one is left to, and not at all below 256 bytes, unless the minimum is less than that.
    host_limit : int, str or None
        Bytes of the host's memory, outside the devices' limits, that moved values may take; None for any number. What
        goes to the disk, or comes from it, passes through at most 32 MiB more, or one value.
    disk : str, path or None
        A directory in which a file takes what the host's memory does not; None for none. The file has no name and is
        gone with the session, however that ends.
    disk_limit : int, str or None
        Bytes that this file may take; None for any number.
    prefetch : int or 'auto'
        How many slots of a series are brought back ahead of the one that is read; "auto" finds it from how long copies
        take and how often slots are read.

    Raises
    ------
    GraphError
        If a field is out of range, or the directory is not there.

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

"""Bounds of indices and of segment ids."""

from __future__ import annotations

from typing import Any


def check_bounds(indices: Any, limit: int, what: str) -> None:
    """Raise IndexError unless all are in [0, limit); viewed as unsigned, a negative index is too large."""
    if hasattr(type(indices), "check_below"):  # they are traced
        indices.check_below(limit)
        return
    if indices.size and int(indices.view(f"u{indices.dtype.itemsize}").max()) >= limit:
        raise IndexError(f"{what}: indices have to be in [0, {limit}), got {indices.min()} to {indices.max()}")


def rows_of_segments(xp: Any, ids: Any, count: int, what: str) -> Any:
    """Return the row of each id; negative ids have a row of their own after those of the segments, which is left out.

    IndexError if an id is too large.
    """
    flat = ids.reshape(-1)
    is_kept = flat >= 0
    if not count and is_kept.any():
        raise IndexError(f"{what}: there are no segments, got ids of 0 or more")
    check_bounds(xp.where(is_kept, flat, xp.zeros((), flat.dtype)), max(count, 1), what)
    return xp.where(is_kept, flat, xp.asarray(count, flat.dtype))

"""The elements of a TensorArray in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Blocks:
    """The rows of an array in blocks, of which some may be elsewhere; as a series is read by what brings them.

    Attributes
    ----------
    cursor : int
        Block that was read last of those that may be elsewhere.
    parts : list of numpy.ndarray or SwappableArray
    """

    __slots__ = ("cursor", "parts")

    def __init__(self, rows: Array, count: int) -> None:
        self.cursor: int = -1
        self.parts: list[Any] = [rows[i : i + count] for i in range(0, len(rows), count)]

    def at(self, index: int) -> Any:
        """Return what a block is, or None if there is none."""
        return self.parts[index] if 0 <= index < len(self.parts) else None

"""Elements of a TensorArray in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Blocks:
    """The rows of an array in blocks, some perhaps off the device; the swapper reads them like a series.

    Attributes
    ----------
    cursor : int
        Last read block among those perhaps off the device.
    parts : list of numpy.ndarray or SwappableArray
    """

    __slots__ = ("cursor", "parts")

    def __init__(self, rows: Array, count: int) -> None:
        self.cursor: int = -1
        # Views: blocks take no memory of their own.
        self.parts: list[Any] = [rows[i : i + count] for i in range(0, len(rows), count)]

    def at(self, index: int) -> Any:
        """Return the content of a block, or None if the index is out of range."""
        return self.parts[index] if 0 <= index < len(self.parts) else None

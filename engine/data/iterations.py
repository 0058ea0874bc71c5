"""Counts of the iterations over Datasets, on which random orders depend."""

from __future__ import annotations

import threading
from collections.abc import Sequence

_COUNTING = threading.Lock()  # guards all counts


class Iterations:
    """Count of iterations over a Dataset.

    Attributes
    ----------
    begun : int
        Number of the next iteration.
    """

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = 0


def begin_iteration(counts: Sequence[Iterations], number: int | None) -> int:
    """Count an iteration and return its number: by default larger than all earlier numbers of the counts."""
    with _COUNTING:
        # a Dataset may be a part of several others, each with iterations of its own
        begun = max(each.begun for each in counts)
        number = begun if number is None else number
        for each in counts:
            each.begun = max(begun, number + 1)
    return number

"""Numbers of iterations over Datasets, by which these draw."""

from __future__ import annotations

import threading
from collections.abc import Sequence

_COUNTING = threading.Lock()  # guards all counts


class Iterations:
    """A count of iterations.

    Attributes
    ----------
    begun : int
        The number of the next one.
    """

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = 0


def begin_iteration(counts: Sequence[Iterations], number: int | None) -> int:
    """Count an iteration and return its number: larger than all that one of the counts has had, unless it is given."""
    with _COUNTING:
        begun = max(each.begun for each in counts)
        number = begun if number is None else number
        for each in counts:
            each.begun = max(begun, number + 1)
    return number

"""The bookkeeping of each save and each read of a saved value while nothing has to move."""

from collections import deque
from collections.abc import Callable
from typing import Any

from .pool import Pool

class SavedSlots:
    """The slots of series with arrays which may move, in the order of their saving."""

    queue: deque[Any]
    small: deque[Any]
    leaving: int
    has_moved: bool

    def __init__(
        self,
        pool: Pool,
        buffer: type[Any],
        minimum: int,
        least: int,
        goal: int,
        counts: Any,
        now: Callable[[], float],
        over_threshold: Callable[[], object],
        prefetch_after: Callable[[Any, int], object],
    ) -> None: ...
    def is_swappable(self, value: Any) -> bool:
        """Return True if a value is large enough to move, and count the value."""

    def save(self, value: Any, series: Any, index: int) -> None:
        """Note a value saved in a slot of a series."""

    def look(self) -> None:
        """Check whether arrays must leave, after a value was saved."""

    def note_read(self, value: Any, series: Any, index: int) -> None:
        """Note the read of a value which has not moved; earlier values may have moved."""

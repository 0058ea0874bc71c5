"""What of a step's saved values will be read next, and how much of it should be brought back by then."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from math import ceil, inf
from typing import Any
from weakref import ref

from ..kernels.scheduler.series import Series
from ..streams.contract import Clock
from ..streams.event import Event
from .entry import State, SwapEntry
from .policy import MOST_AHEAD, SwapPolicy

_SMOOTHING = 0.2  # weight of the newest measurement
_WORTH = 16  # slots brought back as one, beyond which a call for each hardly counts


class Prefetcher:
    """What will be read next.

    Parameters
    ----------
    policy : SwapPolicy
    batch_bytes : int
        Bytes that are copied as one.
    clock : Clock
        The device's.

    Attributes
    ----------
    wanted : deque of weakref.ref to SwapEntry
        What should be back soon, what is needed first at the left; who begins to bring it takes it off.
    seconds : float
        That a copy takes, from when it is asked for.
    """

    def __init__(self, policy: SwapPolicy, batch_bytes: int, clock: Clock) -> None:
        self.wanted: deque[ref[SwapEntry]] = deque()
        self.seconds = 0.0
        self._policy, self._batch_bytes, self._clock = policy, batch_bytes, clock
        self._away: dict[int, ref[SwapEntry]] = {}  # by the entry's id, in the order of leaving: not read yet
        self._interval = inf  # seconds between two reads of a series
        self._last_read = -inf

    def left(self, entry: SwapEntry) -> None:
        """Note a value that is away now."""
        self._away.pop(id(entry), None)  # of one that is no more
        self._away[id(entry)] = ref(entry)

    def measure(self, asked: float, event: Event[Any]) -> None:
        """Note how long a copy took that was asked for at a time, in seconds by the clock."""
        if event.ended is not None:
            self.seconds = _smoothed(self.seconds or inf, event.ended - asked)

    def read(self, series: Series | Any, index: int) -> None:
        """See from a read what will be read next, unless that is well on its way.

        Parameters
        ----------
        series : Series or ArrayStorage
        index : int
            Of a slot, or an element.
        """
        value = series.at(index)
        self._away.pop(id(value), None)
        step = index - series.cursor if series.cursor >= 0 else -1
        series.cursor = index
        if step == 0:
            return
        now = self._clock.now()
        if now > self._last_read:
            self._interval = _smoothed(self._interval, now - self._last_read)
            self._last_read = now
        depth = self._depth(value.nbytes if type(value) is not SwapEntry else value.size)
        middle, last = series.at(index + (depth + 1) // 2 * step), series.at(index + depth * step)
        if isinstance(middle, SwapEntry) and middle.state is not State.SWAPPED_OUT:
            return
        if middle is None or last is None or isinstance(last, SwapEntry):  # else none of them has moved
            behind = islice(self._behind(series, index, step), depth)
            self.wanted = deque(ref(each) for each in behind if isinstance(each, SwapEntry))

    def clear(self) -> None:
        """Want nothing any more."""
        self.wanted.clear()
        self._away.clear()

    def _behind(self, series: Series | Any, index: int, step: int) -> Iterator[Any]:
        """Yield what should be read next: the slots behind, then, where a loop goes back to others, what left last."""
        seen = set()
        while (value := series.at(index := index + step)) is not None:
            seen.add(id(value))
            yield value
        for each in reversed(self._away.values()) if step < 0 else ():
            if (entry := each()) is not None and id(entry) not in seen:
                yield entry

    def _depth(self, size: int) -> int:
        """Return how many slots are brought back ahead of one: as copies take, and so many that a batch is worth it."""
        if isinstance(self._policy.prefetch, int):
            return self._policy.prefetch
        wanted = MOST_AHEAD if self._interval <= 0 else self.seconds / self._interval
        worth = min(_WORTH, self._batch_bytes // (4 * max(size, 1)))
        return min(MOST_AHEAD, 2 + max(worth, ceil(min(wanted, MOST_AHEAD))))


def _smoothed(before: float, now: float) -> float:
    return now if before == inf else (1 - _SMOOTHING) * before + _SMOOTHING * now

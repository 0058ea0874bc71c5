"""Prediction of the next reads of saved values, and of the number of values to bring back before.

See docs/design/0012-swap.md, "Ahead of need".
"""

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
_WORTH = 16  # slots in a batch, beyond which the cost of a call hardly counts


class Prefetcher:
    """Predictor of the next reads, from the reads of each series and the duration of copies.

    Parameters
    ----------
    policy : SwapPolicy
    batch_bytes : int
        Bytes of a batch of copies.
    clock : Clock
        The device's clock.

    Attributes
    ----------
    wanted : deque of weakref.ref to SwapEntry
        Values to copy in soon, the most urgent at the left; the swapper removes a value when its copy begins.
    copy_seconds : float
        Smoothed time from the submission of a copy to its end; 0 before the first copy.
    """

    def __init__(self, policy: SwapPolicy, batch_bytes: int, clock: Clock) -> None:
        self.wanted: deque[ref[SwapEntry]] = deque()
        self.copy_seconds: float = 0.0
        self._policy, self._batch_bytes, self._clock = policy, batch_bytes, clock
        self._swapped_out: dict[int, ref[SwapEntry]] = {}  # unread values by the entry's id, in the order of leaving
        self._interval = inf  # seconds between two reads of a series
        self._last_read = -inf

    def note_swapped_out(self, entry: SwapEntry) -> None:
        """Note a value whose copy out has ended."""
        self._swapped_out.pop(id(entry), None)  # an entry that is gone may have had the same id
        self._swapped_out[id(entry)] = ref(entry)

    def note_duration(self, submitted: float, event: Event[Any]) -> None:
        """Add the duration of a copy to the average; `submitted` is in seconds by the clock."""
        if event.ended is not None:
            self.copy_seconds = _update_average(self.copy_seconds or inf, event.ended - submitted)

    def note_read(self, series: Series | Any, index: int) -> None:
        """Predict from the read of a slot the slots to be read next.

        Parameters
        ----------
        series : Series or ArrayStorage
        index : int
            Index of a slot, or of an element.
        """
        value = series.at(index)
        self._swapped_out.pop(id(value), None)
        # Backward loops read from the end; until a second read shows the direction, assume that.
        step = index - series.cursor if series.cursor >= 0 else -1
        series.cursor = index
        if step == 0:  # a repeated read of a slot has no direction
            return
        now = self._clock.now()
        if now > self._last_read:  # reads of one moment, as those of a window of iterations, count as one
            self._interval = _update_average(self._interval, now - self._last_read)
            self._last_read = now
        depth = self._prefetch_depth(value.nbytes if type(value) is not SwapEntry else value.size)
        # Walking `depth` slots at each read would cost more than the read, so two samples decide. If the value halfway
        # is on the device or on its way, the batch asked for last still lasts: asking again when half of it is used
        # keeps copies in batches. If the slot at the end holds a plain array, none between has left either: values
        # leave oldest first, and backward loops read towards the oldest. None means beyond the series, where values of
        # the previous iteration are read next.
        middle, last = series.at(index + (depth + 1) // 2 * step), series.at(index + depth * step)
        if isinstance(middle, SwapEntry) and middle.state is not State.SWAPPED_OUT:
            return
        if middle is None or last is None or isinstance(last, SwapEntry):
            behind = islice(self._predict_reads(series, index, step), depth)
            self.wanted = deque(ref(each) for each in behind if isinstance(each, SwapEntry))

    def clear(self) -> None:
        """Discard all predictions."""
        self.wanted.clear()
        self._swapped_out.clear()

    def _predict_reads(self, series: Series | Any, index: int, step: int) -> Iterator[Any]:
        """Yield values in the expected order of reads.

        First come the slots after `index` in the direction of `step`; then the values last swapped out, as a backward
        loop proceeds to the series of the previous iteration.
        """
        seen = set()
        while (value := series.at(index := index + step)) is not None:
            seen.add(id(value))
            yield value
        for entry_ref in reversed(self._swapped_out.values()) if step < 0 else ():
            if (entry := entry_ref()) is not None and id(entry) not in seen:
                yield entry

    def _prefetch_depth(self, size: int) -> int:
        """Return the number of slots to bring back ahead of a read of `size` bytes.

        As many as are read during a copy, and enough for a batch to be worth its calls.
        """
        if isinstance(self._policy.prefetch, int):
            return self._policy.prefetch
        needed = MOST_AHEAD if self._interval <= 0 else self.copy_seconds / self._interval
        worth = min(_WORTH, self._batch_bytes // (4 * max(size, 1)))
        return min(MOST_AHEAD, 2 + max(worth, ceil(min(needed, MOST_AHEAD))))


def _update_average(before: float, now: float) -> float:
    return now if before == inf else (1 - _SMOOTHING) * before + _SMOOTHING * now

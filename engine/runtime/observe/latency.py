"""Histograms of how long steps take, in buckets whose bounds are the same in all sessions and versions."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from ...base.errors import GraphError

# Seconds up to which each bucket goes, 7.6 us to 128 s, each sqrt(2) times the one before; slower ones have one more.
BOUNDS: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-34, 15))


class LatencyCounter:
    """Counts durations, by their buckets.

    Attributes
    ----------
    counts : list of int
        For each bound the durations up to it that are above the bound before; last, those above all bounds.
    sum : float
        Seconds of all together.
    """

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(BOUNDS) + 1)
        self.sum: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def snapshot(self) -> Latency:
        """Return what was counted so far."""
        return Latency(tuple(self.counts), self.sum)


@dataclass(frozen=True, slots=True)
class Latency:
    """How long steps took, from when they were asked for until their results were there.

    Attributes
    ----------
    counts : tuple of int
        Steps in each bucket: those up to its bound in `bounds` and above the one before; last, those above all.
    sum : float
        Seconds of all steps together.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(1.0) + 1.0
    >>> with tg.SyncSession(graph) as session:
    ...     values = [session.run(y) for _ in range(3)]
    ...     latency = session.statistics().latency
    >>> latency.count, 0 < latency.quantile(0.5) < 1, latency.bounds[-1]
    (3, True, 128.0)
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    sum: float = 0.0

    @property
    def bounds(self) -> tuple[float, ...]:
        """Seconds up to which the buckets go, each sqrt(2) times the one before."""
        return BOUNDS

    @property
    def count(self) -> int:
        """How many steps."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the steps in seconds; NaN of none."""
        return self.sum / self.count if self.count else math.nan

    def quantile(self, q: float) -> float:
        """Return the seconds that a part `q` of the steps took at most, within a factor of sqrt(2).

        Parameters
        ----------
        q : float
            0 to 1; 0.99 for the 99th percentile.

        Returns
        -------
        float
            Inside of the bucket it is taken as evenly spread; NaN of no steps, inf beyond the last bound.

        Raises
        ------
        GraphError
            If `q` is no such part.
        """
        if not 0 <= q <= 1:
            raise GraphError("a quantile is a part of the steps", wanted="0 to 1", got=q, hint="0.99, say")
        left = q * self.count
        for k, count in enumerate(self.counts):
            if count and left <= count:
                if k == len(BOUNDS):
                    return math.inf
                below = BOUNDS[k - 1] if k else 0.0
                return below + (BOUNDS[k] - below) * max(left, 0.0) / count
            left -= count
        return math.nan

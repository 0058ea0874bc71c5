"""Histograms of steps' latencies, in buckets with the same bounds in all sessions and versions."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from ...base.errors import GraphError

# Upper bounds of the buckets in seconds, 7.6 us to 128 s, in ratios of sqrt(2); slower steps have their own bucket.
BOUNDS: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-34, 15))


class LatencyCounter:
    """Counter of durations by buckets.

    Attributes
    ----------
    counts : list of int
        Durations between each bound and the bound before; last, the durations above all bounds.
    sum : float
        Total seconds.
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
        """Return the present counts."""
        return Latency(tuple(self.counts), self.sum)


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies of steps, from the call until the result.

    Attributes
    ----------
    counts : tuple of int
        Steps between each bound in `bounds` and the bound before; last, the steps above all bounds.
    sum : float
        Total seconds of all steps.

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
        """Upper bounds of the buckets in seconds, each sqrt(2) times the bound before."""
        return BOUNDS

    @property
    def count(self) -> int:
        """Number of steps."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the latencies in seconds; NaN of no steps."""
        return self.sum / self.count if self.count else math.nan

    def quantile(self, q: float) -> float:
        """Return the latency in seconds that a share `q` of the steps did not exceed, within a factor of sqrt(2).

        Parameters
        ----------
        q : float
            0 to 1; 0.99 for the 99th percentile.

        Returns
        -------
        float
            Interpolated linearly inside of a bucket; NaN of no steps, inf above the last bound.

        Raises
        ------
        GraphError
            If `q` is not between 0 and 1.
        """
        if not 0 <= q <= 1:
            raise GraphError("a quantile is a share of the steps", wanted="0 to 1", got=q, hint="0.99, say")
        left = q * self.count
        for k, count in enumerate(self.counts):
            if count and left <= count:
                if k == len(BOUNDS):
                    return math.inf
                below = BOUNDS[k - 1] if k else 0.0
                return below + (BOUNDS[k] - below) * max(left, 0.0) / count
            left -= count
        return math.nan

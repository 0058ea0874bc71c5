"""Statistics of accumulators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AccumulatorStatistics:
    """Statistics of a conditional accumulator in one session.

    Attributes
    ----------
    count : int
        Number of gradients in the sum.
    bytes : int
        Bytes of the sum.
    step : int
        Gradients of earlier steps are dropped.
    waiting_takers : int
        Number of waiting takes.
    applied, dropped, taken : int
        Numbers of added gradients, late gradients, and taken sums since the session was opened.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     mean = tg.ConditionalAccumulator("float32", shape=[], shared_name="gradients")
    ...     put, late = mean.apply_grad(1.0, local_step=3), mean.apply_grad(4.0, local_step=0)
    ...     taken = mean.take_grad(1)
    >>> with tg.SyncSession(graph) as session:
    ...     for each in (put, taken, late):
    ...         value = session.run(each)
    ...     figures = session.statistics().accumulators["gradients"]
    >>> figures.count, figures.applied, figures.dropped, figures.taken
    (0, 1, 1, 1)
    """

    count: int
    bytes: int
    step: int
    waiting_takers: int
    applied: int
    dropped: int
    taken: int

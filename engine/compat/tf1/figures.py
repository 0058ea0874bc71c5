"""Statistics of barriers and map staging areas."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyedStatistics:
    """Statistics of a barrier or a map staging area in one session.

    Attributes
    ----------
    size : int
        Number of complete elements.
    incomplete : int
        Number of elements with missing components.
    capacity : int or None
        Largest number of complete elements; None for no bound.
    bytes : int
        Bytes of all components.
    capacity_bytes : int or None
        Largest number of bytes; None for no bound.
    waiting_putters, waiting_takers : int
        Numbers of waiting puts and takes.
    closed : bool
        True if new keys are refused.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     barrier = tg.compat.tf1.Barrier(["int32", "int32"], shapes=[[], []], shared_name="pairs")
    ...     first, second = barrier.insert_many(0, ["a", "b"], [1, 2]), barrier.insert_many(1, ["b"], [3])
    >>> with tg.SyncSession(graph) as session:
    ...     _ = session.run(first), session.run(second)
    ...     figures = session.statistics().figures["barriers"]["pairs"]
    >>> figures.size, figures.incomplete, figures.closed
    (1, 1, False)
    """

    size: int
    incomplete: int
    capacity: int | None
    bytes: int
    capacity_bytes: int | None
    waiting_putters: int
    waiting_takers: int
    closed: bool

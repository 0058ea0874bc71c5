"""Statistics of queues and iterators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .storage import QueueStorage


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Statistics of a queue in one session.

    Attributes
    ----------
    size : int
        Number of elements.
    capacity : int or None
        Largest number of elements; None for no bound.
    bytes : int
        Bytes of the elements.
    capacity_bytes : int or None
        Largest number of bytes; None for no bound.
    waiting_putters, waiting_takers : int
        Numbers of waiting puts and takes.
    enqueued, dequeued : int
        Numbers of elements put in, and taken, since the session was opened. Restored elements are not counted.
    closed : bool
        True if no more elements are accepted.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.FIFOQueue(8, "float32", shapes=[[2]], shared_name="batches")
    ...     put, taken = queue.enqueue_many([[[1.0, 2.0]] * 3]), queue.dequeue()
    >>> with tg.SyncSession(graph) as session:
    ...     _, value = session.run(put), session.run(taken)
    ...     figures = session.statistics().queues["batches"]
    >>> figures.size, figures.capacity, figures.bytes, figures.enqueued, figures.dequeued
    (2, 8, 16, 3, 1)
    """

    size: int
    capacity: int | None
    bytes: int
    capacity_bytes: int | None
    waiting_putters: int
    waiting_takers: int
    enqueued: int
    dequeued: int
    closed: bool


def statistics_of(queue: QueueStorage) -> QueueStatistics:
    """Return the statistics of a queue."""
    spec = queue.spec
    return QueueStatistics(
        # Elements gathered by waiting batches have left the order, and do not count.
        len(queue),
        None if spec.capacity < 0 else spec.capacity,
        queue.order.nbytes,
        None if spec.capacity_bytes < 0 else spec.capacity_bytes,
        len(queue.putters),
        len(queue.takers),
        queue.enqueued,
        queue.dequeued,
        queue.closed,
    )


@dataclass(frozen=True, slots=True)
class IteratorStatistics:
    """Statistics of an iterator of an input pipeline.

    Attributes
    ----------
    ready : int
        Number of elements ready to be taken.
    delivered : int
        Number of elements taken, including earlier runs if their state was restored.
    waiting_takers : int
        Number of waiting takes.
    closed : bool
        True at the end of the data, or after the iterator was closed.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     number = tg.data.from_arrays([1, 2, 3]).next(shared_name="numbers")
    >>> with tg.SyncSession(graph) as session:
    ...     value = session.run(number)
    ...     figures = session.statistics().figures["iterators"]["numbers"]
    >>> figures.delivered, figures.waiting_takers
    (1, 0)
    """

    ready: int
    delivered: int
    waiting_takers: int
    closed: bool

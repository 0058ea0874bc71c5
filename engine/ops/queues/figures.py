"""What queues and accumulators tell of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .storage import QueueStorage


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot of a queue in one session.

    Attributes
    ----------
    size : int
        Elements in it.
    capacity : int or None
        The most that may be; None for any number.
    bytes : int
        Of its elements.
    capacity_bytes : int or None
        The most that they may be; None for any number.
    waiting_putters, waiting_takers : int
        Who waits for room, and for elements.
    enqueued, dequeued : int
        Elements that were put in, and taken, since the session was opened. What a restored checkpoint brings counts for
        neither.
    closed : bool
        Whether no more elements may come.

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
    """Return the figures of a queue."""
    spec = queue.spec
    return QueueStatistics(
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
class AccumulatorStatistics:
    """A snapshot of a conditional accumulator in one session.

    Attributes
    ----------
    count : int
        Gradients in the sum.
    bytes : int
        Of the sum.
    step : int
        Gradients of earlier steps are dropped.
    waiting_takers : int
        Who waits for enough gradients.
    applied, dropped, taken : int
        Gradients that were added and that came late, and how often the sum was taken, since the session was opened.

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


@dataclass(frozen=True, slots=True)
class KeyedStatistics:
    """A snapshot of a barrier, or of a map staging area, in one session: of elements by key.

    Attributes
    ----------
    size : int
        Elements that have all their components.
    incomplete : int
        Those of which components are still to come.
    capacity : int or None
        The most whole elements that may be; None for any number.
    bytes : int
        Of all components.
    capacity_bytes : int or None
        The most that they may be; None for any number.
    waiting_putters, waiting_takers : int
        Who waits for room, and for elements.
    closed : bool
        Whether no more keys may come.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     barrier = tg.Barrier(["int32", "int32"], shapes=[[], []], shared_name="pairs")
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


@dataclass(frozen=True, slots=True)
class IteratorStatistics:
    """A snapshot of an iterator of an input pipeline.

    Attributes
    ----------
    ready : int
        Elements that are made, and wait for somebody who takes them.
    delivered : int
        Elements that were taken, in runs before this one too, where a state was restored.
    waiting_takers : int
        Who waits for an element.
    closed : bool
        Whether no more elements come: at the end of the data, or as it was closed.

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

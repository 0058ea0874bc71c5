"""Errors of queues: too late, too few elements, elements too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import OpError, QueueClosed
from ...kernels.queues.queue_base import Closing, Put, Take
from .elements import Element, nbytes_of

if TYPE_CHECKING:
    from .storage import QueueStorage


def closed_error(what: str, operation: str, **fields: Any) -> QueueClosed:
    """Return the QueueClosed error of an operation which comes after the end."""
    fields.setdefault("hint", "look at is_closed(), or let one step alone close the queue when all has been put in")
    return QueueClosed(what, operation=operation, **fields)


def closed_queue(queue: QueueStorage, what: str, operation: str, **fields: Any) -> QueueClosed:
    """Return the QueueClosed error of an operation which comes after the end of `queue`."""
    return closed_error(f"{queue.spec.what} '{queue.name}' {what}", operation, **fields)


def closed_by(queue: QueueStorage, put: Put) -> QueueClosed:
    """Return the error for a waiting put, or a waiting close, of a queue which others closed."""
    return closed_queue(queue, "is already closed" if isinstance(put, Closing) else "is closed", put.operation)


def insufficient_elements(queue: QueueStorage, take: Take, got: int) -> OpError:
    """Return the error for a take of more elements than will arrive."""
    # The queue was closed because its source failed, which is the cause to report.
    if queue.failure is not None:
        return source_failed(f"{queue.spec.what} '{queue.name}'", *queue.failure, take.operation)
    return closed_queue(
        queue,
        "is closed and has insufficient elements",
        take.operation,
        wanted=take.count,
        got=got,
        hint="catch QueueClosed as the end of the data, or use dequeue_up_to for the last batch",
    )


def restored_while_waiting(queue: QueueStorage, take: Take, got: int) -> OpError:
    """Return the error for a take whose promised elements were replaced by a restore."""
    return OpError(
        f"{queue.spec.what} '{queue.name}' was restored while somebody waited",
        wanted=f"{take.count} elements",
        got=got,
        operation=take.operation,
        hint="restore between steps",
    )


def source_failed(queue: str, count: int, failure: BaseException, operation: str) -> OpError:
    """Return the error for a take after the last element of a source which failed after `count` elements."""
    error = OpError(
        f"the source of {queue} failed when it was asked for element {count}",
        got=repr(failure),
        operation=operation,
        hint="see the cause of this error; the elements before it were given",
    )
    error.__cause__ = failure
    return error


def too_large(queue: str, limit: int, elements: Sequence[Element], operation: str) -> OpError:
    """Return the error for elements of which at least one exceeds the queue's limit of bytes."""
    return OpError(
        f"an element is larger than {queue}",
        wanted=f"at most {limit} bytes",
        got=f"{max(map(nbytes_of, elements))} bytes",
        operation=operation,
        hint="make the queue with more capacity_bytes",
    )

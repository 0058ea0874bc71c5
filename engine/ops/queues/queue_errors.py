"""The errors of queues: for who comes too late, and for what never fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import OpError, QueueClosed
from .elements import Element, nbytes_of


def closed_error(what: str, operation: str, **fields: Any) -> QueueClosed:
    """Return the error for who comes too late."""
    fields.setdefault("hint", "look at is_closed(), or let one step alone close the queue when all has been put in")
    return QueueClosed(what, operation=operation, **fields)


def source_failed(queue: str, count: int, failure: BaseException, operation: str) -> OpError:
    """Return the error for who takes what a source could not give, behind `count` elements."""
    error = OpError(
        f"the source of {queue} failed when it was asked for element {count}",
        got=repr(failure),
        operation=operation,
        hint="see the cause of this error; the elements before it were given",
    )
    error.__cause__ = failure
    return error


def too_large(queue: str, limit: int, elements: Sequence[Element], operation: str) -> OpError:
    """Return the error for elements of which one takes more bytes than there may ever be."""
    return OpError(
        f"an element is larger than {queue}",
        wanted=f"at most {limit} bytes",
        got=f"{max(map(nbytes_of, elements))} bytes",
        operation=operation,
        hint="make the queue with more capacity_bytes",
    )

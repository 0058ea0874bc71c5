"""Putters and takers of a queue, and how they are served.

An element enters or leaves when its instance goes on, not when the instance is woken, so a cancelled wait loses and
doubles nothing (rule 129). Only a large batch is moved piece by piece: at the head of the line if the whole batch has
no room (rule 126), or if the event loop would be held up. Gathered elements go back when the batch is given up.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..core.async_result import AsyncResult
from ..memory.pool import Pool
from .queue_lines import Attempt, Line
from .queue_rings import Ring

def kept(components: Sequence[Any], pool: Pool | None = None) -> tuple[Any, ...]:
    """Return components without writers and without larger base arrays, with copies where needed."""

def is_kept(value: Any, pool: Pool | None) -> bool:
    """Return True if nobody writes to a value held by a queue.

    Kernels write in place only to arrays with a single owner; fed arrays belong to the user, who may write to
    them.
    """

def frozen_copy(value: Any) -> Any:
    """Return a read-only copy."""

class Rows:
    """Elements in the rows of arrays, from `start` on."""

    columns: tuple[Any, ...]
    start: int
    stop: int
    def __init__(self, columns: tuple[Any, ...], start: int, stop: int) -> None: ...
    def __len__(self) -> int: ...

class Put(Attempt):
    """An attempt to put elements; `elements` are the `need` elements not entered yet."""

    elements: deque[tuple[Any, ...]] | Rows
    def __init__(self, operation: str, elements: Sequence[tuple[Any, ...]] | Rows) -> None: ...

class Closing(Put):
    """An attempt to close the queue after the earlier putters."""

class Take(Attempt):
    """An attempt to take `count` elements, or fewer if the queue is closed; all but `need` are `gathered` entries."""

    count: int
    gathered: list[Any]
    many: bool
    up_to: bool
    def __init__(self, operation: str, count: int, many: bool, up_to: bool) -> None: ...
    def let_go(self) -> list[Any]:
        """Return the gathered entries and reset the attempt to none."""

class Taken:
    """The entries of the queue's order taken by an attempt, until their components or batch are made.

    Parameters
    ----------
    entries : list
    make : callable
        ``make(entries)`` returns the components, or the batch; safe to call from any thread.
    put_back : callable
        ``put_back(entries, number)`` puts them back in their places.
    number : int
        Number of takes before.
    is_long : bool
        True if making them takes long.
    """

    entries: list[Any]
    make: Callable[[list[Any]], tuple[Any, ...]]
    is_long: bool
    def __init__(
        self,
        entries: list[Any],
        make: Callable[[list[Any]], tuple[Any, ...]],
        put_back: Callable[[list[Any], int], object],
        number: int,
        is_long: bool = False,
    ) -> None: ...
    def result(self) -> tuple[Any, ...]:
        """Return the components, or the batch; if making them fails, the entries go back."""

    def give_back(self) -> None:
        """Put the entries back in their places, in order, if the taker has not got them; later calls do nothing."""

class QueueBase:
    """The attempts that wait at a queue, and how they are served; a subclass has the rest of the queue, and the errors.

    Parameters
    ----------
    order : FirstInFirstOut
        Holds the elements.
    ring : Ring or None
        The same elements, where they are small and of a fixed size.
    capacity, capacity_bytes : int
        Most elements, and most bytes of them; below 0 for no bound.
    gathers : bool
        True if a waiting batch gathers the available elements.
    piece : int
        Most elements moved in a single turn of the event loop; longer batches take several turns.

    Attributes
    ----------
    closed : bool
        True if no more elements may come.
    putters, takers : Line
        Attempts that wait for room, and for elements.
    enqueued, dequeued : int
        Elements put in, and taken, so far.
    nbytes : int
        Of the elements, where there is a bound on them.
    may_put, may_take : bool
        True if no putter, or no taker, waits, for kernels in C; `may_put` also implies an open queue.
    takers_wait, putters_wait : bool
        True if a taker, or a putter, waits and was not woken; a kernel in C then calls `serve`.
    """

    order: Any
    ring: Ring | None
    closed: bool
    putters: Line[Put]
    takers: Line[Take]
    enqueued: int
    dequeued: int
    nbytes: int
    piece: int
    capacity: int
    capacity_bytes: int
    may_put: bool
    may_take: bool
    takers_wait: bool
    putters_wait: bool
    def __init__(
        self, order: Any, ring: Ring | None, capacity: int, capacity_bytes: int, gathers: bool, piece: int
    ) -> None: ...
    def closed_by(self, put: Put) -> BaseException:
        """Return the error for an attempt to put, or to close the queue, after another attempt closed the queue."""

    def insufficient(self, take: Take, got: int) -> BaseException:
        """Return the error for an attempt to take more elements than there will be."""

    def restored(self, take: Take) -> BaseException:
        """Return the error for an attempt whose promised elements are no longer there."""

    def batch(self, entries: list[Any]) -> tuple[Any, ...]:
        """Return the elements of entries as a batch; safe to call from any thread."""

    def settle(self) -> object:
        """Set the flags for kernels in C: whether others wait before them, and whether they must wake a waiting
        attempt.
        """

    def serve(self) -> object:
        """Wake all attempts able to go on, in the order of their arrival."""

    def serve_now(self) -> None:
        """Do the same as `serve`, without leaving the current context."""

    def free(self) -> int:
        """Return the number of elements promised to no taker."""

    def take_what_is_left(self, take: Take) -> None:
        """End the wait of the first taker not woken: with fewer elements if the taker accepts these, or an error."""

    def push(self, element: tuple[Any, ...]) -> object:
        """Put in an element for which there is room."""

    def fits(self, element: tuple[Any, ...]) -> bool:
        """Return True if there is room for an element."""

    def rows_of(self, columns: Sequence[Any]) -> Rows | None:
        """Return the elements along the first axes of arrays, if they fit a ring; any thread may ask."""

    def put_later(
        self, elements: Sequence[tuple[Any, ...]] | Rows, operation: str, pool: Any = None
    ) -> AsyncResult | None:
        """Put elements in, or return an AsyncResult, which is done when all are in."""

    def close_later(self, operation: str) -> AsyncResult:
        """Close the queue after the earlier putters; return an AsyncResult, which is done when the queue is closed."""

    def take_now(self) -> Taken:
        """Take the next element of a queue, which must not be empty."""

    def take_later(self, operation: str, count: int, many: bool, up_to: bool) -> Taken | AsyncResult:
        """Take elements, or return an AsyncResult, which is done when they are available."""

    def back(self, entries: list[Any]) -> None:
        """Put entries back in their places."""

    def bring_back(self, take: Take) -> None:
        """Put back the gathered elements of a waiting attempt."""

    def forget_gathered(self) -> None:
        """Drop all gathered entries, and ignore later returns of entries taken so far, which others replace."""

    def stop(self) -> None:
        """Move no further piece of a long batch."""

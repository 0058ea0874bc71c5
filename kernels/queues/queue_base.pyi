"""What a queue does with those who put elements in and take some out.

An element enters or leaves when the instance that puts or takes it goes on, not when it is woken, so a wait that is
cancelled loses and doubles nothing (rule 129). Only a batch that does not fit at once is moved piece by piece when it
is at the head (rule 126), or that would hold the event loop up; what it has gathered goes back when it is given up.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..core.async_result import AsyncResult
from ..memory.pool import Pool
from .queue_lines import Attempt, Line
from .queue_rings import Ring

def kept(components: Sequence[Any], pool: Pool | None = None) -> tuple[Any, ...]:
    """Return components that nobody writes to, and that are no parts of larger arrays: copies of those that may be."""

def is_kept(value: Any, pool: Pool | None) -> bool:
    """Say whether nobody writes to a value as long as a queue holds it.

    Kernels write in place only to what nobody else holds; what is fed is the user's, who may do as he likes.
    """

def frozen_copy(value: Any) -> Any:
    """Return a copy that nobody may write to."""

class Rows:
    """Elements that are rows of arrays, from `start` on."""

    columns: tuple[Any, ...]
    start: int
    stop: int
    def __init__(self, columns: tuple[Any, ...], start: int, stop: int) -> None: ...
    def __len__(self) -> int: ...

class Put(Attempt):
    """One who puts elements; the `need` that have not entered are in `elements`."""

    elements: deque[tuple[Any, ...]] | Rows
    def __init__(self, operation: str, elements: Sequence[tuple[Any, ...]] | Rows) -> None: ...

class Closing(Put):
    """One who closes the queue behind those who put before."""

class Take(Attempt):
    """One who takes `count` elements, or fewer from a closed queue; all but `need` are `gathered`, as entries."""

    count: int
    gathered: list[Any]
    many: bool
    up_to: bool
    def __init__(self, operation: str, count: int, many: bool, up_to: bool) -> None: ...
    def let_go(self) -> list[Any]:
        """Return what is gathered, which is gathered no longer."""

class Taken:
    """What one has taken: entries of the queue's order, until it has what is made of them.

    Parameters
    ----------
    entries : list
    make : callable
        ``make(entries)`` returns the components, or the batch; any thread may call it.
    put_back : callable
        ``put_back(entries, number)`` puts them to where they were.
    number : int
        How many took something before.
    is_long : bool
        Whether making them takes long.
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
        """Return what was taken; if it can not be made it goes back."""

    def give_back(self) -> None:
        """Put what was taken to where it was, in order: who took it has not got it. Once is enough."""

class QueueBase:
    """What waits at a queue, and is served; what a queue is besides is in a subclass, which has the errors.

    Parameters
    ----------
    order : FirstInFirstOut
        Holds the elements.
    ring : Ring or None
        The same elements, where they are small and of a fixed size.
    capacity, capacity_bytes : int
        Most elements, and most bytes of them; below 0 for no bound.
    gathers : bool
        Whether a batch that waits takes what there is.
    piece : int
        Most elements that are moved in one turn of the event loop; longer batches take several.

    Attributes
    ----------
    closed : bool
        Whether no more elements may come.
    putters, takers : Line
        Who waits for room, and for elements.
    enqueued, dequeued : int
        Elements that were put in, and taken, so far.
    nbytes : int
        Of the elements, where there is a bound on them.
    may_put, may_take : bool
        Whether nobody is in front of kernels in C that put and take, and the queue is open.
    takers_wait, putters_wait : bool
        Whether somebody waits to take, or to put, who was not woken; a kernel in C then calls `serve`.
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
        """Return the error for who waited to put, or to close the queue, when others closed it."""

    def insufficient(self, take: Take, got: int) -> BaseException:
        """Return the error for who takes more than there will be."""

    def restored(self, take: Take) -> BaseException:
        """Return the error for who was about to take what is no longer there."""

    def batch(self, entries: list[Any]) -> tuple[Any, ...]:
        """Return the elements of entries as a batch; any thread may call it."""

    def settle(self) -> object:
        """Note for kernels in C whether somebody is in front of them, and whether they are to wake somebody."""

    def serve(self) -> object:
        """Let all go on who can, those first who came first."""

    def serve_now(self) -> None:
        """Do what `serve` does, in whatever context."""

    def free(self) -> int:
        """Return how many elements there are that no taker was promised."""

    def take_what_is_left(self, take: Take) -> None:
        """End the wait of the first taker that was not woken: with fewer elements if it takes these, or an error."""

    def push(self, element: tuple[Any, ...]) -> object:
        """Put an element in that has room."""

    def fits(self, element: tuple[Any, ...]) -> bool:
        """Say whether there is room for an element."""

    def rows_of(self, columns: Sequence[Any]) -> Rows | None:
        """Return the elements along the first axes of arrays, if they fit a ring; any thread may ask."""

    def put_later(
        self, elements: Sequence[tuple[Any, ...]] | Rows, operation: str, pool: Any = None
    ) -> AsyncResult | None:
        """Put elements in, or return what waits until all are in."""

    def close_later(self, operation: str) -> AsyncResult:
        """Close the queue behind those who wait to put."""

    def take_now(self) -> Taken:
        """Take the next element, which is there."""

    def take_later(self, operation: str, count: int, many: bool, up_to: bool) -> Taken | AsyncResult:
        """Take elements, or return what waits until they are there."""

    def back(self, entries: list[Any]) -> None:
        """Put entries back to where they were."""

    def bring_back(self, take: Take) -> None:
        """Put back what one has gathered that waits."""

    def forget_gathered(self) -> None:
        """Let nobody give back, or go on with, what was taken so far: other elements take their place."""

    def stop(self) -> None:
        """Move no further piece of a long batch."""

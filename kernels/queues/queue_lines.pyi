"""Lines of attempts waiting for a resource, in the order of their arrival (rule 126).

An attempt able to go on is woken, and acts only in its own turn of the event loop: a wait cancelled between the two has
done nothing. So a line has two parts, the woken attempts and, after them, the others.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..core.async_result import AsyncResult

class Attempt:
    """A waiting attempt.

    Attributes
    ----------
    operation : str
        Name of the operation, for errors.
    future : asyncio.Future
        Done as soon as the attempt can go on; its result is for attempts of `Line.look`.
    error : BaseException or None
        Error to raise when the attempt goes on, if the state changed after its wake-up.
    need : int
        Amount of the resource taken by the attempt.
    """

    operation: str
    future: asyncio.Future[Any]
    error: BaseException | None
    need: int
    def __init__(self, operation: str, need: int = 1) -> None: ...

A = TypeVar("A", bound=Attempt)

class Line(Generic[A]):
    """Attempts in the order in which they came.

    Parameters
    ----------
    dropped : callable
        Called with an attempt whose wait was cancelled, before later ones are served, to return its gathered elements.
    in_order : bool
        True if no attempt goes on before the first; otherwise each waits for a condition of its own.

    Attributes
    ----------
    woken : OrderedDict
        The first attempts, which can go on but have not done so yet.
    waiting : OrderedDict
        The attempts after them.
    promised : int
        Sum of the needs of the woken attempts.
    """

    dropped: Callable[[A], object]
    in_order: bool
    woken: OrderedDict[A, int]
    waiting: OrderedDict[A, None]
    promised: int
    def __init__(self, dropped: Callable[[A], object], in_order: bool = True) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    @property
    def first_waiting(self) -> A | None:
        """The first attempt not woken; cancelled attempts leave the line."""

    def join(self, attempt: A, go_on: Callable[[A], Any], give_up: Callable[[A], object]) -> AsyncResult:
        """Add an attempt to the line; return an AsyncResult with the result of ``go_on(attempt)``, unless the attempt
        is given up.
        """

    def look(self, attempt: A) -> AsyncResult:
        """Add to the line an attempt without need of the resource; return an AsyncResult with the result passed to
        `end`.
        """

    def alive(self) -> list[A]:
        """Return all attempts not woken, in order; cancelled attempts leave the line."""

    def wake(self, attempt: A) -> object:
        """Wake a waiting attempt, which goes on in its own turn of the event loop."""

    def count_anew(self) -> None:
        """Recompute `promised`, because the needs of woken attempts have changed."""

    def end(self, attempt: A, error: BaseException | None = None, result: Any = None) -> object:
        """End the wait of an attempt, with nothing left to do except to raise `error`, if given."""

    def leave(self, attempt: A) -> bool:
        """Remove an attempt from the line; return True if it was woken, so that its promised amount is free."""

    def fail(self, error: Callable[[A], BaseException]) -> None:
        """Make all attempts raise an error: waiting ones now, woken ones when their turn comes."""

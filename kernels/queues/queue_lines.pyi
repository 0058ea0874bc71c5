"""Those who wait for something of a resource, in the order in which they came (rule 126).

Who can go on is woken, and acts only when its own turn of the event loop comes: a wait that is cancelled between the
two has done nothing. So a line has two parts, those who were woken and, behind them, those who were not.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..core.async_result import AsyncResult

class Attempt:
    """One who waits.

    Attributes
    ----------
    operation : str
        Who it is, in errors.
    future : asyncio.Future
        Done as soon as it can go on; has what one gets who only looks.
    error : BaseException or None
        What it is to raise when it goes on, if that changed after it was woken.
    need : int
        How much it takes of what the line waits for.
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
        Called with one whose wait was cancelled, before anybody behind it is served: it gives back what it has.
    in_order : bool
        Whether nobody goes on before the first; otherwise each waits for something of its own.

    Attributes
    ----------
    woken : OrderedDict
        The first ones, who can go on but have not done so yet.
    waiting : OrderedDict
        Those behind them.
    promised : int
        What the woken ones need together.
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
        """The first that was not woken; those that were cancelled leave the line."""

    def join(self, attempt: A, go_on: Callable[[A], Any], give_up: Callable[[A], object]) -> AsyncResult:
        """Let an attempt wait; return what gives ``go_on(attempt)``, unless it is given up."""

    def look(self, attempt: A) -> AsyncResult:
        """Let one wait that takes nothing; return what gives the result that it is ended with."""

    def alive(self) -> list[A]:
        """Return all that were not woken, the first first; those that were cancelled leave the line."""

    def wake(self, attempt: A) -> object:
        """Let one that waits go on when its turn comes."""

    def count_anew(self) -> None:
        """Note what those who were woken need, as that has changed."""

    def end(self, attempt: A, error: BaseException | None = None, result: Any = None) -> object:
        """Let one that waits go on, with nothing left to do but to raise `error`, if any."""

    def leave(self, attempt: A) -> bool:
        """Take an attempt out of the line; say whether it was woken, so that what it was promised is free."""

    def fail(self, error: Callable[[A], BaseException]) -> None:
        """Let all raise an error: those who wait now, those who were woken when their turn comes."""

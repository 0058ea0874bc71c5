"""A line of those who wait: strictly first come, first served (rule 126).

Who can go on is woken, and acts only when its own turn of the event loop comes: a wait that is cancelled between the
two has done nothing. So the line has two parts, those who were woken and, behind them, those who were not.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..control.py_function import AsyncResult


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
    """

    __slots__ = ("error", "future", "operation")

    def __init__(self, operation: str) -> None:
        self.operation: str = operation
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.error: BaseException | None = None

    @property
    def need(self) -> int:
        """How much it takes of what the line waits for."""
        return 1


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

    __slots__ = ("dropped", "in_order", "promised", "waiting", "woken")

    def __init__(self, dropped: Callable[[A], object], in_order: bool = True) -> None:
        self.dropped: Callable[[A], object] = dropped
        self.in_order: bool = in_order
        self.woken: OrderedDict[A, int] = OrderedDict()
        self.waiting: OrderedDict[A, None] = OrderedDict()
        self.promised: int = 0

    def __len__(self) -> int:
        return len(self.woken) + len(self.waiting)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.woken)

    @property
    def first_waiting(self) -> A | None:
        """The first that was not woken; those that were cancelled leave the line."""
        while self.waiting:
            attempt = next(iter(self.waiting))
            if not attempt.future.done():
                return attempt
            del self.waiting[attempt]
            self.dropped(attempt)
        return None

    def join(self, attempt: A, go_on: Callable[[A], Any], give_up: Callable[[A], None]) -> AsyncResult:
        """Let an attempt wait; return what gives ``go_on(attempt)``, unless it is given up."""
        self.waiting[attempt] = None
        return AsyncResult(attempt.future, lambda _: go_on(attempt), lambda: give_up(attempt), self.in_order)

    def look(self, attempt: A) -> AsyncResult:
        """Let one wait that takes nothing; return what gives the result that it is ended with."""
        self.waiting[attempt] = None
        return AsyncResult(attempt.future, lambda result: result, lambda: self._forget(attempt))

    def alive(self) -> list[A]:
        """Return all that were not woken, the first first; those that were cancelled leave the line."""
        for attempt in [each for each in self.waiting if each.future.done()]:
            del self.waiting[attempt]
            self.dropped(attempt)
        return list(self.waiting)

    def wake(self, attempt: A) -> None:
        """Let one that waits go on when its turn comes."""
        del self.waiting[attempt]
        self.woken[attempt] = attempt.need
        self.promised += attempt.need
        attempt.future.set_result(None)

    def count_anew(self) -> None:
        """Note what those who were woken need, as that has changed."""
        self.woken.update((attempt, attempt.need) for attempt in list(self.woken))
        self.promised = sum(self.woken.values())

    def end(self, attempt: A, error: BaseException | None = None, result: Any = None) -> None:
        """Let one that waits go on, with nothing left to do but to raise `error`, if any."""
        del self.waiting[attempt]
        if error is None:
            attempt.future.set_result(result)
        else:
            attempt.future.set_exception(error)

    def _forget(self, attempt: A) -> None:
        self.leave(attempt)

    def leave(self, attempt: A) -> bool:
        """Take an attempt out of the line; say whether it was woken, so that what it was promised is free."""
        self.waiting.pop(attempt, None)
        promised = self.woken.pop(attempt, None)
        self.promised -= promised or 0
        return promised is not None

    def fail(self, error: Callable[[A], BaseException]) -> None:
        """Let all raise an error: those who wait now, those who were woken when their turn comes."""
        for attempt in self.woken:
            attempt.error = error(attempt)
        while (attempt_ := self.first_waiting) is not None:
            self.end(attempt_, error(attempt_))

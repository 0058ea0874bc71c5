"""A staging area: a queue that is never closed, may be looked into, and emptied."""

from __future__ import annotations

from ...base.errors import OpError
from ...kernels.core.async_result import AsyncResult
from ...kernels.cpu.queue_lines import Attempt, Line
from .elements import Element
from .queue_spec import QueueSpec
from .storage import QueueStorage


class Peek(Attempt):
    """One who looks at the element of an index; its future has the element, as nothing is taken."""

    __slots__ = ("index",)

    def __init__(self, operation: str, index: int) -> None:
        super().__init__(operation)
        self.index: int = index


class StagingStorage(QueueStorage):
    """The elements of a staging area in one session, and who waits for them.

    Attributes
    ----------
    peekers : Line
        Who waits for an element to look at. They take nothing, so nobody waits for them, nor they for each other.
    """

    __slots__ = ("peekers",)

    def __init__(self, name: str, spec: QueueSpec) -> None:
        self.peekers: Line[Peek] = Line(lambda _: None)
        super().__init__(name, spec)

    def cancel(self, error: BaseException) -> None:
        """Wake all who wait with an error."""
        super().cancel(error)
        self.peekers.fail(lambda _: error)

    def peek(self, index: int, operation: str) -> Element | AsyncResult:
        """Return a copy of the element of an index, counted from the one that leaves next, as soon as there is one.

        Raises
        ------
        OpError
            If the index is negative.
        """
        if index < 0:
            raise OpError(
                "an index of a staging area is negative",
                wanted="0 or more",
                got=index,
                operation=operation,
                hint="elements count from 0, the one that a get would take",
            )
        if index < len(self.order):
            return self._at(index)
        return self.peekers.look(Peek(operation, index))

    def clear(self) -> None:
        """Let go of all elements but those that somebody was woken to take."""
        promised = self.order.pop_many(min(len(self.order), self.takers.promised))
        self.order.held.clear()
        self.nbytes = 0
        self.back(promised)
        self.serve()

    def _at(self, index: int) -> Element:
        return self.order.held[index][1]

    def push(self, element: Element) -> None:
        super().push(element)
        self._show()

    def settle(self) -> None:
        super().settle()
        self._show()

    def _show(self) -> None:
        """Let those look who wait for an element that is there by now."""
        for peek in self.peekers.alive() if self.peekers else ():
            if peek.index < len(self.order):
                self.peekers.end(peek, result=self._at(peek.index))

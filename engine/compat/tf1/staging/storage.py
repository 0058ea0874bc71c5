"""A staging area: a queue which is never closed, with peeks and clearing."""

from __future__ import annotations

from ....base.errors import OpError
from ....kernels.core.async_result import AsyncResult
from ....kernels.queues.queue_lines import Attempt, Line
from ....ops.queues.elements import Element
from ....ops.queues.queue_spec import QueueSpec
from ....ops.queues.storage import QueueStorage


class Peek(Attempt):
    """A look at the element of an index; the future's result is the element, as nothing is taken."""

    __slots__ = ("index",)

    def __init__(self, operation: str, index: int) -> None:
        super().__init__(operation)
        self.index: int = index


class StagingStorage(QueueStorage):
    """The elements of a staging area in one session, and the waiting puts, takes and peeks.

    Attributes
    ----------
    peekers : Line
        The waiting peeks. Peeks take nothing, so they delay neither takes nor other peeks.
    """

    __slots__ = ("peekers",)

    def __init__(self, name: str, spec: QueueSpec) -> None:
        # Before the base class, whose constructor calls `settle`.
        self.peekers: Line[Peek] = Line(lambda _: None)
        super().__init__(name, spec)

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting puts, takes and peeks with an error."""
        super().cancel(error)
        self.peekers.fail(lambda _: error)

    def peek(self, index: int, operation: str) -> Element | AsyncResult:
        """Return a copy of the element of an index, as soon as available; index 0 leaves next.

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
            return self._element_at(index)
        return self.peekers.look(Peek(operation, index))

    def clear(self) -> None:
        """Release all elements except those promised to woken takes."""
        # The elements promised to woken takes are those that leave first.
        promised = self.order.pop_many(min(len(self.order), self.takers.promised))
        self.order.held.clear()
        self.nbytes = 0
        self.back(promised)
        self.serve()

    def _element_at(self, index: int) -> Element:
        return self.order.held[index][1]

    def push(self, element: Element) -> None:
        """Append an element, and answer the peeks which wait for it."""
        super().push(element)
        self._answer_peeks()

    def settle(self) -> None:
        """Update the flags of the lines, and answer the peeks whose elements have arrived."""
        super().settle()
        self._answer_peeks()

    def _answer_peeks(self) -> None:
        """Answer the peeks whose elements have arrived."""
        for peek in self.peekers.alive() if self.peekers else ():
            if peek.index < len(self.order):
                self.peekers.end(peek, result=self._element_at(peek.index))

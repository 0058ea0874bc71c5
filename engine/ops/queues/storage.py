"""The storage of a queue: its elements, and the two lines of those who put and those who take.

An element enters or leaves when the instance that puts or takes it goes on, not when it is woken, so a wait that is
cancelled loses and doubles nothing (rule 129). Only a batch that does not fit at once is moved piece by piece when it
is at the head (rule 126); what a batch has gathered goes back when it is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import OpError, QueueClosed
from ...kernels.cpu.queue_rings import QueueBase, Ring
from ..control.py_function import AsyncResult
from .attempts import Closing, Put, Rows, Take
from .elements import Element, ElementSpec, nbytes_of
from .figures import QueueStatistics, statistics_of
from .line import Line
from .orders import FirstInFirstOut, InRing, Shuffled, SmallestFirst
from .saved import checked_state, packed, packed_rows
from .shared import SharedResource

ORDERS = ("fifo", "padding", "priority", "shuffle")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """What a queue is; those of one shared name must agree (rule 130).

    Attributes
    ----------
    order : {'fifo', 'padding', 'priority', 'shuffle'}
    elements : ElementSpec
    capacity : int
        Most elements; below 0 there is no bound.
    capacity_bytes : int
        Most bytes; below 0 there is no bound.
    min_after_dequeue : int
        Elements that stay in until the queue is closed, where it shuffles.
    seed : int
    """

    order: str
    elements: ElementSpec
    capacity: int = -1
    capacity_bytes: int = -1
    min_after_dequeue: int = 0
    seed: int = field(default=0, compare=False)

    def make_order(self) -> FirstInFirstOut:
        """Return what gives elements in this order."""
        if self.order == "shuffle":
            return Shuffled(self.seed, self.min_after_dequeue)
        if self.order == "priority":
            return SmallestFirst()
        fixed = self.order == "fifo" and self.capacity_bytes < 0 and self.elements.is_small
        return InRing(self.elements.make_ring(self.capacity)) if fixed else FirstInFirstOut()


class QueueStorage(QueueBase, SharedResource):
    """The elements of a queue in one session, and who waits for them.

    Used on the loop's thread only.

    Attributes
    ----------
    name : str
    spec : QueueSpec
    order : FirstInFirstOut
        Holds the elements.
    ring : Ring or None
        The same elements, where they are small and of a fixed size.
    may_put, may_take : bool
        Whether kernels in C may put and take (`_settle`).
    putters, takers : Line
        Who waits for room, and for elements.
    closed : bool
        Whether no more elements may come.
    nbytes : int
        Of the elements, where there is a bound on them.
    """

    __slots__ = ("closed", "name", "nbytes", "order", "putters", "spec", "takers")

    def __init__(self, name: str, spec: QueueSpec) -> None:
        self.name: str = name
        self.spec: QueueSpec = spec
        self.order: FirstInFirstOut = spec.make_order()
        self.ring: Ring | None = self.order.ring if isinstance(self.order, InRing) else None
        self.may_put: bool = self.ring is not None
        self.may_take: bool = self.ring is not None
        self.putters: Line[Put] = Line(self._went)
        self.takers: Line[Take] = Line(self._give_back)
        self.closed: bool = False
        self.nbytes: int = 0

    # ---- what every resource has

    @property
    def label(self) -> str:
        """What it is called in errors."""
        return f"elements of queue {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the components of its elements, and of those that a waiting batch has gathered."""
        gathered = [e for take in list(self.takers.waiting) for e in self.order.elements_of(take.gathered)]
        return [*self.order.arrays(), *(value for element in gathered for value in element)]

    def cancel(self, error: BaseException) -> None:
        """Wake all who wait with an error."""
        for take in list(self.takers.waiting):
            self._give_back(take)
        self.putters.fail(lambda _: error)
        self.takers.fail(lambda _: error)

    async def aclose(self) -> None:
        """Let go of all elements."""
        self.closed = True
        self.may_put = self.may_take = False
        self.order = self.spec.make_order()
        self.ring = None

    def _settle(self) -> None:
        """Note whether kernels in C may put and take: nobody is in front of them, or is to be woken by them."""
        self.may_put = self.ring is not None and not (self.closed or self.putters or self.takers.waiting)
        self.may_take = self.ring is not None and not (self.takers or self.putters.waiting)

    def statistics(self) -> QueueStatistics:
        """Return its figures."""
        return statistics_of(self)

    def snapshot(self) -> Any:
        """Return the elements, those gathered by a waiting batch first, whether it is closed, and the draws made."""
        gathered = [e for take in self.takers.waiting for e in self.order.elements_of(take.gathered)]
        if self.ring is not None and not gathered:
            components = packed_rows(self.ring.rows())
        else:
            components = packed([*gathered, *self.order.elements()], self.spec.elements)
        return {"components": components, "closed": self.closed, "state": self.order.state()}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return what puts saved elements in the place of those that are there."""
        saved = checked_state(saved, {"components", "closed", "state"}, f"queue '{self.name}'")
        put_in = self.order.prepared(saved["components"], saved["state"], self.spec.elements, self.name)

        def change() -> None:
            for take in self.takers.waiting:
                take.gathered, take.has = [], 0
            put_in()
            self.nbytes = self.order.nbytes
            self.closed = bool(saved["closed"])
            self.serve()

        return change

    # ---- what operations and bridges do

    def __len__(self) -> int:
        return len(self.order)

    def put(self, components: Sequence[Any], operation: str) -> AsyncResult | None:
        """Put an element in, or return what waits until there is room.

        Raises
        ------
        QueueClosed
            If it is closed.
        OpError
            If the element does not fit the queue.
        """
        element = self.spec.elements.checked(components, operation)
        if self.putters or not self._fits(element):
            return self._put_later([element], operation)
        if self.closed:
            raise self._put_when_closed(operation)
        self._push(element)
        if self.takers.waiting:
            self.serve()
        else:
            self._settle()
        return None

    def put_many(self, components: Sequence[Any], operation: str) -> AsyncResult | None:
        """Put the rows of `components` in, one after another, or return what waits until all are in."""
        if self.closed and not self.putters:
            raise self._put_when_closed(operation)
        elements: list[Element] | Rows
        if self.ring is None:
            elements = self.spec.elements.rows(components, operation)
        else:
            elements = Rows(tuple(components), 0, self.spec.elements.count(components, operation))
        return self._put_later(elements, operation) if elements or self.putters else None

    def take(self, operation: str) -> Any:
        """Take an element, or return what waits until there is one.

        Raises
        ------
        QueueClosed
            If it is closed and empty.
        """
        if not self.takers and self.order.available(self.closed):
            element = self.order.element(self.order.pop())
            self.dequeued += 1
            self._left(element)
            self._settle()
            return element
        return self._take_later(Take(operation, 1, False, False))

    def take_many(self, count: int, operation: str, up_to: bool = False) -> Any:
        """Take a batch, or return what waits until there is one; from a closed queue fewer where `up_to` allows it."""
        if count < 0:
            raise OpError(
                "a batch has a negative size",
                wanted="0 or more",
                got=count,
                operation=operation,
                hint="give dequeue_many a size of 0 or more",
            )
        if self.ring is not None and not self.takers and count <= self.ring.length:
            rows = self.ring.pop_rows(count)
            self.dequeued += count
            if self.putters:
                self.serve()
            return rows
        return self._take_later(Take(operation, count, True, up_to))

    def close(self, cancel_pending: bool, operation: str) -> AsyncResult | None:
        """Let nothing more in: behind those who wait to put, or with an error for them (rule 127)."""
        if self.closed:
            raise self._closed_error("is already closed", operation)
        if cancel_pending:
            self.closed = True
            self.putters.fail(self._closed_by)
        elif self.putters:
            return self.putters.join(Closing(operation, ()), self._went, self._give_up_putting)
        self.closed = True
        self.serve()
        return None

    # ---- serving

    def serve(self) -> None:
        """Let all go on who can, those first who came first."""
        while self._serve_putters() | self._serve_takers():
            pass
        self._settle()

    def _serve_putters(self) -> bool:
        """Wake who can put; say whether something changed for those who take."""
        changed = False
        while (put := self.putters.first_waiting) is not None:
            if self.closed:
                self.putters.end(put, self._closed_by(put))
            elif isinstance(put, Closing):
                if self.putters.woken:
                    break
                self.closed = changed = True
                self.putters.end(put)
            elif self._has_room_for(put):
                self.putters.wake(put)
            else:
                if not self.putters.woken and len(put.elements) > 1:
                    changed |= self._push_some(put)
                break
        return changed

    def _serve_takers(self) -> bool:
        """Wake who can take; say whether something changed for those who put."""
        changed = False
        while (take := self.takers.first_waiting) is not None:
            free = self.order.available(self.closed) - self.takers.promised
            if take.need <= free:
                self.takers.wake(take)
            elif self.takers.woken:
                break
            elif self.closed:
                self._take_the_rest(take, free)
            else:
                self._gather(take, free)
                return changed or free > 0
        return changed

    def _take_the_rest(self, take: Take, free: int) -> None:
        """Serve one who wants more than a closed queue has."""
        if take.up_to and take.has + free > 0:
            take.count = take.has + free
            self.takers.wake(take)
            return
        got = take.has + free
        self._give_back(take)
        self.takers.end(take, self._insufficient(take, got))

    def _gather(self, take: Take, count: int) -> None:
        taken = self.order.pop_many(count)
        take.gathered += taken
        take.has += count
        if self.spec.capacity_bytes >= 0:
            self.nbytes -= sum(map(nbytes_of, self.order.elements_of(taken)))

    def _give_back(self, take: Take) -> None:
        if self.spec.capacity_bytes >= 0:
            self.nbytes += sum(map(nbytes_of, self.order.elements_of(take.gathered)))
        self.order.give_back(take.gathered)
        take.gathered, take.has = [], 0

    # ---- putting

    def _put_later(self, elements: list[Element] | Rows, operation: str) -> AsyncResult | None:
        if not isinstance(elements, Rows) and 0 <= self.spec.capacity_bytes < max(map(nbytes_of, elements), default=0):
            raise OpError(
                f"an element is larger than queue '{self.name}'",
                wanted=f"at most {self.spec.capacity_bytes} bytes",
                got=f"{max(map(nbytes_of, elements))} bytes",
                operation=operation,
                hint="make the queue with more capacity_bytes",
            )
        if self.closed and not self.putters:
            raise self._put_when_closed(operation)
        put = Put(operation, elements)
        if not self.putters and self._has_room_for(put):
            self._push_all(put)
            return None
        if isinstance(elements, Rows):  # what they are rows of may be written to meanwhile
            elements.columns = tuple(np.array(column) for column in elements.columns)
        waiting = self.putters.join(put, self._go_on_putting, self._give_up_putting)
        self.serve()
        return waiting

    def _go_on_putting(self, put: Put) -> None:
        self.putters.leave(put)
        try:
            if put.error is not None:
                raise put.error
            self._push_all(put)
        finally:
            self.serve()

    def _went(self, attempt: Put) -> None:
        """Go on with nothing to do."""

    def _give_up_putting(self, put: Put) -> None:
        self.putters.leave(put)
        self.serve()

    def _push_all(self, put: Put) -> None:
        if isinstance(put.elements, Rows):
            self._push_rows(put.elements, len(put.elements))
        else:
            while put.elements:
                self._push(put.elements.popleft())
        if self.takers.waiting:
            self.serve()
        else:
            self._settle()

    def _push_some(self, put: Put) -> bool:
        if isinstance(put.elements, Rows):
            count = max(0, min(len(put.elements), self.spec.capacity - len(self.order)))  # batches may have gone back
            self._push_rows(put.elements, count)
            return count > 0
        moved = False
        while put.elements and self._fits(put.elements[0]):
            self._push(put.elements.popleft())
            moved = True
        return moved

    def _push_rows(self, rows: Rows, count: int) -> None:
        assert self.ring is not None  # otherwise they are elements
        self.ring.push_rows(rows.columns, rows.start, rows.start + count)
        self.enqueued += count
        rows.start += count

    def _push(self, element: Element) -> None:
        self.order.push(element)
        self.enqueued += 1
        if self.spec.capacity_bytes >= 0:
            self.nbytes += nbytes_of(element)

    def _fits(self, element: Element) -> bool:
        return self._room_for(1, nbytes_of(element) if self.spec.capacity_bytes >= 0 else 0)

    def _has_room_for(self, put: Put) -> bool:
        """Say whether all that one puts has room beside what the woken ones put."""
        size = 0
        if self.spec.capacity_bytes >= 0:
            every = [each.elements for each in (*self.putters.woken, put)]
            size = sum(nbytes_of(e) for elements in every if not isinstance(elements, Rows) for e in elements)
        return self._room_for(self.putters.promised + len(put.elements), size)

    def _room_for(self, count: int, size: int) -> bool:
        spec = self.spec
        has_places = spec.capacity < 0 or len(self.order) + count <= spec.capacity
        return has_places and (spec.capacity_bytes < 0 or self.nbytes + size <= spec.capacity_bytes)

    # ---- taking

    def _take_later(self, take: Take) -> Any:
        if not self.takers:
            free = self.order.available(self.closed)
            if self.closed and take.need > free:
                if not take.up_to or not free:
                    raise self._insufficient(take, free)
                take.count = free
            if take.need <= free:
                return self._take_all(take)
        waiting = self.takers.join(take, self._go_on_taking, self._give_up_taking)
        self.serve()
        return waiting

    def _take_all(self, take: Take) -> Any:
        """Take what is still missing and return the result; all goes back if that can not be made."""
        self._gather(take, take.need)
        try:
            result = self._result(take)
        except BaseException:
            self._give_back(take)
            raise
        self.dequeued += take.count
        if self.putters:
            self.serve()
        return result

    def _result(self, take: Take) -> Any:
        if take.many and (rows := self.order.rows_of(take.gathered)) is not None:
            return rows
        elements = self.order.elements_of(take.gathered)
        return self.spec.elements.batch(elements, self.spec.order == "padding") if take.many else elements[0]

    def _go_on_taking(self, take: Take) -> Any:
        self.takers.leave(take)
        try:
            if take.error is None and take.need > self.order.available(self.closed):
                take.error = self._insufficient(take, len(self.order))  # others were restored meanwhile
            if take.error is not None:
                self._give_back(take)
                raise take.error
            return self._take_all(take)
        finally:
            if self.takers.waiting or self.putters:
                self.serve()
            else:
                self._settle()

    def _give_up_taking(self, take: Take) -> None:
        self.takers.leave(take)
        self._give_back(take)
        self.serve()

    def _left(self, element: Element) -> None:
        if self.spec.capacity_bytes >= 0:
            self.nbytes -= nbytes_of(element)
        if self.putters:
            self.serve()

    # ---- errors

    def _put_when_closed(self, operation: str) -> QueueClosed:
        return self._closed_error("is closed", operation)

    def _closed_by(self, attempt: Put) -> QueueClosed:
        what = "is already closed" if isinstance(attempt, Closing) else "is closed"
        return self._closed_error(what, attempt.operation)

    def _insufficient(self, take: Take, got: int) -> QueueClosed:
        return self._closed_error(
            "is closed and has insufficient elements",
            take.operation,
            wanted=take.count,
            got=got,
            hint="catch QueueClosed as the end of the data, or use dequeue_up_to for the last batch",
        )

    def _closed_error(self, what: str, operation: str, **fields: Any) -> QueueClosed:
        fields.setdefault("hint", "look at is_closed(), or let one step alone close the queue when all has been put in")
        return QueueClosed(f"queue '{self.name}' {what}", operation=operation, **fields)

    # ---- without a graph

    async def async_put(self, *components: Any) -> None:
        """Put an element in as soon as there is room; a cancelled wait has put nothing."""
        waiting = self.put(components, self.name)
        if waiting is not None:
            await waiting

    async def async_take(self) -> Element:
        """Take an element as soon as there is one; a cancelled wait has taken nothing."""
        taken = self.take(self.name)
        element: Element = await taken if isinstance(taken, AsyncResult) else taken
        return element

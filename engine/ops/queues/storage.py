"""The storage of a queue: its elements, and the two lines of those who put and those who take.

An element enters or leaves when the instance that puts or takes it goes on, not when it is woken, so a wait that is
cancelled loses and doubles nothing (rule 129). Only a batch that does not fit at once is moved piece by piece when it
is at the head (rule 126), or that would hold the event loop up; what it has gathered goes back when it is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ...base.errors import OpError
from ...kernels.cpu.queue_rings import QueueBase, Ring
from ...kernels.memory.contexts import outside
from ...kernels.memory.pool import Pool
from ..control.py_function import AsyncResult
from .attempts import Closing, Put, Rows, Take, Taken
from .elements import Element, kept, nbytes_of
from .figures import QueueStatistics, statistics_of
from .line import Line
from .orders import MANY, FirstInFirstOut, InRing
from .queue_errors import closed_by, closed_queue, insufficient, restored, too_large
from .queue_spec import QueueSpec
from .saved import checked_state, packed, packed_rows
from .shared import SharedResource

PIECE = 1 << 20  # bytes that are moved at once between memory and a ring


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
    may_put, may_take, takers_wait, putters_wait : bool
        What kernels in C may do, and whether they then call `serve` (`_settle`).
    putters, takers : Line
        Who waits for room, and for elements.
    closed : bool
        Whether no more elements may come.
    nbytes : int
        Of the elements, where there is a bound on them.
    piece : int
        Most elements that are moved in one turn of the event loop; longer batches take several.
    failure : tuple of (int, BaseException), or None
        Where what puts elements has failed: how many it had put before, and why there are no more.
    """

    __slots__ = (
        "_left",
        "_later",
        "_oldest",
        "_takes",
        "closed",
        "failure",
        "name",
        "nbytes",
        "order",
        "piece",
        "putters",
        "spec",
        "takers",
    )

    def __init__(self, name: str, spec: QueueSpec) -> None:
        self.name: str = name
        self.spec: QueueSpec = spec
        self.order: FirstInFirstOut = spec.make_order()
        self.ring: Ring | None = self.order.ring if isinstance(self.order, InRing) else None
        self.putters: Line[Put] = Line(lambda _: None)
        self.takers: Line[Take] = Line(self._give_back)
        self.closed: bool = False
        self.nbytes: int = 0
        self.piece: int = MANY if self.ring is None else max(1, PIECE // max(1, spec.elements.nbytes))
        self.failure: tuple[int, BaseException] | None = None
        self._left: int = self.piece  # elements that may still be moved in this turn
        self._later: asyncio.Handle | None = None  # the next turn of a batch that is moved in pieces
        self._takes: int = 0  # how many have taken something
        self._oldest: int = 0  # the first of them that may give it back: not from before a restore
        self._settle()

    # ---- what every resource has

    @property
    def label(self) -> str:
        """What it is called in errors."""
        return f"elements of {self.spec.what} {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the components of its elements, and of those that a waiting batch has gathered."""
        return [*self.order.arrays(), *(v for each in self.order.elements_of(self._gathered()) for v in each)]

    def cancel(self, error: BaseException) -> None:
        """Wake all who wait with an error."""
        for take in list(self.takers.waiting):
            self._give_back(take)
        self.putters.fail(lambda _: error)
        self.takers.fail(lambda _: error)

    async def aclose(self) -> None:
        """Let go of all elements."""
        if self._later is not None:
            self._later.cancel()
        self.closed = True
        self.may_put = self.may_take = False
        self.order, self.ring = self.spec.make_order(), None

    def _gathered(self) -> list[Any]:
        """Return the entries that those in line have gathered; from any thread."""
        return [entry for take in (*list(self.takers.woken), *list(self.takers.waiting)) for entry in take.gathered]

    def _settle(self) -> None:
        """Note for kernels in C whether somebody is in front of them, and whether they are to wake somebody."""
        putters, takers = self.putters, self.takers
        self.takers_wait, self.putters_wait = bool(takers.waiting), bool(putters.waiting)
        self.may_put = not (self.putters_wait or self.closed or putters.woken)
        self.may_take = not (self.takers_wait or takers.woken)

    def statistics(self) -> QueueStatistics:
        """Return its figures."""
        return statistics_of(self)

    def snapshot(self) -> Any:
        """Return the elements, those gathered by waiting batches first, whether it is closed, and the draws made."""
        gathered = self.order.elements_of(self._gathered())
        if self.ring is not None and not gathered:
            components = packed_rows(self.ring.rows())
        else:
            components = packed([*gathered, *self.order.elements()], self.spec.elements)
        return {"components": components, "closed": self.closed, "state": self.order.state()}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return what puts saved elements in the place of those that are there."""
        saved = checked_state(saved, {"components", "closed", "state"}, f"queue '{self.name}'")
        # Not under the limit of a step that asks for the queue: it would begin again, and fill it from outside twice.
        put_in = outside(self.order.prepared, saved["components"], saved["state"], self.spec.elements, self.name)

        def change() -> None:
            for take in (*self.takers.woken, *self.takers.waiting):
                take.let_go()
            self.takers.count_anew()
            self._oldest = self._takes
            outside(put_in)
            self.nbytes = self.order.nbytes
            self.closed = bool(saved["closed"])
            self.serve()

        return change

    # ---- what operations and bridges do

    def __len__(self) -> int:
        return len(self.order)

    def put(self, components: Sequence[Any], operation: str, pool: Pool | None = None) -> AsyncResult | None:
        """Put an element in, or return what waits until there is room; `pool` is where kernels make arrays.

        Raises
        ------
        QueueClosed
            If it is closed.
        OpError
            If the element does not fit the queue.
        """
        element = self.spec.elements.checked(components, operation, pool)
        if self.putters or not self._fits(element):
            return self._put_later([element], operation)
        if self.closed:
            raise closed_queue(self, "is closed", operation)
        self._push(element)
        if self.takers.waiting:
            self.serve()
        return None

    def rows(self, components: Sequence[Any], operation: str) -> list[Element] | Rows:
        """Return the rows of `components` as elements to be put; any thread may ask for them."""
        if self.ring is None:
            return self.spec.elements.rows(components, operation)
        return Rows(tuple(components), 0, self.spec.elements.count(components, operation))

    def put_many(self, elements: list[Element] | Rows, operation: str, pool: Pool | None = None) -> AsyncResult | None:
        """Put elements in, one after another, or return what waits until all are in."""
        if self.closed and not self.putters:
            raise closed_queue(self, "is closed", operation)
        return self._put_later(elements, operation, pool) if elements or self.putters else None

    def take(self, operation: str) -> Taken | AsyncResult:
        """Take an element, or return what waits until there is one.

        Raises
        ------
        QueueClosed
            If it is closed and empty.
        """
        if not self.takers and self.order.available(self.closed):
            entry = self.order.pop()
            self.dequeued += 1
            if self.spec.capacity_bytes >= 0:
                self.nbytes -= nbytes_of(self.order.element(entry))
            if self.putters.waiting:
                self.serve()
            return self._taken([entry], many=False)
        return self._take_later(Take(operation, 1, False, False))

    def take_many(self, count: int, operation: str, up_to: bool = False) -> Taken | AsyncResult:
        """Take a batch, or return what waits until there is one; from a closed queue fewer where `up_to` allows it."""
        if count < 0:
            raise OpError(
                "a batch has a negative size",
                wanted="0 or more",
                got=count,
                operation=operation,
                hint="give dequeue_many a size of 0 or more",
            )
        return self._take_later(Take(operation, count, True, up_to))

    def close(self, cancel_pending: bool, operation: str) -> AsyncResult | None:
        """Let nothing more in: behind those who wait to put, or with an error for them (rule 127)."""
        if self.closed:
            raise closed_queue(self, "is already closed", operation)
        if cancel_pending:
            self.closed = True
            self.putters.fail(partial(closed_by, self))
        elif self.putters:
            return self.putters.join(Closing(operation, ()), lambda _: None, self._give_up_putting)
        self.closed = True
        self.serve()
        return None

    # ---- serving

    def serve(self) -> None:
        """Let all go on who can, those first who came first.

        What is moved for them is not of the step that calls this, so its limit of memory refuses nothing.
        """
        outside(self._serve)

    def _serve_if(self, changed: object) -> None:
        """Serve where something has changed for somebody who waits."""
        if changed:
            self.serve()
        else:
            self._settle()

    def _serve(self) -> None:
        self._left, self._later = self.piece, None
        moved = True
        while moved:
            moved = bool(self.putters.waiting) and self._serve_putters()
            if self.takers.waiting and self._serve_takers():
                moved = True
        self._settle()

    def _serve_in_next_turn(self) -> None:
        if self._later is None:
            self._later = outside(asyncio.get_running_loop().call_soon, self._serve)

    def _serve_putters(self) -> bool:
        """Wake who can put; say whether something changed for those who take."""
        changed = False
        while (put := self.putters.first_waiting) is not None:
            if self.closed:
                self.putters.end(put, closed_by(self, put))
            elif isinstance(put, Closing):
                if self.putters.woken:
                    break
                self.closed = changed = True
                self.putters.end(put)
            elif put.need <= self.piece and self._has_room_for(put):
                self.putters.wake(put)
            else:
                if not self.putters.woken and put.need > 1:
                    changed |= self._push_some(put)
                break
        return changed

    def _serve_takers(self) -> bool:
        """Wake who can take; say whether something changed for those who put."""
        changed = False
        while (take := self.takers.first_waiting) is not None:
            free = self.order.available(self.closed) - self.takers.promised
            if take.need <= min(free, self.piece):
                self.takers.wake(take)
            elif self.takers.woken:
                break
            elif self.closed and take.need > free:
                self._take_the_rest(take, free)
            elif take.need > free and not self.spec.gathers:
                break
            else:
                return self._gather_some(take, free) or changed
        return changed

    def _take_the_rest(self, take: Take, free: int) -> None:
        """Serve one who wants more than a closed queue has."""
        got = take.count - take.need + free
        if take.up_to and got > 0:
            take.count, take.need = got, free
            return
        self._give_back(take)
        self.takers.end(take, insufficient(self, take, got))

    def _gather_some(self, take: Take, free: int) -> bool:
        """Let one gather what may be moved in this turn; say whether that is anything."""
        count = max(0, min(free, take.need, self._left))
        self._gather(take, count)
        self._left -= count
        if take.need and count < free:
            self._serve_in_next_turn()
        return count > 0

    def _gather(self, take: Take, count: int) -> None:
        taken = self.order.pop_many(count)
        take.gathered += taken
        take.need -= count
        if self.spec.capacity_bytes >= 0:
            self.nbytes -= self.order.nbytes_of(taken)

    def _give_back(self, take: Take) -> None:
        self._back(take.let_go())

    def _back(self, entries: list[Any]) -> None:
        if self.spec.capacity_bytes >= 0:
            self.nbytes += self.order.nbytes_of(entries)
        self.order.give_back(entries)

    # ---- putting

    def _put_later(
        self, elements: list[Element] | Rows, operation: str, pool: Pool | None = None
    ) -> AsyncResult | None:
        if not isinstance(elements, Rows) and 0 <= self.spec.capacity_bytes < max(map(nbytes_of, elements), default=0):
            raise too_large(f"{self.spec.what} '{self.name}'", self.spec.capacity_bytes, elements, operation)
        if self.closed and not self.putters:
            raise closed_queue(self, "is closed", operation)
        put = Put(operation, elements)
        if not self.putters and put.need <= self.piece and self._has_room_for(put):
            self._push_all(put)
            if self.takers.waiting:
                self.serve()
            return None
        if isinstance(elements, Rows):  # what they are rows of may be written to meanwhile
            elements.columns = kept(elements.columns, pool)
            if self.ring is not None and put.need > self.piece:  # once, and not each time that a piece has no place
                self.ring.reserve(self.ring.length + put.need)
        first = not self.putters
        waiting = self.putters.join(put, self._go_on_putting, self._give_up_putting)
        if first:  # else those in front wake it, who may have been woken but have not gone on
            self._serve_if(not 0 <= self.spec.capacity <= len(self.order))
        return waiting

    def _go_on_putting(self, put: Put) -> None:
        self.putters.leave(put)
        try:
            if put.error is None and self.closed:
                put.error = closed_by(self, put)  # others were restored meanwhile
            if put.error is not None:
                raise put.error
            self._push_all(put)
        finally:
            self._serve_if(self.takers.waiting or self.putters.waiting)

    def _give_up_putting(self, put: Put) -> None:
        self.putters.leave(put)
        self.serve()

    def _push_all(self, put: Put) -> None:
        if isinstance(put.elements, Rows):
            self._push_rows(put.elements, put.need)
        else:
            while put.elements:
                self._push(put.elements.popleft())

    def _push_some(self, put: Put) -> bool:
        """Let the elements of one enter that have room, and may be moved in this turn; say whether any did."""
        if isinstance(put.elements, Rows):
            room = put.need if self.spec.capacity < 0 else self.spec.capacity - len(self.order)
            count = max(0, min(put.need, room, self._left))  # batches may have gone back, so that there is no room
            self._push_rows(put.elements, count)
        else:
            count = 0
            while put.elements and count < self._left and self._fits(put.elements[0]):
                self._push(put.elements.popleft())
                count += 1
        put.need -= count
        self._left -= count
        if not self._left:
            self._serve_in_next_turn()
        return count > 0

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
        if not put.need:
            return True  # also of a queue that has more than its capacity, as batches have gone back
        size = 0
        if self.spec.capacity_bytes >= 0:
            every = [each.elements for each in (*self.putters.woken, put)]
            size = sum(nbytes_of(e) for elements in every if not isinstance(elements, Rows) for e in elements)
        return self._room_for(self.putters.promised + put.need, size)

    def _room_for(self, count: int, size: int) -> bool:
        spec = self.spec
        has_places = spec.capacity < 0 or len(self.order) + count <= spec.capacity
        return has_places and (spec.capacity_bytes < 0 or self.nbytes + size <= spec.capacity_bytes)

    # ---- taking

    def _take_later(self, take: Take) -> Taken | AsyncResult:
        if not self.takers:
            free = self.order.available(self.closed)
            if self.closed and take.need > free:
                if not take.up_to or not free:
                    raise insufficient(self, take, free)
                take.count = take.need = free
            if take.need <= min(free, self.piece):
                taken = self._take_all(take)
                if self.putters.waiting:
                    self.serve()
                return taken
        first = not self.takers
        waiting = self.takers.join(take, self._go_on_taking, self._give_up_taking)
        if first:
            self._serve_if(self.closed or self.order.available(self.closed))
        return waiting

    def _take_all(self, take: Take) -> Taken:
        """Take what is still missing."""
        self._gather(take, take.need)
        self.dequeued += take.count
        return self._taken(take.gathered, take.many)

    def _taken(self, entries: list[Any], many: bool) -> Taken:
        number, self._takes = self._takes, self._takes + 1
        if not many:
            return Taken(entries, self.order.only, self._put_back, number)
        make = partial(self.order.batch, spec=self.spec.elements, padded=self.spec.pads)
        return Taken(entries, make, self._put_back, number, self.order.is_large(entries))

    def _put_back(self, entries: list[Any], number: int) -> None:
        if number >= self._oldest:
            for take in (*self.takers.woken, *islice(self.takers.waiting, 1)):  # what they have gathered may be younger
                self._give_back(take)
            self.takers.count_anew()
            self.dequeued -= len(self.order.elements_of(entries))
            self._back(entries)
            self.serve()

    def _go_on_taking(self, take: Take) -> Any:
        self.takers.leave(take)
        try:
            if take.error is None and take.need > self.order.available(self.closed):
                error = insufficient if self.closed else restored  # others were restored meanwhile
                take.error = error(self, take, len(self.order))
            if take.error is not None:
                self._give_back(take)
                raise take.error
            result = self._take_all(take)
        except BaseException:
            self.serve()
            raise
        # Those behind one who was woken were woken already, as far as there is something for them.
        self._serve_if(self.putters.waiting or (self.takers.waiting and not self.takers.woken))
        return result

    def _give_up_taking(self, take: Take) -> None:
        self.takers.leave(take)
        self._give_back(take)
        self.serve()

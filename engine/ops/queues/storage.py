"""Storage of a queue: its elements, and the lines of waiting puts and takes.

``kernels/queues/queue_base.pyx`` serves the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...base.errors import OpError
from ...kernels.core.async_result import AsyncResult
from ...kernels.memory.contexts import outside
from ...kernels.memory.pool import Pool
from ...kernels.queues.queue_base import Put, QueueBase, Rows, Take, Taken
from ..support.shared import SharedResource
from .elements import Element, nbytes_of
from .figures import QueueStatistics, statistics_of
from .orders import MANY, FirstInFirstOut, InRing
from .queue_errors import closed_by, closed_queue, insufficient_elements, restored_while_waiting, too_large
from .queue_spec import QueueSpec
from .saved import checked_state, pack_elements, packed_rows

PIECE = 1 << 20  # bytes moved at once between memory and a ring


class QueueStorage(QueueBase, SharedResource):
    """The elements of a queue in one session, and the lines of waiting puts and takes.

    Used on the loop's thread only.

    Attributes
    ----------
    name : str
    spec : QueueSpec
    order : FirstInFirstOut
        Holds the elements.
    failure : tuple of (int, BaseException), or None
        Number of elements put before the source of the queue failed, and the source's error.
    """

    __slots__ = ("failure", "name", "spec")

    order: FirstInFirstOut

    def __init__(self, name: str, spec: QueueSpec) -> None:
        self.name: str = name
        self.spec: QueueSpec = spec
        # Set by the pump of a source: the number of elements moved before, and the error.
        self.failure: tuple[int, BaseException] | None = None
        order = spec.make_order()
        ring = order.ring if isinstance(order, InRing) else None
        # How many elements may move in one turn of the event loop.
        piece = MANY if ring is None else max(1, PIECE // max(1, spec.elements.nbytes))
        QueueBase.__init__(self, order, ring, spec.capacity, spec.capacity_bytes, spec.gathers, piece)

    # ---- what every resource has

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return f"elements of {self.spec.what} {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the components of the elements, including elements gathered by waiting batches."""
        # Gathered elements belong to the queue until their batch is complete.
        return [*self.order.arrays(), *(v for each in self.order.elements_of(self._gathered_entries()) for v in each)]

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting puts and takes with an error."""
        for take in list(self.takers.waiting):
            # A batch's gathered elements stay in the queue.
            self.bring_back(take)
        self.putters.fail(lambda _: error)
        self.takers.fail(lambda _: error)

    async def aclose(self) -> None:
        """Release all elements."""
        self.stop()
        self.closed = True
        self.may_put = self.may_take = False
        self.order, self.ring = self.spec.make_order(), None

    def _gathered_entries(self) -> list[Any]:
        """Return the entries gathered by the takes in line; callable from any thread."""
        return [entry for take in (*list(self.takers.woken), *list(self.takers.waiting)) for entry in take.gathered]

    def statistics(self) -> QueueStatistics:
        """Return the queue's statistics."""
        return statistics_of(self)

    def snapshot(self) -> Any:
        """Return the elements (first those gathered by waiting batches), the closed flag and the order's state."""
        gathered = self.order.elements_of(self._gathered_entries())
        # The rows of a ring are saved as whole arrays, without an object for each element.
        if self.ring is not None and not gathered:
            components = packed_rows(self.ring.rows())
        else:
            components = pack_elements([*gathered, *self.order.elements()], self.spec.elements)
        return {"components": components, "closed": self.closed, "state": self.order.state()}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which replaces the elements with the saved ones."""
        saved = checked_state(saved, {"components", "closed", "state"}, f"queue '{self.name}'")
        # Not under the limit of a step that asks for the queue: it would begin again, and fill it from outside twice.
        put_in = outside(self.order.prepared, saved["components"], saved["state"], self.spec.elements, self.name)

        def replace_elements() -> None:
            # Before the replacement: gathered elements would otherwise return among the restored ones.
            self.forget_gathered()
            outside(put_in)
            self.nbytes = self.order.nbytes
            self.closed = bool(saved["closed"])
            self.serve()

        return replace_elements

    # ---- what operations and bridges do

    def __len__(self) -> int:
        return len(self.order)

    def put(self, components: Sequence[Any], operation: str, pool: Pool | None = None) -> AsyncResult | None:
        """Put an element in, or return an AsyncResult which waits for room; kernels allocate their arrays from `pool`.

        Raises
        ------
        QueueClosed
            If the queue is closed.
        OpError
            If the element does not fit the queue.
        """
        element = self.spec.elements.checked(components, operation, pool)
        # A put that fits still does not overtake earlier ones.
        waits = self.putters or not self.fits(element)
        if waits:
            self._check_sizes([element], operation)
        if self.closed and not self.putters:
            raise closed_queue(self, "is closed", operation)
        if waits:
            return self.put_later([element], operation, pool)
        self.push(element)
        if self.takers.waiting:
            self.serve()
        return None

    def rows(self, components: Sequence[Any], operation: str) -> list[Element] | Rows:
        """Return the rows of `components` as elements to put; callable from any thread."""
        if self.ring is None:
            return self.spec.elements.rows(components, operation)
        rows = self.rows_of(components)
        return rows or Rows(tuple(components), 0, self.spec.elements.count(components, operation))

    def put_many(self, elements: list[Element] | Rows, operation: str, pool: Pool | None = None) -> AsyncResult | None:
        """Put elements in, one after another, or return an AsyncResult which waits until all are in."""
        if self.closed and not self.putters:
            raise closed_queue(self, "is closed", operation)
        # An empty put succeeds at once, but not before earlier puts.
        if not elements and not self.putters:
            return None
        if not isinstance(elements, Rows):
            self._check_sizes(elements, operation)
        return self.put_later(elements, operation, pool)

    def _check_sizes(self, elements: list[Element], operation: str) -> None:
        """Raise OpError if an element alone exceeds the queue's limit of bytes: such a put would wait forever."""
        limit = self.capacity_bytes
        if 0 <= limit < max(map(nbytes_of, elements), default=0):
            raise too_large(f"{self.spec.what} '{self.name}'", limit, elements, operation)

    def take(self, operation: str) -> Taken | AsyncResult:
        """Take an element, or return an AsyncResult which waits for the next.

        Raises
        ------
        QueueClosed
            If the queue is closed and empty.
        """
        if not self.takers and self.order.available(self.closed):
            return self.take_now()
        return self.take_later(operation, 1, False, False)

    def take_many(self, count: int, operation: str, up_to: bool = False) -> Taken | AsyncResult:
        """Take a batch, or return an AsyncResult which waits for enough elements.

        With `up_to`, a closed queue returns a smaller batch.
        """
        if count < 0:
            raise OpError(
                "a batch has a negative size",
                wanted="0 or more",
                got=count,
                operation=operation,
                hint="give dequeue_many a size of 0 or more",
            )
        return self.take_later(operation, count, True, up_to)

    def close(self, cancel_pending: bool, operation: str) -> AsyncResult | None:
        """Refuse further elements after the waiting puts; with `cancel_pending`, fail the waiting puts (rule 127)."""
        if self.closed:
            raise closed_queue(self, "is already closed", operation)
        if cancel_pending:
            self.closed = True
            self.putters.fail(partial(closed_by, self))
        elif self.putters:
            return self.close_later(operation)
        self.closed = True
        # Waiting takes end now, by a smaller batch or an error, if there are too few elements.
        self.serve()
        return None

    # ---- what serving asks for

    def closed_by(self, put: Put) -> BaseException:
        """Return the error for a waiting put, or a waiting close, of a queue which others closed."""
        return closed_by(self, put)

    def insufficient(self, take: Take, got: int) -> BaseException:
        """Return the error for a take of more elements than will arrive."""
        return insufficient_elements(self, take, got)

    def restored(self, take: Take) -> BaseException:
        """Return the error for a take whose promised elements were replaced by a restore."""
        return restored_while_waiting(self, take, len(self.order))

    def batch(self, entries: list[Any]) -> Element:
        """Return the elements of entries as a batch; callable from any thread."""
        return self.order.batch(entries, self.spec.elements, self.spec.pads)

"""A barrier: elements whose components arrive one after another; complete elements leave in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ....base import dtypes
from ....base.errors import OpError, QueueClosed
from ....base.shapes import SCALAR
from ....kernels.core.async_result import AsyncResult
from ....kernels.queues.queue_base import Take, Taken
from ....ops.queues.elements import ElementSpec
from ....ops.queues.queue_spec import QueueSpec
from ....ops.queues.saved import components_of, state_read
from ....ops.queues.storage import QueueStorage
from ....ops.support.shared import SharedResource
from ..figures import KeyedStatistics

FIRST = -(1 << 63)  # index of the first batch of keys, as in TensorFlow


class BarrierSpec(NamedTuple):
    """Specification of a barrier; barriers with one shared name need equal specifications."""

    elements: ElementSpec


class Incomplete(NamedTuple):
    """An element with missing components: number of its key, batch of the key, present components."""

    number: int
    batch: int
    components: list[Any]  # None for missing components


class WholeElements(QueueStorage):
    """The complete elements of a barrier, and the waiting takes.

    Attributes
    ----------
    is_hopeless : callable
        ``is_hopeless(take)`` returns True if no more elements will arrive for the first take in line.
    """

    __slots__ = ("is_hopeless",)

    def __init__(self, name: str, spec: QueueSpec, is_hopeless: Callable[[Take], bool]) -> None:
        self.is_hopeless: Callable[[Take], bool] = is_hopeless
        super().__init__(name, spec)

    def serve_now(self) -> None:
        """Wake the waits which can be served, and end those which never can."""
        super().serve_now()
        first = self.takers.first_waiting
        if first is not None and self.is_hopeless(first):
            self.take_what_is_left(first)  # also serves later takes


class BarrierStorage(SharedResource):
    """The elements of a barrier in one session, and the waiting takes. Used on the loop's thread only.

    Attributes
    ----------
    name : str
    spec : BarrierSpec
    ready : WholeElements
        The complete elements, in order of their key's number. Their first three components are the key's number, the
        index of the batch which brought the key, and the key.
    incomplete : dict
        The incomplete elements, by key.
    next_number, next_index : int
        Number of the next key, and index of the next batch of keys.
    closed : bool
        True if new keys are refused.
    """

    __slots__ = (
        "_is_inserting",
        "_is_patient",
        "_patient",
        "closed",
        "incomplete",
        "name",
        "next_index",
        "next_number",
        "ready",
        "spec",
    )

    def __init__(self, name: str, spec: BarrierSpec) -> None:
        self.name: str = name
        self.spec: BarrierSpec = spec
        about = (dtypes.int64, dtypes.int64, dtypes.string)
        whole = ElementSpec((*about, *spec.elements.dtypes), (SCALAR, SCALAR, SCALAR, *spec.elements.shapes))
        self._is_patient = False  # True during a patient take, which is not in `_patient` yet
        self._patient: set[Take] = set()  # takes which wait for incomplete elements
        self._is_inserting = False
        self.incomplete: dict[str, Incomplete] = {}
        self.next_number: int = 0
        self.next_index: int = FIRST
        self.closed: bool = False
        self.ready: WholeElements = WholeElements(name, QueueSpec("priority", whole, kind="barrier"), self._is_hopeless)

    # ---- what every resource has

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return f"elements of barrier {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the components of all elements."""
        waiting = [c for each in list(self.incomplete.values()) for c in each.components if c is not None]
        return [*self.ready.arrays(), *waiting]

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting takes with an error."""
        self.ready.cancel(error)

    async def aclose(self) -> None:
        """Release all elements."""
        self.incomplete.clear()
        await self.ready.aclose()

    def statistics(self) -> KeyedStatistics:
        """Return the barrier's statistics."""
        size = sum(value.nbytes for value in self.arrays())
        takers = len(self.ready.takers)
        return KeyedStatistics(len(self.ready), len(self.incomplete), None, size, None, 0, takers, self.closed)

    def snapshot(self) -> Any:
        """Return the elements, the next number and index, and the closed flag."""
        waiting = [
            (key, number, batch, [c is not None for c in components], [c for c in components if c is not None])
            for key, (number, batch, components) in self.incomplete.items()
        ]
        following = [self.next_number, self.next_index]
        return {"ready": self.ready.snapshot(), "incomplete": waiting, "next": following, "closed": self.closed}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which replaces the elements with the saved ones."""
        with state_read(saved, {"ready", "incomplete", "next", "closed"}, f"barrier '{self.name}'") as saved:
            # Prepared first: an error must leave the barrier unchanged.
            ready, closed = self.ready.restore(saved["ready"]), bool(saved["closed"])
            incomplete = {str(key): self._restore_element(*rest) for key, *rest in saved["incomplete"]}
            next_number, next_index = map(int, saved["next"])

        def replace_elements() -> None:
            self.incomplete, self.closed = incomplete, closed
            self.next_number, self.next_index = next_number, next_index
            ready()
            self._end_waits()

        return replace_elements

    def _restore_element(self, number: int, batch: int, there: list[bool], components: list[Any]) -> Incomplete:
        """Return a saved incomplete element; `there` holds a flag for each component, true if present."""
        elements = self.spec.elements
        indices = [i for i, (is_there, _) in enumerate(zip(there, elements.dtypes, strict=True)) if is_there]
        found: list[Any] = [None] * len(there)
        for i, value in zip(indices, components_of(components, indices, elements, self.name), strict=True):
            found[i] = value
        return Incomplete(int(number), int(batch), found)

    # ---- what operations do

    def rows(self, component: int, keys: Any, values: Any, operation: str) -> tuple[list[str], list[Any]]:
        """Return the keys, and the values along the first axis, for `insert`; callable from any thread.

        Raises
        ------
        OpError
            If keys and values differ in number, or a value has another shape.
        """
        spec = self.spec.elements
        part = ElementSpec((dtypes.string, spec.dtypes[component]), (SCALAR, spec.shapes[component]))
        pairs = part.rows((keys, values), operation)
        return [str(key) for key, _ in pairs], [value for _, value in pairs]

    def insert(self, component: int, rows: tuple[list[str], list[Any]], operation: str) -> None:
        """Put one component of the elements of several keys in: of all keys, or after an error of none.

        Raises
        ------
        QueueClosed
            If the barrier is closed and a key is new.
        OpError
            If a key has the component already, or occurs twice.
        """
        # First all checks: after an error nothing is in.
        self._check_keys(component, rows[0], operation)
        is_new = any(key not in self.incomplete for key in rows[0])
        self._is_inserting = True  # defers the verdict of `_is_hopeless` until all components are in
        try:
            for key, value in zip(*rows, strict=True):
                self._insert_component(component, key, value, operation)
        finally:
            self._is_inserting = False
        # Only a batch which brings a key uses up an index.
        self.next_index += is_new
        self._end_when_complete()

    def _check_keys(self, component: int, names: list[str], operation: str) -> None:
        """Refuse new keys after the end, and keys whose component is present or occurs twice."""
        new = [name for name in names if name not in self.incomplete]
        if self.closed and new:
            raise self._closed_error(f"is closed, and key '{new[0]}' is new", operation)
        there = [name for name in names if name not in new and self.incomplete[name].components[component] is not None]
        seen: set[str] = set()
        twice = there or [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        if twice:
            raise OpError(
                f"key '{twice[0]}' of barrier '{self.name}' has component {component} already",
                wanted="each component of a key once",
                got=twice[:3],
                operation=operation,
                hint="use another key; one may come again when its element is whole",
            )

    def _insert_component(self, component: int, key: str, value: Any, operation: str) -> None:
        """Set a component of a key's element; a complete element moves to `ready`."""
        entry = self.incomplete.get(key)
        if entry is None:
            entry = self.incomplete[key] = Incomplete(
                self.next_number, self.next_index, [None] * len(self.spec.elements.dtypes)
            )
            self.next_number += 1
        entry.components[component] = value
        if all(c is not None for c in entry.components):
            del self.incomplete[key]
            # `ready` is a priority queue by its first component, the key's number.
            name = np.array(key, dtypes.string.numpy)
            self.ready.put((np.int64(entry.number), np.int64(entry.batch), name, *entry.components), operation)

    def take(self, count: int, small_batch: bool, wait_for_incomplete: bool, operation: str) -> Taken | AsyncResult:
        """Take a batch of complete elements, or return an AsyncResult which waits for enough.

        Parameters
        ----------
        count : int
        small_batch : bool
            True to accept fewer elements of a closed barrier.
        wait_for_incomplete : bool
            True if a small batch waits while incomplete elements may become complete.
        operation : str

        Raises
        ------
        QueueClosed
            If a closed barrier has too few elements, and not enough can become complete or the take does not wait.
        """
        if self.closed and small_batch and not wait_for_incomplete and count > 0:
            # At least 1: a batch of 0 would succeed instead of raising QueueClosed.
            count = max(1, min(count, len(self.ready)))
        self._is_patient = small_batch and wait_for_incomplete
        try:
            taken = self.ready.take_many(count, operation, small_batch)
        finally:
            self._is_patient = False
        if not isinstance(taken, AsyncResult):
            return _without_numbers(taken)
        # Takes which have left the line need no entry any longer.
        self._patient &= self.ready.takers.waiting.keys()
        if small_batch and wait_for_incomplete and self.ready.takers.waiting:  # a served take has left the line
            self._patient.add(next(reversed(self.ready.takers.waiting)))
        self._end_waits()
        convert = taken.convert
        return AsyncResult(taken.source, lambda result: _without_numbers(convert(result)), taken.give_up)

    def close(self, cancel_pending: bool, operation: str) -> None:
        """Refuse new keys, and with `cancel_pending` drop the incomplete elements.

        Raises
        ------
        QueueClosed
            If the barrier is closed already, except to cancel its incomplete elements.
        """
        # A second call may still drop the incomplete elements of a closed barrier.
        if self.closed and not (cancel_pending and self.incomplete):
            raise self._closed_error("is already closed", operation)
        self.closed = True
        if cancel_pending:
            self.incomplete.clear()
        self._end_when_complete()

    def _end_when_complete(self) -> None:
        """Close `ready` when a closed barrier has no incomplete elements, then end hopeless waits."""
        if self.closed and not self.incomplete and not self.ready.closed:
            self.ready.close(False, self.name)
        self._end_waits()

    def _end_waits(self) -> None:
        """End waits for elements of a closed barrier which cannot become complete."""
        if self.closed and self.ready.takers.waiting:
            self.ready.serve()

    def _is_hopeless(self, take: Take) -> bool:
        """Return True if a take needs more elements than may become complete, or does not wait for incomplete ones."""
        if not self.closed or self.ready.closed or self._is_inserting:
            return False  # an open barrier may get more; a closed `ready` ends its waits by itself
        if take.up_to:
            return take not in self._patient and not self._is_patient
        # `free` leaves out elements promised to woken takes; each incomplete element may still arrive.
        return take.need > self.ready.free() + len(self.incomplete)

    def _closed_error(self, what: str, operation: str) -> QueueClosed:
        return QueueClosed(
            f"barrier '{self.name}' {what}",
            operation=operation,
            hint="let one step alone close the barrier when all keys have been inserted",
        )


def _without_numbers(taken: Taken) -> Taken:
    """Drop the first component, the keys' numbers, from the result of a take."""
    make = taken.make
    taken.make = lambda entries: make(entries)[1:]
    return taken

"""Pumps: tasks which move elements between a session's queues and asyncio.Queues, until the session ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from ....base.array_like import as_fed_array
from ....base.errors import DtypeError, OpError, QueueClosed, SessionClosed
from ....base.resources import Resource
from ....base.waiting import wait_shielded
from ....kernels.core.async_result import AsyncResult
from ....kernels.memory.contexts import outside
from ....kernels.queues.queue_base import kept
from ...support.context import Resources
from ..elements import Element, are_copied
from ..storage import QueueStorage
from .outside_queue import SHUT_DOWN, OutsideQueue, QueueGone, put_back

_CONTAINER = "pumps"
_logger = logging.getLogger("tagloom")


class Pump:
    """A task which moves elements; `task` ends with the pump.

    Attributes
    ----------
    is_ending : bool
        True if the task was asked to end.
    is_left : bool
        True if the asyncio.Queue at the other end was garbage-collected: the pump then ends without an error.
    moved : int
        Number of elements delivered.
    reason : BaseException or None
        The error of `abort`, raised by the task.
    task : asyncio.Task
        Set by `Pumps.start`.
    """

    __slots__ = ("is_ending", "is_left", "moved", "reason", "task")
    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.is_ending: bool = False
        self.is_left: bool = False
        self.moved: int = 0
        self.reason: BaseException | None = None

    async def run(self, move: Move) -> None:
        """Run `move` to its end: the body of the task.

        The task returns after the last element, or if the other end was collected; it raises the error of `move`, the
        reason of `abort`, or CancelledError if ended otherwise.
        """
        try:
            await move(self)
        except QueueGone:
            self.is_left = True
        except asyncio.CancelledError as error:
            error.__traceback__ = None  # the task keeps the error, whose frames would keep the queues
            if self.reason is not None:
                # An aborted task ends with the reason, and not with the cancellation that ended its wait.
                raise self.reason from None
            if not self.is_left:
                raise
        if self.is_left:
            _logger.info("%s ends: nobody refers to its asyncio.Queue any longer", self.task.get_name())

    def abort(self, reason: BaseException) -> None:
        """End the task, which then raises `reason`; the first reason counts."""
        if not self.task.done():
            self.reason = self.reason or reason
            self.end()

    def leave(self) -> None:
        """End the task because its other end was collected."""
        if not self.is_ending and not self.task.done():
            self.is_left = True
            self.end()

    def end(self) -> None:
        """Cancel the task once: a second request would interrupt the cleanup of the user's generator."""
        if not self.is_ending:
            self.is_ending = True
            self.task.cancel()


Move = Callable[[Pump], Coroutine[Any, Any, None]]


class Pumps(Resource):
    """The pumps of a session, which end with it.

    Parameters
    ----------
    name : str
    seconds : float
        Longest wait of `aclose` for the tasks' ends.
    """

    __slots__ = ("_seconds", "name", "running")

    def __init__(self, name: str, seconds: float) -> None:
        self.name: str = name
        self.running: set[Pump] = set()
        self._seconds = seconds

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return "tasks between queues and what is outside"

    def start(self, move: Move, name: str, logs: bool) -> Pump:
        """Start a task which moves elements, in the context of the user's code.

        Parameters
        ----------
        move : callable
            ``await move(pump)`` moves all elements.
        name : str
            Of the task.
        logs : bool
            True to log an error, for a task which nobody awaits.
        """
        pump = Pump()

        def note_end(task: asyncio.Task[None]) -> None:
            self.running.discard(pump)
            if logs and not task.cancelled() and (error := task.exception()) and error is not pump.reason:
                _logger.error("%s failed", name, exc_info=error)

        pump.task = outside(asyncio.get_running_loop().create_task, pump.run(move), name=name)
        self.running.add(pump)
        pump.task.add_done_callback(note_end)
        return pump

    def cancel(self, error: BaseException) -> None:
        """End all tasks with an error."""
        for pump in list(self.running):
            pump.abort(error)

    async def aclose(self) -> None:
        """Wait until all tasks have ended, also when cancelled; tasks slower than the limit continue by themselves."""
        self.cancel(SessionClosed("the session was closed", hint="move what is to be kept before"))
        try:
            await wait_shielded(lambda: [pump.task for pump in self.running], self._seconds)
        finally:
            if self.running:
                names = ", ".join(sorted(pump.task.get_name() for pump in self.running))
                _logger.warning("a session is closed while %s has not ended after %s s", names, self._seconds)


def pumps_of(resources: Resources) -> Pumps:
    """Return the pumps of a session."""
    return resources.get_or_create(_CONTAINER, "all", partial(Pumps, seconds=resources.close_seconds))


# ---- moving elements


async def put_in(queue: QueueStorage, element: Element, task_name: str) -> None:
    """Put an element in as soon as the queue has room; a cancelled wait has put nothing."""
    waiting = queue.put(element, task_name)
    if waiting is not None:
        await waiting


async def element_of(queue: QueueStorage, values: list[Any], task_name: str) -> Element:
    """Return an element of a user's values, a value for each component; large values are copied in a thread.

    Raises
    ------
    OpError
        If the values do not fit the queue.
    """
    spec = queue.spec.elements
    try:
        arrays = [as_fed_array(value, dtype) for value, dtype in zip(values, spec.dtypes, strict=True)]
    except DtypeError as error:
        raise OpError(
            f"an element for {queue.spec.what} '{queue.name}' has another dtype",
            wanted=error.wanted,
            got=error.got,
            operation=task_name,
            hint=error.hint,
        ) from error
    if are_copied(arrays, None):
        # A pump belongs to no step, so its copies are in no step's memory.
        arrays = list(await asyncio.to_thread(kept, arrays))
    return spec.checked(arrays, task_name)


async def move_in(
    pump: Pump,
    queue: QueueStorage,
    source: OutsideQueue,
    values_of: Callable[[Any], list[Any]],
) -> None:
    """Move elements from an asyncio.Queue to a session's queue; an undelivered item returns to its place."""
    task_name = pump.task.get_name()
    asyncio_queue = source.open(pump.leave)
    while True:
        if asyncio_queue.empty():
            del asyncio_queue  # an empty queue may be collected; a queue with items lives until they are delivered
        try:
            asyncio_queue, item = await source.get()
        except SHUT_DOWN:
            return
        try:
            await put_in(queue, await element_of(queue, values_of(item), task_name), task_name)
        except BaseException:  # also of an item that does not fit the queue: its owner can still take it out
            put_back(asyncio_queue, item)
            del asyncio_queue, item  # the traceback of the error keeps this frame, which would keep the queue
            raise
        pump.moved += 1
        # Not before: `join` of the asyncio.Queue waits for the delivery to the session's queue.
        asyncio_queue.task_done()
        del item


async def move_out(
    pump: Pump,
    queue: QueueStorage,
    target: OutsideQueue,
    value_of: Callable[[Element], Any],
) -> None:
    """Move elements from a session's queue to an asyncio.Queue until the session's queue is closed and empty."""
    task_name = pump.task.get_name()
    target.open(pump.leave)
    while True:
        try:
            taken = queue.take(task_name)
            if isinstance(taken, AsyncResult):
                taken = await taken
        except QueueClosed:
            return
        try:
            element = taken.result()
            if are_copied(element, None):
                element = await asyncio.to_thread(_writable_copies, element)
            else:
                element = _writable_copies(element)
            await target.put(value_of(element))
        except SHUT_DOWN:
            taken.give_back()
            return
        # Also if the put is cancelled: nothing has reached the asyncio.Queue then.
        except BaseException:
            taken.give_back()
            raise
        pump.moved += 1


def _writable_copies(element: Element) -> Element:
    """Return writable copies for the user."""
    return tuple([value.copy() for value in element])

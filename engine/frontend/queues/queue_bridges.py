"""Bridges between a queue of the graph and an asyncio.Queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol

from ...base.device_names import parse_device
from ...base.errors import GraphError, SessionClosed
from ...ir.processes import require_here
from ...ops.queues.bridges.outside_queue import OutsideQueue
from ...ops.queues.bridges.pumps import Pump, move_in, move_out, pumps_of
from ...ops.queues.elements import Element
from ...ops.queues.operations import queue_spec, storage_of
from ...ops.support.context import Resources
from .queue_components import HasComponents

DIRECTIONS = ("in", "out")


class HasResources(Protocol):
    """The part of a Session that a bridge needs."""

    @property
    def graph(self) -> Any: ...
    @property
    def resources(self) -> Resources: ...
    @property
    def closed(self) -> bool: ...
    def list_devices(self) -> Sequence[Any]: ...


class Bridge:
    """A task that moves elements between a queue of a session and an asyncio.Queue; see :meth:`QueueBase.bridge`.

    Attributes
    ----------
    direction : {'in', 'out'}

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.FIFOQueue(9, "int32", shapes=[[]])
    ...     fill, close = queue.enqueue_many([1, 2, 3]), queue.close()
    >>> async def main():
    ...     results = asyncio.Queue(maxsize=3)
    ...     async with tg.Session(graph) as session:
    ...         bridge = queue.bridge(session, results, direction="out")
    ...         for each in (fill, close):
    ...             await session.run(each)
    ...         return await bridge, [int(results.get_nowait()) for _ in range(3)]
    >>> asyncio.run(main())
    (3, [1, 2, 3])
    """

    __slots__ = ("_block_task", "_earlier_cancellations", "_has_cancelled_block", "_pump", "direction")

    def __init__(self, pump: Pump, direction: str) -> None:
        self.direction: str = direction
        self._pump = pump
        self._block_task: asyncio.Task[Any] | None = None  # the task in the ``async with`` block
        self._earlier_cancellations = 0  # requests to cancel the task that were made before the block
        self._has_cancelled_block = False  # True after the bridge cancelled the task because of its own error

    def __repr__(self) -> str:
        task = self._pump.task
        state = "cancelled" if task.cancelled() else "ended" if task.done() else "running"
        return f"<Bridge {self.direction}, {state}: {self.moved} elements moved>"

    @property
    def moved(self) -> int:
        """Number of moved elements."""
        return self._pump.moved

    @property
    def done(self) -> bool:
        """True after the end of the bridge's task."""
        return self._pump.task.done()

    def __await__(self) -> Generator[Any, Any, int]:
        return self._await_end().__await__()

    async def _await_end(self) -> int:
        task = self._pump.task
        # wait() does not cancel the bridge's task if the waiting task is cancelled.
        await asyncio.wait([task])
        if not task.cancelled():  # a cancelled task was closed, perhaps by another task
            task.result()
        return self.moved

    async def aclose(self) -> None:
        """Stop the bridge; an element in transit goes back to its source. The bridge's own error is raised."""
        task = self._pump.task
        self._pump.end()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def __aenter__(self) -> Bridge:
        task = asyncio.current_task()
        assert task is not None  # coroutines of the block are run by an event loop's task
        self._block_task, self._earlier_cancellations = task, task.cancelling()
        self._pump.task.add_done_callback(self._cancel_block_after_error)
        return self

    def _cancel_block_after_error(self, task: asyncio.Task[None]) -> None:
        """Cancel the block's task after an error of the bridge, as a TaskGroup does."""
        if self._block_task is not None and not task.cancelled() and task.exception() is not None:
            self._has_cancelled_block = True
            self._block_task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the bridge, and replace the cancellation by the bridge's error, unless others cancelled the task too."""
        # Without `_block_task` the done callback does nothing: it must not cancel code after the block.
        task, self._block_task = self._block_task, None
        assert task is not None
        if not self._has_cancelled_block:
            await self._leave_block(error)
            return
        # uncancel() takes the bridge's own request back and returns the remaining ones. More than before the block
        # means a cancellation from outside, which must go on; so must an error of the block itself.
        is_cancelled_by_others = task.uncancel() > self._earlier_cancellations
        has_failed = error is not None and kind is not asyncio.CancelledError
        if is_cancelled_by_others or has_failed:
            return
        if error is None:
            await _receive_late_cancellation()
        self._pump.task.result()  # raises the bridge's error

    async def _leave_block(self, error: BaseException | None) -> None:
        """Stop the bridge at the end of a block; an error of the block takes precedence over the bridge's."""
        if error is None:
            await self.aclose()
            return
        self._pump.end()
        await asyncio.wait([self._pump.task])
        if not self._pump.task.cancelled():
            self._pump.task.exception()  # marks the error as retrieved, lest asyncio log it


async def _receive_late_cancellation() -> None:
    """Absorb a cancellation that was requested too late to be raised inside of the block.

    The event loop raises a requested cancellation at the task's next suspension, which would be in code after the
    block; so the task is suspended here.
    """
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


def bridge(queue: HasComponents, session: HasResources, asyncio_queue: asyncio.Queue[Any], direction: str) -> Bridge:
    """Start a bridge; see :meth:`QueueBase.bridge`."""
    _check_arguments(queue, session, asyncio_queue, direction)
    require_here([queue.handle.op], [parse_device(each.name) for each in session.list_devices()])
    attrs = dict(queue.handle.op.attrs)
    # The storage is found by the shared name; the other attributes must match those of an existing storage.
    queue_attrs = {key: attrs[key] for key in queue.handle.op.definition.attrs if key != "shared_name"}
    storage = storage_of(session.resources, queue.shared_name, queue_spec(**queue_attrs), queue.name)
    name = f"the bridge of queue {queue.name}"
    if direction == "in":
        move: Callable[..., Any] = partial(
            move_in, queue=storage, source=OutsideQueue(asyncio_queue), values_of=queue.components_of
        )
    else:
        move = partial(
            move_out, queue=storage, target=OutsideQueue(asyncio_queue), value_of=partial(_pack_element, queue)
        )
    # Not logged: an error is raised where the bridge is awaited or closed.
    return Bridge(pumps_of(session.resources).start(move, name, logs=False), direction)


def _pack_element(queue: HasComponents, element: Element) -> Any:
    """Return an element in the structure of `dequeue`'s results, with a tuple of components in place of a list."""
    if queue.names is not None or queue.structure is not None:
        return queue.named(element)
    return element[0] if len(element) == 1 else element


def _check_arguments(queue: HasComponents, session: Any, asyncio_queue: Any, direction: str) -> None:
    """Raise GraphError for invalid arguments of `bridge`, SessionClosed for a closed session."""
    if not hasattr(session, "resources"):
        raise GraphError(
            "a bridge is a task of a session's event loop",
            wanted="a tagloom.Session",
            got=repr(session),
            hint="`async with Session(graph) as session:`; a script that has no event loop puts elements by steps",
        )
    if session.closed:
        raise SessionClosed("this session is closed", hint="open a bridge within the session's block")
    if session.graph is not queue.graph:
        raise GraphError(
            "a bridge is between a queue and a session of its graph",
            wanted="a session of the queue's graph",
            got=repr(session),
            hint="open it in a session of the graph that the queue was made in",
        )
    if not isinstance(asyncio_queue, asyncio.Queue):
        raise GraphError(
            "a bridge has an asyncio.Queue at its other end",
            wanted="an asyncio.Queue",
            got=repr(asyncio_queue),
            hint="from_async(iterable) takes elements from any async iterable",
        )
    if direction not in DIRECTIONS:
        raise GraphError(
            "a bridge has no such direction",
            wanted="'in', from the asyncio.Queue to the graph's, or 'out'",
            got=repr(direction),
            hint="open two bridges for both",
        )

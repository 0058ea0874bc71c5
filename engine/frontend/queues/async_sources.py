"""Async iterables as sources of elements."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from dataclasses import InitVar
from typing import Any, NoReturn

from ...base.errors import GraphError
from ...ir.entry import public
from ...ir.fields import takes_fields
from ...ir.operation import Operation
from ...ops.queues.bridges import source_operations as _operations  # noqa: F401  declares the operation type used below
from .queue_base import QueueBase
from .queue_components import HasComponents

Source = AsyncIterable[Any] | Callable[[], AsyncIterable[Any]]


@takes_fields
class SourceQueue(QueueBase):
    """A first in, first out queue filled by an async iterable; made by :func:`from_async`."""

    source: Source
    capacity: int
    dtypes: InitVar[Any]
    shapes: InitVar[Any]
    names: InitVar[Any]
    shared_name: InitVar[str | None]
    name: str

    def __post_init__(self, dtypes: Any, shapes: Any, names: Any, shared_name: str | None) -> None:
        # Not QueueBase.__post_init__: the handle is a source's, with a task that fills the queue. `values_of` is
        # called by the task for each element of the iterable.
        about = {"capacity": self.capacity, "source": self.source, "values_of": self.components_of}
        HasComponents.__init__(self, "AsyncSourceHandle", dtypes, shapes, names, shared_name, self.name, **about)

    @public
    def close(self, cancel_pending_enqueues: bool = True, name: str | None = None) -> Operation:
        """Return an operation that stops reading from the iterable; see :meth:`QueueBase.close`.

        Unless `cancel_pending_enqueues` is false, an element waiting for room is dropped.
        """
        return super().close(cancel_pending_enqueues, name)

    def bridge(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: the queue is filled by its iterable."""
        raise GraphError(
            f"queue '{self.name}' is filled by an async iterable already",
            wanted="a queue that was made as one",
            hint="bridge a FIFOQueue, or take the elements by steps",
        )


@public
def from_async(
    source: Source,
    dtypes: Any,
    shapes: Any = None,
    capacity: int = 1,
    names: Any = None,
    shared_name: str | None = None,
    name: str = "from_async",
) -> SourceQueue:
    """Return a queue filled by an async iterable, as fast as steps take elements.

    The first element is requested when a step first uses the queue, in a task of the session. At the end of the
    iterable the queue is closed. An exception of the iterable is the cause of an OpError in the step that requests the
    missing element; earlier elements are still returned. When the session ends, or a step closes the queue, the
    iterable is closed too, by its ``aclose()``, if available.

    Parameters
    ----------
    source : async iterable, or callable returning an async iterable
        An async generator can be iterated once, hence by a single session; a callable, such as an async generator
        function, is called by each session. Elements are values, lists of components, or dicts of components by name.
    dtypes : dtype-like or list of them
        Of an element's components; values are converted as feeds are.
    shapes : list of shapes, optional
        Of the components; needed to dequeue several elements at once.
    capacity : int
        Capacity of the queue; besides its elements, a single further element may wait for room.
    names : list of str, optional
        Of the components; elements are then dicts.
    shared_name : str, optional
        Queues of the same shared name are the same queue in a session; by default the own name.
    name : str
        Name in the graph.

    Returns
    -------
    SourceQueue
        With the methods of a FIFOQueue.

    Raises
    ------
    GraphError
        If `source` is neither an async iterable nor a callable, or `capacity` is not positive.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> async def numbers():
    ...     for i in range(3):
    ...         yield float(i)
    >>> with tg.Graph().as_default() as graph:
    ...     queue = tg.from_async(numbers, "float32", shapes=[[]])
    ...     batch = queue.dequeue_up_to(2)
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         return [(await session.run(batch)).tolist() for _ in range(2)]
    >>> asyncio.run(main())
    [[0.0, 1.0], [2.0]]
    """
    if not hasattr(source, "__aiter__") and not callable(source):
        raise GraphError(
            "this is no source of elements",
            wanted="an async iterable, or a function that returns one",
            got=repr(source),
            hint="give an async generator function; of a list, enqueue_many puts all elements at once",
        )
    if capacity < 1:
        raise GraphError(
            "a queue of an async iterable has room for one element at least",
            wanted="1 or more",
            got=capacity,
            hint="leave capacity out for 1",
        )
    return SourceQueue(source, capacity, dtypes, shapes, names, shared_name, name)

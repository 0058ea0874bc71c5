"""Async iterables as sources of elements."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from typing import Any, NoReturn

from ..base.errors import GraphError
from ..ir.entry import public
from ..ir.operation import Operation
from ..ops.queues import source_operations as _operations  # noqa: F401  declares the operation type used below
from .queue_base import QueueBase
from .queue_components import HasComponents

Source = AsyncIterable[Any] | Callable[[], AsyncIterable[Any]]


class SourceQueue(QueueBase):
    """A first in, first out queue that an async iterable fills; :func:`from_async` makes them."""

    __slots__ = ()

    def __init__(
        self, source: Source, capacity: int, dtypes: Any, shapes: Any, names: Any, shared_name: str | None, name: str
    ) -> None:
        HasComponents.__init__(
            self,
            "AsyncSourceHandle",
            dtypes,
            shapes,
            names,
            shared_name,
            name,
            capacity=capacity,
            source=source,
            values_of=self.components_of,
        )

    @public
    def close(self, cancel_pending_enqueues: bool = True, name: str | None = None) -> Operation:
        """Return an operation after which the iterable is asked for no more; see :meth:`QueueBase.close`.

        Unless `cancel_pending_enqueues` is false, the element that waits to be put is dropped.
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
    """Return a queue that an async iterable fills, as fast as steps take from it.

    The iterable is asked for its first element when a step first uses the queue, in a task of the session. At its end
    the queue is closed. What it raises is raised by the step that would have had that element, as the cause of an
    OpError; the elements before it are given. When the session ends, or a step closes the queue, the iterable is closed
    too, by ``aclose()``, if it has that.

    Parameters
    ----------
    source : async iterable, or callable that returns one
        An async generator can be gone through once, hence by one session; of a function, as an async generator
        function, each session has its own. Elements are values, lists of components, or dicts of them by name.
    dtypes : dtype-like or list of them
        Of an element's components; values are converted as those that are fed are.
    shapes : list of shapes, optional
        Of the components; needed to dequeue several at once.
    capacity : int
        Most elements that it is ahead of the steps, besides one that it waits to put.
    names : list of str, optional
        Of the components; elements are dicts then.
    shared_name : str, optional
        Queues of one shared name are one in a session; by default its own name.
    name : str
        Its name in the graph.

    Returns
    -------
    SourceQueue
        With the methods of a FIFOQueue.

    Raises
    ------
    GraphError
        If `source` is neither, or `capacity` is not positive.

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

"""Base class of queues: putting, taking, closing; as in TensorFlow 1, but waiting occupies no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ...base import dtypes as kinds
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import apply, build, convert_to_tensor
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ops.queues import operations as _operations  # noqa: F401  declares the operation types used below
from .queue_bridges import Bridge, HasResources, bridge
from .queue_components import HasComponents, tensors_of


class QueueBase(HasComponents):
    """Base class of queues; make one of its subclasses.

    A queue belongs to a session, and is created when a step first uses it. Steps that put and steps that take run
    concurrently; waiters are served strictly in the order of arrival, and a cancelled or timed-out wait has neither
    taken nor put anything. A step that only fetches the elements it takes, and does not complete, has taken none.

    Attributes
    ----------
    name : str
        Unique in the graph.
    shared_name : str
        Name in the session; queues of the same shared name are the same queue.
    dtypes, shapes : tuple
        Of an element's components.
    names : tuple of str or None
        Of the components, if elements are dicts.
    queue_ref : Tensor
        The resource handle.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     isinstance(tg.FIFOQueue(10, "int32"), tg.QueueBase)
    True
    """

    order: str  # in which elements are returned, an attribute of the handle
    capacity: int
    capacity_bytes: int

    def __post_init__(self, dtypes: Any, shapes: Any, names: Any, shared_name: str | None) -> None:
        super().__init__("QueueHandle", dtypes, shapes, names, shared_name, self.name, **self._options())

    def _options(self) -> dict[str, Any]:
        """Return the attributes of the handle besides components and name."""
        return {"order": self.order, "capacity": self.capacity, "capacity_bytes": self.capacity_bytes}

    @property
    def queue_ref(self) -> Tensor:
        """The resource handle."""
        return self.handle

    @staticmethod
    @public
    def from_list(index: Any, queues: Sequence[Any], name: str | None = None) -> QueueBase:
        """Return a queue chosen from a list by an index when a step runs.

        The result is used like any queue: each step puts into or takes from the queue with the step's index.

        Parameters
        ----------
        index : int32 scalar
            From 0 up.
        queues : sequence of QueueBase
            With the same dtypes and names; dimensions in which their shapes differ are unknown in the result's.
        name : str, optional
            Name of the operation.

        Returns
        -------
        QueueBase

        Raises
        ------
        GraphError
            If the list is empty, contains other objects than queues, or queues whose components differ.
        OpError
            When a step runs the operation, if the index is out of range.

        Examples
        --------
        >>> import tagloom as tg
        >>> with tg.Graph().as_default() as graph:
        ...     which = tg.placeholder("int32", [])
        ...     queues = [tg.FIFOQueue(3, "int32", shapes=[[]]) for _ in range(2)]
        ...     fill = [queues[0].enqueue(7), queues[1].enqueue(8)]
        ...     element = tg.QueueBase.from_list(which, queues).dequeue()
        >>> with tg.SyncSession(graph) as session:
        ...     _ = session.run(fill)
        ...     session.run(element, {which: 1}).item(), session.run(element, {which: 0}).item()
        (8, 7)
        """
        listed = _require_alike(queues)
        handle = apply("QueueChoice", convert_to_tensor(index, kinds.int32), [q.handle for q in listed], name=name)
        return _ChosenQueue(handle, listed)

    @public
    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that puts an element in, as soon as there is room.

        Parameters
        ----------
        vals : tensor, list of tensors, or dict of them
            The components; a dict by name if the queue has `names`.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        DtypeError, ShapeError, GraphError
            If the components do not fit the queue.
        QueueClosed
            When a step runs the operation, if the queue is closed.
        """
        return self._build_enqueue("Enqueue", vals, name or "enqueue")

    @public
    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that puts in, one after another, the elements along axis 0 of `vals`.

        Where there is no room for all elements, they enter piece by piece while the operation is first in line;
        elements already in the queue stay there if the operation is cancelled.

        Parameters
        ----------
        vals : tensor, list of tensors, or dict of them
            The components, with an additional dimension 0.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        DtypeError, ShapeError, GraphError
            If the components do not fit the queue.
        QueueClosed
            When a step runs the operation, if the queue is closed.
        """
        return self._build_enqueue("EnqueueMany", vals, name or "enqueue_many")

    @public
    def dequeue(self, name: str | None = None) -> Any:
        """Return the next element, as soon as there is one.

        Returns
        -------
        Tensor, list of Tensor, or dict of them
            The single component, or all components.

        Raises
        ------
        QueueClosed
            When a step runs the operation, if the queue is closed and has no element left.
        """
        op = build("Dequeue", [self.handle], name=name or "dequeue", dtypes_=self.dtypes, shapes=self.shapes)
        return self._results_of(op)

    @public
    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Return the next `n` elements, along a new axis 0, as soon as the queue has had so many.

        While first in line the operation gathers elements piece by piece, so that `n` may exceed the capacity. Gathered
        elements go back, in order, if the operation is cancelled or the queue is closed before there are `n`.

        Parameters
        ----------
        n : int32 scalar
        name : str, optional
            Name of the operation.

        Returns
        -------
        Tensor, list of Tensor, or dict of them
            The single component, or all components, with an additional dimension 0.

        Raises
        ------
        GraphError
            If a component's shape is not fully known.
        QueueClosed
            When a step runs the operation, if the queue is closed and has fewer elements.
        """
        return self._take_many(n, name or "dequeue_many", up_to=False)

    @public
    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Return the next `n` elements as `dequeue_many` does, or the remaining elements of a closed queue, if fewer.

        Parameters
        ----------
        n : int32 scalar
        name : str, optional
            Name of the operation.

        Returns
        -------
        Tensor, list of Tensor, or dict of them
            The single component, or all components, with an additional dimension 0.

        Raises
        ------
        GraphError
            If a component's shape is not fully known.
        QueueClosed
            When a step runs the operation, if the queue is closed and empty.
        """
        return self._take_many(n, name or "dequeue_up_to", up_to=True)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements in the queue, an int32 scalar."""
        return apply("QueueSize", self.handle, name=name or "size")

    @public
    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the queue to new elements; elements already in the queue can be taken.

        Parameters
        ----------
        cancel_pending_enqueues : bool
            Fail the waiting enqueues. Otherwise closing waits until they have succeeded.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        QueueClosed
            When a step runs the operation, if the queue is closed already.
        """
        return apply("QueueClose", self.handle, name=name or "close", cancel_pending=bool(cancel_pending_enqueues))

    @public
    def is_closed(self, name: str | None = None) -> Tensor:
        """Return a bool scalar, true if the queue is closed."""
        return apply("QueueIsClosed", self.handle, name=name or "is_closed")

    def bridge(self, session: HasResources, queue: asyncio.Queue[Any], direction: str = "in") -> Bridge:
        """Move elements between an asyncio.Queue and this queue, in a task that ends with the session.

        At most a single element is in transit, so that back pressure reaches the producer. An element is an argument of
        `enqueue` or a result of `dequeue`: a value, a tuple of components, a dict of components by name, or the
        container of the dtypes. When the bridge is stopped, an element in transit goes back to its source. The task
        starts at once. It ends when there is no other reference to the asyncio.Queue and no task waits in the queue, or
        when the asyncio.Queue is shut down; its remaining items are still moved.

        Parameters
        ----------
        session : Session
            The session of this queue.
        queue : asyncio.Queue
            Queue of the running event loop. ``task_done()`` is called for elements moved into the session's queue.
        direction : {'in', 'out'}
            'in': from the asyncio.Queue to the session's, until stopped. 'out': from the session's queue to the
            asyncio.Queue, until the former is closed and empty.

        Returns
        -------
        Bridge
            ``async with`` stops the bridge at the end of the block, or ends the block with the bridge's error;
            ``await bridge`` waits for its end and returns the number of elements; ``await bridge.aclose()`` stops it.

        Raises
        ------
        GraphError
            If the session is of another graph, `queue` is no asyncio.Queue, or `direction` is unknown.
        SessionClosed
            If the session is closed; raised by the bridge, if the session is closed later.
        QueueClosed
            Raised by the bridge, if an element comes when the session's queue is closed.
        OpError
            Raised by the bridge, if an element does not fit; the element is lost.

        Examples
        --------
        >>> import asyncio, tagloom as tg
        >>> with tg.Graph().as_default() as graph:
        ...     queue = tg.FIFOQueue(1, "int32", shapes=[[]])
        ...     square = queue.dequeue() ** 2
        >>> async def main():
        ...     numbers = asyncio.Queue()
        ...     async with tg.Session(graph) as session, queue.bridge(session, numbers):
        ...         for i in range(3):
        ...             numbers.put_nowait(i)
        ...         return [int(await session.run(square)) for _ in range(3)]
        >>> asyncio.run(main())
        [0, 1, 4]
        """
        return bridge(self, session, queue, direction)

    def _build_enqueue(self, type: str, vals: Any, name: str) -> Operation:
        tensors = tensors_of(self.components_of(vals), self.dtypes)
        return build(type, [self.handle, *tensors], name=name, dtypes_=self.dtypes, shapes=self.shapes)

    def _take_many(self, n: Any, name: str, up_to: bool) -> Any:
        # A batch is stacked along a new axis, so all elements need one shape.
        self._require_shapes(name)
        count = convert_to_tensor(n, kinds.int32)
        op = build("DequeueMany", [self.handle, count], name=name, dtypes_=self.dtypes, shapes=self.shapes, up_to=up_to)
        return self._results_of(op)

    def _require_shapes(self, name: str) -> None:
        if not all(shape.is_fully_known for shape in self.shapes):
            raise GraphError(
                f"{name} needs to know the shapes of the components of queue '{self.name}'",
                wanted="shapes without unknown dimensions",
                got=list(self.shapes),
                hint="make the queue with shapes=, or a PaddingFIFOQueue for sizes that vary",
            )

    def _results_of(self, op: Operation) -> Any:
        # A single component without a name is returned as a tensor, without a list.
        is_single = self.names is None and self.structure is None and len(op.outputs) == 1
        return op.outputs[0] if is_single else self.named(op.outputs)


class _ChosenQueue(QueueBase):
    """A queue chosen from several by each step."""

    def __init__(self, handle: Tensor, queues: Sequence[QueueBase]) -> None:
        # Not HasComponents.__init__, which would build a queue: the handle is the choice's.
        first = queues[0]
        self.dtypes, self.names, self.structure = first.dtypes, first.names, first.structure
        self.shapes = tuple(_common_shape(shapes) for shapes in zip(*(q.shapes for q in queues), strict=True))
        self.name, self.handle = handle.op.name, handle
        self.shared_name = " or ".join(q.shared_name for q in queues)
        self.queues = queues

    def bridge(self, session: HasResources, queue: asyncio.Queue[Any], direction: str = "in") -> Bridge:
        """Refuse: a bridge moves elements without a step, so no step can choose the queue."""
        raise GraphError(
            f"'{self.name}' is a choice of queues, which only steps make",
            wanted="a queue that was made, as FIFOQueue(10, 'int32')",
            got=self,
            hint="make a bridge to each of the queues",
        )

    def _require_shapes(self, name: str) -> None:
        # Each step may choose any of the queues.
        for queue in self.queues:
            queue._require_shapes(name)


def _common_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape of `shapes`; dimensions in which they differ are unknown."""
    if any(shape.rank is None or shape.rank != shapes[0].rank for shape in shapes):
        return Shape(None)
    # [2, 3] and [2, 5] have [2, None] in common.
    sizes = zip(*(shape.dims or () for shape in shapes), strict=True)
    return Shape([dims[0] if len(set(dims)) == 1 else None for dims in sizes])


def _require_alike(queues: Any) -> list[QueueBase]:
    """Return the queues as a list; GraphError if any is no queue, or their components differ."""
    listed = list(queues) if isinstance(queues, (list, tuple)) else []
    if not listed or not all(isinstance(queue, QueueBase) for queue in listed):
        raise GraphError(
            "from_list chooses from queues",
            wanted="a list with at least one queue, and queues alone",
            got=queues,
            hint="as tagloom.QueueBase.from_list(index, [queue, other])",
        )
    for what in ("dtypes", "names", "structure"):
        attributes = [getattr(queue, what) for queue in listed]
        if any(attribute != attributes[0] for attribute in attributes):
            raise GraphError(
                f"the queues of a list differ in {what}",
                wanted=f"the same {what} of all",
                got=attributes,
                hint="make them alike, or choose what they give by tagloom.cond or tagloom.case",
            )
    return listed

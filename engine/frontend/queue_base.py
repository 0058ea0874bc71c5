"""What queues have in common: putting, taking, closing; as in TensorFlow 1, but who waits takes no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ..base import dtypes as kinds
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..ir.apply import apply, build, convert_to_tensor
from ..ir.entry import public
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.queues import operations as _operations  # noqa: F401  declares the operation types used below
from .queue_bridges import Bridge, HasResources, bridge
from .queue_components import HasComponents, tensors_of


class QueueBase(HasComponents):
    """What queues have in common; make one of its subclasses.

    A queue is a session's, which makes it when a step first uses it. Steps that put and steps that take run beside each
    other; whoever must wait does so strictly first come, first served, and a wait that is cancelled or times out
    has neither taken nor put anything. Nor has a step that only fetches what it takes, and does not come to its end.

    Attributes
    ----------
    name : str
        Unique in the graph.
    shared_name : str
        What the session knows it by; queues of one shared name are one.
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

    __slots__ = ()

    def __init__(
        self, order: str, dtypes: Any, shapes: Any, names: Any, shared_name: str | None, name: str, **about: int
    ) -> None:
        super().__init__("QueueHandle", dtypes, shapes, names, shared_name, name, order=order, **about)

    @property
    def queue_ref(self) -> Tensor:
        """The resource handle."""
        return self.handle

    @staticmethod
    @public
    def from_list(index: Any, queues: Sequence[Any], name: str | None = None) -> QueueBase:
        """Return the queue that an index chooses from a list when a step runs.

        The result is used as any of them: each step puts into or takes from the queue that its index means.

        Parameters
        ----------
        index : int32 scalar
            From 0 up.
        queues : sequence of QueueBase
            With the same dtypes and names; of shapes that differ between them, the result's is not known.
        name : str, optional
            Name of the operation.

        Returns
        -------
        QueueBase

        Raises
        ------
        GraphError
            If the list is empty, has something else than queues, or queues whose components differ.
        OpError
            When a step runs it, if the index is out of range.

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
        listed = _alike(queues)
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
            When a step runs it, if the queue is closed.
        """
        return self._put("Enqueue", vals, name or "enqueue")

    @public
    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that puts in, one after another, the elements along axis 0 of `vals`.

        Where there is no room for all of them, they enter piece by piece while it is first in line; those that have
        entered stay if it is cancelled.

        Parameters
        ----------
        vals : tensor, list of tensors, or dict of them
            The components, with one dimension more in front.
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
            When a step runs it, if the queue is closed.
        """
        return self._put("EnqueueMany", vals, name or "enqueue_many")

    @public
    def dequeue(self, name: str | None = None) -> Any:
        """Return the next element, as soon as there is one.

        Returns
        -------
        Tensor, list of Tensor, or dict of them
            The component, or components.

        Raises
        ------
        QueueClosed
            When a step runs it, if the queue is closed and has no element left.
        """
        op = build("Dequeue", [self.handle], name=name or "dequeue", dtypes_=self.dtypes, shapes=self.shapes)
        return self._result(op)

    @public
    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Return the next `n` elements, along a new axis 0, as soon as there are so many.

        While it is first in line it gathers them piece by piece, so that `n` may be larger than the capacity. What it
        has goes back, in order, if it is cancelled or the queue is closed before they are `n`.

        Parameters
        ----------
        n : int32 scalar
        name : str, optional
            Name of the operation.

        Returns
        -------
        Tensor, list of Tensor, or dict of them
            The component, or components, with one dimension more.

        Raises
        ------
        GraphError
            If a component's shape is not known.
        QueueClosed
            When a step runs it, if the queue is closed and has fewer elements.
        """
        return self._take_many(n, name or "dequeue_many", up_to=False)

    @public
    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Return the next `n` elements as `dequeue_many` does; of a closed queue what is left, if fewer.

        Parameters
        ----------
        n : int32 scalar
        name : str, optional
            Name of the operation.

        Returns
        -------
        Tensor, list of Tensor, or dict of them
            The component, or components, with one dimension more.

        Raises
        ------
        GraphError
            If a component's shape is not known.
        QueueClosed
            When a step runs it, if the queue is closed and empty.
        """
        return self._take_many(n, name or "dequeue_up_to", up_to=True)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements are in, an int32 scalar."""
        return apply("QueueSize", self.handle, name=name or "size")  # type: ignore[no-any-return]

    @public
    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation after which no more elements may come; those that are in can be taken.

        Parameters
        ----------
        cancel_pending_enqueues : bool
            Whether enqueues that wait for room fail. Without, closing waits until they have succeeded.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        QueueClosed
            When a step runs it, if the queue is closed already.
        """
        return apply(  # type: ignore[no-any-return]
            "QueueClose", self.handle, name=name or "close", cancel_pending=bool(cancel_pending_enqueues)
        )

    @public
    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether it is closed, a bool scalar."""
        return apply("QueueIsClosed", self.handle, name=name or "is_closed")  # type: ignore[no-any-return]

    def bridge(self, session: HasResources, queue: asyncio.Queue[Any], direction: str = "in") -> Bridge:
        """Move elements between an asyncio.Queue and this one, in a task that ends with the session.

        One element at a time is under way, so that who puts waits as he would without. An element is what `enqueue`
        takes and `dequeue` gives: a value, a tuple of components, or a dict of them by name. Where the bridge is
        stopped, the element that has not arrived goes back to where it was. The task starts at once. It ends when
        nobody else refers to the asyncio.Queue any longer and no task waits in it, or when that is shut down; items
        that are in it then still go in.

        Parameters
        ----------
        session : Session
            In which this queue is meant.
        queue : asyncio.Queue
            Of the running event loop. ``task_done()`` is called for elements that have entered the session's queue.
        direction : {'in', 'out'}
            From the asyncio.Queue to the session's, until it is stopped; or the other way, until the session's is
            closed and empty.

        Returns
        -------
        Bridge
            ``async with`` stops it at the end of the block, or ends the block with its error; ``await bridge`` waits
            for its end and gives the number of elements; ``await bridge.aclose()`` stops it.

        Raises
        ------
        GraphError
            If the session is of another graph, the queue is no asyncio.Queue, or there is no such direction.
        SessionClosed
            If the session is closed; by the bridge, if it is closed meanwhile.
        QueueClosed
            By the bridge, if an element comes when the session's queue is closed.
        OpError
            By the bridge, if an element does not fit; it is gone.

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

    def _put(self, type: str, vals: Any, name: str) -> Operation:
        tensors = tensors_of(self.components_of(vals), self.dtypes)
        return build(type, [self.handle, *tensors], name=name, dtypes_=self.dtypes, shapes=self.shapes)

    def _take_many(self, n: Any, name: str, up_to: bool) -> Any:
        self._require_shapes(name)
        count = convert_to_tensor(n, kinds.int32)
        op = build("DequeueMany", [self.handle, count], name=name, dtypes_=self.dtypes, shapes=self.shapes, up_to=up_to)
        return self._result(op)

    def _require_shapes(self, name: str) -> None:
        if not all(shape.is_fully_known for shape in self.shapes):
            raise GraphError(
                f"{name} needs to know the shapes of the components of queue '{self.name}'",
                wanted="shapes without unknown dimensions",
                got=list(self.shapes),
                hint="make the queue with shapes=, or a PaddingFIFOQueue for sizes that vary",
            )

    def _result(self, op: Operation) -> Any:
        is_single = self.names is None and self.structure is None and len(op.outputs) == 1
        return op.outputs[0] if is_single else self.named(op.outputs)


class _ChosenQueue(QueueBase):
    """One of several queues, which a step chooses."""

    __slots__ = ("queues",)

    def __init__(self, handle: Tensor, queues: Sequence[QueueBase]) -> None:
        first = queues[0]
        self.dtypes, self.names, self.structure = first.dtypes, first.names, first.structure
        self.shapes = tuple(_common(shapes) for shapes in zip(*(q.shapes for q in queues), strict=True))
        self.name, self.handle = handle.op.name, handle
        self.shared_name = " or ".join(q.shared_name for q in queues)
        self.queues = queues

    def bridge(self, session: HasResources, queue: asyncio.Queue[Any], direction: str = "in") -> Bridge:
        """Refuse: a bridge moves elements without a step that could choose."""
        raise GraphError(
            f"'{self.name}' is a choice of queues, which only steps make",
            wanted="a queue that was made, as FIFOQueue(10, 'int32')",
            got=self,
            hint="make a bridge to each of the queues",
        )

    def _require_shapes(self, name: str) -> None:
        for queue in self.queues:
            queue._require_shapes(name)


def _common(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that all of `shapes` have; dimensions in which they differ are not known."""
    if any(shape.rank is None or shape.rank != shapes[0].rank for shape in shapes):
        return Shape(None)
    sizes = zip(*(shape.dims or () for shape in shapes), strict=True)
    return Shape([dims[0] if len(set(dims)) == 1 else None for dims in sizes])


def _alike(queues: Any) -> list[QueueBase]:
    """Return queues as a list; GraphError if they are none, or their components differ."""
    listed = list(queues) if isinstance(queues, (list, tuple)) else []
    if not listed or not all(isinstance(queue, QueueBase) for queue in listed):
        raise GraphError(
            "from_list chooses from queues",
            wanted="a list with at least one queue, and queues alone",
            got=queues,
            hint="as tagloom.QueueBase.from_list(index, [queue, other])",
        )
    for what in ("dtypes", "names", "structure"):
        found = [getattr(queue, what) for queue in listed]
        if any(each != found[0] for each in found):
            raise GraphError(
                f"the queues of a list differ in {what}",
                wanted=f"the same {what} of all",
                got=found,
                hint="make them alike, or choose what they give by tagloom.cond or tagloom.case",
            )
    return listed

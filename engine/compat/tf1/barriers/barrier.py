"""Barriers as in TensorFlow 1: elements assembled from components by keys."""

from __future__ import annotations

from typing import Any

from ....base import dtypes as kinds
from ....base.errors import GraphError
from ....frontend.queues.queue_components import HasComponents, tensors_of
from ....ir.apply import apply, build, convert_to_tensor
from ....ir.entry import public
from ....ir.operation import Operation
from ....ir.tensor import Tensor
from . import operations as _operations  # noqa: F401  declares the operation types used below


class Barrier(HasComponents):
    """Elements whose components arrive separately, each with the element's key; taken when complete.

    Elements leave in the order in which their keys came first. Inserting never waits.

    Parameters
    ----------
    types : dtype-like or list of them
        Of an element's components.
    shapes : list of shapes, optional
        Of the components.
    shared_name : str, optional
        Barriers of the same shared name are the same barrier in a session; by default the own name.
    name : str
        Name in the graph.

    Raises
    ------
    OpError
        When a step uses the barrier, if another barrier of this shared name has other types or shapes.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     barrier = tg.compat.tf1.Barrier(["float32", "float32"], shapes=[[], []])
    ...     puts = [barrier.insert_many(0, ["a", "b"], [1.0, 2.0]), barrier.insert_many(1, ["b", "a"], [20.0, 10.0])]
    ...     _, keys, (x, y) = barrier.take_many(2)
    >>> with tg.SyncSession(graph) as session:
    ...     for put in puts:
    ...         session.run(put)
    ...     [value.tolist() for value in session.run([keys, x, y])]
    [['a', 'b'], [1.0, 2.0], [10.0, 20.0]]
    """

    __slots__ = ()
    _what = "barrier"

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        super().__init__("BarrierHandle", types, shapes, None, shared_name, name)

    @property
    def barrier_ref(self) -> Tensor:
        """The resource handle."""
        return self.handle

    @public
    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an operation that inserts a component of the elements with the keys.

        Parameters
        ----------
        component_index : int
            Number of the component.
        keys : string vector
            A new key begins an element.
        values : Tensor of shape [n, ...]
            The components, in the order of the keys.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        GraphError
            If the component number is out of range, or the values do not fit.
        OpError
            When a step runs the operation, if a key has this component already; then no component is inserted.
        QueueClosed
            When a step runs the operation, if the barrier is closed and a key is new.
        """
        count = len(self.dtypes)
        if not isinstance(component_index, int) or not 0 <= component_index < count:
            raise GraphError(
                f"barrier '{self.name}' has no such component",
                wanted=f"0 to {count - 1}",
                got=component_index,
                hint="components count from 0, in the order of the barrier's types",
            )
        dtype, shape = self.dtypes[component_index], self.shapes[component_index]
        tensors = tensors_of([keys, values], [kinds.string, dtype])
        about = {"component": component_index, "dtype": dtype, "shape": shape}
        return build("BarrierInsertMany", [self.handle, *tensors], name=name or "insert_many", **about)

    @public
    def take_many(
        self,
        num_elements: Any,
        allow_small_batch: bool = False,
        wait_for_incomplete: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return the next `num_elements` complete elements, as soon as there are so many.

        Parameters
        ----------
        num_elements : int32 scalar
        allow_small_batch : bool
            True to take fewer elements from a closed barrier without enough.
        wait_for_incomplete : bool
            True to wait, in this case, for incomplete elements, which may still be completed.
        name : str, optional
            Name of the operation.

        Returns
        -------
        indices : int64 Tensor of shape [n]
            Number of the `insert_many` that brought each key: the first insertion ever has the smallest int64.
        keys : string Tensor of shape [n]
        values : list of Tensor of shape [n, ...]
            The components.

        Raises
        ------
        QueueClosed
            When a step runs the operation, if the barrier is closed and can never have enough elements.
        """
        op = build(
            "BarrierTakeMany",
            [self.handle, convert_to_tensor(num_elements, kinds.int32)],
            name=name or "take_many",
            dtypes_=self.dtypes,
            shapes=self.shapes,
            small_batch=bool(allow_small_batch),
            wait_for_incomplete=bool(wait_for_incomplete),
        )
        indices, keys, *values = op.outputs
        return indices, keys, values

    @public
    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the barrier to new keys; elements already begun may still be completed.

        Parameters
        ----------
        cancel_pending_enqueues : bool
            True to drop incomplete elements instead.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        QueueClosed
            When a step runs the operation, if the barrier is closed already and nothing is left to cancel.
        """
        return apply("BarrierClose", self.handle, name=name or "close", cancel_pending=bool(cancel_pending_enqueues))

    @public
    def ready_size(self, name: str | None = None) -> Tensor:
        """Return the number of complete elements, an int32 scalar."""
        return apply("BarrierSize", self.handle, name=name or "ready_size")

    @public
    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of incomplete elements, an int32 scalar."""
        size: Tensor = apply("BarrierSize", self.handle, name=name or "incomplete_size", incomplete=True)
        return size

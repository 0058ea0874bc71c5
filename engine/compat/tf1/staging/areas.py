"""Staging areas as in TensorFlow 1: elements prepared before the step that takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar
from typing import Any

import numpy as np

from ....base import dtypes as kinds
from ....base.docstrings import Family
from ....base.errors import GraphError
from ....frontend.queues.queue_components import HasComponents, tensors_of
from ....ir.apply import apply, build, convert_to_tensor
from ....ir.entry import public
from ....ir.fields import takes_fields
from ....ir.operation import Operation
from ....ir.tensor import Tensor
from ....ops.queues import operations as _operations  # noqa: F401  declares the operation types used below
from . import operations as _staging  # noqa: F401

_AREA = Family(
    {
        "dtypes": """dtype-like, list of them, or container
    Of an element's components. With a dict, named tuple, dataclass or registered container of dtypes, elements are
    put and returned in such a container.""",
        "shapes": """list of shapes, optional
    Of the components.""",
        "names": """list of str, optional
    Of the components; elements are dicts then.""",
        "shared_name": """str, optional
    Areas of the same shared name are the same area in a session; by default the area's own name.""",
        "capacity": """int
    Maximum number of elements in the area; 0 for no bound.""",
        "memory_limit": """int
    Maximum bytes in the area; 0 for no bound.""",
        "name": """str
    Name in the graph.""",
    },
    returns="",
    raises={
        "GraphError": "If `capacity` or `memory_limit` is negative.",
        "OpError": "When a step uses the area, if another area of this shared name differs.",
    },
)


class _Area(HasComponents):
    """Base class of staging areas."""

    _what = "staging area"

    capacity: int
    memory_limit: int

    def _require_bounds(self) -> None:
        if self.capacity < 0 or self.memory_limit < 0:
            raise GraphError(
                "a staging area has a negative bound",
                wanted="0 for no bound, or more",
                got=f"capacity={self.capacity}, memory_limit={self.memory_limit}",
                hint="leave capacity and memory_limit out for no bound",
            )


@_AREA.complete
@takes_fields
class StagingArea(_Area):
    """A queue between producers and consumers of elements: put waits for room, get for an element.

    Unlike a FIFOQueue, a staging area is never closed, and can be peeked into and cleared.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     area = tg.compat.tf1.StagingArea(["float32"], [[2]], capacity=1)
    ...     put, (x,) = area.put([[1.0, 2.0]]), area.get()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(put)
    ...     session.run(x)
    array([1., 2.], dtype=float32)
    """

    dtypes: InitVar[Any]
    shapes: InitVar[Any] = None
    names: InitVar[Any] = None
    shared_name: InitVar[str | None] = None
    capacity: int = 0
    memory_limit: int = 0
    name: str = "staging_area"

    def __post_init__(self, dtypes: Any, shapes: Any, names: Any, shared_name: str | None) -> None:
        self._require_bounds()
        # A queue without bound has -1, a staging area 0.
        bounds = {"capacity": self.capacity or -1, "capacity_bytes": self.memory_limit or -1}
        super().__init__("QueueHandle", dtypes, shapes, names, shared_name, self.name, order="staging", **bounds)

    @public
    def put(self, values: Any, name: str | None = None) -> Operation:
        """Return an operation that puts an element in, as soon as there is room.

        Parameters
        ----------
        values : tensor, list of tensors, or dict of them
            The components; a dict by name if the area has `names`.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        DtypeError, ShapeError, GraphError
            If the components do not fit.
        OpError
            When a step runs the operation, if the element alone takes more than `memory_limit`.
        """
        tensors = tensors_of(self.components_of(values), self.dtypes)
        return build("Enqueue", [self.handle, *tensors], name=name or "put", dtypes_=self.dtypes, shapes=self.shapes)

    @public
    def get(self, name: str | None = None) -> Any:
        """Return the components of the next element, a list, dict or container, as soon as there is one."""
        op = build("Dequeue", [self.handle], name=name or "get", dtypes_=self.dtypes, shapes=self.shapes)
        return self.named(op.outputs)

    @public
    def peek(self, index: Any = 0, name: str | None = None) -> Any:
        """Return the components of an element without removing the element, as soon as the index is occupied.

        Parameters
        ----------
        index : int32 scalar
            0 for the next element of `get`.
        name : str, optional
            Name of the operation.

        Returns
        -------
        list, dict or container of Tensor
            The components.

        Raises
        ------
        OpError
            When a step runs the operation, if the index is negative.
        """
        place = convert_to_tensor(index, kinds.int32)
        op = build("StagePeek", [self.handle, place], name=name or "peek", dtypes_=self.dtypes, shapes=self.shapes)
        return self.named(op.outputs)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements in the area, an int32 scalar."""
        return apply("QueueSize", self.handle, name=name or "size")

    @public
    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that drops all elements."""
        return apply("StageClear", self.handle, name=name or "clear")


@_AREA.complete
@takes_fields
class MapStagingArea(_Area):
    """A staging area of elements with keys, whose components can be put and got separately.

    An element can be got once all its components have been put, and is gone once all have been got. `capacity` counts
    complete elements; components put separately wait for memory only. Components got by a failed or cancelled step
    are lost.

    Parameters
    ----------
    ordered : bool
        True if `get` without a key returns the element of the smallest key; otherwise the first complete element.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     area = tg.compat.tf1.MapStagingArea(["float32"], [[]], ordered=True)
    ...     puts, (key, (x,)) = [area.put(2, [20.0]), area.put(1, [10.0])], area.get()
    >>> with tg.SyncSession(graph) as session:
    ...     for put in puts:
    ...         session.run(put)
    ...     [value.item() for value in session.run([key, x])]
    [1, 10.0]
    """

    _what = "map staging area"

    dtypes: InitVar[Any]
    shapes: InitVar[Any] = None
    names: InitVar[Any] = None
    shared_name: InitVar[str | None] = None
    ordered: bool = False
    capacity: int = 0
    memory_limit: int = 0
    name: str = "map_staging_area"

    def __post_init__(self, dtypes: Any, shapes: Any, names: Any, shared_name: str | None) -> None:
        self._require_bounds()
        # Here 0 stays 0 for no bound, as in the specs of map staging areas.
        about = {"ordered": bool(self.ordered), "capacity": self.capacity, "memory_limit": self.memory_limit}
        super().__init__("MapStageHandle", dtypes, shapes, names, shared_name, self.name, **about)

    @public
    def put(self, key: Any, vals: Any, indices: Sequence[int] | None = None, name: str | None = None) -> Operation:
        """Return an operation that puts components of a key's element in, as soon as there is room.

        Parameters
        ----------
        key : int64 scalar
        vals : tensor, list of tensors, or dict of them
            All components, or some: a dict of some if the area has `names`, else the components of `indices`.
        indices : list of int, optional
            Numbers of the components in `vals`.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        DtypeError, ShapeError, GraphError
            If the components do not fit.
        OpError
            When a step runs the operation, if the key already has a component in `vals`, or the components take more
            than `memory_limit`.
        """
        chosen, values = self._choose_components(vals, indices)
        about = self._attributes_of(chosen)
        tensors = tensors_of(values, about["dtypes_"])
        return build("MapStagePut", [self.handle, _convert_key(key), *tensors], name=name or "put", **about)

    @public
    def get(self, key: Any = None, indices: Sequence[int] | None = None, name: str | None = None) -> tuple[Tensor, Any]:
        """Return a key and components of its element, as soon as the element is complete.

        Parameters
        ----------
        key : int64 scalar, optional
            The next element's key by default.
        indices : list of int or of names, optional
            Components to get, as a list or dict; the others stay. All by default.
        name : str, optional
            Name of the operation.

        Returns
        -------
        key : Tensor
        components : list, dict or container of Tensor

        Raises
        ------
        OpError
            When a step runs the operation, if a component was got before.
        """
        chosen = self._convert_indices(indices)
        # An empty vector of keys asks for the next element.
        keys = np.zeros(0, np.int64) if key is None else apply("ExpandDims", _convert_key(key), axis=0)
        op = build(
            "MapStageGet",
            [self.handle, convert_to_tensor(keys, None if isinstance(keys, Tensor) else kinds.int64)],
            name=name or "get",
            **self._attributes_of(chosen),
        )
        return op.outputs[0], self.named(op.outputs[1:], None if indices is None else chosen)

    @public
    def peek(self, key: Any, indices: Sequence[int] | None = None, name: str | None = None) -> Any:
        """Return components of an element without removing them, as soon as the element is complete.

        Parameters
        ----------
        key : int64 scalar
        indices : list of int or of names, optional
            Components to return, as a list or dict; all by default.
        name : str, optional
            Name of the operation.

        Returns
        -------
        list, dict or container of Tensor
            The components.

        Raises
        ------
        OpError
            When a step runs the operation, if a component was got before.
        """
        chosen = self._convert_indices(indices)
        op = build("MapStagePeek", [self.handle, _convert_key(key)], name=name or "peek", **self._attributes_of(chosen))
        return self.named(op.outputs, None if indices is None else chosen)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return the number of complete elements, an int32 scalar."""
        return apply("MapStageSize", self.handle, name=name or "size")

    @public
    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of elements with missing components, an int32 scalar."""
        size: Tensor = apply("MapStageSize", self.handle, name=name or "incomplete_size", incomplete=True)
        return size

    @public
    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that drops all elements, also those with missing components."""
        return apply("MapStageClear", self.handle, name=name or "clear")

    def _attributes_of(self, indices: tuple[int, ...]) -> dict[str, Any]:
        """Return the attributes of an operation on some components."""
        dtypes, shapes = tuple(self.dtypes[i] for i in indices), tuple(self.shapes[i] for i in indices)
        return {"dtypes_": dtypes, "shapes": shapes, "indices": indices}

    def _choose_components(self, vals: Any, indices: Sequence[int] | None) -> tuple[tuple[int, ...], list[Any]]:
        """Return the numbers of the components to put, in ascending order, and the components."""
        # A dict names its components, so `indices` beside a dict are a mistake, which ends at the error below.
        if isinstance(vals, Mapping) and self.names is not None and set(vals) <= set(self.names) and vals:
            if indices is None:
                chosen = [i for i, name in enumerate(self.names) if name in vals]
                return tuple(chosen), [vals[self.names[i]] for i in chosen]
        elif indices is None:
            return tuple(range(len(self.dtypes))), self.components_of(vals)
        elif self.names is None and not isinstance(vals, Mapping):
            values = list(vals) if isinstance(vals, (list, tuple)) else [vals]
            if len(values) == len(indices):
                # Operations list their components in ascending order, whatever the order of `indices`.
                pairs = sorted(zip(indices, values, strict=True), key=lambda pair: pair[0])
                return self._convert_indices([i for i, _ in pairs]), [value for _, value in pairs]
        raise self.other_components(vals)

    def _convert_indices(self, given: Sequence[Any] | None) -> tuple[int, ...]:
        """Return the numbers of components; GraphError if a component is unknown or repeated, or none is given."""
        if given is None:
            return tuple(range(len(self.dtypes)))
        known = {name: i for i, name in enumerate(self.names or ())}
        # An unknown name stays a name here, and is refused below like a number out of range.
        chosen: tuple[Any, ...] = tuple(known.get(each, each) for each in given)
        if not chosen or len(set(chosen)) != len(chosen) or not set(chosen) <= set(range(len(self.dtypes))):
            raise GraphError(
                f"{self._what} '{self.name}' has no such components",
                wanted=f"different ones of {list(self.names or range(len(self.dtypes)))}",
                got=list(given),
                hint="give each of the components that are meant once",
            )
        return chosen


def _convert_key(key: Any) -> Tensor:
    # A literal becomes int64; a tensor keeps its dtype, which the operation checks.
    return convert_to_tensor(key, None if isinstance(key, Tensor) else kinds.int64)

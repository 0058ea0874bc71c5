"""Requests of steps: fetches in a structure, feeds as arrays, and results owned by their caller."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ...base import nest
from ...base.array_like import as_fed_array
from ...base.dtypes import DType
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...kernels.memory.pool import hand_over, needs_copy
from ...ops.sparse.sparse_tensor import SparseTensor
from ...ops.sparse.sparse_tensor import fed_parts as sparse_parts
from ...ops.support import copies
from .tensor_handle import TensorHandle


class Feed:
    """Conversion of a fed value to an array of its tensor's dtype.

    Parameters
    ----------
    tensor : Tensor
        The fed tensor.
    """

    __slots__ = ("_dims", "_dtype", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor = tensor
        self._dtype = tensor.dtype.numpy
        self._dims = None if tensor.shape.rank is None else tensor.shape.dims

    def convert(self, value: Any) -> np.ndarray[Any, Any]:
        """Return a fitting array, `value` itself if possible; DtypeError or ShapeError if conversion is impossible."""
        if type(value) is np.ndarray and self.takes(value):
            return value
        return convert_feed(self.tensor, value)

    def takes(self, array: np.ndarray[Any, Any]) -> bool:
        """Return True if an array needs no conversion."""
        # By identity, which is faster: an equal dtype of another object only takes the way through `convert_feed`.
        shape = array.shape
        return array.dtype is self._dtype and (shape == self._dims or self._fits_shape(shape))

    def is_long(self, value: Any) -> bool:
        """Return True if `value` is a large array that `convert` copies, which takes a while."""
        return type(value) is np.ndarray and value.dtype is not self._dtype and value.nbytes >= copies.LARGE

    def _fits_shape(self, shape: tuple[int, ...]) -> bool:
        """Return True if a shape matches the known dimensions of the tensor."""
        if self._dims is None:
            return True
        if len(self._dims) != len(shape):
            return False
        for wanted, size in zip(self._dims, shape):  # noqa: SIM110  a generator costs more than the comparison
            if wanted is not None and wanted != size:
                return False
        return True


class Request:
    """Fetches resolved to graph elements, with the structure of their values.

    Parameters
    ----------
    structure : object
        The user's structure of fetches; not kept, so that the user may change it afterwards.
    elements : sequence of Tensor or Operation
        Graph elements of its leaves, in order.

    Attributes
    ----------
    tensors : tuple of Tensor
        The fetched tensors, each once.
    targets : tuple of Operation
        The operations to run, each once.
    has_handles : bool
        True if some of the tensors are handles and not values.
    """

    __slots__ = ("_may_be_large", "_own", "_pack", "_places", "has_handles", "targets", "tensors")

    def __init__(self, structure: Any, elements: Sequence[Tensor | Operation]) -> None:
        self.tensors: tuple[Tensor, ...] = tuple(dict.fromkeys(e for e in elements if isinstance(e, Tensor)))
        self.targets: tuple[Operation, ...] = tuple(dict.fromkeys(e for e in elements if isinstance(e, Operation)))
        place = {tensor: k for k, tensor in enumerate(self.tensors)}
        self._places = [place[e] if isinstance(e, Tensor) else None for e in elements]
        # A tensor fetched twice is copied, so that the caller may change either result.
        counts = Counter(self._places)
        self._may_be_large = [(k, counts[k] > 1) for k, tensor in enumerate(self.tensors) if _may_be_large(tensor)]
        self._pack = _make_packer(structure)
        self.has_handles: bool = not all(tensor.dtype.is_value for tensor in self.tensors)
        self._own = _own_or_handle if self.has_handles else own

    def copies_much(self, values: list[Any]) -> bool:
        """Return True if packing copies large arrays, which takes a while."""
        for place, repeated in self._may_be_large:
            if getattr(values[place], "nbytes", 0) >= copies.LARGE and (repeated or _is_copied(values, place)):
                return True
        return False

    def pack(self, values: list[Any]) -> Any:
        """Return the structure of the fetches with `values`, a value for each of `tensors`, and None for operations."""
        own = self._own
        return self._pack([None if place is None else own(values, place) for place in self._places])


def _may_be_large(tensor: Tensor) -> bool:
    count, dtype = tensor.shape.num_elements, tensor.dtype.numpy
    return count is None or dtype is None or count * dtype.itemsize >= copies.LARGE


def _make_packer(structure: Any) -> Callable[[list[Any]], Any]:
    """Return a function to arrange a list of leaves in the structure of the fetches."""
    if not nest.is_container(structure):
        return itemgetter(0)
    if type(structure) in (list, tuple) and not any(map(nest.is_container, structure)):
        return type(structure)
    return nest.make_packer(structure)


def make_request(graph: Graph, fetches: Any) -> Request:
    """Resolve fetches (tensors, operations, variables, names, in any structure).

    Raises
    ------
    GraphError
        If a fetch is of another graph, or inside a branch or a loop.
    """
    elements = tuple(graph.as_graph_element(leaf) for leaf in nest.flatten(fetches))
    for element in elements:
        if not graph.is_fetchable(element):
            _refuse_element(element, "fetched")
    return Request(fetches, elements)


def fed_parts(key: Any, value: Any = None) -> list[tuple[Any, Any]]:
    """Return pairs of a tensor and its fed value, where a structure of tensors is fed a structure of values.

    Parameters
    ----------
    key : Tensor, Variable, name or structure of them
    value : array-like or structure, optional
        None if only the tensors matter.

    Raises
    ------
    GraphError
        If the structures of the key and the value differ.
    """
    if isinstance(key, Tensor):
        return [(key, value)]
    if isinstance(key, SparseTensor):
        return sparse_parts(key, value)
    parts = nest.children(key)
    if parts is None:
        return [(key, value)]
    others = [("", None)] * len(parts) if value is None else nest.children(value)
    if others is None or len(others) != len(parts):
        raise GraphError(
            "a structure of tensors is fed a structure of values",
            wanted=f"a value for each of {[label for label, _ in parts]}",
            got=value,
            hint="feed each tensor by itself",
        )
    return [pair for (_, part), (_, other) in zip(parts, others, strict=True) for pair in fed_parts(part, other)]


def resolve_feeds(graph: Graph, keys: Sequence[Any]) -> tuple[Tensor, ...]:
    """Resolve the tensors to feed, with structures flattened.

    Raises
    ------
    GraphError
        If a key is no tensor of this graph, is inside a branch or a loop, or is named twice.
    """
    tensors: dict[Tensor, None] = {}
    for key in (part for given in keys for part, _ in fed_parts(given)):
        tensor = graph.fed_tensor(key)
        if not isinstance(tensor, Tensor):
            names = [output.name for output in tensor.outputs]
            raise GraphError(
                "only tensors can be fed",
                got=key,
                operation=tensor,
                hint=f"feed one of its outputs, {', '.join(names)}" if names else "it gives none that could be fed",
            )
        if not graph.is_feedable(tensor):
            _refuse_element(tensor, "fed")
        if tensor in tensors:
            raise GraphError(
                f"{tensor.name} is fed twice", got=key, operation=tensor.op, hint="give one value for each tensor"
            )
        tensors[tensor] = None
    return tuple(tensors)


def _refuse_element(element: Tensor | Operation, verb: str) -> None:
    """Raise the GraphError of an element that may not be fetched or fed."""
    op = element.op if isinstance(element, Tensor) else element
    if verb == "fed" and element in op.graph.unfeedable:
        raise GraphError(
            f"{element.name} may not be {verb}: its value was used while the graph was built",
            operation=op,
            hint="what was built from it, as an axis or a shape, keeps that value; use placeholder_with_default for a "
            "value that a step may change",
        )
    inside = op.region is not op.graph.root
    raise GraphError(
        f"{element.name} may not be {verb}",
        wanted="a tensor of the graph's root region",
        got=f"one inside the {op.region.path()}" if inside else f"a {element.dtype}",  # type: ignore[union-attr]
        operation=op,
        hint="return it from the branch or loop body and use the result" if inside else "fetch what is read from it",
    )


def convert_feed(tensor: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """Convert a fed value to an array; DtypeError or ShapeError if the value does not fit the tensor."""
    try:
        array = (
            _handle_value(value, tensor.dtype) if isinstance(value, TensorHandle) else as_fed_array(value, tensor.dtype)
        )
    except DtypeError as error:
        raise DtypeError(
            f"the value fed for {tensor.name} has the wrong dtype",
            wanted=tensor.dtype,
            got=error.got,
            operation=tensor.op,
            hint=error.hint,
        ) from error
    if not tensor.shape.is_compatible_with(Shape(array.shape)):
        raise ShapeError(
            f"the value fed for {tensor.name} has the wrong shape",
            wanted=tensor.shape,
            got=list(array.shape),
            operation=tensor.op,
            hint="reshape it, or declare the dimensions that change as None",
        )
    return array


def _handle_value(handle: TensorHandle, dtype: DType) -> Any:
    """Return the value of a handle, on whichever device; DtypeError for another dtype."""
    if handle.dtype is not dtype:
        raise DtypeError("a handle is of another dtype", wanted=dtype, got=handle.dtype, hint="cast what is kept")
    return handle.value


def feed_values(feeds: Mapping[Any, Any], graph: Graph) -> tuple[tuple[Tensor, ...], list[Any]]:
    """Split a feeds mapping into tensors and values, with structures flattened."""
    if not isinstance(feeds, Mapping):
        raise GraphError(
            "values are fed by their tensors",
            wanted="a dict of tensors, or their names, to values",
            got=f"{type(feeds).__name__}: {feeds!r:.60}",
            hint="run(y, {x: value}); make_step(y, feeds=[x]) takes values in order",
        )
    pairs = [pair for key, value in feeds.items() for pair in fed_parts(key, value)]
    return resolve_feeds(graph, [key for key, _ in pairs]), [value for _, value in pairs]


def own(values: list[Any], place: int) -> np.ndarray[Any, Any]:
    """Return an array for the caller to keep and change: the value itself if only `values` refers to it, or a copy."""
    alone = _count_references(values, place) <= _ALONE
    value = values[place]
    return hand_over(value) if alone else value.copy()  # type: ignore[no-any-return]


def _own_or_handle(values: list[Any], place: int) -> Any:
    return own(values, place) if isinstance(values[place], np.ndarray) else values[place]


def _is_copied(values: list[Any], place: int) -> bool:
    return _count_references(values, place) > _ALONE or needs_copy(values[place])


def _count_references(values: list[Any], place: int) -> int:
    # Always from here, so that the interpreter's own references are the same as those of `_ALONE`.
    return sys.getrefcount(values[place])


_ALONE = _count_references([object()], 0)

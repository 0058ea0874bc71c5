"""Feeds of steps: the fed tensors, in structures, and the conversion of their values to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base import nest
from ...base.array_like import as_fed_array
from ...base.dtypes import DType
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from ...ops.sparse.sparse_tensor import SparseTensor
from ...ops.sparse.sparse_tensor import fed_parts as sparse_parts
from ...ops.support import copies
from .request import refuse_element
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


def split_feeds(graph: Graph, feeds: Mapping[Any, Any]) -> tuple[tuple[Tensor, ...], list[Any]]:
    """Split a feeds mapping into tensors and values, with structures flattened."""
    if not isinstance(feeds, Mapping):
        raise GraphError(
            "values are fed by their tensors",
            wanted="a dict of tensors, or their names, to values",
            got=f"{type(feeds).__name__}: {feeds!r:.60}",
            hint="run(y, {x: value}); make_step(y, feeds=[x]) takes values in order",
        )
    pairs = [pair for key, value in feeds.items() for pair in fed_parts(key, value)]
    return _resolve_leaves(graph, [key for key, _ in pairs]), [value for _, value in pairs]


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
    return _resolve_leaves(graph, [part for key in keys for part, _ in fed_parts(key)])


def _resolve_leaves(graph: Graph, keys: Sequence[Any]) -> tuple[Tensor, ...]:
    """Resolve the tensors to feed, named each by itself; see `resolve_feeds`."""
    tensors: dict[Tensor, None] = {}
    for key in keys:
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
            refuse_element(tensor, "fed")
        if tensor in tensors:
            raise GraphError(
                f"{tensor.name} is fed twice", got=key, operation=tensor.op, hint="give one value for each tensor"
            )
        tensors[tensor] = None
    return tuple(tensors)


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

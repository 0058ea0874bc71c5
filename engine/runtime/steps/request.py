"""Requests of steps: fetches in a structure, and results owned by their caller."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ...base import nest
from ...base.errors import GraphError
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...kernels.memory.pool import hand_over, needs_copy
from ...ops.support import copies


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
            refuse_element(element, "fetched")
    return Request(fetches, elements)


def refuse_element(element: Tensor | Operation, verb: str) -> None:
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

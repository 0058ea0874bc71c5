"""A compiled step: a Plan, what is fed into it and how its results are given back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import nest
from ..base.dtypes import as_array
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.settings import Settings
from ..base.shapes import Shape
from ..compile import compile_plan, pruned
from ..ir.graph import Graph
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..kernels.scheduler.plan import CompiledPlan
from ..plan.plan import Plan


@dataclass(frozen=True)
class CompiledStep:
    """What a session keeps of one combination of fetches and feeds."""

    plan: Plan
    machine: CompiledPlan
    feeds: tuple[Tensor, ...]
    tensors: tuple[Tensor, ...]

    def convert(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Return the fed values as arrays, checked against dtype and static shape."""
        return [convert_feed(t, v) for t, v in zip(self.feeds, values, strict=True)]


@dataclass(frozen=True)
class Request:
    """Fetches resolved to graph elements, with the structure to give them back in."""

    structure: Any
    elements: tuple[Tensor | Operation, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The fetched tensors, each once."""
        return tuple(dict.fromkeys(e for e in self.elements if isinstance(e, Tensor)))

    @property
    def targets(self) -> tuple[Operation, ...]:
        """The operations to run."""
        return tuple(dict.fromkeys(e for e in self.elements if isinstance(e, Operation)))

    def pack(self, tensors: Sequence[Tensor], values: Sequence[Any]) -> Any:
        """Put values into the structure of the fetches; an operation gives None."""
        found = dict(zip(tensors, map(own, values), strict=True))
        leaves = [found[e] if isinstance(e, Tensor) else None for e in self.elements]
        if nest.children(self.structure) is None:
            return leaves[0]
        return nest.pack_as(self.structure, leaves)


def make_request(graph: Graph, fetches: Any) -> Request:
    """Resolve fetches (tensors, operations, variables, names, in any structure).

    Raises
    ------
    GraphError
        If one is of another graph, or inside a branch or a loop.
    """
    elements = tuple(graph.as_graph_element(leaf) for leaf in nest.flatten(fetches))
    for element in elements:
        if not graph.is_fetchable(element):
            _refuse(element, "fetched")
    return Request(fetches, elements)


def resolve_feeds(graph: Graph, keys: Sequence[Any]) -> tuple[Tensor, ...]:
    """Resolve the tensors to feed."""
    tensors = []
    for key in keys:
        tensor = graph.as_graph_element(key)
        if not isinstance(tensor, Tensor):
            raise GraphError("only tensors can be fed", got=key)
        if not graph.is_feedable(tensor):
            _refuse(tensor, "fed")
        tensors.append(tensor)
    return tuple(tensors)


def _refuse(element: Tensor | Operation, verb: str) -> None:
    op = element.op if isinstance(element, Tensor) else element
    inside = op.region is not op.graph.root
    raise GraphError(
        f"{element.name} may not be {verb}",
        wanted="a tensor of the graph's root region",
        got=f"one inside the {op.region.path()}" if inside else f"a {element.dtype}",  # type: ignore[union-attr]
        operation=op,
        hint="return it from the branch or loop body and use the result" if inside else "fetch what is read from it",
    )


def compile_step(graph: Graph, request: Request, feeds: tuple[Tensor, ...], settings: Settings) -> CompiledStep:
    """Compile fetches and feeds into a step.

    Raises
    ------
    GraphError
        If a placeholder that the fetches need is not fed, or a static check fails.
    """
    tensors = request.tensors
    for op in pruned(graph, feeds, tensors, request.targets).graph.root.walk():
        if op.type == "Placeholder":
            raise GraphError(
                f"you must feed a value for placeholder {op.name}",
                wanted=f"{op.outputs[0].dtype}{op.outputs[0].shape}", operation=op, hint="pass it in feeds={...}",
            )  # fmt: skip
    plan = compile_plan(graph, feeds, tensors, request.targets, settings)
    return CompiledStep(plan, CompiledPlan(plan), feeds, tensors)


def convert_feed(tensor: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """Convert one fed value; DtypeError or ShapeError when it does not fit the tensor."""
    try:
        array = as_array(value, tensor.dtype)
    except DtypeError as error:
        raise DtypeError(
            f"the value fed for {tensor.name} has the wrong dtype", wanted=tensor.dtype, got=error.got,
            operation=tensor.op, hint=f"convert it with numpy.asarray(value, '{tensor.dtype}')",
        ) from error  # fmt: skip
    if not tensor.shape.is_compatible_with(Shape(array.shape)):
        raise ShapeError(
            f"the value fed for {tensor.name} has the wrong shape", wanted=tensor.shape, got=list(array.shape),
            operation=tensor.op,
        )  # fmt: skip
    return array


def feed_values(feeds: Mapping[Any, Any], graph: Graph) -> tuple[tuple[Tensor, ...], list[Any]]:
    """Split a feeds mapping into tensors and values."""
    return resolve_feeds(graph, list(feeds)), list(feeds.values())


_ALONE = sys.getrefcount(object()) + 3


def own(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array the caller may keep and change: `value` itself if nobody else holds its memory."""
    if value.base is None and value.flags.writeable and value.flags.owndata and sys.getrefcount(value) <= _ALONE:
        return value
    return value.copy()

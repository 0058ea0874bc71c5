"""Graphs as values of pickle and copy: flat, because a long chain of operations would need deep recursion.

A graph is rebuilt from a list of its operations, in which they refer to each other by their places. All other contents
(attributes, variables, facts derived of tensors) follow when the operations exist, and refer to them by their names;
so do tensors, operations and regions held outside the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.dtypes import DType
from ..base.shapes import Shape
from ..base.source_lines import Source
from .builder import restore_operation
from .notes import NO_NOTES, PassNotes
from .operation import Operation, Origin
from .region import Region
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Graph

Place = tuple[int, int]  # a tensor: the number of its operation, and its output index


class Block(NamedTuple):
    """A region, described by numbers of regions and operations."""

    parent: int  # -1 for the root
    role: str
    operations: list[int]
    params: list[Place]
    results: list[Place]


class Node(NamedTuple):
    """An operation without its attributes, described by numbers of regions and operations."""

    type: str
    name: str
    region: int
    outputs: list[tuple[DType, Shape, list[int]]]  # each with the operations that use it
    inputs: list[Place]
    controls: list[int]
    regions: list[int]
    device: str
    source: Source | None
    origin: Origin | None


def skeleton(graph: Graph) -> tuple[list[Block], list[Node]]:
    """Return descriptions of the regions and operations of a graph, without attributes."""
    operations = graph.get_operations()
    regions = _list_regions(graph, operations)
    of_op = {op: i for i, op in enumerate(operations)}
    of_region = {region: i for i, region in enumerate(regions)}

    def numbers_of(found: Iterable[Operation]) -> list[int]:
        return [of_op[op] for op in found]

    def places_of(tensors: Iterable[Tensor]) -> list[Place]:
        return [(of_op[t.op], t.index) for t in tensors]

    blocks = [
        Block(
            -1 if r.parent is None else of_region[r.parent],
            r.role,
            numbers_of(r.operations),
            places_of(r.params),
            places_of(r.results),
        )
        for r in regions
    ]
    nodes = [
        Node(
            op.type,
            op.name,
            of_region[op.region],
            [(t.dtype, t.shape, numbers_of(t._consumers)) for t in op.outputs],
            places_of(op.inputs),
            numbers_of(op.control_inputs),
            [of_region[inner] for inner in op.regions],
            op.device,
            op.source,
            op.origin,
        )
        for op in operations
    ]
    return blocks, nodes


def rebuild(graph: Graph, blocks: Sequence[Block], nodes: Sequence[Node]) -> None:
    """Fill an empty graph from the result of `skeleton`."""
    regions = [graph.root]
    # The root exists already; the list has each region after its parent.
    for block in blocks[1:]:
        regions.append(Region(graph, regions[block.parent], block.role))
    operations = [
        restore_operation(regions[n.region], n.type, n.name, [(dtype, shape) for dtype, shape, _ in n.outputs])
        for n in nodes
    ]
    # Only now are inputs connected: back edges and saved values refer to operations further down the list.
    for op, node in zip(operations, nodes, strict=True):
        _connect_operation(op, node, operations, regions)
    for region, block in zip(regions, blocks, strict=True):
        region.operations = [operations[i] for i in block.operations]
        region.params, region.results = _tensors_at(block.params, operations), _tensors_at(block.results, operations)
        region._places = {param: i for i, param in enumerate(region.params)}


def _connect_operation(op: Operation, node: Node, operations: Sequence[Operation], regions: Sequence[Region]) -> None:
    """Connect an operation without inputs to its sources, regions and consumers, as its node describes."""
    op.inputs = _tensors_at(node.inputs, operations)
    op.control_inputs = [operations[i] for i in node.controls]
    op.regions = tuple(regions[i] for i in node.regions)
    op.device, op.source, op.origin = node.device, node.source, node.origin
    for region in op.regions:
        region.owner = op
    for tensor, (_, _, users) in zip(op.outputs, node.outputs, strict=True):
        tensor._consumers = {operations[i]: None for i in users}


def _tensors_at(places: Iterable[Place], operations: Sequence[Operation]) -> list[Tensor]:
    return [operations[i].outputs[k] for i, k in places]


# Not pickled: the receiving process makes these anew, since no thread builds an unpickled graph.
_OF_PROCESS = ("root", "_by_name", "_building", "_builder", "guarded")


def details(graph: Graph) -> dict[str, Any]:
    """Return the rest of a graph's state, which may refer to its tensors, operations and regions."""
    operations = graph.get_operations()
    return {
        "graph": {key: value for key, value in vars(graph).items() if key not in _OF_PROCESS},
        "attrs": [op.attrs for op in operations],
        "notes": [(i, op.notes) for i, op in enumerate(operations) if op.notes is not NO_NOTES],
        "derived": [(t, t._derived) for op in operations for t in op.outputs if t._derived],
        "regions": [(r.resolver, r.reads, r.written) for r in _list_regions(graph, operations)],
    }


def restore(graph: Graph, found: dict[str, Any]) -> None:
    """Set the state returned by `details` on a graph made by `rebuild`."""
    vars(graph).update(found["graph"])
    # No thread builds the copy, but a finalized graph still refuses changes.
    graph.guarded = graph.finalized
    operations = graph.get_operations()
    for op, attrs in zip(operations, found["attrs"], strict=True):
        op.attrs = attrs
    if "notes" in found:
        for i, notes in found["notes"]:
            operations[i].notes = notes
    else:
        _move_old_notes(operations)
    for tensor, derived in found["derived"]:
        tensor._derived = derived
    for region, noted in zip(_list_regions(graph, operations), found["regions"], strict=True):
        region.resolver, region.reads, region.written = noted


def _move_old_notes(operations: Iterable[Operation]) -> None:
    """Move the notes of a graph pickled before there were notes: they stand among the attributes."""
    for op in operations:
        old = [field.name for field in fields(PassNotes) if field.name in op.attrs.keys() - op.definition.attrs.keys()]
        if old:
            op.note(**{name: op.attrs.pop(name) for name in old})


def inner_region(op: Operation, index: int) -> Region:
    """Return a region owned by an operation."""
    return op.regions[index]


def _list_regions(graph: Graph, operations: Iterable[Operation]) -> list[Region]:
    """Return the regions of a graph, each after the region around it."""
    return [graph.root, *(region for op in operations for region in op.regions)]

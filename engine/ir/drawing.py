"""A graph as Graphviz DOT: a box for each operation, a frame around each branch and loop body."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .graph import Graph
from .operation import Operation
from .region import Region

_INDENT = "  "


def to_dot(graph: Graph) -> str:
    """Return the text for Graphviz; see :meth:`tagloom.Graph.to_dot`."""
    lines = [
        "digraph tagloom {",
        "  node [shape=box, fontsize=10];",
        "  edge [fontsize=8];",
        *_draw_region(graph.root, 1),
    ]
    lines += [_INDENT + edge for op in graph.get_operations() for edge in edges(op)]
    return "\n".join([*lines, "}"]) + "\n"


def edges(op: Operation, prefix: str = "") -> Iterator[str]:
    """Yield the edges to an operation, whose name in the drawing begins with `prefix`.

    Data edges are solid and labelled with dtype and shape, control edges are dashed; edges from the results of a
    region to its owner are dotted.
    """

    def draw_edge(source: Operation, style: str) -> str:
        # A JSON string is a quoted string of DOT as well.
        return f"{json.dumps(prefix + source.name)} -> {json.dumps(prefix + op.name)} [{style}];"

    for tensor in op.inputs:
        yield draw_edge(tensor.op, f"label={json.dumps(f'{tensor.dtype}{tensor.shape}')}")
    for control in op.control_inputs:
        yield draw_edge(control, "style=dashed")
    # Results, which leave the branch or body, have dotted edges to its owner.
    for region in op.regions:
        for tensor in region.results:
            yield draw_edge(tensor.op, f"style=dotted, label={json.dumps(f'{tensor.dtype}{tensor.shape}')}")


def _draw_region(region: Region, depth: int) -> Iterator[str]:
    """Yield the boxes of a region's operations, and a cluster for each region inside, indented by depth."""
    pad = _INDENT * depth
    for op in region.operations:
        yield f"{pad}{json.dumps(op.name)} [label={json.dumps(f'{op.name} ({op.type})')}];"
        for k, inner in enumerate(op.regions):
            # Graphviz draws a frame only around subgraphs whose names begin with "cluster".
            yield f"{pad}subgraph {json.dumps(f'cluster {op.name} {k}')} {{"
            yield f"{pad}{_INDENT}label={json.dumps(f'{op.name}: {inner.role}')};"
            yield from _draw_region(inner, depth + 1)
            yield f"{pad}}}"

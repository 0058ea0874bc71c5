"""A graph as an HTML page: layers of operations, and frames for branches and loop bodies."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..base.pages.page import make_frame, make_page
from ..base.pages.tables import make_table, make_text
from ..base.shapes import Shape
from .definition import definition_of
from .graph import Graph
from .operation import Operation
from .tensor import Tensor
from .text_values import format_value
from .traits import PRIMITIVES, STRUCTURED, Effect, Role

_LONGEST = 200  # characters of an attribute
_ELEMENTS = 64  # largest array written out in full
_BRIEF = 16  # characters of a constant in its box
_IN_NOTEBOOKS = 2000  # operations that a notebook shows, since it keeps the page in its file
_INPUTS = (Role.PLACEHOLDER, Role.FEED, Role.PARTIAL_FEED, Role.PARAM, Role.RECV)


def to_page(graph: Graph, title: str = "Graph") -> str:
    """Return the page; see :meth:`tagloom.Graph.save`."""
    operations = graph.get_operations()
    places = {op: k for k, op in enumerate(operations)}
    regions = [graph.root, *(inner for op in operations for inner in op.regions)]
    owned: dict[Operation, list[int]] = {}
    for number, region in enumerate(regions):
        if region.owner is not None:
            owned.setdefault(region.owner, []).append(number)
    data = {
        "operations": [_describe_operation(op, places, owned.get(op, [])) for op in operations],
        "regions": [
            {
                "role": region.role,
                "owner": -1 if region.owner is None else places[region.owner],
                "operations": [places[op] for op in region.operations],
                "results": [[places[tensor.op], tensor.index] for tensor in region.results],
            }
            for region in regions
        ],
    }
    return make_page("graph", title, _summarize_graph(graph, operations), data)


def to_html(graph: Graph) -> str:
    """Return HTML for a notebook: the page in a frame, or a table of the most frequent types for a large graph."""
    if graph.num_operations <= _IN_NOTEBOOKS:
        return make_frame(to_page(graph), 520)
    counts = Counter(op.type for op in graph.get_operations())
    # Equal counts are ordered by name, so equal graphs make equal pages.
    largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:20]
    table = make_table(f"{graph!r}, the most frequent types", ["type", "operations"], largest)
    return table + make_text("graph.save('graph.html') writes a page of all operations")


def _summarize_graph(graph: Graph, operations: list[Operation]) -> str:
    loops, conditions = (sum(test) for test in ([op.is_while for op in operations], [op.is_cond for op in operations]))
    counts = ((len(operations), "operation"), (loops, "loop"), (conditions, "condition"))
    return ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for n, word in counts if n or word == "operation")


def _describe_operation(op: Operation, places: dict[Operation, int], regions: list[int]) -> dict[str, Any]:
    """Return the JSON entry of an operation; other operations are referred to by their places."""
    found = {
        "name": op.name,
        "type": op.type,
        "kind": _colour_of(op),
        "device": op.device,
        "outputs": [f"{tensor.dtype}{tensor.shape}" for tensor in op.outputs],
        "inputs": [[places[tensor.op], tensor.index] for tensor in op.inputs],
        "controls": [places[control] for control in op.control_inputs],
        "attributes": [[name, _shorten_attribute(value)] for name, value in op.attrs.items() if value is not None],
        "regions": regions,
        "source": str(op.source) if op.source is not None else "",
    }
    if op.is_constant:
        # An array's text is ``float32[2]{1.0, 2.0}``; the box shows the elements alone.
        text = _shorten_attribute(op.attrs["value"]).partition("{")[2].rstrip("}")
        found["brief"] = text if 0 < len(text) <= _BRIEF else ""
    if op.is_param:
        found["label"] = op.notes.label or ""
    return found


def _colour_of(op: Operation) -> str:
    """Return the name of an operation's colour, by the main distinctions for readers of a graph."""
    definition = definition_of(op.type)
    role, effects = definition.role, definition.effects
    if role in _INPUTS:
        return "input"
    if role is Role.CONST:
        return "constant"
    if role in STRUCTURED or role in PRIMITIVES:
        return "flow"
    if effects & (Effect.PYTHON | Effect.SHOWS | Effect.WAITS):
        return "effect"
    return "state" if effects & (Effect.READS | Effect.WRITES) else "compute"


def _shorten_attribute(value: object) -> str:
    """Return an attribute's text, shortened; objects by their type, so equal graphs make equal pages."""
    if isinstance(value, Tensor):
        return value.name
    if isinstance(value, np.ndarray) and value.size > _ELEMENTS:
        return f"{value.dtype}{Shape(value.shape)}"
    text = format_value(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

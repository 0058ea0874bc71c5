"""A partitioned program as Graphviz DOT: a box for each device, bold edges for channels."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...ir.drawing import edges
from ...ir.operation import Operation
from ...ir.program import Program
from .partitioned import Partitioned


def to_dot(partitioned: Partitioned) -> str:
    """Return the program in Graphviz's language, for ``dot -Tsvg``.

    Data edges are solid, with dtype and shape, control edges are dashed; a channel is bold, and grey if it is silent
    when dead.
    """
    lines = ["digraph partitioned {", "  node [shape=box, fontsize=10];"]
    ends: dict[tuple[str, int], str] = {}
    for i, (device, program) in enumerate(partitioned.programs.items()):
        lines += [f"  subgraph cluster_{i} {{", f"    label={json.dumps(str(device))};"]
        for op in program.graph.get_operations():
            lines.append(f"    {_quote_name(i, op)} [label={json.dumps(f'{op.name} ({op.type})')}];")
            if op.type in ("Send", "Recv"):
                ends[op.type, op.attrs["channel"]] = _quote_name(i, op)
        lines += [*_draw_edges(i, program), "  }"]
    for channel in partitioned.channels:
        style = f'style=bold, label="{channel.number}"' + (", color=grey" if channel.is_dead_silent else "")
        lines.append(f"  {ends['Send', channel.number]} -> {ends['Recv', channel.number]} [{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _draw_edges(part: int, program: Program) -> Iterator[str]:
    return (f"    {edge}" for op in program.graph.get_operations() for edge in edges(op, f"{part}/"))


def _quote_name(part: int, op: Operation) -> str:
    return json.dumps(f"{part}/{op.name}")

"""Mark what a step takes and only gives to its caller: it goes back if the caller does not get it.

A step that only fetches what it takes from a queue is a wait: where that is cancelled nothing was taken.
"""

from __future__ import annotations

from ..ir.program import Program

MARK = "only_fetched"  # attribute of what takes


def mark_fetched(program: Program) -> Program:
    """Mark what takes values that no operation reads, or waits for; the given program is changed."""
    operations = program.graph.root.operations
    awaited = {source for op in program.graph.root.walk() for source in op.control_inputs}
    for op in operations:
        if MARK in op.attrs:
            op.attrs[MARK] = op not in awaited and not any(tensor._consumers for tensor in op.outputs)
    return program

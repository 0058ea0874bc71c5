"""Move constants out of loops: made once, they come to each iteration as invariants."""

from __future__ import annotations

from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region


def hoist_constants(program: Program) -> Program:
    """Return the program with constants in front of the outermost loop they are in; the given one is changed."""
    operations = list(program.graph.root.walk())
    pinned = {control for op in operations for control in op.control_inputs} | set(program.targets)
    for op in reversed(operations):  # inner loops first
        if op.is_while:
            for region in op.regions:
                _lift([c for c in region.operations if c.is_constant and c not in pinned], region, op.region)
    return program


def _lift(operations: list[Operation], source: Region, target: Region) -> None:
    moving = {op for op in operations if not op.control_inputs}
    source.operations = [op for op in source.operations if op not in moving]
    target.operations = [op for op in operations if op in moving] + target.operations
    for op in moving:
        op.region = target

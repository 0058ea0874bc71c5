"""Compute with a value instead of with what an assignment of it gives back.

An optimizer updates its moments and goes on with the new ones: ``m = slot.assign(...)``, then ``w.assign_sub(rate *
m)``. The result of an assignment is the value assigned, so elementwise operations may take that and be fused with
those that made it. The assignment stays, as a target of the program: what needed its result needed its effect.
"""

from __future__ import annotations

from ..ir.operation import Operation
from ..ir.rewrite import Program
from .steps import can_fuse


def read_assigned(program: Program) -> Program:
    """Return the program with elementwise operations reading what is assigned; the given one is changed."""
    moved = [op for op in program.graph.root.operations if op.type == "AssignVariable" and _bypass(op)]
    program.targets = [*program.targets, *(op for op in moved if op not in program.targets)]
    return program


def _bypass(op: Operation) -> bool:
    """Let the elementwise users of an assignment read its value; say whether there are any.

    An assignment with control inputs may be dead while its value is not.
    """
    users = [c for c in op.outputs[0]._consumers if c.region is op.region and can_fuse(c)]
    if op.control_inputs or op.inputs[1].shape != op.outputs[0].shape:
        return False
    for user in list(users):
        for i, tensor in enumerate(user.inputs):
            if tensor is op.outputs[0]:
                user.update_input(i, op.inputs[1])
    return bool(users)

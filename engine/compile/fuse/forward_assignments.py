"""Compute with a value instead of with what an assignment of it gives back.

An optimizer updates its moments and goes on with the new ones: ``m = slot.assign(...)``, then ``w.assign_sub(rate *
m)``. The result of an assignment is the value assigned, so elementwise operations may take that and be fused with
those that made it. The assignment stays, as a target of the program, and what has effects further on still waits for
it: another assignment, or a read of the variable.

See docs/design/0018-the-house.md, 4.
"""

from __future__ import annotations

from collections import defaultdict

from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.traits import PRIMITIVES, Role
from .rules import can_fuse

# A dead assignment must not hold back what a Merge makes live again; what is inside a loop or branch is not followed.
_FLOW = PRIMITIVES | {Role.MAYBE_GET}
Controls = dict[Operation, list[Operation]]
Waits = list[tuple[Operation, Operation]]


def forward_assignments(program: Program) -> Program:
    """Return the program in which elementwise operations read what is assigned; the given one is changed."""
    controls: Controls = defaultdict(list)
    for op in program.graph.root.walk():
        for control in op.control_inputs:
            controls[control].append(op)
    waits: Waits = []
    for op in program.graph.root.operations:
        # Who read the result kept the assignment in the program; now that it is read no more, being a target does.
        if _bypass(op, controls, waits) and op not in program.targets:
            program.targets = [*program.targets, op]
    for effect, assignment in waits:
        effect.control_inputs = list(dict.fromkeys([*effect.control_inputs, assignment]))
        # The effect comes behind the value anyway, so fusing may bring what makes the value as near as it likes.
        effect.attrs["forwarded"] = (*effect.attrs.get("forwarded", ()), assignment.name)
    return program


def _bypass(op: Operation, controls: Controls, waits: Waits) -> bool:
    """Let the elementwise users of an assignment read its value; say whether there are any."""
    which = op.definition.result_is_input
    # What waits for something may be dead while its value is not, and then so must be what uses the result. What is
    # assigned to a variable of a known shape may have a shape that is not known, and users rely on the former.
    live = all(map(_is_live, op.control_inputs))
    if which is None or not live or op.inputs[which].shape != op.outputs[0].shape:
        return False
    value, moved = op.inputs[which], False
    for user in [c for c in op.outputs[0]._consumers if c.region is op.region and can_fuse(c)]:
        effects = _effects(user, controls)
        if effects is None:  # some effect may be where it can not be made to wait for the assignment
            continue
        moved = True
        for i, tensor in enumerate(user.inputs):
            if tensor is op.outputs[0]:
                user.update_input(i, value)
        waits += [(effect, op) for effect in effects]
    return moved


def _is_live(op: Operation) -> bool:
    """Whether an operation of the root surely runs: one that reads a variable, as assignments to it wait for."""
    sources = [t.op for t in op.inputs]
    waits = any(source.control_inputs for source in (op, *sources))
    return op.role not in _FLOW and not waits and not any(source.inputs for source in sources)


def _effects(start: Operation, controls: Controls) -> list[Operation] | None:
    """Return the first operations with effects on all ways on from one; None if a way leads through control flow.

    The first are enough: what has effects behind those waits for them, and they will wait for the assignment.
    """
    found: list[Operation] = []
    work = [start]
    seen = {start}
    for op in work:  # grows while it is read
        for after in [*(c for t in op.outputs for c in t._consumers), *controls[op]]:
            if after.regions or after.region is not start.region or after.role in _FLOW:
                return None
            if after not in seen:
                seen.add(after)
                (found if after.definition.effects else work).append(after)
    return found

"""Forward assigned values: compute with the value instead of with the result of its assignment.

An optimizer updates its moments and continues with the new ones: ``m = slot.assign(...)``, then ``w.assign_sub(rate *
m)``. The result of an assignment is the assigned value, so elementwise operations may read the value itself and be
fused with its producers. The assignment stays, as a target of the program, and later operations with effects (another
assignment, or a read of the variable) still wait for it.

See docs/design/0018-the-house.md, 4.
"""

from __future__ import annotations

from collections import defaultdict

from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.rules.ordering import ReturnsInput
from ...ir.traits import PRIMITIVES, Role
from .rules import can_fuse

# A dead assignment must not hold back a Merge that is alive; operations in a loop or branch are not followed.
_FLOW = PRIMITIVES | {Role.MAYBE_GET}
Controls = dict[Operation, list[Operation]]
Waits = list[tuple[Operation, Operation]]


def forward_assignments(program: Program) -> Program:
    """Return the program in which elementwise operations read assigned values; `program` is changed."""
    controls: Controls = defaultdict(list)
    for op in program.graph.root.walk():
        for control in op.control_inputs:
            controls[control].append(op)
    waits: Waits = []
    for op in program.graph.root.operations:
        # The readers of its result kept the assignment in the program; now that they are gone, a target does.
        if _redirect_users(op, controls, waits) and op not in program.targets:
            program.targets = [*program.targets, op]
    for effect, assignment in waits:
        effect.control_inputs = list(dict.fromkeys([*effect.control_inputs, assignment]))
        # The effect comes after the value anyway, so fusing may move the producers of the value as close as it likes.
        effect.note(forwarded=(*effect.notes.forwarded, assignment.name))
    return program


def _redirect_users(op: Operation, controls: Controls, waits: Waits) -> bool:
    """Redirect the elementwise users of an assignment to its value; return True if there are any."""
    returns = op.rule(ReturnsInput)
    # An operation that waits may be dead while its value is not, and then users of the result must be dead as well.
    # A value of unknown shape may be assigned to a variable of known shape, on whose shape users rely.
    live = all(map(_is_live, op.control_inputs))
    if returns is None or not live or op.inputs[returns.index].shape != op.outputs[0].shape:
        return False
    value, moved = op.inputs[returns.index], False
    for user in [c for c in op.outputs[0]._consumers if c.region is op.region and can_fuse(c)]:
        effects = _find_first_effects(user, controls)
        if effects is None:  # an effect may be in control flow, where it cannot be made to wait for the assignment
            continue
        moved = True
        for i, tensor in enumerate(user.inputs):
            if tensor is op.outputs[0]:
                user.update_input(i, value)
        waits += [(effect, op) for effect in effects]
    return moved


def _is_live(op: Operation) -> bool:
    """Return True if an operation of the root surely runs, such as the read of a variable before its assignment."""
    sources = [t.op for t in op.inputs]
    waits = any(source.control_inputs for source in (op, *sources))
    return op.role not in _FLOW and not waits and not any(source.inputs for source in sources)


def _find_first_effects(start: Operation, controls: Controls) -> list[Operation] | None:
    """Return the first operations with effects on each path from `start`; None if a path leads through control flow.

    The first are enough: later effects wait for them, and they will wait for the assignment.
    """
    effects: list[Operation] = []
    work = [start]
    seen = {start}
    for op in work:  # grows while it is read
        for after in [*(c for t in op.outputs for c in t._consumers), *controls[op]]:
            if after.regions or after.region is not start.region or after.role in _FLOW:
                return None
            if after not in seen:
                seen.add(after)
                (effects if after.definition.effects else work).append(after)
    return effects

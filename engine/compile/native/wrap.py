"""Add a native program for each eligible loop; the loop remains for runs declined by the program.

A loop becomes

    ok, *results = Native(*initial values, *captured tensors)
    results = Cond(ok, results, the loop as it was)

A program without support for a step's arrays, or giving up on the way, has had no visible effect; then the loop runs
as usual, with its tags, its errors, and its lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...base.settings import Switches
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from ...kernels.native.program import NativeProgram
from .choice import append_choice, move_into
from .eligible import NotNative
from .rules import ON_CPU, Rules, RulesOf
from .translate import translate


def run_natively(program: Program, switches: Switches, rules_of: RulesOf) -> Program:
    """Add native programs for the outermost eligible loops, by the rules for each; `program` is changed."""
    # A list: the search ends before Conds are appended to the regions it walks.
    conds = {
        op: _append_native_choice(op, *translation)
        for op, translation in list(_outermost_loops(program.graph.root, switches, rules_of))
    }
    if conds:
        _replace_loops(program, conds)
        for region in dict.fromkeys(op.region for op in conds):
            _sort_region(region, conds)
        for op, cond in conds.items():
            move_into([op], op.outputs, cond.regions[0])
    return program


def can_be_native(loop: Operation, switches: Switches, rules: Rules = ON_CPU) -> bool:
    """Return True if a loop in its current form can be a native program on a CPU."""
    try:
        translate(loop, switches, rules)
    except NotNative:
        return False
    return True


def _replace_loops(program: Program, conds: dict[Operation, Operation]) -> None:
    """Replace loops, the keys of `conds`, by Conds in data and control inputs and among targets."""
    pairs = [zip(op.outputs, cond.outputs, strict=True) for op, cond in conds.items()]
    substitute(program, {old: new for pair in pairs for old, new in pair})
    for op in program.graph.root.walk():
        op.control_inputs = [conds.get(control, control) for control in op.control_inputs]
    program.targets = [conds.get(op, op) for op in program.targets]


def _sort_region(region: Region, conds: dict[Operation, Operation]) -> None:
    """Move the Natives and Conds from the end of a region to the positions of their loops."""
    sorted_conds = [conds[op] for op in region.operations if op in conds]
    appended = {operation for cond in sorted_conds for operation in (cond, cond.inputs[0].op)}
    old = [op for op in region.operations if op not in appended]
    region.operations = [operation for op in old for operation in _in_place_of(op, conds.get(op))]


def _outermost_loops(
    region: Region, switches: Switches, rules_of: RulesOf
) -> Iterator[tuple[Operation, tuple[NativeProgram, list[Tensor], str]]]:
    """Yield the outermost eligible loops, with the results of `translate` and the device that they name.

    Other loops are marked with the reason.
    """
    for op in region.operations:
        if op.is_while and op.outputs:
            try:
                # Inner loops of an eligible loop are part of its program.
                rules = rules_of(op)
                yield op, (*translate(op, switches, rules), rules.device)
                continue
            except NotNative as reason:
                op.note(not_native=str(reason))
        for inner in op.regions:
            yield from _outermost_loops(inner, switches, rules_of)


def _append_native_choice(op: Operation, program: NativeProgram, inputs: list[Tensor], device: str) -> Operation:
    cond = append_choice(op, op.name, op.outputs, program, inputs, _outside_control_inputs(op))
    if device:
        cond.inputs[0].op.device = device
    return cond


def _outside_control_inputs(op: Operation) -> list[Operation]:
    """Return the outside control inputs of a loop and of operations inside."""
    inside = dict.fromkeys([op, *(inner for region in op.regions for inner in region.walk())])
    return [c for inner in inside for c in inner.control_inputs if c not in inside]


def _in_place_of(op: Operation, cond: Operation | None) -> list[Operation]:
    return [op] if cond is None else [cond.inputs[0].op, cond]

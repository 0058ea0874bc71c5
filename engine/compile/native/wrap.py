"""Put a native program in front of each loop that can be one, which stays for when the program does not run.

A loop becomes

    ok, *results = Native(*initial values, *what the loop uses from outside)
    results = Cond(ok, results, the loop as it was)

A program that can not go with the arrays of a step, or gives up on the way, has done nothing that shows, so then the
loop runs as ever: with its tags, its errors, and its lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.settings import Settings
from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region
from ...ir.structured import append_cond
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from ...kernels.native.program import NativeProgram
from ...ops.internal import native as _operation  # noqa: F401  declares Native
from .rules import ON_CPU, Rules
from .translate import NotNative, translate


def run_natively(program: Program, settings: Settings, rules: Rules = ON_CPU) -> Program:
    """Put native programs in front of loops, the outermost that can be one; the given program is changed."""
    conds = {op: _choose(op, *found) for op, found in list(_outermost(program.graph.root, settings, rules))}
    if conds:
        _use(program, conds)
        for region in dict.fromkeys(op.region for op in conds):
            _sort(region, conds)
        for op, cond in conds.items():
            _move_into(op, cond.regions[0])
    return program


def _use(program: Program, conds: dict[Operation, Operation]) -> None:
    """Use Conds in place of the loops that are their keys."""
    pairs = [zip(op.outputs, cond.outputs, strict=True) for op, cond in conds.items()]
    substitute(program, {old: new for each in pairs for old, new in each})
    for op in program.graph.root.walk():
        op.control_inputs = [conds.get(control, control) for control in op.control_inputs]
    program.targets = [conds.get(op, op) for op in program.targets]


def _sort(region: Region, conds: dict[Operation, Operation]) -> None:
    """Put what was appended to a region where the loops stand."""
    found = [conds[op] for op in region.operations if op in conds]
    made = {each for cond in found for each in (cond, cond.inputs[0].op)}
    old = [op for op in region.operations if op not in made]
    region.operations = [each for op in old for each in _in_place_of(op, conds.get(op))]


def _outermost(
    region: Region, settings: Settings, rules: Rules
) -> Iterator[tuple[Operation, tuple[NativeProgram, list[Tensor]]]]:
    """Yield the loops that can be native and are in no other that can, with what `translate` returns for them."""
    for op in region.operations:
        if op.is_while and op.outputs:
            try:
                yield op, translate(op, settings, rules)
                continue
            except NotNative as reason:
                op.attrs["not_native"] = str(reason)
        for inner in op.regions:
            yield from _outermost(inner, settings, rules)


def _choose(op: Operation, program: NativeProgram, inputs: list[Tensor]) -> Operation:
    """Return a Cond of the results of a native program, for which its last branch is ready, and those of a loop."""
    outputs = [(t.dtype, t.shape) for t in op.outputs]
    attrs: dict[str, Any] = {
        "program": program.to_attribute(),
        "dtypes": tuple(dtype for dtype, _ in outputs),
        "shapes": tuple(shape for _, shape in outputs),
    }
    native = Builder(op.region, op, "native").emit("Native", *inputs, controls=_waits(op), **attrs)
    branches = [Region(op.graph, op.region, f"{op.name} {how}") for how in ("on the step machine", "as a program")]
    branches[1].results = native.outputs[1:]
    name = op.graph.unique_name(f"{op.name}/either")
    return append_cond(op.region, native.outputs[0], branches, outputs, name, op.source, device=op.device)


def _waits(op: Operation) -> list[Operation]:
    """Return the operations that a loop, or an operation in it, must wait for."""
    inside = dict.fromkeys([op, *(each for region in op.regions for each in region.walk())])
    return [c for each in inside for c in each.control_inputs if c not in inside]


def _in_place_of(op: Operation, cond: Operation | None) -> list[Operation]:
    return [op] if cond is None else [cond.inputs[0].op, cond]


def _move_into(op: Operation, region: Region) -> None:
    """Make a loop all that a branch does."""
    region.operations, region.results = [op], list(op.outputs)
    op.region = region
    for inner in op.regions:
        inner.parent = region

"""Capture unchanging loop variables: operations inside read the variable's initial value instead.

Weights handed through a loop as variables become invariants: they no longer pass from one iteration to the next, and
later passes see that their products have a factor from outside the loop. A variable whose result is used after the loop
stays a variable, since the results of a dead loop are dead.
"""

from __future__ import annotations

from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.structured import is_structured, num_results, saved_outputs
from ...ir.tensor import Tensor


def capture_unchanged(program: Program) -> Program:
    """Return the program with unchanged loop variables read from outside; `program` is used up."""
    # The parameter itself of a saved value stays: the gradient reads the value through the loop's saved outputs.
    saved = _saved_tensors(program)
    moved: dict[Tensor, Tensor] = {}
    for op in program.graph.root.walk():
        if op.is_while:
            for i in _unchanged_variables(op):
                moved.update((p, op.inputs[i]) for p in _params_of(op, i) if p not in saved and p._consumers)
    if not moved:
        return program
    for op in list(program.graph.root.walk()):
        for i, tensor in enumerate(op.inputs):
            if tensor in moved:
                op.update_input(i, _follow_outwards(tensor, moved))
    return copy_program(program)


def _unchanged_variables(op: Operation) -> list[int]:
    body = op.regions[1]
    return [i for i in range(num_results(op)) if body.results[i] is body.params[i]]


def _params_of(op: Operation, i: int) -> list[Tensor]:
    return [region.params[i] for region in op.regions]


def _follow_outwards(tensor: Tensor, moved: dict[Tensor, Tensor]) -> Tensor:
    """Follow a value outwards through all loops that return the value unchanged."""
    while tensor in moved:
        tensor = moved[tensor]
    return tensor


def _saved_tensors(program: Program) -> set[Tensor]:
    """Return the tensors saved by loops and branches for their gradients, values and indices."""
    kept = [e for op in program.graph.root.walk() if is_structured(op) for e in saved_outputs(op)]
    return {t for e in kept for t in (e.value, e.index) if t is not None}

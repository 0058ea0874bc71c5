"""Loop variables that a loop returns as they came: what reads them inside may read their start, which does not move.

Weights handed through a loop as variables become invariants: nothing of them is passed from one iteration to the
next, and the other passes see that a product with them is a product with what stands outside. A variable that is also
wanted behind the loop stays one, since a loop that does not run gives none of its results.
"""

from __future__ import annotations

from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.structured import is_structured, num_results, saved_outputs
from ...ir.tensor import Tensor


def capture_unchanged(program: Program) -> Program:
    """Return the program with unchanged loop variables read from outside; the given one is used up."""
    saved = _saved(program)
    moved: dict[Tensor, Tensor] = {}
    for op in program.graph.root.walk():
        if op.is_while:
            for i in _unchanged(op):
                moved.update((p, op.inputs[i]) for p in _params(op, i) if p not in saved and p._consumers)
    if not moved:
        return program
    for op in list(program.graph.root.walk()):
        for i, tensor in enumerate(op.inputs):
            if tensor in moved:
                op.update_input(i, _start(tensor, moved))
    return copy_program(program)


def _unchanged(op: Operation) -> list[int]:
    body = op.regions[1]
    return [i for i in range(num_results(op)) if body.results[i] is body.params[i]]


def _params(op: Operation, i: int) -> list[Tensor]:
    return [region.params[i] for region in op.regions]


def _start(tensor: Tensor, moved: dict[Tensor, Tensor]) -> Tensor:
    """Follow a value out of all loops that hand it through."""
    while tensor in moved:
        tensor = moved[tensor]
    return tensor


def _saved(program: Program) -> set[Tensor]:
    """Return the values that loops and branches keep for their gradients."""
    kept = [e for op in program.graph.root.walk() if is_structured(op) for e in saved_outputs(op)]
    return {t for e in kept for t in (e.value, e.index) if t is not None}

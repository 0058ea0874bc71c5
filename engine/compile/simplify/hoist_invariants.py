"""Loop-invariant code motion: move computations with equal results in all iterations out of loops.

The results are computed once and enter the loop as invariants. Constants leave any loop. Operations on invariants leave
only loops sure to run an iteration: otherwise they would be computed, and perhaps fail, in vain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from ...ir.loops import Loop
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region
from ...ir.structured import is_structured, num_results, saved_outputs
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from ...ir.traits import Effect, Role


def hoist_invariants(program: Program) -> Program:
    """Return the program with invariants before the outermost loop they can leave; `program` is changed."""
    operations = list(program.graph.root.walk())
    # An operation named in a control edge or as a target stays: its runs, not only its values, are visible.
    pinned = {control for op in operations for control in op.control_inputs} | set(program.targets)
    for op in reversed(operations):  # inner loops first
        if op.is_while:
            for region in op.regions:
                _move_before_loop([c for c in region.operations if c.is_constant and c not in pinned], region, op)
            loop = Loop(op)
            # A loop of unknown length may run no iteration.
            if loop.surely_runs():
                invariants, read = _find_invariants(loop, pinned, count_noninput_uses(program, loop.body))
                _move_before_loop(invariants, loop.body, op)
                substitute(program, read)
    return program


def _move_before_loop(operations: list[Operation], source: Region, loop: Operation) -> None:
    """Move operations without control inputs from a region of a loop to just before the loop."""
    free = [op for op in operations if not op.control_inputs]
    removed = set(free)
    source.operations = [op for op in source.operations if op not in removed]
    place = loop.region.operations.index(loop)
    loop.region.operations[place:place] = free
    for op in free:
        op.region = loop.region


def _find_invariants(
    loop: Loop, pinned: Container[Operation], kept: Counter[Tensor]
) -> tuple[list[Operation], dict[Tensor, Tensor]]:
    """Return the invariant operations of a body, and the tensor outside for each read of a saved result."""
    invariants: list[Operation] = []
    outside: set[Tensor] = set()
    read: dict[Tensor, Tensor] = {}
    for op in loop.body.operations:
        if op not in pinned and _is_pure(op) and all(t in outside or loop.is_outside(t) for t in op.inputs):
            reads = [_saved_reads(loop, t, kept) for t in op.outputs]
            if None not in reads:
                invariants.append(op)
                outside.update(op.outputs)
                read.update((user, t) for t, users in zip(op.outputs, reads, strict=True) for user in users or ())
    return invariants, read


def _is_pure(op: Operation) -> bool:
    """Return True if an operation computes values from values alone, without effects, regions or control inputs."""
    definition = op.definition
    values = bool(op.outputs) and all(t.dtype.is_value for t in (*op.inputs, *op.outputs))
    computes = definition.kernel is not None and definition.effects is Effect.NONE and not is_structured(op)
    return values and computes and not op.control_inputs


def _saved_reads(loop: Loop, tensor: Tensor, kept: Counter[Tensor]) -> list[Tensor] | None:
    """Return the reads of the saved values of `tensor`; None for other uses.

    `kept` counts the uses of tensors other than by operations: as results of regions, saved values and fetches.
    """
    op, first = loop.op, num_results(loop.op)
    saved = [series for series, e in zip(op.outputs[first:], saved_outputs(op), strict=True) if e.value is tensor]
    users = [user for series in saved for user in series._consumers]
    visible = all(user.role is Role.SERIES_READ and op.region.encloses(user.region) for user in users)
    # Only reads inside the region of the loop see the moved operation.
    return [t for user in users for t in user.outputs] if visible and kept[tensor] == len(saved) else None

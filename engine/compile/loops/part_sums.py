"""Add slices and rows to sums in place, without zeros around them.

The gradient of ``x[i]`` for the whole `x` is zero except for a slice. In a sum, as over the iterations of a loop, the
slice alone is added to the other terms, so an iteration takes time by the size of the slice. Adding 0 to the other
elements would change none but -0.0, which stays -0.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.rules.fusing import AddsPart
from ...ir.substitute import count_noninput_uses, has_one_user, substitute
from ...ir.tensor import Tensor


def add_parts(program: Program, has_own_kernel: HasOwnKernel = has_no_own_kernel) -> Program:
    """Return the program with parts added to sums in place; `program` is used up.

    Parts with registered kernels are left for these.
    """
    spreads = [op for op in program.graph.root.walk() if op.rule(AddsPart) is not None and not has_own_kernel(op)]
    moved: dict[Tensor, Tensor] = {}
    for region in dict.fromkeys(op.region for op in spreads):
        kept = count_noninput_uses(program, region)
        parts = {op.outputs[0] for op in spreads if op.region is region and _is_part(op.outputs[0], kept)}
        for total, terms in _sums_with(parts, region, kept).items():
            moved[total] = _emit_sum(total.op, terms, parts)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _sums_with(parts: Container[Tensor], region: Region, kept: Counter[Tensor]) -> dict[Tensor, list[Tensor]]:
    """Return the terms of the sums in a region with a part among them, those of inner sums with parts included."""
    sums: dict[Tensor, list[Tensor]] = {}
    for op in region.operations:
        if is_sum(op) and any(t in parts or t in sums for t in op.inputs):
            inner = {t for t in op.inputs if t in sums and t.op.device == op.device and has_one_user(t, kept)}
            terms = [sums[t] if t in inner else [t] for t in op.inputs]
            sums[op.outputs[0]] = [each for found in terms for each in found]
            for t in inner:
                del sums[t]
    return sums


def _is_part(term: Tensor, kept: Counter[Tensor]) -> bool:
    """Return True for an array with a part that a single operation needs; of any size, on which no bits must depend."""
    return not term.op.control_inputs and has_one_user(term, kept)


def is_sum(op: Operation) -> bool:
    """Return True for an addition of tensors without control inputs."""
    return op.type in ("Add", "AddN") and not op.control_inputs


def _emit_sum(op: Operation, terms: Sequence[Tensor], parts: Container[Tensor]) -> Tensor:
    """Return the sum of other terms, to which the parts are added."""
    builder = Builder(op.region, op, "parts")
    added = [t for t in terms if t in parts and t.op.device == op.device]
    joined = set(added)
    others = [t for t in terms if t not in joined] or [added.pop(0)]
    total = others[0]
    for other in others[1:]:
        total = builder.tensor("Add", total, other)  # not AddN: the terms of inner sums may broadcast
    for part in added:
        rule = part.op.rule(AddsPart)
        assert rule is not None
        # The sum may know more of its shape than its terms do.
        known = op.outputs[0].shape if part is added[-1] else None
        total = builder.emit(rule.type, total, *part.op.inputs, known_shape=known, **part.op.attrs).outputs[0]
    return total

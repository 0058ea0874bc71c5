"""Convolutions that add a bias, or drop what is negative or masked, before they store their results.

The field calls what is done to a tile of a product before it is stored the epilogue. Such results are megabytes, which
an operation of its own would read and write once more.
"""

from __future__ import annotations

from collections import Counter

from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.static_values import static_value
from ...ir.substitute import returned, substitute
from ...ir.tensor import Tensor
from .masks import above_zero, mask_of
from .rules import FusedProgram, can_fuse, write


def add_epilogues(program: Program) -> Program:
    """Return the program with convolutions that do what follows them; the given one is used up."""
    found = [op for op in program.graph.root.walk() if _may_have_one(op) and not op.control_inputs]
    kept = returned(program) if found else Counter[Tensor]()
    moved = dict(pair for op in found for pair in (_extended if op.definition.epilogue else _masked)(op, kept))
    substitute(program, moved)
    return copy_program(program) if moved else program


def _may_have_one(op: Operation) -> bool:
    return bool(op.definition.epilogue or op.definition.masked)


def _masked(op: Operation, kept: Counter[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return what an operation gives where something is above zero, behind what it stands for; or nothing."""
    result = op.outputs[0]
    mask = mask_of(result, kept)
    where = None if mask is None else above_zero(mask.inputs[0].op)
    if mask is None or where is None or where.dtype is not result.dtype:
        return []
    if where.shape != result.shape or not where.shape.is_fully_known:
        return []
    extended = Builder(mask.region, op, "masked").tensor(op.definition.masked, *op.inputs, where, **op.attrs)
    return [(mask.outputs[0], extended)]


def _extended(op: Operation, kept: Counter[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return what an operation with its bias gives, behind the tensor that it stands for; nothing without a bias."""
    result = op.outputs[0]
    bias = _joined_by("add", result, kept)
    channels = result.shape[-1] if result.rank else None
    if bias is None or channels is None or bias.rank != 1 or bias.shape[0] != channels:
        return []
    (user,) = result._consumers
    last = user.outputs[0]
    number = _joined_by("maximum", last, kept)
    relu = number is not None and number.rank == 0 and _is_zero(number)
    if relu:
        (after,) = last._consumers
        last = after.outputs[0]
    extended = Builder(user.region, op, "biased").tensor(
        op.definition.epilogue, *op.inputs, bias, **op.attrs, relu=relu
    )
    return [(last, extended)]


def _joined_by(step: str, tensor: Tensor, kept: Counter[Tensor]) -> Tensor | None:
    """Return what a tensor is joined with by the one operation that uses it, if that is one step of this name."""
    if len(tensor._consumers) != 1 or kept[tensor]:
        return None
    (user,) = tensor._consumers
    if user.region is not tensor.region or user.device != tensor.op.device or not can_fuse(user):
        return None
    program = FusedProgram()
    write(user, program)
    if [name for name, *_ in program.steps] != [step]:
        return None
    first, second = program.steps[0][1]
    other = second if first is tensor else first
    return other if isinstance(other, Tensor) else None


def _is_zero(tensor: Tensor) -> bool:
    value = static_value(tensor)
    return value is not None and not value.any()

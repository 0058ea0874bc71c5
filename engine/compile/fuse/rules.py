"""Rules of fused operations: which shapes fit, which tensors the steps of an operation read, and the steps themselves.

The definition of a type has its own rule (`Fusion`); an operation whose kernel is a ufunc in the table
of steps is that step. This module has the rules common to all types.

See docs/design/0005-loops-made-fast.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...base.shapes import SCALAR
from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.rules.fusing import Fusion
from ...ir.tensor import Tensor
from ...kernels.steps import STEPS
from ...ops.support.fusing import FLOATS, UFUNC, is_register, step_of


class Temporary:
    """A value between two steps of an operation."""


Value = Tensor | Temporary
Step = tuple[str, Sequence[Value], tuple[int, ...], Value]  # name, operands, columns, result


@dataclass
class FusedProgram:
    """A program of steps under construction: a `StepWriter`, whose values have registers after `finish`."""

    inputs: list[Tensor] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(
        self, name: str, operands: Sequence[Value], made: Tensor | None = None, columns: tuple[int, ...] = ()
    ) -> Value:
        """Append a step and return its result."""
        assert STEPS[name].arity in (None, len(operands))
        result = Temporary() if made is None else made
        self.steps.append((name, operands, columns, result))
        return result

    def number(self, op: Operation, value: float) -> Tensor:
        """Return a scalar constant of the dtype of the result of `op`."""
        return Builder(op.region, op, "number").constant(value, op.outputs[0].dtype)

    def finish(self) -> dict[Value, int]:
        """Find the inputs and the constants; return the register of each value."""
        results = {value for *_, value in self.steps}
        used = dict.fromkeys(t for _, operands, *_ in self.steps for t in operands if t not in results)
        read = [t for t in used if isinstance(t, Tensor)]
        numbers = [t for t in read if _is_number(t)]
        others = [t for t in read if not _is_number(t)]
        self.inputs = others or numbers[:1]  # a Fused has at least one input
        self.constants = numbers if others else numbers[1:]
        values: list[Value] = [*self.inputs, *self.constants, *(value for *_, value in self.steps)]
        return {value: i for i, value in enumerate(values)}


def fusion_of(op: Operation) -> Fusion | None:
    """Return the rule for an operation's steps, None if its type has none."""
    fusion = op.rule(Fusion)
    return UFUNC if fusion is None and step_of(op) is not None else fusion


def can_fuse(op: Operation) -> bool:
    """Return True if steps can compute `op`. Comparisons cannot: truth values never leave a fused operation."""
    # A control input orders this operation alone: in a fused one it would order, and make dead, all others.
    if op.control_inputs:
        return False
    fusion = fusion_of(op)
    are_registers = all(t.dtype in FLOATS and is_register(t.shape) for t in op.outputs)
    return fusion is not None and are_registers and fusion.fits(op)


def write(op: Operation, program: FusedProgram) -> None:
    """Append the steps of a fusible operation."""
    fusion = fusion_of(op)
    assert fusion is not None
    fusion.write(op, program)


def steps_of_user(tensor: Tensor, kept: Counter[Tensor]) -> tuple[Operation | None, list[Step]]:
    """Return the only user of a tensor, in the same region and on the same device, and its steps; else (None, []).

    Parameters
    ----------
    tensor : Tensor
    kept : Counter
        The uses of tensors other than by operations, from `count_noninput_uses`.
    """
    if len(tensor._consumers) != 1 or kept[tensor]:
        return None, []
    (user,) = tensor._consumers
    if user.region is not tensor.region or user.device != tensor.op.device or not can_fuse(user):
        return None, []
    program = FusedProgram()
    write(user, program)
    return user, program.steps


def operands(op: Operation) -> Sequence[Tensor]:
    """Return the tensors read by the steps of a fusible operation."""
    fusion = fusion_of(op)
    assert fusion is not None
    return fusion.reads(op)


def computes(op: Operation) -> bool:
    """Return True if the steps of a fusible operation do more than move elements."""
    fusion = fusion_of(op)
    return fusion is not None and not fusion.moves


def _is_number(tensor: Tensor) -> bool:
    """Return True for a scalar constant, which a fused operation keeps as an attribute."""
    return tensor.op.is_constant and tensor.shape == SCALAR and not tensor.op.control_inputs

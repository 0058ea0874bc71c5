"""How families say of which steps their operations are: the values of ``define(..., fuse=...)``.

The rules here are about static shapes: whether an operation keeps the rows of a fused one apart. The table of steps and
the rules for dimensions are in ``kernels/steps.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.definition import Ufunc
from ...ir.fusion import Fusion, StepWriter, all_inputs
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...kernels.steps import STEPS, StepKind, StepOp, can_be_register, has_all_rows, stands_for_all_rows

FLOATS = (dtypes.float32, dtypes.float64)


def step_of(op: Operation) -> StepOp | None:
    """Return the step that the kernel of an operation is, None if that kernel is no ufunc of the table."""
    kernel = op.definition.kernel
    return STEPS.get(kernel.name) if isinstance(kernel, Ufunc) else None


def is_comparison(op: Operation) -> bool:
    """Whether an operation is one step that gives truth values."""
    step = step_of(op)
    return step is not None and step.kind is StepKind.COMPARE


def has_rows(shape: Shape, like: Shape) -> bool:
    """Whether values of a shape have all rows that values of another have."""
    return shape.rank is not None and has_all_rows(shape.dims, like.dims[:-1])


def is_register(shape: Shape) -> bool:
    """Whether a value of a static shape can be made in a fused operation."""
    return shape.rank is not None and can_be_register(shape.dims)


def first_input(op: Operation) -> Sequence[Tensor]:
    """Return the input that moves and sums read; what else they have says sizes, which are known."""
    return op.inputs[:1]


def is_along_last(op: Operation) -> bool:
    """Whether an operation goes along the last dimension, by its attribute `axis`."""
    return op.attrs["axis"] in (-1, len(op.outputs[0].shape.dims) - 1)


def reduces_last(op: Operation) -> bool:
    """Whether an operation reduces the last dimension alone, and keeps it with size 1, or undoes that."""
    return op.attrs["axis"] in ((-1,), (len(op.outputs[0].shape.dims) - 1,)) and op.attrs["keepdims"]


def elementwise(
    write: Callable[[Operation, StepWriter], None],
    reads: Callable[[Operation], Sequence[Tensor]] = all_inputs,
    needs: Callable[[Operation], bool] = lambda op: True,
) -> Fusion:
    """Return the rule of an operation whose operands are broadcast.

    Parameters
    ----------
    write, reads : callable
        As of `Fusion`.
    needs : callable
        ``needs(op)``: what must hold before `reads` can be asked.
    """

    def fits(op: Operation) -> bool:
        return needs(op) and _go_together(reads(op), op.outputs[0])

    return Fusion(fits, write, reads)


def by_step(name: str, *numbers: float) -> Fusion:
    """Return the rule of an operation that is one elementwise step, of its inputs and then of some numbers."""

    def write(op: Operation, writer: StepWriter) -> None:
        writer.add(name, [*op.inputs, *(writer.number(op, value) for value in numbers)], op.outputs[0])

    return elementwise(write)


def _go_together(operands: Sequence[Tensor], output: Tensor) -> bool:
    """Whether operands are registers of one row each: at least one has all rows, and each the output's width, or 1."""
    return any(has_rows(t.shape, output.shape) for t in operands) and all(_takes_part(t, output) for t in operands)


def _takes_part(operand: Tensor, output: Tensor) -> bool:
    if operand.dtype is not output.dtype or operand.rank is None:
        return False
    *batch_dims, width = output.shape.dims
    dims, rows = operand.shape.dims, tuple(batch_dims)
    fits = not dims or dims[-1] in (1, width)
    return fits and (has_all_rows(dims, rows) or stands_for_all_rows(dims, rows))


def masked(write: Callable[[Operation, StepWriter], None]) -> Fusion:
    """Return the rule of an elementwise operation whose first input is a comparison, which is made one of its steps.

    Truth values do not leave a fused operation, so the comparison is done where its result is used.
    """
    return elementwise(write, _through_mask, _has_mask)


def compare(op: Operation, writer: StepWriter) -> object:
    """Append the comparison that the first input of an operation is; return its result."""
    mask = op.inputs[0].op
    step = step_of(mask)
    assert step is not None
    return writer.add(step.name, mask.inputs)


def _through_mask(op: Operation) -> Sequence[Tensor]:
    return [*op.inputs[0].op.inputs, *op.inputs[1:]]


def _has_mask(op: Operation) -> bool:
    """Whether the first input compares values of which one at least has all rows, so that the mask has them too."""
    mask, output = op.inputs[0], op.outputs[0]
    if not is_comparison(mask.op) or mask.op.control_inputs or mask.rank is None:
        return False
    operands = mask.op.inputs
    return any(has_rows(t.shape, output.shape) for t in operands) and all(t.dtype in FLOATS for t in operands)


def reduction(name: str) -> Fusion:
    """Return the rule of a reduction, where it is along the last dimension."""

    def fits(op: Operation) -> bool:
        return reduces_last(op) and is_register(op.inputs[0].shape)

    return Fusion(fits, reduce_by(name))


def reduce_by(name: str) -> Callable[[Operation, StepWriter], None]:
    """Return what appends a reduction of the first input."""

    def write(op: Operation, writer: StepWriter) -> None:
        writer.add(name, op.inputs[:1], op.outputs[0])

    return write


def broadcast(goes_along: Callable[[Operation], bool] = lambda op: False) -> Fusion:
    """Return the rule of what repeats a column along its rows, or a number at all places of a known shape.

    Parameters
    ----------
    goes_along : callable
        ``goes_along(op)``: whether it repeats along rows whatever their number, so that this need not be known.
    """

    def fits(op: Operation) -> bool:
        x, y = op.inputs[0].shape, op.outputs[0].shape
        if x == SCALAR:
            return y.is_fully_known
        return (y.is_fully_known or goes_along(op)) and has_rows(x, y) and x.dims[-1] == 1

    def write(op: Operation, writer: StepWriter) -> None:
        writer.add("broadcast", op.inputs[:1], op.outputs[0], (0, op.outputs[0].shape[-1]))

    return Fusion(fits, write, first_input, moves=True)


def _write_ufunc(op: Operation, writer: StepWriter) -> None:
    step = step_of(op)
    assert step is not None
    writer.add(step.name, op.inputs, op.outputs[0])


UFUNC = elementwise(_write_ufunc)  # of all operations whose kernel is a ufunc of the table

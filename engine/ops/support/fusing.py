"""Fusion rules of operation families, as step programs: the `Fusion` in the ``rules`` of their definitions.

A fused operation treats each row, along the last dimension of its values, by itself. The rules here are about static
shapes: whether an operation keeps these rows apart. The table of steps and the rules for dimensions are in
``kernels/steps.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.definition import Ufunc
from ...ir.operation import Operation
from ...ir.rules.fusing import Fusion, StepWriter, all_inputs
from ...ir.tensor import Tensor
from ...kernels.steps import STEPS, StepKind, StepOp, can_be_register, has_all_rows, stands_for_all_rows

FLOATS = (dtypes.float32, dtypes.float64)


def step_of(op: Operation) -> StepOp | None:
    """Return the step of an operation's kernel, None if the kernel is no ufunc of the table."""
    kernel = op.definition.kernel
    return STEPS.get(kernel.name) if isinstance(kernel, Ufunc) else None


def is_comparison(op: Operation) -> bool:
    """True if an operation is a single comparison step, with bool results."""
    step = step_of(op)
    return step is not None and step.kind is StepKind.COMPARE


def has_rows(shape: Shape, like: Shape) -> bool:
    """True if values of `shape` have all dimensions of `like` before the last."""
    return shape.rank is not None and has_all_rows(shape.dims, like.dims[:-1])


def is_register(shape: Shape) -> bool:
    """True if a fused operation can hold a value of this static shape in a register."""
    return shape.rank is not None and can_be_register(shape.dims)


def first_input(op: Operation) -> Sequence[Tensor]:
    """Return the first input, which moves and sums read; their other inputs are sizes, which are known."""
    return op.inputs[:1]


def is_along_last(op: Operation) -> bool:
    """True if the attribute `axis` of an operation is the last dimension."""
    return op.attrs["axis"] in (-1, len(op.outputs[0].shape.dims) - 1)


def reduces_last(op: Operation) -> bool:
    """True if an operation reduces the last dimension alone and keeps size 1, or undoes such a reduction."""
    # With `keepdims` the result has the rank of the input.
    return op.attrs["axis"] in ((-1,), (len(op.outputs[0].shape.dims) - 1,)) and op.attrs["keepdims"]


def fuse_elementwise(
    write: Callable[[Operation, StepWriter], None],
    reads: Callable[[Operation], Sequence[Tensor]] = all_inputs,
    needs: Callable[[Operation], bool] = lambda op: True,
) -> Fusion:
    """Return the fusion rule of an operation whose operands are broadcast.

    Parameters
    ----------
    write, reads : callable
        As in `Fusion`.
    needs : callable
        ``needs(op)``: True if the operation can be fused at all, and `reads` can be called.
    """

    def has_fitting_shapes(op: Operation) -> bool:
        return needs(op) and _operands_fit(reads(op), op.outputs[0])

    return Fusion(has_fitting_shapes, write, reads)


def by_step(name: str, *numbers: float) -> Fusion:
    """Return the fusion rule of a single step of the table, whose operands are all inputs, then `numbers`."""

    def write_step(op: Operation, writer: StepWriter) -> None:
        writer.add(name, [*op.inputs, *(writer.number(op, value) for value in numbers)], op.outputs[0])

    return fuse_elementwise(write_step)


def _operands_fit(operands: Sequence[Tensor], output: Tensor) -> bool:
    """True if all operands can be broadcast to the rows of the output, and some operand has all of its rows."""
    return any(has_rows(t.shape, output.shape) for t in operands) and all(_operand_fits(t, output) for t in operands)


def _operand_fits(operand: Tensor, output: Tensor) -> bool:
    """True if an operand has the output's width, or width 1, and all of its rows, or a single row for all."""
    if operand.dtype is not output.dtype or operand.rank is None:
        return False
    *leading_dims, width = output.shape.dims
    dims, batch_dims = operand.shape.dims, tuple(leading_dims)
    has_fitting_width = not dims or dims[-1] in (1, width)
    return has_fitting_width and (has_all_rows(dims, batch_dims) or stands_for_all_rows(dims, batch_dims))


def fuse_masked(write: Callable[[Operation, StepWriter], None]) -> Fusion:
    """Return the fusion rule of an elementwise operation whose first input is a comparison, fused as a step.

    Bool values do not leave a fused operation, so the comparison is repeated where its result is used.
    """
    return fuse_elementwise(write, _read_through_mask, _has_mask)


def write_comparison(op: Operation, writer: StepWriter) -> object:
    """Append the comparison in an operation's first input; return its result."""
    mask = op.inputs[0].op
    step = step_of(mask)
    assert step is not None
    return writer.add(step.name, mask.inputs)


def _read_through_mask(op: Operation) -> Sequence[Tensor]:
    """Return the tensors read by an operation whose mask is repeated: the operands of the comparison, not the mask."""
    return [*op.inputs[0].op.inputs, *op.inputs[1:]]


def _has_mask(op: Operation) -> bool:
    """True if the first input is a comparison of floats that has all rows, because one of its operands has."""
    mask, output = op.inputs[0], op.outputs[0]
    # Repeated in the fused operation, a comparison would not wait for its control inputs.
    if not is_comparison(mask.op) or mask.op.control_inputs or mask.rank is None:
        return False
    operands = mask.op.inputs
    return any(has_rows(t.shape, output.shape) for t in operands) and all(t.dtype in FLOATS for t in operands)


def fuse_reduction(name: str) -> Fusion:
    """Return the fusion rule of a reduction along the last dimension."""

    def reduces_rows(op: Operation) -> bool:
        return reduces_last(op) and is_register(op.inputs[0].shape)

    return Fusion(reduces_rows, reduce_by(name))


def reduce_by(name: str) -> Callable[[Operation, StepWriter], None]:
    """Return the writer of a reduction of the first input."""

    def write_reduction(op: Operation, writer: StepWriter) -> None:
        writer.add(name, op.inputs[:1], op.outputs[0])

    return write_reduction


def fuse_broadcast(spans_unknown_rows: Callable[[Operation], bool] = lambda op: False) -> Fusion:
    """Return the fusion rule of repeating a column along its rows, or a number over a known shape.

    Parameters
    ----------
    spans_unknown_rows : callable
        ``spans_unknown_rows(op)``: True if the number of rows may be unknown, because the operation repeats values
        along the last dimension alone.
    """

    def repeats_column(op: Operation) -> bool:
        x, y = op.inputs[0].shape, op.outputs[0].shape
        # A scalar has no rows to tell the fused operation how many there are.
        if x == SCALAR:
            return y.is_fully_known
        return (y.is_fully_known or spans_unknown_rows(op)) and has_rows(x, y) and x.dims[-1] == 1

    def write_broadcast(op: Operation, writer: StepWriter) -> None:
        columns = (0, op.outputs[0].shape[-1])  # from the first to the last, exclusive
        writer.add("broadcast", op.inputs[:1], op.outputs[0], columns)

    return Fusion(repeats_column, write_broadcast, first_input, moves=True)


def _write_ufunc(op: Operation, writer: StepWriter) -> None:
    step = step_of(op)
    assert step is not None
    writer.add(step.name, op.inputs, op.outputs[0])


UFUNC = fuse_elementwise(_write_ufunc)  # of all operations whose kernel is a ufunc of the table

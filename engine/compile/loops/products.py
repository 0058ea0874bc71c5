"""Products of matrices, as the passes on loops look at them."""

from __future__ import annotations

from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...kernels.cpu.linear import is_own_product

WORTH = 1 << 18  # multiplications in an iteration below which a row that is read costs more than it saves
ENOUGH_ROWS = 8  # for which weights are read once, so that a product of more rows is hardly faster


def is_matmul(op: Operation) -> bool:
    """Whether an operation multiplies two matrices, and waits for nothing else."""
    return op.type == "MatMul" and not op.control_inputs and all(t.rank == 2 for t in op.inputs)


def is_product(op: Operation) -> bool:
    """Whether an operation multiplies two matrices of known shape, and waits for nothing else."""
    return is_matmul(op) and all(map(is_known, op.inputs))


def is_known(tensor: Tensor) -> bool:
    """Whether the static shape of a tensor is fully known."""
    return tensor.shape.is_fully_known


def work(op: Operation) -> int:
    """Return how many multiplications a product takes."""
    rows, columns = op.outputs[0].shape.as_tuple()
    return int(rows * columns * op.inputs[0].shape.as_tuple()[inner_axis(op, 0)])


def is_fast_in_loop(op: Operation, side: int) -> bool:
    """Whether a product in a native program, with weights that stay in cache or are read once, is at its fastest.

    That of the rows of all iterations goes by way of memory then: it is written there and read again.

    Parameters
    ----------
    op : Operation
    side : int
        The factor that differs from iteration to iteration.
    """
    return rows_of(op, side) >= ENOUGH_ROWS and is_own_product(op.inputs[0].shape.as_tuple()[inner_axis(op, 0)])


def inner_axis(op: Operation, side: int) -> int:
    """Return the axis of a factor, 0 for the left one, along which a product sums."""
    transposed = bool(op.attrs["transpose_b" if side else "transpose_a"])
    return int(transposed) if side else 1 - int(transposed)


def rows_of(op: Operation, side: int) -> int:
    """Return how many rows a left factor has, or how many columns a right one: for so many the other is read once."""
    rows: int = op.inputs[side].shape.as_tuple()[1 - inner_axis(op, side)]
    return rows


def nbytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor; more than there are where its shape is not known."""
    elements, dtype = tensor.shape.num_elements, tensor.dtype.numpy
    return 1 << 62 if elements is None or dtype is None else elements * dtype.itemsize

"""Products of matrices, as the passes on loops look at them."""

from __future__ import annotations

from ...ir.operation import Operation
from ...ir.tensor import Tensor

WORTH = 1 << 18  # multiplications in an iteration below which a row that is read costs more than it saves


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


def inner_axis(op: Operation, side: int) -> int:
    """Return the axis of a factor, 0 for the left one, along which a product sums."""
    transposed = bool(op.attrs["transpose_b" if side else "transpose_a"])
    return int(transposed) if side else 1 - int(transposed)


def nbytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor; more than there are where its shape is not known."""
    elements, dtype = tensor.shape.num_elements, tensor.dtype.numpy
    return 1 << 62 if elements is None or dtype is None else elements * dtype.itemsize

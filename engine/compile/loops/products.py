"""Properties of matrix products, for the passes on loops."""

from __future__ import annotations

from ...base import dtypes
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...kernels.cpu.linear import has_equal_rows, is_own_product

WORTH = 1 << 18  # multiplications per iteration below which reading a row costs more than lifting saves
ENOUGH_ROWS = 8  # rows from which on a product reads its weights only once, so that more rows hardly help


def is_matmul(op: Operation) -> bool:
    """Return True for a product of two matrices without control inputs."""
    return op.type == "MatMul" and not op.control_inputs and all(t.rank == 2 for t in op.inputs)


def is_product(op: Operation) -> bool:
    """Return True for a product of two matrices of known shape without control inputs."""
    return is_matmul(op) and all(map(is_known, op.inputs))


def is_known(tensor: Tensor) -> bool:
    """Return True if the static shape of a tensor is fully known."""
    return tensor.shape.is_fully_known


def work(op: Operation) -> int:
    """Return the number of multiplications of a product."""
    rows, columns = op.outputs[0].shape.as_tuple()
    return int(rows * columns * op.inputs[0].shape.as_tuple()[inner_axis(op, 0)])


def is_fast_in_loop(op: Operation, side: int) -> bool:
    """Return True if a native program runs a product at full speed: weights stay in cache or are read only once.

    A lifted product would write the rows of all iterations to memory and read them again.

    Parameters
    ----------
    op : Operation
    side : int
        The factor with different values in each iteration.
    """
    return rows_of(op, side) >= ENOUGH_ROWS and is_own_product(op.inputs[0].shape.as_tuple()[inner_axis(op, 0)])


def is_equal_in_blocks(op: Operation) -> bool:
    """Return True if a product of known shape has the same bits by itself and among the rows of many iterations."""
    if op.inputs[0].dtype.is_integer:
        return True
    # If the right factor varies, its columns are the rows of the product of many iterations, and rows are columns.
    columns = min(op.outputs[0].shape.as_tuple())
    terms = op.inputs[0].shape.as_tuple()[inner_axis(op, 0)]
    return op.inputs[0].dtype in (dtypes.float32, dtypes.float64) and has_equal_rows(terms, columns)


def inner_axis(op: Operation, side: int) -> int:
    """Return the axis of a factor, along which a product sums; `side` is 0 for the left factor."""
    transposed = bool(op.attrs["transpose_b" if side else "transpose_a"])
    return int(transposed) if side else 1 - int(transposed)


def rows_of(op: Operation, side: int) -> int:
    """Return the rows of a left factor, or the columns of a right factor, for which the other factor is read once."""
    rows: int = op.inputs[side].shape.as_tuple()[1 - inner_axis(op, side)]
    return rows


def nbytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor, 1 << 62 if its shape is unknown."""
    elements, dtype = tensor.shape.num_elements, tensor.dtype.numpy
    return 1 << 62 if elements is None or dtype is None else elements * dtype.itemsize

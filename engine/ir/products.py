"""``a @ b``: products of matrices, and of vectors as NumPy has them."""

from __future__ import annotations

from ..base.errors import ShapeError
from .apply import apply, as_typed, convert_to_tensor
from .tensor import Tensor


def product(a: object, b: object) -> Tensor:
    """Build ``a @ b``: a vector on the left is a row, a vector on the right a column, and the added axis is removed.

    Operands of unknown rank are matrices, as `matmul` takes them.
    """
    left, right = as_typed(a), as_typed(b)
    # One operand is a tensor or variable, whose operator was called.
    known = next(t.dtype for t in (left, right) if t is not None)
    left = convert_to_tensor(a, known) if left is None else left
    right = convert_to_tensor(b, known) if right is None else right
    if 0 in (left.rank, right.rank):
        raise ShapeError(
            "a product of matrices was asked for with a scalar",
            wanted="rank 1 or more",
            got=f"{left.shape} and {right.shape}",
            operation=(left if left.rank == 0 else right).op,
            hint="use * for scalars",
        )
    row, column = left.rank == 1, right.rank == 1
    if row:
        left = apply("ExpandDims", left, axis=0)
    if column:
        right = apply("ExpandDims", right, axis=1)
    result: Tensor = apply("MatMul", left, right)
    # Counted from the end, because leading axes may be batches.
    removed = (-2,) * row + (-1,) * column
    return apply("Squeeze", result, axis=removed) if removed else result

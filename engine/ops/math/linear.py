"""Products of matrices, and sums of squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...base.errors import ShapeError
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply
from ...ir.builder import Builder
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched
from ...ir.rules.kernels import Elements
from ...ir.rules.native import RunsAs
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import check_rank
from ..support.batching import emit_reshape, emit_transpose
from ..support.common import sum_to
from ..support.families import keep_dtype
from ..support.literals import f64, i32
from ..support.tangents import multilinear
from ..support.vectorizing.shapes import matmul_examples
from .complex import conj
from .reductions import reduce_sum

if TYPE_CHECKING:
    from ...kernels.cpu.product_sum import ProductSum

_A = f64([[1, 2, -1], [0.5, -3, 2]])
_B = f64([[2, 0.5], [-1, 4], [3, 1.5]])
_BFLOAT16 = dtypes.bfloat16.numpy
_TRANSPOSE_B = {"transpose_b": True}
_BATCH = np.arange(12, dtype=np.float64).reshape(2, 1, 2, 3) - 5


def _infer_matmul_shape(op: Operation) -> Shape:
    """Return the shape of a matrix product; raise ShapeError if operands are no matrices or do not fit."""
    a, b = (t.shape for t in op.inputs[:2])
    for shape in (a, b):
        if shape.rank is not None and shape.rank < 2:
            raise ShapeError(
                "matmul multiplies matrices",
                wanted="rank 2 or more",
                got=f"{a} and {b}",
                operation=op,
                hint="make a vector a matrix with expand_dims, or use reduce_sum(x * y)",
            )
    if a.rank is None or b.rank is None:
        return Shape(None)
    # Sizes of the factors after their transpositions.
    rows, inner = reversed(a[-2:].dims) if op.attrs["transpose_a"] else a[-2:].dims
    inner_b, columns = reversed(b[-2:].dims) if op.attrs["transpose_b"] else b[-2:].dims
    if None not in (inner, inner_b) and inner != inner_b:
        raise ShapeError(
            "the inner dimensions of a matrix product differ",
            wanted=f"{inner} rows on the right",
            got=f"{a} and {b}" + "".join(f", {k}" for k in ("transpose_a", "transpose_b") if op.attrs[k]),
            operation=op,
            hint="transpose one side with transpose_a=True or transpose_b=True",
        )
    leading: Shape = a[:-2].broadcast(b[:-2])
    return leading + Shape([rows, columns])


def _matmul_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the cotangents of both factors, summed over leading dimensions that were broadcast."""
    a, b = op.inputs
    transpose_a, transpose_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    # Each cotangent is made in the layout of its operand, so that no transpose is a step of its own.
    if transpose_a:
        to_a = matmul(conj(b), g, transpose_a=transpose_b, transpose_b=True)
    else:
        to_a = matmul(g, conj(b), transpose_b=not transpose_b)
    if transpose_b:
        to_b = matmul(g, conj(a), transpose_a=True, transpose_b=transpose_a)
    else:
        to_b = matmul(conj(a), g, transpose_a=not transpose_a)
    if a.rank == b.rank == 2:
        return [to_a, to_b]
    return [sum_to(to_a, a), sum_to(to_b, b)]


def _are_views(a: Any, b: Any) -> bool:
    """Return True for matrices of floats in NumPy's arrays, one of which lies in memory neither by rows nor by columns.

    Native programs have plain copies of such views; their products are the C kernel's, with other bits than BLAS's.
    """
    return _are_matrices(a, b) and not all(x.flags.c_contiguous or x.flags.f_contiguous for x in (a, b))


def _are_matrices(a: Any, b: Any) -> bool:
    """Return True for two matrices of floats with elements in NumPy's arrays."""
    if not type(a) is type(b) is np.ndarray or not a.ndim == b.ndim == 2 or a.dtype != b.dtype:
        return False
    return a.dtype in (np.float32, np.float64) and a.size > 0 and b.size > 0


def _compute_matmul(xp: Any, a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply two matrices: views by our own kernel, others by the array library."""
    check_rank(a, 2, None, "matmul multiplies matrices")
    check_rank(b, 2, None, "matmul multiplies matrices")
    if _are_views(a, b):
        from ...kernels.cpu.views import multiply_views  # late: loads all C kernels, which a graph does without

        return multiply_views(a, b, transpose_a, transpose_b)
    if is_numpy(xp) and a.dtype.itemsize == 2 and a.dtype.kind not in "iu":  # BLAS has no 16-bit floats; cuBLAS has
        a, b = a.astype(np.float32), b.astype(np.float32)
    return xp.matmul(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b)


def _add_matmul(xp: Any, a: Any, b: Any, total: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """Add a product of matrices to a total: views by our kernel, whose short chains begin with the total."""
    if _are_matrices(a, b) and _are_matrices(a, total) and (_are_views(a, b) or not total.flags.c_contiguous):
        from ...kernels.cpu.views import multiply_views  # late, as above

        return multiply_views(a, b, transpose_a, transpose_b, total)
    return _compute_matmul(xp, a, b, transpose_a, transpose_b) + total


def _estimate_matmul_elements(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> int:
    """Return the work of a product in elements of other operations: about eight multiplications each."""
    columns = b.shape[-2 if transpose_b else -1]
    # Operands may be broadcast over leading dimensions: the larger count is that of the multiplications.
    return int(max(a.size * columns, b.size * a.shape[-1 if transpose_a else -2]) // 8)


def _rows_by_columns(a: Any, b: Any) -> Any:
    """Return a matrix product without `matmul`, for the samples."""
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


def _batch_matmul(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Multiply the rows of many matrices by a single matrix: as one product, of all rows at once.

    For varying right factors the rule computes ``b.T @ a.T``, the transposes of the products, whose rows are columns of
    the right factors.
    """
    left_varies, right_varies = varying
    if left_varies == right_varies or any(t.rank != 2 or not t.shape.is_fully_known for t in op.inputs):
        return None
    transpose_a, transpose_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows, columns = op.outputs[0].shape.as_tuple()
    inner = op.inputs[0].shape.as_tuple()[0 if transpose_a else 1]
    product_shape = [-1, rows, columns] if left_varies else [-1, columns, rows]
    # Flat rows need the inner dimension last, as in an `a` that is not transposed and in a transposed `b`.
    is_inner_last = not transpose_a if left_varies else transpose_b
    # The single matrix is the second factor: `b` as it is, or the transpose of `a`.
    transpose_matrix = transpose_b if left_varies else not transpose_a

    def emit_flat_product(builder: Builder, operands: list[Tensor]) -> list[Tensor]:
        x, matrix = operands if left_varies else operands[::-1]
        if not is_inner_last:
            x = emit_transpose(builder, x)
        flat = emit_reshape(builder, x, [-1, inner])
        product = builder.tensor("MatMul", flat, matrix, transpose_b=transpose_matrix)
        result = emit_reshape(builder, product, product_shape)
        return [result if left_varies else emit_transpose(builder, result)]

    return emit_flat_product


define(
    "MatMul",
    "a: T, b: T -> product: T",
    rules=[Vectorize(matmul_examples), multilinear(0, 1), Batch(_batch_matmul), Elements(_estimate_matmul_elements)],
    where={"T": dtypes.NUMERIC},
    attrs={"transpose_a": False, "transpose_b": False},
    shape=_infer_matmul_shape,
    kernel=keep_dtype(_compute_matmul),
    gradient=_matmul_gradient,
    samples=[
        Sample([_A, _B], f64([[-3, 7], [10, -8.75]])),
        Sample([_A.T.copy(), _B], f64([[-3, 7], [10, -8.75]]), {"transpose_a": True}),
        Sample([_A, _B.T.copy()], f64([[-3, 7], [10, -8.75]]), {"transpose_b": True}),
        Sample([_A.T.copy(), _B.T.copy()], f64([[-3, 7], [10, -8.75]]), {"transpose_a": True, "transpose_b": True}),
        Sample([_BATCH, np.stack([_B, -_B, 2 * _B])], _rows_by_columns),
        Sample([_A * (1 + 2j), _B * (2 - 1j)], f64([[-3, 7], [10, -8.75]]) * (4 + 3j)),
        Sample([i32([[1, 2]]), i32([[3], [4]])], i32([[11]])),
        Sample([np.ones((2, 4096), np.float16), np.ones((4096, 1), np.float16)], np.full((2, 1), 4096, np.float16)),
        Sample([np.ones((1, 512), _BFLOAT16), np.ones((1, 512), _BFLOAT16)], lambda a, b: 512 * a[:, :1], _TRANSPOSE_B),
    ],
)


# A product added to a total, as one operation: the `accumulate` pass makes it of a product and a sum.
define(
    "MatMulAdd",
    "a: T, b: T, total: T -> sum: T",
    where={"T": (dtypes.float32, dtypes.float64)},
    attrs={"transpose_a": False, "transpose_b": False},
    shape=_infer_matmul_shape,
    kernel=keep_dtype(_add_matmul),
    gradient=NotDifferentiable("it is made after gradients are"),
    samples=[
        Sample([_A, _B, f64([[1, 2], [3, 4]])], f64([[-2, 9], [13, -4.75]])),
        Sample(
            [_A.T.copy(), _B.T.copy(), f64([[1, 2], [3, 4]])],
            f64([[-2, 9], [13, -4.75]]),
            {"transpose_a": True, "transpose_b": True},
        ),
    ],
)


# A sum of products ``a.T @ b`` over the iterations of a loop, such as a gradient of weights: factors are gathered, and
# multiplied many rows at a time. The `batch` pass replaces the sum, a loop variable, by these operations: Begin before
# the loop, Add in each iteration, End after the loop.
_AFTER_GRADIENTS = NotDifferentiable("a pass makes it after gradients are made")
_BLAS_DTYPES = (dtypes.float32, dtypes.float64)


def _begin_sum(xp: Any, total: Any) -> ProductSum:
    from ...kernels.cpu.product_sum import ProductSum  # late: loads all C kernels, which a graph does without

    return ProductSum(total)


def _add_product(xp: Any, total: ProductSum, a: Any, b: Any) -> ProductSum:
    # The C kernel takes all others.
    if _are_matrices(a, b) and not (a.flags.c_contiguous and b.flags.c_contiguous):
        total.gather_views(a, b)
    else:
        total.add(a, b)
    return total


define(
    "ProductSumBegin",
    "total: T -> sum: resource",
    where={"T": _BLAS_DTYPES},
    shape=lambda op: SCALAR,
    kernel=_begin_sum,
    gradient=_AFTER_GRADIENTS,
)

define(
    "ProductSumAdd",
    "sum: resource, a: T, b: T -> sum: resource",
    where={"T": _BLAS_DTYPES},
    shape=lambda op: SCALAR,
    kernel=_add_product,
    gradient=_AFTER_GRADIENTS,
    rules=[RunsAs("ADD_PRODUCT")],
)

define(
    "ProductSumEnd",
    "sum: resource -> total: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: Shape(op.attrs["shape"]),
    kernel=lambda xp, total, dtype, shape: total.value(),
    gradient=_AFTER_GRADIENTS,
)


@public
def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Tensor:
    """Multiply matrices; the dimensions before the last two broadcast.

    Parameters
    ----------
    a, b : Tensor of any numeric dtype
        Same dtype, shapes ``[..., rows, inner]`` and ``[..., inner, columns]``.
    transpose_a, transpose_b : bool
        Swap the last two dimensions of the operand before the product.

    Returns
    -------
    Tensor
        Same dtype, shape ``[..., rows, columns]``. Products of float16 and bfloat16 add up in float32.

    Raises
    ------
    ShapeError
        If an operand is no matrix, or the inner or leading dimensions do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matmul([[1, 2], [3, 4]], [[10], [1]])).sync()
    array([[12],
           [34]], dtype=int32)
    >>> tg.function(lambda: tg.matmul(tg.ones([5, 1, 2, 3]), tg.ones([4, 3, 6]))).sync().shape
    (5, 4, 2, 6)
    """
    return apply("MatMul", a, b, name=name, transpose_a=bool(transpose_a), transpose_b=bool(transpose_b))


@public
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares.

    Parameters
    ----------
    t : Tensor of a floating dtype

    Returns
    -------
    Tensor
        A scalar of the same dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.l2_loss([3.0, 4.0])).sync()
    array(12.5, dtype=float32)
    """
    return apply("Mul", reduce_sum(apply("Square", t)), 0.5, name=name)

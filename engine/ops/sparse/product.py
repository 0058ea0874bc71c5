"""Products of a sparse and a dense matrix.

Three bilinear functions are each other's gradients: the product, the product with the sparse matrix transposed, and the
elements of a dense product at the places of a sparse matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..math.complex import conj
from ..support.arguments import as_sizes, check_rank
from ..support.array_library import add_at
from ..support.bounds import check_bounds
from ..support.common import size_along
from ..support.literals import c128, f32, f64, i32, i64
from ..support.vectorizing.families import one_by_one
from ..support.vectorizing.indexing import sparse_product_examples
from .sparse_tensor import as_sparse

_PLACES = i64([[0, 1], [2, 0], [0, 0], [2, 1]])
_VALUES = f64([5, -6, 7, 0.5])
_B = f64([[1, 2, -1], [0.5, -3, 2]])
_DENSE = f64([[7, 5], [0, 0], [-6, 0.5]])
_BLOCK = 1 << 15  # elements of each factor that are gathered at a time


def _product_shape(op: Operation) -> Shape:
    """Return the static shape of the product; ShapeError for wrong ranks or inner dimensions."""
    indices, values, sizes, b = op.inputs
    ranks = {"indices": (indices, 2), "values": (values, 1), "the dense matrix": (b, 2)}
    for what, (tensor, rank) in ranks.items():
        if tensor.rank not in (rank, None):
            raise ShapeError(
                f"sparse_tensor_dense_matmul multiplies matrices: {what} has another rank",
                wanted=f"rank {rank}",
                got=tensor.shape,
                hint="sparse_reshape and reshape make matrices of what has more dimensions",
            )
    shape = static_shape(sizes)
    if shape.rank not in (2, None):
        raise ShapeError("the sparse tensor is no matrix", wanted="rank 2", got=shape, hint="use sparse_reshape")
    rows, inner = (None, None) if shape.rank is None else shape.dims
    if op.attrs["adjoint"]:
        rows, inner = inner, rows
    height, columns = (None, None) if b.rank is None else b.shape.dims
    if None not in (inner, height) and inner != height:
        raise ShapeError(
            "the inner dimensions of a sparse product differ",
            wanted=f"{inner} rows in the dense matrix",
            got=b.shape,
            hint="adjoint_a=True and adjoint_b=True transpose",
        )
    return Shape([rows, columns])


def _multiply_sparse(xp: Any, indices: Any, values: Any, sizes: Any, b: Any, adjoint: bool) -> Any:
    """Multiply a sparse matrix, or its adjoint, by a dense matrix; values of equal places add up."""
    rows, columns = as_sizes(sizes)
    check_rank(b, 2, 2, "sparse_tensor_dense_matmul multiplies matrices")
    if b.shape[0] != (rows if adjoint else columns):
        raise ValueError(f"sparse_tensor_dense_matmul: {rows} x {columns}, adjoint={adjoint}, times {b.shape}")
    row, column = indices[:, 0], indices[:, 1]
    check_bounds(row, rows, "rows of sparse_tensor_dense_matmul")
    check_bounds(column, columns, "columns of sparse_tensor_dense_matmul")
    values = values.conj() if adjoint else values
    if is_numpy(xp):
        return _by_scipy(row, column, values, (rows, columns), b, adjoint)
    # Each value adds its multiple of row `of` of b to row `to` of the product.
    to, of = (column, row) if adjoint else (row, column)
    product = xp.zeros((columns if adjoint else rows, b.shape[1]), dtype=b.dtype)
    add_at(xp, product, to, values[:, None] * b[of])
    return product


def _by_scipy(row: Any, column: Any, values: Any, shape: tuple[int, int], b: Any, adjoint: bool) -> Any:
    """Multiply in SciPy's CSR format, whose transpose is CSC without a copy; two-byte floats in float32."""
    from scipy import sparse

    half = b.dtype.itemsize == 2 and b.dtype.kind not in "iu"
    if half:
        return _by_scipy(row, column, values.astype(np.float32), shape, b.astype(np.float32), adjoint).astype(b.dtype)
    # Rows in order, as after `sparse_reorder`, need no conversion: counts per row are enough for the CSR format.
    if np.any(row[1:] < row[:-1]):
        matrix = sparse.coo_array((values, (row, column)), shape).tocsr()
    else:
        starts = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=shape[0]), out=starts[1:])
        # Columns of a row may be unsorted or repeated: products need neither order nor uniqueness.
        matrix = sparse.csr_array((values, column, starts), shape)
    return (matrix.T if adjoint else matrix) @ b


def _product_gradient(op: Operation, g: Tensor) -> list[Any]:
    indices, values, sizes, b = op.inputs
    if op.attrs["adjoint"]:
        # The adjoint exchanges the roles: a value in row r and column c meets row r of `b` and row c of `g`.
        to_values = apply("SampledProduct", indices, b, conj(g))
    else:
        to_values = apply("SampledProduct", indices, g, conj(b))
    return [None, to_values, None, _apply_sparse_product(indices, values, sizes, g, not op.attrs["adjoint"])]


def _apply_sparse_product(indices: Tensor, values: Tensor, sizes: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    return apply("SparseTensorDenseMatMul", indices, values, sizes, b, adjoint=adjoint)


def _sparse_product_elements(indices: Any, values: Any, sizes: Any, b: Any, adjoint: bool) -> int:
    # The product, and the gathered rows of `b` times values, an intermediate array on a GPU.
    return int(sizes[1 if adjoint else 0] * b.shape[-1] + values.shape[0] * b.shape[-1])


define(
    "SparseTensorDenseMatMul",
    "indices: I, values: T, shape: host J, b: T -> product: T",
    where={"I": dtypes.INDEX, "T": dtypes.NUMERIC, "J": dtypes.INDEX},
    attrs={"adjoint": False},
    shape=_product_shape,
    rules=[Vectorize(sparse_product_examples), Elements(_sparse_product_elements), ReadsValues()],
    kernel=_multiply_sparse,
    gradient=_product_gradient,
    samples=[
        Sample([_PLACES, _VALUES, i64([3, 2]), _B], _DENSE @ _B),
        Sample(
            [i32(_PLACES), _VALUES, i32([3, 2]), f64([[1, 2], [0, -1], [3, 0.5]])],
            f64([[-11, 11], [6.5, 10.25]]),
            {"adjoint": True},
        ),
        Sample(
            [i64([[1, 1], [1, 1], [0, 0]]), f64([2, 3, 4]), i64([2, 2]), f64([[1, 2], [3, 4]])], f64([[4, 8], [15, 20]])
        ),
        Sample([_PLACES, _VALUES * (1 + 2j), i64([3, 2]), _B * (2 - 1j)], _DENSE @ _B * (4 + 3j)),
        Sample(
            [_PLACES, _VALUES * (1 + 2j), i64([3, 2]), c128([[1j], [2], [3]])],
            _DENSE.T @ c128([[1j], [2], [3]]) * (1 - 2j),
            {"adjoint": True},
        ),
        Sample([_PLACES, f32([5, -6, 7, 0.5]), i64([3, 2]), f32(_B)], f32(_DENSE @ _B)),
        Sample([_PLACES, i32([5, -6, 7, 1]), i64([3, 2]), i32([[1], [2]])], i32([[17], [0], [-4]])),
        Sample([np.zeros((0, 2), np.int64), f64([]), i64([3, 2]), _B], np.zeros((3, 3))),
        Sample([np.zeros((0, 2), np.int64), f64([]), i64([0, 2]), _B], np.zeros((0, 3))),
        Sample([_PLACES, _VALUES, i64([3, 2]), np.zeros((2, 0))], np.zeros((3, 0))),
    ],
)


def _sampled_shape(op: Operation) -> Shape:
    indices = op.inputs[0].shape
    return Shape([None if indices.rank is None else indices[0]])


def _compute_sampled_product(xp: Any, indices: Any, x: Any, y: Any) -> Any:
    """Multiply rows of `x` by rows of `y`, in blocks whose gathered rows stay in the cache."""
    rows, columns = indices[:, 0], indices[:, 1]
    check_bounds(rows, x.shape[0], "rows of a sampled product")
    check_bounds(columns, y.shape[0], "columns of a sampled product")
    # float16 and bfloat16, summed in float32 as in products of dense matrices.
    half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    sums = xp.empty(rows.shape[0], dtype=x.dtype)
    step = max(1, _BLOCK // max(1, x.shape[1]))
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        left, right = x[rows[part]], y[columns[part]]
        if half:
            left, right = left.astype(xp.float32), right.astype(xp.float32)
        sums[part] = _row_products(xp, left, right).astype(x.dtype)
    return sums


def _row_products(xp: Any, left: Any, right: Any) -> Any:
    """Return the scalar product of each pair of rows."""
    if is_numpy(xp):  # einsum makes no array of the elementwise products
        return np.einsum("nk,nk->n", left, right)
    return xp.sum(left * right, axis=1, dtype=left.dtype)


# The cotangents of the elements form a sparse matrix with a row for each row of x, and a column for each row of y.
def _sampled_gradient(op: Operation, g: Tensor) -> list[Any]:
    indices, x, y = op.inputs
    sizes = apply("Stack", [size_along(t, 0) for t in (x, y)], axis=0)
    return [
        None,
        _apply_sparse_product(indices, g, sizes, conj(y), False),
        _apply_sparse_product(indices, conj(g), sizes, conj(x), True),
    ]


define(
    "SampledProduct",
    "indices: I, x: T, y: T -> elements: T",
    where={"I": dtypes.INDEX, "T": dtypes.NUMERIC},
    shape=_sampled_shape,
    rules=[Vectorize(one_by_one), Elements(lambda indices, x, y: indices.shape[0] * x.shape[-1]), ReadsValues()],
    kernel=_compute_sampled_product,
    gradient=_sampled_gradient,
    samples=[
        Sample([_PLACES, _DENSE, f64([[1, 2], [3, -4]])], f64([1, -5, 17, -20])),
        Sample([i32([[1, 0], [1, 0]]), _B * 1j, c128(_B)], c128([-7.5j, -7.5j])),
        Sample([i64([[0, 0]]), i32([[2, 3]]), i32([[4, 5]])], i32([23])),
        Sample([np.zeros((0, 2), np.int64), _DENSE, _DENSE], f64([])),
        Sample([i64([[0, 1]]), np.zeros((1, 0)), np.zeros((2, 0))], f64([0])),
    ],
)


@public
def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Multiply a sparse matrix by a dense matrix.

    Parameters
    ----------
    sp_a : SparseTensor of any numeric dtype, of shape [rows, inner]
        In any order; values of equal places add up.
    b : Tensor of the same dtype, of shape [inner, columns]
    adjoint_a, adjoint_b : bool
        Transpose and conjugate the operand first.

    Returns
    -------
    Tensor
        Of shape [rows, columns]. Products of float16 and bfloat16 are summed in float32.

    Raises
    ------
    ShapeError
        If the operands are not matrices, or do not fit.
    OpError
        In a step, if an index is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> a = tg.SparseTensorValue([[0, 1], [2, 0]], [2.0, 3.0], [3, 2])
    >>> tg.function(lambda: tg.sparse_tensor_dense_matmul(a, [[1.0, 2.0], [3.0, 4.0]])).sync()
    array([[6., 8.],
           [0., 0.],
           [3., 6.]], dtype=float32)
    """
    sp = as_sparse(sp_a, "sparse_tensor_dense_matmul")
    dense = convert_to_tensor(b, None if isinstance(b, Tensor) else sp.dtype)
    if adjoint_b:
        dense = conj(apply("Transpose", dense, perm=(1, 0)))
    return apply(
        "SparseTensorDenseMatMul", sp.indices, sp.values, sp.dense_shape, dense, name=name, adjoint=bool(adjoint_a)
    )

"""Norms of vectors and of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.errors import GraphError, ShapeError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.layout import transpose
from ..array.shapes import expand_dims, squeeze
from ..math.casting import cast
from ..math.reductions import reduce_max, reduce_min, reduce_sum
from ..support.arguments import axis_within, known_rank, static_ints
from .singular_values import svd

_MATRIX_ORDERS = ("euclidean", "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@public
def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Norm of vectors or of matrices.

    A single axis, or None for all values, means vectors; two axes mean matrices, with rows along the first axis, as in
    NumPy and TensorFlow. Without an axis the values of a matrix are a vector, as in TensorFlow; `numpy.linalg.norm`
    would take the norm of the matrix there.

    Parameters
    ----------
    tensor : Tensor of a floating or complex dtype
        For 2, -2 and 'nuc' of matrices float32, float64, complex64 or complex128.
    ord : {'euclidean', 'fro', 'nuc'} or float
        Of vectors p, for ``sum(abs(x) ** p) ** (1 / p)``: inf is the largest absolute value, -inf the smallest, 0 the
        number of nonzero values. Of matrices 1 is the largest sum of a column, inf of a row, 2 the largest
        singular value, 'nuc' the sum of these; -1, -inf and -2 are the smallest. 'euclidean' is the root of the sum of
        squares of either, and 'fro' the same of matrices.
    axis : int, or sequence of int, optional
    keepdims : bool
        Whether the result has dimensions of size 1 in place of the axes.

    Returns
    -------
    Tensor
        Of the real dtype, without the reduced axes.

    Raises
    ------
    GraphError
        If there is no such norm of vectors, or of matrices.
    ShapeError
        If there is no such axis, or both axes of matrices are the same.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.norm([[3.0, 4.0], [6.0, 8.0]], axis=1)).sync()
    array([ 5., 10.], dtype=float32)
    >>> tg.function(lambda: tg.norm([3.0, -4.0], ord=1)).sync()
    array(7., dtype=float32)

    The largest sum of a column:

    >>> tg.function(lambda: tg.norm([[1.0, -2.0], [3.0, 4.0]], ord=1, axis=(0, 1))).sync()
    array(6., dtype=float32)
    """
    x = convert_to_tensor(tensor)
    axes = None if axis is None else static_ints(axis)
    if axes is not None and len(axes) == 2:
        return _of_matrices(x, ord, axes[0], axes[1], keepdims, name)
    # Vectors have no such norms, so that a matrix is meant as a whole.
    if ord in ("fro", "nuc") and axes is None and x.rank == 2:
        return _of_matrices(x, ord, 0, 1, keepdims, name)
    if axes is not None and len(axes) > 2 and ord != "euclidean":
        raise _no_norm(ord, f"{len(axes)} axes", "'euclidean', or one or two axes")
    return _of_vectors(x, ord, axis, keepdims, name)


def _of_vectors(x: Tensor, ord: Any, axis: Any, keepdims: bool, name: str | None) -> Tensor:
    """Return the norm of order `ord` over `axis`; orders 0, 1, 2 and infinity need no powers."""
    size = apply("Abs", x)
    if isinstance(ord, str):
        if ord != "euclidean":
            raise _no_norm(ord, "vectors", "'euclidean', or a number; 'fro' and 'nuc' take two axes")
        ord = 2
    if isinstance(ord, bool) or not isinstance(ord, (int, float, np.number)) or math.isnan(ord):
        raise _no_norm(ord, "vectors", "'euclidean', or a number")
    if ord == 2:
        return apply("Sqrt", reduce_sum(apply("Square", size), axis, keepdims), name=name)
    if ord == 1:
        return reduce_sum(size, axis, keepdims, name)
    if math.isinf(ord):
        return (reduce_max if ord > 0 else reduce_min)(size, axis, keepdims, name)
    if ord == 0:
        return reduce_sum(cast(apply("NotEqual", size, 0), size.dtype), axis, keepdims, name)
    total = reduce_sum(size ** float(ord), axis, keepdims)
    return apply("Pow", total, 1 / float(ord), name=name)


def _of_matrices(x: Tensor, ord: Any, rows: int, columns: int, keepdims: bool, name: str | None) -> Tensor:
    """Return the norm of order `ord` of matrices with rows along axis `rows`, and columns along `columns`."""
    if ord not in _MATRIX_ORDERS or isinstance(ord, bool):
        raise _no_norm(ord, "matrices", "'euclidean', 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    # Axes that count from the same end need no rank: only then an unknown rank is allowed.
    if x.rank is not None or (rows < 0) != (columns < 0):
        rank = known_rank(x, "the norm of matrices along axes that count from both ends")
        rows, columns = axis_within(rows, rank), axis_within(columns, rank)
    if rows == columns:
        raise ShapeError(
            "the rows and columns of matrices lie along two axes",
            wanted="two axes",
            got=f"{rows} twice",
            operation=x.op,
            hint="axis=(-2, -1) takes the last two dimensions",
        )
    if ord in ("euclidean", "fro"):
        return apply("Sqrt", reduce_sum(apply("Square", apply("Abs", x)), [rows, columns], keepdims), name=name)
    if ord in ("nuc", 2, -2):
        value = _by_singular_values(x, ord, rows, columns, keepdims)
        return apply("Identity", value, name=name)
    # Order 1 compares the sums of columns, taken along the rows; order infinity the sums of rows.
    along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
    # Both reductions keep their dimensions, because `across` counts in the unreduced tensor.
    sums = reduce_sum(apply("Abs", x), along, True)
    result = (reduce_max if ord > 0 else reduce_min)(sums, across, True)
    return apply("Identity", result if keepdims else squeeze(result, [rows, columns]), name=name)


def _by_singular_values(x: Tensor, ord: Any, rows: int, columns: int, keepdims: bool) -> Tensor:
    """Return the sum ('nuc'), the largest (2) or the smallest (-2) of the singular values of each matrix."""
    if (rows, columns) not in ((-2, -1), (-1, -2)):  # transposes have the same singular values
        rank = known_rank(x, "the norm of matrices along other axes than the last two")
        x = transpose(x, [i for i in range(rank) if i not in (rows, columns)] + [rows, columns])
    values = svd(x, compute_uv=False)
    reduce = reduce_sum if ord == "nuc" else reduce_max if ord > 0 else reduce_min
    result = reduce(values, -1)
    if not keepdims:
        return result
    # Places count in the result: axes from the end are put in from the last on, others from the first on.
    for axis in sorted((rows, columns), reverse=rows < 0):
        result = expand_dims(result, axis)
    return result


def _no_norm(ord: Any, of: str, wanted: str) -> GraphError:
    return GraphError(
        f"there is no such norm of {of}",
        wanted=wanted,
        got=repr(ord),
        hint="'euclidean' is the usual norm; axis=(-2, -1) takes the last two dimensions as matrices",
    )

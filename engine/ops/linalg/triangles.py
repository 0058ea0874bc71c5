"""Bands and triangles of matrices, and the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.reductions import reduce_sum
from ..support.arguments import index_tensor, only_scalars
from ..support.literals import c128, f64, i32, i64
from ..support.vectorizing.families import leading
from .common import matrices_shape
from .diagonals import matrix_diag_part, matrix_set_diag

_X = f64([[1, 2, 3, 4], [5, 6, 7, 8], [9, 8, 7, 6]])


def _infer_band_part_shape(op: Operation) -> Shape:
    only_scalars(op, 1, 2)
    return matrices_shape(op)


def _compute_band_part(xp: Any, x: Any, num_lower: Any, num_upper: Any) -> Any:
    rows, columns = x.shape[-2:]
    lower, upper = int(num_lower), int(num_upper)
    above = xp.arange(columns) - xp.arange(rows)[:, None]
    # A negative number keeps the whole triangle on its side.
    kept = (above >= -(rows if lower < 0 else lower)) & (above <= (columns if upper < 0 else upper))
    # Not a product with a mask, which would keep NaNs outside of the band.
    return xp.where(kept, x, xp.zeros((), x.dtype))


define(
    "MatrixBandPart",
    "input: T, num_lower: host I, num_upper: host I -> band: T",
    where={"T": (*dtypes.NUMERIC, dtypes.bool_), "I": dtypes.INDEX},
    shape=_infer_band_part_shape,
    rules=[Vectorize(leading)],
    kernel=_compute_band_part,
    gradient=lambda op, g: [apply("MatrixBandPart", g, *op.inputs[1:]), None, None],
    samples=[
        Sample([_X, i32(1), i32(0)], f64([[1, 0, 0, 0], [5, 6, 0, 0], [0, 8, 7, 0]])),
        Sample([np.stack([_X, -_X]), i64(-1), i64(1)], lambda x, *_: np.triu(x, 0) + np.tril(x, -1) - np.triu(x, 2)),
        Sample([_X, i32(0), i32(-1)], lambda x, *_: np.triu(x)),
        Sample([c128([[1j, 2], [3, np.nan]]), i32(5), i32(0)], c128([[1j, 0], [3, np.nan]]), differentiable=False),
        Sample([i32([[1, 2], [3, 4]]), i32(0), i32(0)], i32([[1, 0], [0, 4]])),
        Sample([np.zeros((2, 0, 3)), i32(0), i32(0)], np.zeros((2, 0, 3))),
    ],
)


@public
def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Keep a band of diagonals of matrices, and set all other elements to zero.

    Parameters
    ----------
    input : Tensor of any numeric dtype, or bool
        Shape ``[..., rows, columns]``.
    num_lower, num_upper : int32 or int64 scalars
        Number of diagonals to keep below and above the main diagonal; negative numbers keep all. ``(-1, 0)`` returns
        the lower triangle, ``(0, -1)`` the upper.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If `input` has fewer than two dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_band_part([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0, -1)).sync()
    array([[1, 2, 3],
           [0, 5, 6],
           [0, 0, 9]], dtype=int32)
    """
    lower, upper = index_tensor(num_lower), index_tensor(num_upper)
    return apply("MatrixBandPart", input, lower, upper, name=name)


def take_triangle(x: Tensor, lower: bool) -> Tensor:
    """Return the `lower` or the upper triangles of the square matrices `x`."""
    return matrix_band_part(x, -1, 0) if lower else matrix_band_part(x, 0, -1)


def half_lower(x: Tensor) -> Tensor:
    """Return the lower triangles of square `x`, diagonals halved; adding the adjoint restores a Hermitian `x`."""
    return matrix_set_diag(take_triangle(x, lower=True), matrix_diag_part(x) * 0.5)


@public
def trace(x: Any, name: str | None = None) -> Tensor:
    """Sum the main diagonal of matrices.

    Parameters
    ----------
    x : Tensor of any numeric dtype
        Shape ``[..., rows, columns]``.

    Returns
    -------
    Tensor
        Same dtype, shape ``[...]``.

    Raises
    ------
    ShapeError
        If `x` has fewer than two dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.trace([[1, 2, 3], [4, 5, 6]])).sync()
    array(6, dtype=int32)
    """
    return reduce_sum(matrix_diag_part(convert_to_tensor(x)), -1, name=name)

"""Diagonals of matrices and bands of diagonals: extraction, replacement, and construction of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from ..support.common import zeros_like
from ..support.literals import c128, f64, flags, i32
from ..support.vectorizing.families import leading
from .bands import Band, as_diagonals, as_padding
from .common import matrices_shape

_ELEMENTS = {"T": (*dtypes.NUMERIC, dtypes.bool_)}
_ATTRS = {"k": (0, 0), "align": "RIGHT_LEFT"}
_X = f64([[1, 2, 3, 4], [5, 6, 7, 8], [9, 8, 7, 6]])
_BATCH = np.stack([_X, -2 * _X])


def _make_band(k: tuple[int, int], align: str) -> Band:
    """Return the band of the attributes `k`, the numbers of the lower and the upper diagonal, and `align`."""
    return Band(*k, align)


def _band_of(op: Operation) -> Band:
    return _make_band(op.attrs["k"], op.attrs["align"])


def _takes_band(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Make a kernel of a kernel that takes the Band in place of the attributes `k` and `align`."""

    @wraps(kernel)
    def call_kernel(xp: Any, *inputs: Any, k: tuple[int, int], align: str, **attrs: Any) -> Any:
        return kernel(xp, *inputs, _make_band(k, align), **attrs)

    return call_kernel


def _band_attrs(op: Operation) -> dict[str, Any]:
    return {"k": op.attrs["k"], "align": op.attrs["align"]}


def _infer_diagonals_shape(op: Operation) -> Shape:
    """Return the shape of a band of the first input's matrices; ShapeError if the matrices lack its diagonals."""
    band, x = _band_of(op), matrices_shape(op)
    if x.rank is None:
        return x
    band.check(*x[-2:])
    rows, columns = x[-2:]
    length = None if rows is None or columns is None else band.longest(rows, columns)
    return x[:-2] + band.rows_shape(length)


@_takes_band
def _compute_diag_part(xp: Any, x: Any, band: Band, padding_value: Any) -> Any:
    """Extract a diagonal, or the diagonals of a band as rows, padded with `padding_value`."""
    rows, columns = x.shape[-2:]
    band.check(rows, columns)
    if band.count == 1:
        # NumPy's diagonal is a read-only view, which would keep the matrices in memory.
        return xp.diagonal(x, band.upper, -2, -1).copy()
    flat = x.reshape(*x.shape[:-2], rows * columns)
    out = xp.full((*x.shape[:-2], band.count, band.longest(rows, columns)), padding_value, x.dtype)
    for i, matrix_slice, row_slice in band.places(rows, columns):
        out[..., i, row_slice] = flat[..., matrix_slice]
    return out


define(
    "MatrixDiagPart",
    "input: T -> diagonal: T",
    where=_ELEMENTS,
    attrs={**_ATTRS, "padding_value": 0},
    shape=_infer_diagonals_shape,
    rules=[Vectorize(leading)],
    kernel=_compute_diag_part,
    gradient=lambda op, g: [apply("MatrixSetDiag", zeros_like(op.inputs[0]), g, **_band_attrs(op))],
    samples=[
        Sample([_X], f64([1, 6, 7])),
        Sample([_BATCH], f64([[2, 7, 6], [-4, -14, -12]]), {"k": (1, 1)}),
        Sample([_X], f64([[2, 7, 6], [1, 6, 7], [5, 8, 0]]), {"k": (-1, 1)}),
        Sample([_X], f64([[2, 7, 6], [1, 6, 7], [0, 5, 8]]), {"k": (-1, 1), "align": "LEFT_RIGHT"}),
        Sample(
            [_X.T.copy()],
            f64([[9, 9, 9], [9, 5, 8], [1, 6, 7], [2, 7, 6]]),
            {"k": (-1, 2), "padding_value": 9, "align": "RIGHT_RIGHT"},
        ),
        Sample([_X * 1j], c128([5j, 8j]), {"k": (-1, -1)}),
        Sample([np.zeros((2, 0, 0))], np.zeros((2, 0))),
        Sample([flags([[True, False], [False, True]])], flags([True, True])),
    ],
)


def _infer_set_shape(op: Operation) -> Shape:
    """Return the shape of the matrices; refuse diagonals of another shape than `matrix_diag_part` returns."""
    x, diagonal, wanted = matrices_shape(op), op.inputs[1].shape, _infer_diagonals_shape(op)
    if not wanted.is_compatible_with(diagonal):
        raise ShapeError(
            "the diagonals do not fit the matrices",
            wanted=wanted,
            got=diagonal,
            operation=op,
            hint="give what matrix_diag_part of the same k gives",
        )
    return x


@_takes_band
def _compute_set_diag(xp: Any, x: Any, diagonal: Any, band: Band) -> Any:
    rows, columns = x.shape[-2:]
    band.check(rows, columns)
    wanted = (*x.shape[:-2], *band.rows_shape(band.longest(rows, columns)).as_tuple())
    if diagonal.shape != wanted:
        raise ValueError(f"matrix_set_diag: the diagonals of matrices {x.shape} are {wanted}, got {diagonal.shape}")
    # Order C even for a transposed input: `_write_diagonals` needs a flat view.
    return _write_diagonals(x.copy("C"), diagonal, band)


def _write_diagonals(out: Any, diagonal: Any, band: Band) -> Any:
    """Write diagonals into contiguous matrices, in place, and return the matrices."""
    rows, columns = out.shape[-2:]
    # A view, because `out` is contiguous: writes reach the matrices.
    flat = out.reshape(*out.shape[:-2], rows * columns)
    # A row for each diagonal, which a single diagonal lacks.
    diagonals = diagonal if band.count > 1 else diagonal[..., None, :]
    for i, matrix_slice, row_slice in band.places(rows, columns):
        flat[..., matrix_slice] = diagonals[..., i, row_slice]
    return out


def _set_gradient(op: Operation, g: Tensor) -> list[Any]:
    _, diagonal = op.inputs
    # Replaced elements of the input do not reach the output: their cotangent is 0.
    to_input = apply("MatrixSetDiag", g, zeros_like(diagonal), **_band_attrs(op))
    return [to_input, apply("MatrixDiagPart", g, **_band_attrs(op))]


define(
    "MatrixSetDiag",
    "input: T, diagonal: T -> output: T",
    where=_ELEMENTS,
    attrs=_ATTRS,
    shape=_infer_set_shape,
    rules=[Vectorize(leading)],
    kernel=_compute_set_diag,
    gradient=_set_gradient,
    samples=[
        Sample([_X, f64([-1, -2, -3])], f64([[-1, 2, 3, 4], [5, -2, 7, 8], [9, 8, -3, 6]])),
        Sample(
            [_X, f64([[10, 20, 30], [-1, -2, 0]])],
            f64([[10, 2, 3, 4], [-1, 20, 7, 8], [9, -2, 30, 6]]),
            {"k": (-1, 0)},
        ),
        Sample([i32([[1, 2], [3, 4]]), i32([7])], i32([[1, 7], [3, 4]]), {"k": (1, 1)}),
        Sample([_BATCH[:, :2, :2], f64([[1, 1], [3, 3]])], f64([[[1, 2], [5, 1]], [[3, -4], [-10, 3]]])),
    ],
)


def _infer_matrix_shape(op: Operation) -> Shape:
    """Return the shape of the matrices; refuse a band that has another number of rows than diagonals."""
    band, diagonal = _band_of(op), op.inputs[0].shape
    least_rank = 1 if band.count == 1 else 2
    if diagonal.rank is None:
        return diagonal
    if diagonal.rank < least_rank or (band.count > 1 and diagonal[-2] not in (band.count, None)):
        raise ShapeError(
            "matrix_diag makes a matrix of its diagonals",
            wanted="[..., length]" if band.count == 1 else f"[..., {band.count}, longest]",
            got=diagonal,
            operation=op,
            hint="k says which diagonals they are, one row for each",
        )
    sizes = band.matrix_size(diagonal[-1], op.attrs["num_rows"], op.attrs["num_cols"])
    return diagonal[:-least_rank] + Shape(sizes)


@_takes_band
def _compute_matrix_diag(xp: Any, diagonal: Any, band: Band, num_rows: int, num_cols: int, padding_value: Any) -> Any:
    """Return matrices with the given diagonals, and `padding_value` elsewhere."""
    least_rank = 1 if band.count == 1 else 2
    if diagonal.ndim < least_rank or (band.count > 1 and diagonal.shape[-2] != band.count):
        raise ValueError(f"matrix_diag: {band.count} diagonals need [..., {band.count}, longest], got {diagonal.shape}")
    rows, columns = band.matrix_size(diagonal.shape[-1], num_rows, num_cols)
    # Elements off the diagonals keep the padding.
    out = xp.full((*diagonal.shape[:-least_rank], rows, columns), padding_value, diagonal.dtype)
    return _write_diagonals(out, diagonal, band)


def _count_elements(diagonal: Any, num_rows: int, num_cols: int, **_: Any) -> int:
    """Return about the number of elements of the matrices, square with the length of the diagonals by default."""
    length = diagonal.shape[-1]
    rows, columns = (length if n == -1 else n for n in (num_rows, num_cols))
    return int(math.prod(diagonal.shape[:-1]) * rows * columns)


define(
    "MatrixDiag",
    "diagonal: T -> output: T",
    where=_ELEMENTS,
    attrs={**_ATTRS, "num_rows": -1, "num_cols": -1, "padding_value": 0},
    shape=_infer_matrix_shape,
    rules=[Vectorize(leading), Elements(_count_elements)],
    kernel=_compute_matrix_diag,
    gradient=lambda op, g: [apply("MatrixDiagPart", g, **_band_attrs(op))],
    samples=[
        Sample([f64([[1, 2], [3, 4]])], f64([[[1, 0], [0, 2]], [[3, 0], [0, 4]]])),
        Sample([f64([5, 6])], f64([[0, 0, 0], [5, 0, 0], [0, 6, 0]]), {"k": (-1, -1)}),
        Sample([f64([[0, 8], [1, 2]])], f64([[1, 8], [0, 2], [0, 0]]), {"k": (0, 1), "num_rows": 3, "num_cols": 2}),
        Sample([i32([4])], i32([[7, 4, 7]]), {"k": (1, 1), "num_rows": 1, "num_cols": 3, "padding_value": 7}),
        Sample([c128([1j, 2])], c128([[1j, 0], [0, 2]])),
        Sample([np.zeros((2, 0))], np.zeros((2, 0, 0))),
    ],
)


@public
def matrix_diag(
    diagonal: Any,
    name: str | None = None,
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Build matrices from their diagonals.

    Parameters
    ----------
    diagonal : Tensor of any numeric dtype, or bool
        Shape ``[..., length]``; of a band ``[..., count, longest]``, the upper diagonal first.
    k : int or pair of int
        Number of the diagonal, or of the lower and upper diagonals of a band; 0 is the main diagonal, 1 the next above.
    num_rows, num_cols : int
        Size of the matrices; -1 means the smallest size that holds the diagonals, square if both are -1.
    padding_value : number
        Value outside of the band.
    align : {'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT'}
        Side of its row on which a shorter diagonal of the band is: first above, then below the main diagonal.

    Returns
    -------
    Tensor
        Same dtype, shape ``[..., num_rows, num_cols]``.

    Raises
    ------
    ShapeError
        If the number of diagonals differs from `k`, or they do not fit the size.
    GraphError
        If `k` or `align` has another value.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_diag([1, 2])).sync()
    array([[1, 0],
           [0, 2]], dtype=int32)
    >>> tg.function(lambda: tg.matrix_diag([[0, 8], [1, 2]], k=(0, 1))).sync()
    array([[1, 8],
           [0, 2]], dtype=int32)
    """
    return apply(
        "MatrixDiag",
        diagonal,
        name=name,
        k=as_diagonals(k),
        align=align,
        num_rows=static_int(num_rows, "num_rows"),
        num_cols=static_int(num_cols, "num_cols"),
        padding_value=as_padding(padding_value),
    )


@public
def matrix_diag_part(
    input: Any, name: str | None = None, k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Take diagonals out of matrices.

    Parameters
    ----------
    input : Tensor of any numeric dtype, or bool
        Shape ``[..., rows, columns]``.
    k : int or pair of int
        Number of the diagonal, or of the lower and upper diagonals of a band; 0 is the main diagonal, 1 the next above.
    padding_value : number
        Value that fills the rows of diagonals shorter than the longest of the band.
    align : {'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT'}
        Side of its row on which a shorter diagonal of the band is: first above, then below the main diagonal.

    Returns
    -------
    Tensor
        Same dtype, shape ``[..., length]``; of a band ``[..., count, longest]``, the upper diagonal first.

    Raises
    ------
    ShapeError
        If the matrices do not have these diagonals.
    GraphError
        If `k` or `align` has another value.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_diag_part([[1, 2, 3], [4, 5, 6]])).sync()
    array([1, 5], dtype=int32)
    >>> tg.function(lambda: tg.matrix_diag_part([[1, 2], [3, 4]], k=(-1, 0))).sync()
    array([[1, 4],
           [3, 0]], dtype=int32)
    """
    return apply(
        "MatrixDiagPart", input, name=name, k=as_diagonals(k), align=align, padding_value=as_padding(padding_value)
    )


@public
def matrix_set_diag(
    input: Any, diagonal: Any, name: str | None = None, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Replace diagonals of matrices.

    Parameters
    ----------
    input : Tensor of any numeric dtype, or bool
        Shape ``[..., rows, columns]``.
    diagonal : Tensor of the same dtype
        Shape of the result of `matrix_diag_part` with the same `k`.
    k : int or pair of int
        Number of the diagonal, or of the lower and upper diagonals of a band.
    align : {'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT'}
        As in `matrix_diag_part`.

    Returns
    -------
    Tensor
        Same dtype and shape as `input`.

    Raises
    ------
    ShapeError
        If the matrices do not have these diagonals, or `diagonal` has another shape.
    GraphError
        If `k` or `align` has another value.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_set_diag([[1, 2, 3], [4, 5, 6]], [0, 9])).sync()
    array([[0, 2, 3],
           [4, 9, 6]], dtype=int32)
    """
    return apply("MatrixSetDiag", input, diagonal, name=name, k=as_diagonals(k), align=align)

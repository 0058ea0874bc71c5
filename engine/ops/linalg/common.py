"""Helpers of the matrix operations: dtypes, checks of shapes, calls of LAPACK, products with adjoints."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..math.complex import conj
from ..math.linear import matmul

DIVERGED = "there may be NaNs or infinities in the matrix: look with check_numerics"
LAPACK = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def matrices_shape(op: Operation, index: int = 0) -> Shape:
    """Return the static shape of an input; raise ShapeError if its rank is known to be below 2."""
    shape: Shape = op.inputs[index].shape
    if shape.rank is not None and shape.rank < 2:
        raise ShapeError(
            f"{op.type} takes matrices",
            wanted="rank 2 or more",
            got=shape,
            operation=op,
            hint="make a vector a matrix of one column with expand_dims(x, -1)",
        )
    return shape


def sizes_of_matrices(op: Operation) -> tuple[Shape, int | None, int | None, int | None]:
    """Return the leading dimensions of the first input, then its rows, its columns, and the smaller of both."""
    x = matrices_shape(op)
    rows, columns = (None, None) if x.rank is None else x[-2:]
    fewer = None if rows is None or columns is None else min(rows, columns)
    return x[:-2], rows, columns, fewer


def square_shape(op: Operation, index: int = 0) -> Shape:
    """Return the static shape of an input, its last two dimensions merged; raise ShapeError if they differ."""
    shape = matrices_shape(op, index)
    if shape.rank is None:
        return shape
    rows, columns = shape[-2:]
    if None not in (rows, columns) and rows != columns:
        raise ShapeError(
            f"{op.type} takes square matrices",
            wanted="as many rows as columns",
            got=shape,
            operation=op,
            hint="the matrices are the last two dimensions; matrix_solve_ls, svd and qr take others",
        )
    # Either dimension may be the known one.
    size = columns if rows is None else rows
    return shape[:-2] + Shape([size, size])


def call_linalg(xp: Any, function: str, *arrays: Any, refused: str = "", may_fail: bool = True, **options: Any) -> Any:
    """Call a function of ``xp.linalg``, with CuPy set to raise LinAlgError where NumPy does.

    Parameters
    ----------
    xp : module
    function : str
        Name of the function.
    arrays, options
        Arguments of the function.
    refused : str
        Advice for a failure, appended to the message of the LinAlgError.
    may_fail : bool
        False if the function cannot fail for finite numbers: CuPy then ignores failures, because it reports NaNs as
        failures where NumPy returns NaN.
    """
    call = getattr(xp.linalg, function)
    try:
        if is_numpy(xp):
            return call(*arrays, **options)
        with importlib.import_module("cupyx").errstate(linalg="raise" if may_fail else "ignore"):
            return call(*arrays, **options)
    except np.linalg.LinAlgError as error:
        raise np.linalg.LinAlgError(f"{error}: {refused}" if refused else str(error)) from error


def cubic_cost(weight: float) -> Callable[..., int]:
    """Return the cost rule of a decomposition of the first input, in elements of an elementwise operation."""

    def count_elements(matrix: Any, *_: Any, **__: Any) -> int:
        return int(matrix.size * min(matrix.shape[-2:]) * weight) if matrix.ndim > 1 else 0

    return count_elements


def multiply_matrices(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """Multiply matrices, either of which may be replaced by its adjoint."""
    return matmul(
        conj(a) if adjoint_a else a, conj(b) if adjoint_b else b, transpose_a=adjoint_a, transpose_b=adjoint_b
    )


def as_row(vector: Tensor, like: Tensor) -> Tensor:
    """Return vectors ``[..., n]`` as ``[..., 1, n]``, which scales columns, in the dtype of `like`."""
    return apply("ExpandDims", cast(vector, like.dtype), axis=-2)


def as_column(vector: Tensor, like: Tensor) -> Tensor:
    """Return vectors ``[..., n]`` as ``[..., n, 1]``, which scales rows, in the dtype of `like`."""
    return apply("ExpandDims", cast(vector, like.dtype), axis=-1)


def as_factor(scalar: Tensor, like: Tensor) -> Tensor:
    """Return scalars ``[...]`` as ``[..., 1, 1]``, which scale whole matrices, in the dtype of `like`."""
    return as_row(apply("ExpandDims", scalar, axis=-1), like)

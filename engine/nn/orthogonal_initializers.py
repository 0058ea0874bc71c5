"""Norm-preserving initializers: orthogonal matrices, and the identity."""

from __future__ import annotations

import math
from typing import Any

from ..base.dtypes import DType, bfloat16, float16, float32
from ..base.errors import ShapeError
from ..base.shapes import Shape
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.layout import transpose
from ..ops.array.one_hot import eye
from ..ops.array.padding import pad
from ..ops.array.shapes import reshape
from ..ops.array.where import where
from ..ops.linalg.diagonals import matrix_diag_part
from ..ops.linalg.orthogonal import qr
from ..ops.math.casting import cast
from ..ops.math.random import random_normal
from .initializers import Initializer


def orthogonal_initializer(gain: float = 1.0, seed: int | None = None, dtype: Any = "float32") -> Initializer:
    """Return an initializer of matrices with orthonormal rows, or columns if columns are fewer (Saxe et al., 2014).

    Parameters
    ----------
    gain : float
        Factor of the result.
    seed : int, optional
        As for `random_normal_initializer`.
    dtype : dtype-like
        A floating dtype.

    Returns
    -------
    Initializer
        For shapes of rank 2 or more; all dimensions except the last are rows.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> q = tg.function(lambda: tg.nn.orthogonal_initializer(dtype="float64")([3, 2])).sync()
    >>> np.allclose(q.T @ q, np.eye(2))
    True
    """

    def make_orthogonal(shape: list[int], wanted: DType) -> Tensor:
        _of_rank(shape, 2, "an orthogonal matrix")
        # All dimensions except the last are the rows of one matrix, as a convolution sees its window.
        flat = _draw_orthogonal(math.prod(shape[:-1]), shape[-1], wanted, seed)
        return reshape(flat, shape) * convert_to_tensor(gain, wanted)

    return Initializer(make_orthogonal, dtype)


def identity_initializer(gain: float = 1.0, dtype: Any = "float32") -> Initializer:
    """Return an initializer of matrices with `gain` on their diagonal and zeros elsewhere.

    Parameters
    ----------
    gain : float
    dtype : dtype-like

    Returns
    -------
    Initializer
        For shapes of rank 2.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.nn.identity_initializer(2.0)([2, 3])).sync()
    array([[2., 0., 0.],
           [0., 2., 0.]], dtype=float32)
    """

    def make_identity(shape: list[int], wanted: DType) -> Tensor:
        _of_rank(shape, 2, "an identity matrix", most=2)
        return eye(shape[0], shape[1], dtype=wanted) * convert_to_tensor(gain, wanted)

    return Initializer(make_identity, dtype)


def delta_orthogonal_initializer(gain: float = 1.0, seed: int | None = None, dtype: Any = "float32") -> Initializer:
    """Return an initializer of filters with an orthogonal matrix in the middle, zero elsewhere (Xiao et al., 2018).

    Parameters
    ----------
    gain, seed, dtype
        As for `orthogonal_initializer`.

    Returns
    -------
    Initializer
        For shapes of rank 3 to 5, with at least as many output channels as input channels.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: abs(tg.nn.delta_orthogonal_initializer()([3, 1, 1]))).sync().ravel()
    array([0., 1., 0.], dtype=float32)
    """

    def make_delta_kernel(shape: list[int], wanted: DType) -> Tensor:
        _of_rank(shape, 3, "filters", most=5)
        if shape[-2] > shape[-1]:
            raise ShapeError(
                "filters that keep norms have no fewer output channels than input channels",
                wanted=f"at least {shape[-2]} output channels",
                got=Shape(shape),
                hint="use orthogonal_initializer",
            )
        matrix = _draw_orthogonal(shape[-2], shape[-1], wanted, seed) * convert_to_tensor(gain, wanted)
        middle = reshape(matrix, [1] * (len(shape) - 2) + shape[-2:])
        # In the place that reads the pixel itself under SAME padding, also for even windows.
        return pad(middle, [*([(d - 1) // 2, d // 2] for d in shape[:-2]), [0, 0], [0, 0]])

    return Initializer(make_delta_kernel, dtype)


def _of_rank(shape: list[int], least: int, what: str, most: int | None = None) -> None:
    if not least <= len(shape) <= (most or len(shape)):
        wanted = f"rank {least}" + (" or more" if most is None else f" to {most}" if most > least else "")
        raise ShapeError(f"{what} cannot have this shape", wanted=wanted, got=Shape(shape), hint="reshape the result")


def _draw_orthogonal(rows: int, columns: int, dtype: DType, seed: int | None) -> Tensor:
    """Return a uniformly drawn matrix with orthonormal columns, or rows if rows are fewer (Stewart, 1980)."""
    # Decompositions have no two-byte kernels.
    wide = float32 if dtype in (float16, bfloat16) else dtype
    # Of the tall matrix, whose Q has all columns; a wide result is its transpose.
    q, r = qr(random_normal([max(rows, columns), min(rows, columns)], dtype=wide, seed=seed))
    # QR decompositions fix the signs of `r` arbitrarily; a positive diagonal makes `q` uniform.
    q = q * where(matrix_diag_part(r) < 0, convert_to_tensor(-1, wide), convert_to_tensor(1, wide))
    return cast(q if rows >= columns else transpose(q), dtype)

"""Determinants, and logarithms of determinants, which do not overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..math.complex import complex, conj, imag
from ..support.common import cotangents_of
from ..support.families import keep_dtype
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .common import LAPACK, as_factor, cubic_cost, square_shape
from .solving import matrix_inverse

_A = f64([[4, 1, -1], [2, 5, 0.5], [-1, 3, 6]])
_BATCH = np.stack([_A, _A[::-1]])
_Z = c128([[2 + 1j, 0.5], [-1j, 3 - 1j]])


def _infer_determinant_shape(op: Operation) -> Shape:
    return square_shape(op)[:-2]


define(
    "MatrixDeterminant",
    "input: T -> output: T",
    where={"T": LAPACK},
    shape=_infer_determinant_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(0.1))],
    kernel=keep_dtype(lambda xp, x: xp.linalg.det(x)),
    # Jacobi: the differential of det(x) is det(x) * trace(inv(x) @ dx).
    gradient=lambda op, g: [
        as_factor(g * conj(op.outputs[0]), op.inputs[0]) * matrix_inverse(op.inputs[0], adjoint=True)
    ],
    samples=[
        Sample([_A], np.float64(4 * 28.5 - 12.5 - 11)),
        Sample([_BATCH], f64([90.5, -90.5])),
        Sample([_Z], np.complex128((2 + 1j) * (3 - 1j) + 0.5j)),
        Sample([f64([[1, 2], [2, 4]])], np.float64(0), differentiable=False),
        Sample([np.zeros((2, 0, 0))], f64([1, 1])),
    ],
)


@public
def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """Determinants of matrices.

    Parameters
    ----------
    input : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``.

    Returns
    -------
    Tensor
        Same dtype, shape ``[...]``. The gradient needs the inverse: a singular matrix is an OpError there.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_determinant([[[2.0, 1.0], [0.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]])).sync()
    array([ 8., -1.], dtype=float32)
    """
    return apply("MatrixDeterminant", input, name=name)


def _compute_slogdet(xp: Any, x: Any) -> tuple[Any, Any]:
    sign, size = xp.linalg.slogdet(x)
    # For a single matrix NumPy returns scalars, not arrays.
    return xp.asarray(sign, x.dtype), xp.asarray(size, x.real.dtype)


def _slogdet_gradient(op: Operation, *given: Tensor | None) -> list[Any]:
    x, sign = op.inputs[0], op.outputs[0]
    to_sign, to_size = cotangents_of(op, given)
    weight = cast(to_size, x.dtype)
    if x.dtype.is_complex and given[0] is not None:
        weight = complex(to_size, imag(conj(sign) * to_sign))  # the sign turns with the angle of the determinant
    return [as_factor(weight, x) * matrix_inverse(x, adjoint=True)]


define(
    "LogMatrixDeterminant",
    "input: T -> sign: T, log_abs_determinant: T.real",
    where={"T": LAPACK},
    shape=lambda op: [_infer_determinant_shape(op)] * 2,
    rules=[Vectorize(leading), Elements(cubic_cost(0.1))],
    kernel=_compute_slogdet,
    gradient=_slogdet_gradient,
    samples=[
        Sample([_A], (np.float64(1), np.log(np.float64(90.5)))),
        Sample([_BATCH], (f64([1, -1]), np.log(f64([90.5, 90.5])))),
        Sample([_Z], lambda z: (np.linalg.det(z) / abs(np.linalg.det(z)), np.log(abs(np.linalg.det(z))))),
        Sample([f64([[1, 2], [2, 4]])], (np.float64(0), np.float64(-np.inf)), differentiable=False),
        Sample([np.zeros((2, 0, 0))], (f64([1, 1]), f64([0, 0]))),
    ],
)


@public
def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Sign, and logarithm of the absolute value, of the determinants of matrices.

    Parameters
    ----------
    input : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``.

    Returns
    -------
    sign : Tensor
        Same dtype, shape ``[...]``: 1, -1, a complex number of size 1, or 0 of singular matrices.
    log_abs_determinant : Tensor
        Of the real dtype, shape ``[...]``; -inf of singular matrices, whose gradient is an OpError.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.slogdet(-1000 * np.eye(401))).sync()
    (array(-1.), array(2770.00986687))
    """
    sign, size = apply("LogMatrixDeterminant", input, name=name)
    return sign, size

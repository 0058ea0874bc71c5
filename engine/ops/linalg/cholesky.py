"""Cholesky factors of positive definite matrices; systems of equations and determinants computed with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.complex import real
from ..math.elementwise import log
from ..math.reductions import reduce_sum
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .common import LAPACK, call_linalg, cubic_cost, multiply_matrices, square_shape
from .diagonals import matrix_diag_part
from .solving import matrix_triangular_solve
from .transposing import adjoint
from .triangles import half_lower

_FACTOR = f64([[2, 0, 0], [1, 3, 0], [-1, 0.5, 1]])
_NOT_POSITIVE = "add a small multiple of eye to the matrix, or use self_adjoint_eig, which takes any"


def _cholesky_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the symmetric cotangent, as TensorFlow does (Murray, 2016, section 3, of Hermitian matrices)."""
    factor = op.outputs[0]
    # The function Phi of the paper: the lower triangle with half of its diagonal.
    inner = half_lower(multiply_matrices(factor, g, adjoint_a=True))
    left = matrix_triangular_solve(factor, inner, adjoint=True)
    both = matrix_triangular_solve(factor, adjoint(left), adjoint=True)
    return [(both + adjoint(both)) * 0.5]


define(
    "Cholesky",
    "input: T -> output: T",
    where={"T": LAPACK},
    shape=square_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(0.1)), ReadsValues()],
    kernel=lambda xp, x: call_linalg(xp, "cholesky", x, refused=_NOT_POSITIVE),
    gradient=_cholesky_gradient,
    samples=[  # the test moves single elements, which breaks symmetry: others are in test_linalg_gradients.py
        Sample([f64([[[4]], [[2.25]]])], f64([[[2]], [[1.5]]])),
        Sample([_FACTOR @ _FACTOR.T], _FACTOR, differentiable=False),
        Sample([f64([[4, np.nan], [2, 10]])], f64([[2, 0], [1, 3]]), differentiable=False),
        Sample([np.stack([_FACTOR @ _FACTOR.T] * 2)], np.stack([_FACTOR] * 2), differentiable=False),
        Sample([c128([[4, -2j], [2j, 10]])], c128([[2, 0], [1j, 3]]), differentiable=False),
        Sample([np.zeros((2, 0, 0))], np.zeros((2, 0, 0))),
    ],
)


@public
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Factor positive definite matrices into a lower triangle and its adjoint, ``x = y @ adjoint(y)``.

    Parameters
    ----------
    input : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``, symmetric or Hermitian; only the lower triangle is read. The gradient is symmetric.

    Returns
    -------
    Tensor
        Same dtype and shape, with zeros above the diagonal.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    OpError
        When a step runs it, if a matrix is not positive definite, or contains NaNs.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.cholesky([[4.0, 2.0], [2.0, 10.0]])).sync()
    array([[2., 0.],
           [1., 3.]], dtype=float32)
    """
    return apply("Cholesky", input, name=name)


@public
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solve systems of linear equations whose matrices were factored by `cholesky`.

    Parameters
    ----------
    chol : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``, a result of `cholesky`; leading dimensions broadcast with those of `rhs`.
    rhs : Tensor of the same dtype
        Shape ``[..., n, k]``: k right sides.

    Returns
    -------
    Tensor
        The x of ``chol @ adjoint(chol) @ x = rhs``, of shape ``[..., n, k]``.

    Raises
    ------
    ShapeError
        If the matrices are not square, or `rhs` has another number of rows.
    OpError
        When a step runs it, if there is a zero on a diagonal.

    Examples
    --------
    >>> import tagloom as tg
    >>> factor = [[2.0, 0.0], [1.0, 3.0]]
    >>> tg.function(lambda: tg.cholesky_solve(factor, [[6.0], [12.0]])).sync().tolist()
    [[1.0], [1.0]]
    """
    factor = convert_to_tensor(chol)
    half = matrix_triangular_solve(factor, rhs)
    return matrix_triangular_solve(factor, half, adjoint=True, name=name)


@public
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Logarithm of the determinant of positive definite matrices, by `cholesky`; for other matrices see `slogdet`.

    Parameters
    ----------
    matrix : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``, symmetric or Hermitian.

    Returns
    -------
    Tensor
        Of the real dtype, shape ``[...]``.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    OpError
        When a step runs it, if a matrix is not positive definite.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.logdet(1000 * np.eye(400))).sync()
    array(2763.10211159)
    """
    # The determinant is the squared product of the diagonal, which is real even for complex matrices.
    sizes = log(real(matrix_diag_part(cholesky(matrix))))
    return apply("Mul", reduce_sum(sizes, -1), 2, name=name)

"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.apply import apply
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.arithmetic import div_no_nan
from ..math.casting import cast
from ..support.common import scalar_like
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .common import DIVERGED, LAPACK, as_row, call_linalg, cubic_cost, multiply_matrices, square_shape
from .diagonals import matrix_diag
from .transposing import adjoint
from .triangles import half_lower

_A = f64([[2, 1, 0.5], [1, 5, -1], [0.5, -1, 9]])
_Z = c128([[2, 1 - 1j], [1 + 1j, 5]])


def _lower_only(g: Tensor) -> Tensor:
    """Fold the cotangent of a Hermitian matrix into the lower triangle, the only part that the kernel reads."""
    return half_lower(g + adjoint(g))


def _eigen_gradient(op: Operation, to_values: Tensor | None, to_vectors: Tensor | None) -> list[Any]:
    """Return the cotangent of the matrix, ``v @ inner @ adjoint(v)``, folded into the lower triangle."""
    values, vectors = op.outputs
    terms = [] if to_values is None else [matrix_diag(cast(to_values, vectors.dtype))]
    if to_vectors is not None:
        # apart[i, j] = e[j] - e[i]: vectors of close values turn most.
        apart = apply("ExpandDims", values, axis=-2) - apply("ExpandDims", values, axis=-1)
        turn = div_no_nan(scalar_like(1, values), apart)  # 0 between equal values, whose vectors are arbitrary
        terms.append(cast(turn, vectors.dtype) * multiply_matrices(vectors, to_vectors, adjoint_a=True))
    inner = sum(terms[1:], terms[0])
    return [_lower_only(multiply_matrices(multiply_matrices(vectors, inner), vectors, adjoint_b=True))]


def _values_gradient(op: Operation, g: Tensor) -> list[Any]:
    # de is the real diagonal of adjoint(v) @ dx @ v; the vectors are computed only if a gradient is
    _, vectors = apply("SelfAdjointEig", op.inputs[0])
    return [_lower_only(multiply_matrices(vectors * as_row(g, vectors), vectors, adjoint_b=True))]


def _hermitian_from_lower(x: Any) -> Any:
    lower = np.tril(x, -1)
    return lower + lower.conj().swapaxes(-1, -2) + np.eye(x.shape[-1]) * x.real


def _expected_eigenvalues(x: Any) -> Any:
    """Return the sorted eigenvalues by the algorithm for general matrices."""
    return np.sort(np.linalg.eigvals(_hermitian_from_lower(x)).real)


def _expected_eigenvectors(x: Any) -> list[Any]:
    return [*np.linalg.eigh(_hermitian_from_lower(x))]


define(
    "SelfAdjointEig",
    "tensor: T -> e: T.real, v: T",
    where={"T": LAPACK},
    shape=lambda op: [square_shape(op)[:-1], square_shape(op)],
    rules=[Vectorize(leading), Elements(cubic_cost(1)), ReadsValues()],
    kernel=lambda xp, x: tuple(call_linalg(xp, "eigh", x, refused=DIVERGED)),
    gradient=_eigen_gradient,
    samples=[
        Sample([_A], _expected_eigenvectors),
        Sample([np.stack([_A, -_A])], _expected_eigenvectors),
        Sample(
            [f64([[1, np.nan], [2, 4]])],
            lambda x: _expected_eigenvectors(np.tril(np.nan_to_num(x))),
            differentiable=False,
        ),
        Sample([_Z], _expected_eigenvectors, differentiable=False),
        Sample([np.zeros((2, 0, 0))], (np.zeros((2, 0)), np.zeros((2, 0, 0)))),
    ],
)

define(
    "SelfAdjointEigvals",
    "tensor: T -> e: T.real",
    where={"T": LAPACK},
    shape=lambda op: square_shape(op)[:-1],
    rules=[Vectorize(leading), Elements(cubic_cost(0.5)), ReadsValues()],
    kernel=lambda xp, x: call_linalg(xp, "eigvalsh", x, refused=DIVERGED),
    gradient=_values_gradient,
    samples=[
        Sample([_A], _expected_eigenvalues),
        Sample([np.stack([_A, -_A])], _expected_eigenvalues),
        Sample([_Z], f64([(7 - 17**0.5) / 2, (7 + 17**0.5) / 2])),
        Sample([f64([[3, 0], [0, 3]])], f64([3, 3]), differentiable=False),
        Sample([np.zeros((0, 0))], np.zeros(0)),
    ],
)


@public
def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices, ``x @ v = v * e``.

    Parameters
    ----------
    tensor : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``; only the lower triangle is read, and receives the gradient.

    Returns
    -------
    e : Tensor
        Of the real dtype, shape ``[..., n]``, in ascending order.
    v : Tensor
        Orthonormal vectors, as columns: shape ``[..., n, n]``. Each is determined up to its sign or complex phase, and
        the vectors of equal values up to a basis of their space: gradients are meaningful only of functions that do
        not depend on this choice.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    OpError
        When a step runs it, if the algorithm does not converge.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> e, v = tg.function(lambda: tg.self_adjoint_eig([[2.0, 1.0], [1.0, 2.0]])).sync()
    >>> e.round(3), np.abs(v).round(3)
    (array([1., 3.], dtype=float32), array([[0.707, 0.707],
           [0.707, 0.707]], dtype=float32))
    """
    e, v = apply("SelfAdjointEig", tensor, name=name)
    return e, v


@public
def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices.

    Parameters
    ----------
    tensor : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``; only the lower triangle is read, and receives the gradient.

    Returns
    -------
    Tensor
        Of the real dtype, shape ``[..., n]``, in ascending order.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    OpError
        When a step runs it, if the algorithm does not converge.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.self_adjoint_eigvals([[2.0, 0.0], [0.0, -1.0]])).sync()
    array([-1.,  2.], dtype=float32)
    """
    return apply("SelfAdjointEigvals", tensor, name=name)

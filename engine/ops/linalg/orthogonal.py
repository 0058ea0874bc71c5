"""The QR decomposition: an orthonormal basis of the columns, and a triangle of their coordinates."""

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
from ..support.common import cotangents_of, size_along
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .common import LAPACK, cubic_cost, multiply_matrices, sizes_of_matrices
from .solving import matrix_triangular_solve
from .transposing import adjoint
from .triangles import half_lower

_TALL = f64([[2, 1], [1, 3], [-2, 0.5], [0.5, 1]])
_SQUARE = f64([[2, 1, 0.5], [1, 3, -1], [-2, 0.5, 2]])
_NEXT = f64([[2, 1], [1, 3], [-2, 0.5]])
_Z = c128([[2 + 1j, 1], [1j, 3 - 1j], [-2, 0.5 + 0.25j]])


def _qr_shape(op: Operation) -> list[Shape]:
    leading, rows, columns, fewer = sizes_of_matrices(op)
    inner = rows if op.attrs["full_matrices"] else fewer
    return [leading + Shape([rows, inner]), leading + Shape([inner, columns])]


def _compute_qr(xp: Any, x: Any, full_matrices: bool) -> tuple[Any, Any]:
    q, r = xp.linalg.qr(x, "complete" if full_matrices else "reduced")
    return q, r


def without_complement(basis: Tensor, g: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first `count` vectors of a full basis and their cotangent.

    The other vectors span the orthogonal complement, and turn only as far as the first ones force them to: their
    cotangent becomes a cotangent of the first.
    """
    first, rest = basis[..., :count], basis[..., count:]
    moved = multiply_matrices(rest, multiply_matrices(first, g[..., count:], adjoint_a=True), adjoint_b=True)
    return first, g[..., :count] - moved


def _gradient_of_tall(q: Tensor, r: Tensor, to_q: Tensor, to_r: Tensor) -> Tensor:
    """Return the cotangent of matrices of full column rank (Walter and Lehmann, 2018); the diagonal of r is real."""
    inner = multiply_matrices(q, to_q, adjoint_a=True) - multiply_matrices(to_r, r, adjoint_b=True)
    whole = to_q + multiply_matrices(q, half_lower(inner - adjoint(inner)) - inner)
    # whole @ inv(adjoint(r)), solved from the left by taking the adjoint twice.
    return adjoint(matrix_triangular_solve(r, adjoint(whole), lower=False))


def _qr_gradient(op: Operation, *given: Tensor | None) -> list[Any]:
    """Return the cotangent of the matrices: of the first square by `_gradient_of_tall`, of more columns by products."""
    x, (q, r) = op.inputs[0], op.outputs
    to_q, to_r = cotangents_of(op, given)
    columns = size_along(x, -1)
    if op.attrs["full_matrices"]:
        q, to_q = without_complement(q, to_q, columns)
        # The other rows of r are 0 for every matrix, so that their cotangent does not count.
        r, to_r = r[..., :columns, :], to_r[..., :columns, :]
    _, _, width, fewer = sizes_of_matrices(op)
    if fewer is not None and fewer == width:
        return [_gradient_of_tall(q, r, to_q, to_r)]
    # Also right for tall matrices whose sizes are unknown: nothing is beyond the square then.
    count = size_along(x, -2)
    beyond = to_r[..., count:]  # beyond a square, x = q @ r and r = adjoint(q) @ x
    to_q = to_q + multiply_matrices(x[..., count:], beyond, adjoint_b=True)
    first = _gradient_of_tall(q, r[..., :count], to_q, to_r[..., :count])
    return [apply("Concat", [first, multiply_matrices(q, beyond)], axis=-1)]


def _expected_qr(x: Any) -> tuple[Any, Any]:
    """Return LAPACK's factors by the Gram-Schmidt process, with the signs of Householder's reflections."""
    q, r = np.zeros_like(x), np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for j in range(x.shape[1]):
        r[:j, j] = q[:, :j].conj().T @ x[:, j]
        rest = x[:, j] - q[:, :j] @ r[:j, j]
        r[j, j] = np.linalg.norm(rest)
        q[:, j] = rest / r[j, j]
    signs = np.sign(np.real(np.diagonal(np.linalg.qr(x)[1])))
    return q * signs, r * signs[:, None]


define(
    "Qr",
    "input: T -> q: T, r: T",
    where={"T": LAPACK},
    attrs={"full_matrices": False},
    shape=_qr_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(0.5))],
    kernel=_compute_qr,
    gradient=_qr_gradient,
    samples=[
        Sample([_TALL], _expected_qr),
        Sample([_SQUARE], _expected_qr),
        Sample([np.stack([_NEXT, -2 * _NEXT])], lambda x: [np.stack(p) for p in zip(*map(_expected_qr, x))]),
        Sample([_TALL.T.copy()], lambda x: (_expected_qr(x[:, :2])[0], _expected_qr(x[:, :2])[0].T @ x)),
        Sample([_NEXT], lambda x: [*np.linalg.qr(x, mode="complete")], {"full_matrices": True}),
        Sample([_Z], _expected_qr),
        Sample([np.zeros((2, 0, 3))], (np.zeros((2, 0, 0)), np.zeros((2, 0, 3)))),
    ],
)


@public
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Decompose matrices into orthonormal columns and an upper triangle, ``x = q @ r``.

    Parameters
    ----------
    input : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., m, n]``.
    full_matrices : bool
        Make q square. Gradients of functions of its columns beyond the n-th are meaningful only if the functions do
        not depend on the choice of a basis of their space.

    Returns
    -------
    q : Tensor
        Shape ``[..., m, k]``, where k is the smaller of m and n, or m.
    r : Tensor
        Shape ``[..., k, n]``. LAPACK decides on the signs of its diagonal, which is real.

    Raises
    ------
    ShapeError
        If `input` has fewer than two dimensions.
    OpError
        When a step runs it, if the gradient is of a matrix without full rank.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> q, r = tg.function(lambda: tg.qr(np.array([[3.0, 1.0], [4.0, 2.0]]))).sync()
    >>> np.abs(r).round(3).tolist(), (q @ r).round(3).tolist()
    ([[5.0, 2.2], [0.0, 0.4]], [[3.0, 1.0], [4.0, 2.0]])
    """
    q, r = apply("Qr", input, name=name, full_matrices=bool(full_matrices))
    return q, r

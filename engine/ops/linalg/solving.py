"""Systems of linear equations, and inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.array_libraries import is_numpy
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.array_library import scipy_linalg
from ..support.common import sum_to
from ..support.literals import c128, f64
from ..support.vectorizing.families import pointwise
from .common import LAPACK, call_linalg, cubic_cost, matrices_shape, multiply_matrices, square_shape
from .transposing import matrix_transpose
from .triangles import take_triangle

_A = f64([[4, 1, -1], [2, 5, 0.5], [-1, 3, 6]])
_B = f64([[1, 2], [-3, 0.5], [2, 4]])
_BATCH = np.stack([_A, 2 * _A.T])
_Z = c128([[2 + 1j, 0.5], [-1j, 3 - 1j]])
_W = c128([[1, 2j], [1 - 1j, 3]])
_SINGULAR = "use matrix_solve_ls(fast=False) or pinv, or add a small multiple of eye to the matrix"


def _solution_shape(op: Operation) -> Shape:
    """Return the broadcast shape of the solutions; refuse right sides with another number of rows."""
    a, b = square_shape(op), matrices_shape(op, 1)
    if a.rank is None or b.rank is None:
        return Shape(None)
    if None not in (a[-1], b[-2]) and a[-1] != b[-2]:
        raise ShapeError(
            "the right sides of a system have to have a row for each of its equations",
            wanted=f"{a[-1]} rows",
            got=f"{op.inputs[0].shape} and {op.inputs[1].shape}",
            operation=op,
            hint="a single right side is a matrix of one column: expand_dims(b, -1)",
        )
    # Either operand may know the number of equations.
    rows = b[-2] if a[-1] is None else a[-1]
    return a[:-2].broadcast(b[:-2]) + Shape([rows, b[-1]])


def _in_batches(xp: Any, a: Any, b: Any, what: str) -> tuple[Any, Any]:
    """Return the matrices and their right sides with equal leading dimensions."""
    if a.shape[-1] != a.shape[-2] or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"{what}: a square matrix with a row for each row of rhs is needed, got {a.shape}, {b.shape}")
    leading = xp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return xp.broadcast_to(a, leading + a.shape[-2:]), xp.broadcast_to(b, leading + b.shape[-2:])


def _adjoint_matrices(a: Any) -> Any:
    return a.swapaxes(-1, -2).conj()


def _compute_solve(xp: Any, a: Any, b: Any, adjoint: bool) -> Any:
    a, b = _in_batches(xp, a, b, "matrix_solve")
    return call_linalg(xp, "solve", _adjoint_matrices(a) if adjoint else a, b, refused=_SINGULAR)


def _solve_gradient(op: Operation, g: Tensor) -> list[Any]:
    (a, b), x, adj = op.inputs, op.outputs[0], op.attrs["adjoint"]
    # The cotangent of b solves the adjoint system; for a, x = inv(a) @ b leaves -to_b @ adjoint(x).
    to_b = apply("MatrixSolve", a, g, adjoint=not adj)
    to_a = -multiply_matrices(x, to_b, adjoint_b=True) if adj else -multiply_matrices(to_b, x, adjoint_b=True)
    return [sum_to(to_a, a), sum_to(to_b, b)]


def _by_inverse(a: Any, b: Any) -> Any:
    return np.linalg.inv(a) @ b


define(
    "MatrixSolve",
    "matrix: T, rhs: T -> output: T",
    where={"T": LAPACK},
    attrs={"adjoint": False},
    shape=_solution_shape,
    rules=[Vectorize(pointwise), Elements(cubic_cost(0.2)), ReadsValues()],
    kernel=_compute_solve,
    gradient=_solve_gradient,
    samples=[
        Sample([_A, _B], _by_inverse),
        Sample([_A, _B], lambda a, b: _by_inverse(a.T, b), {"adjoint": True}),
        Sample([_BATCH, _B], _by_inverse),
        Sample([_A, np.stack([_B, -_B])], _by_inverse),
        Sample([_Z, _W], _by_inverse),
        Sample([_Z, _W], lambda a, b: _by_inverse(a.conj().T, b), {"adjoint": True}),
        Sample([np.zeros((2, 0, 0)), np.zeros((2, 0, 3))], np.zeros((2, 0, 3))),
    ],
)


@public
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solve systems of linear equations, ``matrix @ x = rhs``.

    Parameters
    ----------
    matrix : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``; leading dimensions broadcast with those of `rhs`.
    rhs : Tensor of the same dtype
        Shape ``[..., n, k]``: k right sides.
    adjoint : bool
        Solve with the adjoint of `matrix`.

    Returns
    -------
    Tensor
        Shape ``[..., n, k]``.

    Raises
    ------
    ShapeError
        If the matrices are not square, or `rhs` has another number of rows.
    OpError
        When a step runs it, if a matrix is singular.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_solve([[2.0, 0.0], [1.0, 4.0]], [[2.0], [9.0]])).sync().tolist()
    [[1.0], [2.0]]
    """
    return apply("MatrixSolve", matrix, rhs, name=name, adjoint=bool(adjoint))


def _substitute_rows(a: Any, b: Any, lower: bool) -> Any:
    """Solve many triangular systems at once, row by row."""
    n = a.shape[-1]
    x = b.copy()
    for i in range(n) if lower else range(n - 1, -1, -1):
        known = slice(0, i) if lower else slice(i + 1, n)
        # `None` keeps row i a matrix of one row, for a product of many matrices.
        x[..., i, :] -= (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        x[..., i, :] /= a[..., i, i, None]
    return x


def _each_triangular(a: Any, b: Any, lower: bool, adjoint: bool) -> Any:
    """Solve triangular systems with SciPy, matrix by matrix."""
    n, k = b.shape[-2:]
    x = np.empty(b.shape, b.dtype)
    matrices = zip(a.reshape(-1, n, n), b.reshape(-1, n, k), x.reshape(-1, n, k), strict=True)
    solve = scipy_linalg().solve_triangular
    for matrix, right, out in matrices:
        # 2 is SciPy's number for the adjoint; without a check NaN passes on to the result, as in the other kernels.
        out[...] = solve(matrix, right, 2 if adjoint else 0, lower, check_finite=False)
    return x


def _solve_triangular(xp: Any, a: Any, b: Any, lower: bool, adjoint: bool) -> Any:
    """Solve by substitution with NumPy, and by the general solver of another array library."""
    a, b = _in_batches(xp, a, b, "matrix_triangular_solve")
    if not is_numpy(xp):
        # The general solver reads the whole matrix, and the other triangle may hold anything.
        whole = xp.tril(a) if lower else xp.triu(a)
        return call_linalg(xp, "solve", _adjoint_matrices(whole) if adjoint else whole, b, refused=_SINGULAR)
    # Checked here because `_substitute_rows` would divide by zero instead of failing.
    if (np.diagonal(a, 0, -2, -1) == 0).any():
        raise np.linalg.LinAlgError(f"matrix_triangular_solve: there is a zero on the diagonal: {_SINGULAR}")
    if not b.size:
        return b.copy()
    if math.prod(a.shape[:-2]) <= a.shape[-1]:  # a Python loop over matrices, if shorter than over rows
        return _each_triangular(a, b, lower, adjoint)
    return _substitute_rows(_adjoint_matrices(a), b, not lower) if adjoint else _substitute_rows(a, b, lower)


def _triangular_gradient(op: Operation, g: Tensor) -> list[Any]:
    (a, b), x = op.inputs, op.outputs[0]
    lower, adj = op.attrs["lower"], op.attrs["adjoint"]
    to_b = apply("MatrixTriangularSolve", a, g, lower=lower, adjoint=not adj)
    to_a = -multiply_matrices(x, to_b, adjoint_b=True) if adj else -multiply_matrices(to_b, x, adjoint_b=True)
    # The other triangle is not read, and gets no cotangent.
    return [sum_to(take_triangle(to_a, lower), a), sum_to(to_b, b)]


def _solve_lower_triangle(a: Any, b: Any) -> Any:
    return _by_inverse(np.tril(a), b)


_MANY = np.stack([_A + i * np.eye(3) for i in range(4)])

define(
    "MatrixTriangularSolve",
    "matrix: T, rhs: T -> output: T",
    where={"T": LAPACK},
    attrs={"lower": True, "adjoint": False},
    shape=_solution_shape,
    rules=[Vectorize(pointwise), Elements(cubic_cost(0.1)), ReadsValues()],
    kernel=_solve_triangular,
    gradient=_triangular_gradient,
    samples=[
        Sample([_A, _B], _solve_lower_triangle),
        Sample([_A, _B], lambda a, b: _by_inverse(np.tril(a).T, b), {"adjoint": True}),
        Sample([_A, _B], lambda a, b: _by_inverse(np.triu(a), b), {"lower": False}),
        Sample([_Z, _W], lambda a, b: _by_inverse(np.triu(a).conj().T, b), {"lower": False, "adjoint": True}),
        Sample([_MANY, _B], _solve_lower_triangle),
        Sample(
            [_MANY, _B],
            lambda a, b: _by_inverse(np.triu(a).swapaxes(-1, -2), b),
            {"lower": False, "adjoint": True},
        ),
        Sample([_A, np.stack([_B, -_B])], _solve_lower_triangle),
        Sample([np.zeros((2, 0, 0)), np.zeros((2, 0, 3))], np.zeros((2, 0, 3))),
    ],
)


@public
def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve systems of linear equations whose matrix is triangular, by substitution.

    Parameters
    ----------
    matrix : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``; the other triangle is not read. Leading dimensions broadcast with those of `rhs`.
    rhs : Tensor of the same dtype
        Shape ``[..., n, k]``: k right sides.
    lower : bool
        Use the lower triangle of `matrix`, otherwise the upper triangle.
    adjoint : bool
        Solve with the adjoint of the triangle.

    Returns
    -------
    Tensor
        Shape ``[..., n, k]``.

    Raises
    ------
    ShapeError
        If the matrices are not square, or `rhs` has another number of rows.
    OpError
        When a step runs it, if there is a zero on a diagonal.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_triangular_solve([[2.0, 7.0], [1.0, 4.0]], [[2.0], [9.0]])).sync().tolist()
    [[1.0], [2.0]]
    """
    return apply("MatrixTriangularSolve", matrix, rhs, name=name, lower=bool(lower), adjoint=bool(adjoint))


define(
    "MatrixInverse",
    "input: T -> output: T",
    where={"T": LAPACK},
    shape=square_shape,
    rules=[Vectorize(pointwise), Elements(cubic_cost(0.4)), ReadsValues()],
    kernel=lambda xp, x: call_linalg(xp, "inv", x, refused=_SINGULAR),
    # With the inverse y: -adjoint(y) @ g @ adjoint(y).
    gradient=lambda op, g: [
        -multiply_matrices(op.outputs[0], multiply_matrices(g, op.outputs[0], adjoint_b=True), adjoint_a=True)
    ],
    samples=[
        Sample([f64([[2, 1], [1, 1]])], f64([[1, -1], [-1, 2]])),
        Sample([_BATCH], lambda a: np.linalg.solve(a, np.broadcast_to(np.eye(3), a.shape))),
        Sample([c128([[1j, 1], [0, 2]])], c128([[-1j, 0.5j], [0, 0.5]])),
        Sample([np.zeros((0, 0))], np.zeros((0, 0))),
    ],
)


@public
def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Invert matrices. To solve equations, `matrix_solve` is faster and loses fewer digits.

    Parameters
    ----------
    input : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``.
    adjoint : bool
        Return the adjoints of the inverses.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    OpError
        When a step runs it, if a matrix is singular.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_inverse([[2.0, 0.0], [1.0, 0.5]])).sync().tolist()
    [[0.5, 0.0], [-1.0, 2.0]]
    """
    if adjoint:
        return matrix_transpose(apply("MatrixInverse", convert_to_tensor(input)), name, conjugate=True)
    return apply("MatrixInverse", input, name=name)

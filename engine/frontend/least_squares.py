"""``matrix_solve_ls``: least squares by the normal equations that the shape of the matrices makes definite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import GraphError
from ..ir.apply import apply, as_symbolic, convert_to_tensor
from ..ir.entry import public
from ..ir.tensor import Tensor
from ..ops.array.one_hot import eye
from ..ops.control.weights import of_rank
from ..ops.linalg.cholesky import cholesky, cholesky_solve
from ..ops.linalg.common import multiply_matrices
from ..ops.linalg.singular_values import pinv
from ..ops.math.casting import cast
from ..ops.math.linear import matmul
from ..ops.support.arguments import convert_alike
from ..ops.support.common import size_along
from .control.conditional import cond


@public
def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Solve systems of linear equations in the sense of least squares.

    The result minimizes ``sum(abs(matrix @ x - rhs)**2) + l2_regularizer * sum(abs(x)**2)``; with fewer equations than
    unknowns and no regularizer, the result is the solution of least norm.

    Parameters
    ----------
    matrix : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., m, n]``; leading dimensions broadcast with those of `rhs`.
    rhs : Tensor of the same dtype
        Shape ``[..., m, k]``: k right sides.
    l2_regularizer : real scalar
        At least 0.
    fast : bool
        Factor ``adjoint(matrix) @ matrix``, or ``matrix @ adjoint(matrix)``, with `cholesky`. This requires a matrix of
        full rank, or a regularizer, and loses twice the digits. Otherwise use `pinv`, for any matrix but without a
        regularizer.

    Returns
    -------
    Tensor
        Shape ``[..., n, k]``.

    Raises
    ------
    ShapeError
        If `rhs` differs from `matrix` in the number of rows.
    GraphError
        If the regularizer is negative, or given and not `fast`.
    OpError
        When a step runs the operation, if `fast` and a matrix does not have full rank.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> x = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> tg.function(lambda: tg.matrix_solve_ls(x, [[1.0], [3.0], [5.0]])).sync().round(6).tolist()
    [[1.0], [2.0]]
    """
    a, b = (
        of_rank(operand, 2, "matrices have rows and columns", "expand_dims(x, 1)")
        for operand in convert_alike(matrix, rhs)
    )
    if not as_symbolic(l2_regularizer) and l2_regularizer < 0 or (not fast and _is_given(l2_regularizer)):
        raise GraphError(
            "matrix_solve_ls cannot take this regularizer",
            wanted="a number of at least 0; 0 unless it is fast",
            got=f"{l2_regularizer!r}, fast={fast}",
            hint="leave l2_regularizer out, or fast",
        )
    if not fast:
        # By singular values: slower, but right for matrices without full rank, too.
        return matmul(pinv(a), b, name=name)
    result = _by_shape(a, lambda: _solve_tall(a, b, l2_regularizer), lambda: _solve_wide(a, b, l2_regularizer))
    return apply("Identity", result, name=name or "matrix_solve_ls")


def _is_given(regularizer: Any) -> bool:
    return as_symbolic(regularizer) or bool(regularizer != 0)


def _by_shape(a: Tensor, tall: Callable[[], Tensor], wide: Callable[[], Tensor]) -> Tensor:
    """Build `tall` for matrices with at least as many rows as columns, otherwise `wide`; by a cond if unknown."""
    rows, columns = (None, None) if a.rank is None else a.shape[-2:]
    if rows is not None and columns is not None:
        return tall() if rows >= columns else wide()
    return cond(size_along(a, -2) >= size_along(a, -1), tall, wide)


def _add_regularizer(gram: Tensor, regularizer: Any) -> Tensor:
    if not _is_given(regularizer):
        return gram
    weight = cast(convert_to_tensor(regularizer), gram.dtype)
    return gram + weight * eye(size_along(gram, -1), dtype=gram.dtype)


def _solve_tall(a: Tensor, b: Tensor, regularizer: Any) -> Tensor:
    # Normal equations: the Gram matrix of the columns is positive definite if they are independent.
    factor = cholesky(_add_regularizer(multiply_matrices(a, a, adjoint_a=True), regularizer))
    return cholesky_solve(factor, multiply_matrices(a, b, adjoint_a=True))


def _solve_wide(a: Tensor, b: Tensor, regularizer: Any) -> Tensor:
    # The least-norm solution lies in the range of adjoint(a), so a y is sought with x = adjoint(a) @ y.
    factor = cholesky(_add_regularizer(multiply_matrices(a, a, adjoint_b=True), regularizer))
    return multiply_matrices(a, cholesky_solve(factor, b), adjoint_a=True)

"""The singular value decomposition, and the pseudo-inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.arithmetic import div_no_nan
from ..math.casting import cast
from ..math.complex import complex, imag
from ..support.common import scalar_like, size_along, zeros_like
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .common import DIVERGED, LAPACK, as_column, as_row, call_linalg, cubic_cost, multiply_matrices, sizes_of_matrices
from .diagonals import matrix_diag, matrix_diag_part
from .orthogonal import without_complement
from .transposing import adjoint

# Matrices of the samples.
_TALL = f64([[2, 1], [1, 3], [-2, 0.5], [0.5, 1]])
_SQUARE = f64([[2, 1, 0.5], [1, 3, -1], [-2, 0.5, 2]])
_SMALL = f64([[2, 1], [1, 3], [-2, 0.5]])
_DIAGONAL = f64([[0, 3], [5, 0], [0, 0]])
_Z = c128([[2 + 1j, 1], [1j, 3 - 1j], [-2, 0.5 + 0.25j]])


def _infer_values_shape(op: Operation) -> Shape:
    leading, _, _, fewer = sizes_of_matrices(op)
    return leading + Shape([fewer])


def _infer_svd_shape(op: Operation) -> list[Shape]:
    leading, rows, columns, fewer = sizes_of_matrices(op)
    full = op.attrs["full_matrices"]
    return [
        leading + Shape([fewer]),
        leading + Shape([rows, rows if full else fewer]),
        leading + Shape([columns, columns if full else fewer]),
    ]


def _compute_svd(xp: Any, x: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    u, s, vh = call_linalg(xp, "svd", x, full_matrices=full_matrices, refused=DIVERGED)
    return s, u, vh.swapaxes(-1, -2).conj()


def _inner_cotangent(
    op: Operation, s: Tensor, u: Tensor, v: Tensor, to_u: Tensor | None, to_v: Tensor | None
) -> list[Tensor]:
    """Return the terms between u and adjoint(v) of rotations of the vectors among themselves (Wan and Zhang, 2019).

    Parameters
    ----------
    op : Operation
        The decomposition.
    s, u, v : Tensor of shapes [..., k], [..., m, k] and [..., n, k]
    to_u, to_v : Tensor or None
        Cotangents of u and v.

    Returns
    -------
    list of Tensor of shape [..., k, k]
    """
    squares = s * s
    # Element (i, j) is s_j ** 2 - s_i ** 2.
    differences = apply("ExpandDims", squares, axis=-2) - apply("ExpandDims", squares, axis=-1)
    # The matrix F of the paper; 0 between equal values, whose vectors are arbitrary.
    inverse_differences = cast(div_no_nan(scalar_like(1, s), differences), u.dtype)
    terms = []
    if to_u is not None:
        x = multiply_matrices(u, to_u, adjoint_a=True)
        rotation = x * inverse_differences
        terms.append((rotation + adjoint(rotation)) * as_row(s, u))
        # Each pair of complex vectors has a phase in common, which real vectors do not have.
        if u.dtype.is_complex:
            angles = imag(matrix_diag_part(x))
            terms.append(matrix_diag(div_no_nan(complex(zeros_like(angles), angles), cast(s, u.dtype))))
    if to_v is not None:
        y = multiply_matrices(v, to_v, adjoint_a=True)
        rotation = y * inverse_differences
        terms.append(as_column(s, v) * (rotation + adjoint(rotation)))
    return terms


def _svd_gradient(op: Operation, to_s: Tensor | None, to_u: Tensor | None, to_v: Tensor | None) -> list[Any]:
    """Return ``u @ inner @ adjoint(v)``, plus terms of the cotangents orthogonal to the columns of u and v."""
    s, u, v = op.outputs
    if op.attrs["full_matrices"]:
        count = size_along(s, -1)
        u, to_u = without_complement(u, zeros_like(u) if to_u is None else to_u, count)
        v, to_v = without_complement(v, zeros_like(v) if to_v is None else to_v, count)
    inner = _inner_cotangent(op, s, u, v, to_u, to_v)
    if to_s is not None:
        inner.append(matrix_diag(cast(to_s, u.dtype)))
    inverse_s = cast(div_no_nan(scalar_like(1, s), s), u.dtype)
    terms = [multiply_matrices(multiply_matrices(u, sum(inner[1:], inner[0])), v, adjoint_b=True)]
    # The columns of a square u or v span the whole space, so that no part is orthogonal to them.
    _, rows, columns, fewer = sizes_of_matrices(op)
    if to_u is not None and (fewer is None or fewer != rows):
        terms.append(multiply_matrices(_orthogonal_part(u, to_u) * as_row(inverse_s, u), v, adjoint_b=True))
    if to_v is not None and (fewer is None or fewer != columns):
        terms.append(multiply_matrices(u * as_row(inverse_s, u), _orthogonal_part(v, to_v), adjoint_b=True))
    return [sum(terms[1:], terms[0])]


def _orthogonal_part(basis: Tensor, g: Tensor) -> Tensor:
    """Return the part of `g` that is orthogonal to the columns of `basis`."""
    return g - multiply_matrices(basis, multiply_matrices(basis, g, adjoint_a=True))


def _by_eigenvalues(x: Any) -> Any:
    """Return the singular values of matrices, as the roots of the eigenvalues of ``adjoint(x) @ x``."""
    gram = x.conj().swapaxes(-1, -2) @ x
    return np.sqrt(np.linalg.eigvalsh(gram))[..., ::-1]


def _expected_svd(x: Any, full: bool = False) -> list[Any]:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return [s, u, vh.conj().T]


define(
    "Svd",
    "tensor: T -> s: T.real, u: T, v: T",
    where={"T": LAPACK},
    attrs={"full_matrices": False},
    shape=_infer_svd_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(2)), ReadsValues()],
    kernel=_compute_svd,
    gradient=_svd_gradient,
    samples=[
        Sample([_TALL], _expected_svd),
        Sample([_SQUARE], _expected_svd),
        Sample(
            [np.stack([_SMALL, -2 * _SMALL])], lambda x: [np.stack(p) for p in zip(*map(_expected_svd, x), strict=True)]
        ),
        Sample([_SMALL], lambda x: _expected_svd(x, full=True), {"full_matrices": True}),
        Sample([_SMALL.T.copy()], _expected_svd),
        Sample([_SMALL.T.copy()], lambda x: _expected_svd(x, full=True), {"full_matrices": True}),
        Sample([_Z], _expected_svd, differentiable=False),
        Sample([np.zeros((2, 0, 3))], (np.zeros((2, 0)), np.zeros((2, 0, 0)), np.zeros((2, 3, 0)))),
    ],
)

define(
    "SingularValues",
    "tensor: T -> s: T.real",
    where={"T": LAPACK},
    shape=_infer_values_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(1)), ReadsValues()],
    kernel=lambda xp, x: call_linalg(xp, "svd", x, compute_uv=False, refused=DIVERGED),
    gradient=lambda op, g: _values_gradient(op, g),
    samples=[
        Sample([_TALL], _by_eigenvalues),
        Sample([np.stack([_SMALL, -2 * _SMALL])], _by_eigenvalues),
        Sample([_DIAGONAL], f64([5, 3])),
        Sample([_Z], _by_eigenvalues),
        Sample([np.zeros((2, 3, 0))], np.zeros((2, 0))),
    ],
)


def _values_gradient(op: Operation, g: Tensor) -> list[Any]:
    # The vectors are computed in the gradient only: the values alone are cheaper.
    _, u, v = apply("Svd", op.inputs[0])
    # ds is the real part of the diagonal of adjoint(u) @ dx @ v.
    return [multiply_matrices(u * as_row(g, u), v, adjoint_b=True)]


@public
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Decompose matrices into singular values and vectors, ``x = u @ matrix_diag(s) @ adjoint(v)``.

    Parameters
    ----------
    tensor : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., m, n]``.
    full_matrices : bool
        True to make u and v square.
    compute_uv : bool
        True to return the vectors too.

    Returns
    -------
    s : Tensor
        Of the real dtype, shape ``[..., k]``, where k is the smaller of m and n, in descending order.
    u, v : Tensor
        Left and right vectors, as columns: shapes ``[..., m, k]`` and ``[..., n, k]``, or square; `s` is returned alone
        without `compute_uv`. Unlike NumPy's, v is not transposed. Vectors are determined up to their signs or complex
        phases, and vectors of equal values, or beyond the k-th, up to a basis of their space: gradients are meaningful
        only of functions that do not depend on this choice.

    Raises
    ------
    ShapeError
        If `tensor` has fewer than two dimensions.
    OpError
        When a step runs it, if the algorithm does not converge, as with NaNs in a matrix.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.svd([[0.0, 3.0], [5.0, 0.0]], compute_uv=False)).sync()
    array([5., 3.], dtype=float32)
    """
    if not compute_uv:
        return apply("SingularValues", tensor, name=name)
    s, u, v = apply("Svd", tensor, name=name, full_matrices=bool(full_matrices))
    return s, u, v


def _infer_inverse_shape(op: Operation) -> Shape:
    leading, rows, columns, _ = sizes_of_matrices(op)
    return leading + Shape([columns, rows])


def _pseudo_inverse(xp: Any, x: Any, rcond: float | None) -> Any:
    """Invert the singular values above `rcond` times the largest, and replace the others by 0."""
    u, s, vh = call_linalg(xp, "svd", x, full_matrices=False, refused=DIVERGED)
    if rcond is None:
        # Smaller values count as rounding errors of 0, as in TensorFlow.
        rcond = 10 * max(x.shape[-2:]) * float(np.finfo(s.dtype).eps)
    largest = s[..., :1]  # NumPy and CuPy sort them in descending order
    is_nonzero = (s > rcond * largest) & (s > 0)
    # The inner where avoids divisions by zero, which would warn.
    inverse_s = xp.where(is_nonzero, 1 / xp.where(is_nonzero, s, xp.ones((), s.dtype)), xp.zeros((), s.dtype))
    return xp.matmul((vh.swapaxes(-1, -2).conj() * inverse_s[..., None, :]), u.swapaxes(-1, -2).conj())


def _pseudo_inverse_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the cotangent of matrices of locally constant rank (Golub and Pereyra, 1973)."""
    x, y = op.inputs[0], op.outputs[0]
    # dy = -y @ dx @ y + y @ y^H @ dx^H @ (1 - x @ y) + (1 - y @ x) @ dx^H @ y^H @ y. The adjoints of these three terms,
    # applied to g, are `-back`, `left` and `right`.
    back = multiply_matrices(y, multiply_matrices(g, y, adjoint_b=True), adjoint_a=True)
    left = multiply_matrices(multiply_matrices(g, y, adjoint_a=True), y, adjoint_b=True)
    right = multiply_matrices(y, multiply_matrices(y, g, adjoint_b=True), adjoint_a=True)
    left = left - multiply_matrices(x, multiply_matrices(y, left))
    right = right - multiply_matrices(multiply_matrices(right, y), x)
    return [left + right - back]


define(
    "PseudoInverse",
    "a: T -> inverse: T",
    where={"T": LAPACK},
    attrs={"rcond": None},
    shape=_infer_inverse_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(2)), ReadsValues()],
    kernel=_pseudo_inverse,
    gradient=_pseudo_inverse_gradient,
    samples=[
        Sample([_TALL], lambda x: np.linalg.inv(x.T @ x) @ x.T),
        Sample([np.stack([_SMALL.T, 2 * _SMALL.T])], lambda x: np.stack([m.T @ np.linalg.inv(m @ m.T) for m in x])),
        Sample([_SQUARE], lambda x: np.linalg.inv(x)),
        Sample([_Z], lambda z: np.linalg.inv(z.conj().T @ z) @ z.conj().T),
        Sample([f64([[1, 1], [1, 1]])], f64([[0.25, 0.25], [0.25, 0.25]]), differentiable=False),
        Sample([f64([[5, 0], [0, 0.5]])], f64([[0.2, 0], [0, 0]]), {"rcond": 0.2}, differentiable=False),
        Sample([np.zeros((2, 3))], np.zeros((3, 2)), differentiable=False),
        Sample([np.zeros((0, 3))], np.zeros((3, 0))),
    ],
)


@public
def pinv(a: Any, rcond: float | None = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Pseudo-inverses of matrices (Moore and Penrose), by `svd`.

    Parameters
    ----------
    a : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., m, n]``.
    rcond : float, optional
        Singular values up to this fraction of the largest count as 0; ten times the precision of the dtype times
        the larger of m and n when None.
    validate_args : bool
        Ignored; kept for TensorFlow's argument order.

    Returns
    -------
    Tensor
        Same dtype, shape ``[..., n, m]``. The gradient assumes a constant rank.

    Raises
    ------
    ShapeError
        If `a` has fewer than two dimensions.
    GraphError
        If `rcond` is negative, or no number.
    OpError
        When a step runs it, if `svd` does not converge, as with NaNs in a matrix.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.pinv(np.array([[2.0, 0.0], [0.0, 0.0]]))).sync()
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    if rcond is not None and not (isinstance(rcond, (int, float, np.number)) and rcond >= 0):
        raise GraphError(
            "rcond is the fraction of the largest singular value below which others count as 0",
            wanted="a number of at least 0, or None",
            got=repr(rcond),
            hint="leave it out",
        )
    rcond = None if rcond is None else float(rcond)
    return apply("PseudoInverse", convert_to_tensor(a), name=name, rcond=rcond)

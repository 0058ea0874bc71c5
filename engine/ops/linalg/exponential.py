"""The exponential of matrices, by scaling, a Padé approximant, and squaring."""

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
from ..math.casting import cast
from ..support.array_library import scipy_linalg
from ..support.common import size_along, zeros_like
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .common import LAPACK, call_linalg, cubic_cost, square_shape
from .transposing import adjoint

_A = f64([[0.5, -1, 0.25], [2, 0.1, -0.5], [-0.75, 1, -0.3]])
_Z = c128([[1j, 0.5], [0.25 - 1j, -0.5]])

# Of degree 13: numerators of the coefficients, and the largest 1-norm with an approximant exact in double precision.
_PADE = (
    64764752532480000,
    32382376266240000,
    7771770303897600,
    1187353796428800,
    129060195264000,
    10559470521600,
    670442572800,
    33522128640,
    1323241920,
    40840800,
    960960,
    16380,
    182,
    1,
)
_BOUND = 5.371920351148152


def _count_halvings(xp: Any, x: Any) -> Any:
    """Return the number of halvings that bring the norm of each matrix within the bound, as ``[..., 1, 1]``."""
    # The 1-norm, the largest sum of a column.
    size = xp.max(xp.sum(xp.absolute(x), axis=-2), axis=-1)[..., None, None]
    # No number of halvings makes NaN or infinity small: such matrices are left as they are.
    finite = xp.where(xp.isfinite(size), size, xp.zeros((), size.dtype))
    ratio = xp.maximum(finite / xp.asarray(_BOUND, size.dtype), xp.ones((), size.dtype))
    return xp.ceil(xp.log(ratio) / xp.asarray(np.log(2), size.dtype))


def _pade_approximant(xp: Any, x: Any) -> Any:
    """Return the approximant of matrices whose norm is within the bound (Higham, 2005, equation 2.13)."""
    # The constant term of numerator and denominator becomes 1; the factor cancels in the quotient.
    b = [c / _PADE[0] for c in _PADE]
    one = xp.asarray(np.eye(x.shape[-1], dtype=x.dtype))
    x2 = xp.matmul(x, x)
    x4 = xp.matmul(x2, x2)
    x6 = xp.matmul(x4, x2)
    # Six products of matrices in all, x * odd included, for polynomials of degree 13.
    odd = xp.matmul(x6, b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one
    even = xp.matmul(x6, b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    odd = xp.matmul(x, odd)
    return call_linalg(xp, "solve", even - odd, even + odd, may_fail=False)


def _compute_expm(xp: Any, x: Any) -> Any:
    """Halve matrices until their norms are small, take the approximant, and square it as often."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"expm takes square matrices, got shape {list(x.shape)}")
    if not x.size:
        return x.copy()
    times = _count_halvings(xp, x)
    y = _pade_approximant(xp, x / xp.asarray(2, times.dtype) ** times)
    # Matrices of a batch need different numbers of squarings: finished ones keep their value.
    for i in range(int(xp.max(times))):
        y = xp.where(times > i, xp.matmul(y, y), y)
    return y


def _expm_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the derivative at the adjoint in the direction `g`, a block of a larger exponential (Van Loan, 1978).

    The derivative is linear in the direction, which is scaled to a norm of at most 1 and back: a large one would cause
    more halvings of the block and lose digits.
    """
    x = adjoint(op.inputs[0])
    n = size_along(op.inputs[0], -1)
    size = _size_of_each(g)
    # The upper right block of exp([[x, g], [0, x]]) is the derivative at x along g.
    upper = apply("Concat", [x, g / size], axis=-1)
    lower = apply("Concat", [zeros_like(x), x], axis=-1)
    return [apply("Expm", apply("Concat", [upper, lower], axis=-2))[..., :n, n:] * size]


def _size_of_each(g: Tensor) -> Tensor:
    """Return a bound of the norm of each matrix, as ``[..., 1, 1]``; 1 where it is 0 or not finite."""
    # The scale cancels in the derivative, so no second derivative passes through it.
    total = apply("Sum", apply("Abs", apply("StopGradient", g)), axis=(-2, -1), keepdims=True)
    is_size = apply("LogicalAnd", total > 0, apply("IsFinite", total))
    return cast(apply("Where", is_size, total, 1), g.dtype)


def _expm_by_scipy(matrix: Any) -> Any:
    return scipy_linalg().expm(matrix)


define(
    "Expm",
    "input: T -> output: T",
    where={"T": LAPACK},
    shape=square_shape,
    rules=[Vectorize(leading), Elements(cubic_cost(1)), ReadsValues()],
    kernel=_compute_expm,
    gradient=_expm_gradient,
    samples=[
        Sample([_A], _expm_by_scipy),
        Sample([np.stack([_A, 20 * _A, np.zeros((3, 3))])], _expm_by_scipy, differentiable=False),
        Sample([_Z], _expm_by_scipy),
        Sample([f64([[0, 1], [0, 0]])], f64([[1, 1], [0, 1]])),
        Sample([f64([[0, np.pi / 2], [-np.pi / 2, 0]])], f64([[0, 1], [-1, 0]])),
        Sample([f64([[np.nan]])], f64([[np.nan]]), differentiable=False),
        Sample([np.zeros((2, 0, 0))], np.zeros((2, 0, 0))),
    ],
)


@public
def expm(input: Any, name: str | None = None) -> Tensor:
    """Exponentials of matrices, ``eye + x + x @ x / 2 + ...`` (Higham, 2005).

    Parameters
    ----------
    input : Tensor of dtype float32, float64, complex64 or complex128
        Shape ``[..., n, n]``.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.expm(np.array([[0.0, np.pi], [-np.pi, 0.0]])).astype("float32")).sync().round(3) + 0.0
    array([[-1.,  0.],
           [ 0., -1.]], dtype=float32)
    """
    return apply("Expm", input, name=name)

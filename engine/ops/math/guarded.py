"""Products, quotients and polynomials: guarded against NaN, or cut off towards zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...base.errors import GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.common import ones_like, zeros_like
from ..support.families import Binary, BinaryOperation, keep_dtype, make_samples
from ..support.literals import f64, i32
from .arithmetic import div_no_nan

_REAL = (*dtypes.FLOATING, *dtypes.INTEGER)
_A = [[7.5, -7.5, 6.25]]
_B = [[2.0], [-3.5]]
_WHOLE = (i32([7, -7, 7, -7]), i32([3, 3, -3, -3]))


@keep_dtype
def _truncate_mod(xp: Any, x: Any, y: Any) -> Any:
    if y.dtype.kind in "iu" and x.size and not xp.all(y):
        raise ZeroDivisionError("integer division by zero")
    return xp.fmod(x, y)


@keep_dtype
def _truncate_div(xp: Any, x: Any, y: Any) -> Any:
    if y.dtype.kind not in "iu":
        return xp.trunc(x / y)
    # Exact, unlike the quotient of large integers in floating point.
    return (x - _truncate_mod(xp, x, y)) // y


truncatemod: Binary = BinaryOperation(
    "TruncateMod",
    "truncatemod",
    "Remainder of a division that is cut off towards zero: the sign is that of the dividend, as in C.",
    where=_REAL,
    kernel=_truncate_mod,
    gradient=lambda x, y, z, g: (g, -(g * truncatediv(x, y))),
    samples=[*make_samples(math.fmod, (_A, _B)), Sample(list(_WHOLE), i32([1, -1, 1, -1]))],
    examples={"[7, -7], 3": "array([ 1, -1], dtype=int32)"},
).declare_type()

truncatediv: Binary = BinaryOperation(
    "TruncateDiv",
    "truncatediv",
    "Divide and cut off towards zero, as integers of C do; ``floordiv`` rounds down.",
    where=_REAL,
    kernel=_truncate_div,
    gradient=lambda x, y, z, g: (zeros_like(x), zeros_like(y)),
    samples=[*make_samples(lambda x, y: float(int(x / y)), (_A, _B)), Sample(list(_WHOLE), i32([2, -2, -2, 2]))],
    examples={"[7, -7], 3": "array([ 2, -2], dtype=int32)"},
).declare_type()


@keep_dtype
def _next_after(xp: Any, x: Any, y: Any) -> Any:
    return xp.nextafter(x, y)


nextafter: Binary = BinaryOperation(
    "NextAfter",
    "nextafter",
    "The next number of the dtype after the first operand, on the way to the second.",
    where=(dtypes.float32, dtypes.float64),
    kernel=_next_after,
    gradient=NotDifferentiable("it steps from one number to the next"),
    samples=[Sample([f64([1.0, 0.0, 2.0]), f64([2.0, -1.0, 2.0])], f64([1 + 2.0**-52, -(2.0**-1074), 2.0]))],
    examples={"1.0, 2.0": "array(1.0000001, dtype=float32)"},
).declare_type()


@public
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """``1 / x`` elementwise, with 0 where `x` is 0.

    Parameters
    ----------
    x : Tensor of a floating or complex dtype
    name : str, optional
        Name of the operation.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reciprocal_no_nan([2.0, 0.0])).sync()
    array([0.5, 0. ], dtype=float32)
    """
    tensor = convert_to_tensor(x)
    return div_no_nan(ones_like(tensor), tensor, name=name)


@public
def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """Value of a polynomial, elementwise, by Horner's rule.

    Parameters
    ----------
    coeffs : list of Tensor
        From the coefficient of the highest power down, as in NumPy; scalars, or of shapes that broadcast with the shape
        of `x`.
    x : Tensor of a numeric dtype
    name : str, optional
        Name of the operation.

    Returns
    -------
    Tensor
        Of the dtype of `x`; 0 without coefficients.

    Raises
    ------
    GraphError
        If `coeffs` is no list.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.polyval([2, 0, 1], [1, 10])).sync()  # 2 x**2 + 1
    array([  3, 201], dtype=int32)
    """
    if not isinstance(coeffs, (list, tuple)):
        raise GraphError(
            "the coefficients of a polynomial are a list",
            wanted="a list of tensors, the coefficient of the highest power first",
            got=coeffs,
            hint="tagloom.unstack makes a list of a vector whose length is known",
        )
    point = convert_to_tensor(x)
    if not coeffs:
        return apply("Identity", zeros_like(point), name=name)
    value = convert_to_tensor(coeffs[0], point.dtype)
    for coefficient in coeffs[1:]:
        value = value * point + convert_to_tensor(coefficient, point.dtype)
    return apply("Identity", value, name=name)

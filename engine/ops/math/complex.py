"""Parts of complex numbers. A cotangent is multiplied by the conjugate of the derivative."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, Ufunc, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import convert_alike
from ..support.common import broadcast_all, sum_to, zeros_like
from ..support.families import Unary, UnaryOperation
from ..support.literals import c128, f64
from ..support.tangents import LINEAR
from ..support.vectorizing.families import pointwise

COMPLEX = (dtypes.complex64, dtypes.complex128)
_Z = c128([1 + 2j, -0.5 + 0.25j, 3 - 1j])

UnaryOperation(
    "Conj",
    "conj",
    "Complex conjugate, elementwise.",
    where=COMPLEX,
    kernel=Ufunc("conjugate"),
    gradient=lambda x, y, g: conj(g),
    samples=[Sample([_Z], c128([1 - 2j, -0.5 - 0.25j, 3 + 1j]))],
).declare_type()


@public
def conj(x: Any, name: str | None = None) -> Tensor:
    """Complex conjugate, elementwise.

    Parameters
    ----------
    x : Tensor of any numeric dtype
        Real tensors are returned unchanged.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.conj([1 + 2j, 3 - 1j])).sync()
    array([1.-2.j, 3.+1.j], dtype=complex64)
    """
    tensor = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return apply("Conj", tensor, name=name) if tensor.dtype.is_complex else tensor


UnaryOperation(
    "Real",
    "real",
    "Real part, elementwise.",
    where=COMPLEX,
    output="T.real",
    # A view would keep the complex array in memory, and its elements are not contiguous.
    kernel=lambda xp, x: x.real.copy(),
    gradient=lambda x, y, g: complex(g, zeros_like(g)),
    samples=[Sample([_Z], f64([1, -0.5, 3]))],
).declare_type()

UnaryOperation(
    "Imag",
    "imag",
    "Imaginary part, elementwise.",
    where=COMPLEX,
    output="T.real",
    kernel=lambda xp, x: x.imag.copy(),
    gradient=lambda x, y, g: complex(zeros_like(g), g),
    samples=[Sample([_Z], f64([2, 0.25, -1]))],
).declare_type()

angle: Unary = UnaryOperation(
    "Angle",
    "angle",
    "Argument of a complex number in radians, elementwise.",
    where=COMPLEX,
    output="T.real",
    kernel=lambda xp, x: xp.asarray(xp.angle(x), x.real.dtype),
    # Along 1j * z / abs(z) ** 2, the direction in which only the angle changes.
    gradient=lambda x, y, g: apply("DivOrZero", complex(zeros_like(g), g), conj(x)),
    samples=[Sample([_Z], np.vectorize(cmath.phase))],
    examples={"np.array([1j, -1 + 0j])": "array([1.57079633, 3.14159265])"},
).declare_type()


@public
def real(input: Any, name: str | None = None) -> Tensor:
    """Real part, elementwise.

    Parameters
    ----------
    input : Tensor of any numeric dtype
        Real tensors are returned unchanged.

    Returns
    -------
    Tensor
        Of the real dtype and the same shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.real([1 + 2j, 3])).sync()
    array([1., 3.], dtype=float32)
    """
    x = convert_to_tensor(input)
    return apply("Real", x, name=name) if x.dtype.is_complex else x


@public
def imag(input: Any, name: str | None = None) -> Tensor:
    """Imaginary part, elementwise.

    Parameters
    ----------
    input : Tensor of any numeric dtype
        The imaginary part of a real tensor is zeros.

    Returns
    -------
    Tensor
        Of the real dtype and the same shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.imag([1 + 2j, 3])).sync()
    array([2., 0.], dtype=float32)
    """
    x = convert_to_tensor(input)
    return apply("Imag", x, name=name) if x.dtype.is_complex else zeros_like(x)


def _complex_gradient(op: Operation, g: Tensor) -> list[Any]:
    return [sum_to(real(g), op.inputs[0]), sum_to(imag(g), op.inputs[1])]


def _complex_kernel(xp: Any, real: Any, imag: Any, dtype: Any) -> Any:
    # ``real + 1j * imag`` would make NaN beside an infinite part.
    result = xp.empty(xp.broadcast_shapes(real.shape, imag.shape), dtypes.as_dtype(dtype).numpy)
    result.real[...] = real
    result.imag[...] = imag
    return result


define(
    "Complex",
    "real: T, imag: T -> z: @dtype",
    where={"T": (dtypes.float32, dtypes.float64)},
    attrs={"dtype": REQUIRED},
    shape=broadcast_all,
    kernel=_complex_kernel,
    rules=[Vectorize(pointwise), LINEAR],
    gradient=_complex_gradient,
    samples=[Sample([_Z.real, _Z.imag], _Z, {"dtype": dtypes.complex128})],
)


@public
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Build complex numbers from real and imaginary parts.

    Parameters
    ----------
    real, imag : Tensor of dtype float32 or float64
        Same dtype; shapes broadcast. Two literals make complex64.

    Returns
    -------
    Tensor
        complex64 or complex128, of the broadcast shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.complex([1.0, 3.0], 2.0)).sync()
    array([1.+2.j, 3.+2.j], dtype=complex64)
    """
    parts = convert_alike(real, imag, default=dtypes.float32)
    dtype = dtypes.complex128 if parts[0].dtype is dtypes.float64 else dtypes.complex64
    return apply("Complex", *parts, name=name, dtype=dtype)

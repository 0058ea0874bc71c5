"""Elementwise functions of a single operand: signs, powers, exponentials, rounding, tests of floating values."""

from __future__ import annotations

import cmath
import functools
import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, Ufunc, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.fusing import StepWriter
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ...kernels.elementary.functions import elementary_function
from ..support import array_library as arrays
from ..support.common import same_as, zeros_like
from ..support.families import Unary, UnaryOperation, is_sparse, keep_dtype, make_samples
from ..support.fusing import fuse_elementwise
from ..support.literals import f64, flags, i32
from ..support.vectorizing.families import pointwise
from .arithmetic import div_no_nan, maximum, minimum
from .complex import conj
from .zero_products import divide_unless_zero, multiply_unless_zero

_X = [[0.5, -1.25], [2.25, -0.3]]
_POSITIVE = [[0.5, 1.25], [2.0, 0.3]]
_Z = [0.5 + 0.25j, -0.75 + 1.5j, 1 - 2j]

negative: Unary = UnaryOperation(
    "Neg",
    "negative",
    "Change the sign, elementwise.",
    where=dtypes.NUMERIC,
    kernel=Ufunc("negative"),
    keeps_zero=True,
    gradient=lambda x, y, g: -g,
    samples=[*make_samples(lambda x: 0 - x, _X), Sample([i32([3, -4])], i32([-3, 4]))],
    examples={"[1.5, -2.0]": "array([-1.5,  2. ], dtype=float32)"},
).declare_type()


def _absolute_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x,) = op.inputs
    # The slope is x / abs(x), of complex numbers too, while `g` is real.
    return [(apply("Cast", g, dtype=x.dtype) if x.dtype.is_complex else g) * sign(x)]


define(
    "Abs",
    "x: T -> y: T.real",
    where={"T": dtypes.NUMERIC},
    shape=same_as(0),
    rules=[Vectorize(pointwise)],
    kernel=Ufunc("absolute"),
    gradient=_absolute_gradient,
    samples=[
        *make_samples(math.fabs, _X, lambda z: math.hypot(z.real, z.imag), _Z),
        Sample([i32([3, -4])], i32([3, 4])),
    ],
)


@public
def abs(x: Any, name: str | None = None) -> Tensor:
    """Magnitude, elementwise.

    Parameters
    ----------
    x : Tensor or SparseTensor of any numeric dtype

    Returns
    -------
    Tensor or SparseTensor
        Same shape and dtype; the real dtype for complex numbers.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.abs([-1.5, 2.0])).sync()
    array([1.5, 2. ], dtype=float32)
    >>> tg.function(lambda: tg.abs([3 + 4j])).sync()
    array([5.], dtype=float32)
    """
    if is_sparse(x):
        return x.with_values(apply("Abs", x.values, name=name))  # type: ignore[no-any-return]
    return apply("Abs", x, name=name)


def _sign_gradient(x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return zeros_like(x)
    # Only the tangential part of the cotangent turns ``x / abs(x)``; the radial part would change its size of 1.
    radial = apply("Cast", apply("Real", conj(g) * y), dtype=x.dtype)
    return div_no_nan(g - y * radial, apply("Cast", abs(x), dtype=x.dtype))


sign: Unary = UnaryOperation(
    "Sign",
    "sign",
    "-1, 0 or 1 by the sign, elementwise; ``x / abs(x)`` of complex numbers.",
    where=dtypes.NUMERIC,
    kernel=Ufunc("sign", elsewhere=arrays.compute_signs),
    keeps_zero=True,
    gradient=_sign_gradient,
    samples=[
        *make_samples(lambda x: math.copysign(1.0, x), _X, lambda z: z / math.hypot(z.real, z.imag), _Z),
        Sample([i32([3, 0, -4])], i32([1, 0, -1])),
    ],
    examples={"[-2.5, 0.0, 3.0]": "array([-1.,  0.,  1.], dtype=float32)"},
).declare_type()

square: Unary = UnaryOperation(
    "Square",
    "square",
    "Square, elementwise.",
    where=dtypes.NUMERIC,
    kernel=Ufunc("square"),
    keeps_zero=True,
    gradient=lambda x, y, g: g * conj(x * 2),
    samples=make_samples(lambda x: x * x, _X, lambda x: x * x, _Z),
    examples={"[3, -4]": "array([ 9, 16], dtype=int32)"},
).declare_type()

sqrt: Unary = UnaryOperation(
    "Sqrt",
    "sqrt",
    "Square root, elementwise; NaN for negative real numbers.",
    kernel=Ufunc("sqrt"),
    keeps_zero=True,
    # The slope is infinite at 0, where a cotangent of 0 has to stay 0.
    gradient=lambda x, y, g: divide_unless_zero(g, conj(y * 2)),
    samples=make_samples(math.sqrt, _POSITIVE, cmath.sqrt, _Z),
    examples={"[9.0, 2.25]": "array([3. , 1.5], dtype=float32)"},
).declare_type()


def _multiply_guarded(*factors: Tensor) -> Tensor:
    """Return the product of possibly infinite factors, with gradients of 0 where the incoming gradient is 0."""
    return functools.reduce(multiply_unless_zero, factors)


def _rsqrt_steps(op: Operation, writer: StepWriter) -> None:
    writer.add("divide", [writer.number(op, 1), writer.add("sqrt", op.inputs)], op.outputs[0])


rsqrt: Unary = UnaryOperation(
    "Rsqrt",
    "rsqrt",
    "Reciprocal of the square root, elementwise.",
    kernel=keep_dtype(lambda xp, x: 1 / xp.sqrt(x)),
    rules=[fuse_elementwise(_rsqrt_steps)],
    gradient=lambda x, y, g: multiply_unless_zero(g, conj(_multiply_guarded(y, y, y) * -0.5)),
    samples=make_samples(lambda x: x**-0.5, _POSITIVE, lambda z: 1 / cmath.sqrt(z), _Z),
    examples={"[4.0, 0.25]": "array([0.5, 2. ], dtype=float32)"},
).declare_type()

reciprocal: Unary = UnaryOperation(
    "Reciprocal",
    "reciprocal",
    "``1 / x``, elementwise.",
    kernel=Ufunc("reciprocal"),
    gradient=lambda x, y, g: -multiply_unless_zero(g, conj(_multiply_guarded(y, y))),
    samples=make_samples(lambda x: 1 / x, _X, lambda z: 1 / z, _Z),
    examples={"[4.0, -0.5]": "array([ 0.25, -2.  ], dtype=float32)"},
).declare_type()

exp: Unary = UnaryOperation(
    "Exp",
    "exp",
    "Exponential, elementwise.",
    kernel=Ufunc("exp", here=elementary_function(np, "exp")),
    gradient=lambda x, y, g: multiply_unless_zero(g, conj(y)),
    samples=make_samples(math.exp, _X, cmath.exp, _Z),
    examples={"np.array([0.0, 1.0])": "array([1.        , 2.71828183])"},
).declare_type()

expm1: Unary = UnaryOperation(
    "Expm1",
    "expm1",
    "``exp(x) - 1`` without loss of digits near 0, elementwise.",
    kernel=Ufunc("expm1"),
    keeps_zero=True,
    gradient=lambda x, y, g: multiply_unless_zero(g, conj(y + 1)),
    samples=make_samples(math.expm1, [*_X[0], 1e-12], lambda z: cmath.exp(z) - 1, _Z),
    examples={"np.array([1e-20])": "array([1.e-20])"},
).declare_type()

log: Unary = UnaryOperation(
    "Log",
    "log",
    "Natural logarithm, elementwise; NaN for negative real numbers.",
    kernel=Ufunc("log"),
    gradient=lambda x, y, g: divide_unless_zero(g, conj(x)),
    samples=make_samples(math.log, _POSITIVE, cmath.log, _Z),
    examples={"np.array([1.0, np.e])": "array([0., 1.])"},
).declare_type()

log1p: Unary = UnaryOperation(
    "Log1p",
    "log1p",
    "``log(1 + x)`` without loss of digits near 0, elementwise.",
    kernel=Ufunc("log1p"),
    keeps_zero=True,
    gradient=lambda x, y, g: divide_unless_zero(g, conj(x + 1)),
    samples=make_samples(math.log1p, [0.5, 2.0, -0.3, 1e-5], lambda z: cmath.log(1 + z), _Z),
    examples={"np.array([1e-20])": "array([1.e-20])"},
).declare_type()


_SLOPE = 2 / math.sqrt(math.pi)

erf: Unary = UnaryOperation(
    "Erf",
    "erf",
    "Error function, elementwise.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("erf")),
    keeps_zero=True,
    gradient=lambda x, y, g: g * (exp(-square(x)) * _SLOPE),
    samples=make_samples(math.erf, _X),
    examples={"np.array([0.0, 1.0, 10.0])": "array([0.        , 0.84270079, 1.        ])"},
).declare_type()

erfc: Unary = UnaryOperation(
    "Erfc",
    "erfc",
    "``1 - erf(x)`` without loss of digits for large `x`, elementwise.",
    where=dtypes.FLOATING,
    kernel=keep_dtype(arrays.by_special("erfc")),
    gradient=lambda x, y, g: g * (exp(-square(x)) * -_SLOPE),
    samples=make_samples(math.erfc, [*_X[0], 9.0]),
    examples={"np.array([10.0])": "array([2.08848758e-45])"},
).declare_type()

floor: Unary = UnaryOperation(
    "Floor",
    "floor",
    "Round towards minus infinity, elementwise.",
    where=dtypes.FLOATING,
    kernel=Ufunc("floor"),
    keeps_zero=True,
    gradient=lambda x, y, g: zeros_like(x),
    samples=make_samples(lambda x: float(math.floor(x)), [0.5, -1.25, 2.7]),
    examples={"[1.7, -1.7]": "array([ 1., -2.], dtype=float32)"},
).declare_type()

ceil: Unary = UnaryOperation(
    "Ceil",
    "ceil",
    "Round towards plus infinity, elementwise.",
    where=dtypes.FLOATING,
    kernel=Ufunc("ceil"),
    keeps_zero=True,
    gradient=lambda x, y, g: zeros_like(x),
    samples=make_samples(lambda x: float(math.ceil(x)), [0.5, -1.25, 2.7]),
    examples={"[1.7, -1.7]": "array([ 2., -1.], dtype=float32)"},
).declare_type()

rint: Unary = UnaryOperation(
    "Rint",
    "rint",
    "Round to the nearest whole number, halves to the even one, elementwise.",
    where=dtypes.FLOATING,
    kernel=Ufunc("rint"),
    keeps_zero=True,
    gradient=lambda x, y, g: zeros_like(x),
    samples=[
        Sample([f64([0.3, -1.25, 2.6])], f64([0, -1, 3])),
        Sample([f64([0.5, 1.5, -2.5])], f64([0, 2, -2]), differentiable=False),
    ],
    examples={"[0.5, 1.5, -2.6]": "array([ 0.,  2., -3.], dtype=float32)"},
).declare_type()


@public
def round(x: Any, name: str | None = None) -> Tensor:
    """Round to the nearest whole number, halves to even, elementwise.

    Parameters
    ----------
    x : Tensor of an integer or floating dtype
        Integer tensors are returned unchanged.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.round([0.5, 1.5, -2.5])).sync()
    array([ 0.,  2., -2.], dtype=float32)
    """
    x = convert_to_tensor(x)
    return x if x.dtype.is_integer else rint(x, name)


_TEST = NotDifferentiable("its result is bool")
_ODD = f64([1.0, np.nan, np.inf, -np.inf])

is_nan: Unary = UnaryOperation(
    "IsNan",
    "is_nan",
    "Whether a value is NaN, elementwise.",
    output="bool",
    kernel=Ufunc("isnan"),
    gradient=_TEST,
    samples=[Sample([_ODD], flags([False, True, False, False]))],
    examples={'[1.0, float("nan"), float("inf")]': "array([False,  True, False])"},
).declare_type()

is_inf: Unary = UnaryOperation(
    "IsInf",
    "is_inf",
    "Whether a value is infinite, elementwise.",
    output="bool",
    kernel=Ufunc("isinf"),
    gradient=_TEST,
    samples=[Sample([_ODD], flags([False, False, True, True]))],
    examples={'[1.0, float("nan"), float("inf")]': "array([False, False,  True])"},
).declare_type()

is_finite: Unary = UnaryOperation(
    "IsFinite",
    "is_finite",
    "Whether a value is neither infinite nor NaN, elementwise.",
    output="bool",
    kernel=Ufunc("isfinite"),
    gradient=_TEST,
    samples=[Sample([_ODD], flags([True, False, False, False]))],
    examples={'[1.0, float("nan"), float("inf")]': "array([ True, False, False])"},
).declare_type()


@public
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Tensor:
    """Limit values to an interval; gradients pass inside the interval, bounds included.

    Parameters
    ----------
    t : Tensor of an integer or floating dtype
    clip_value_min, clip_value_max : Tensor of the same dtype
        Shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.clip_by_value([-3.0, 0.5, 2.0], 0.0, 1.0)).sync()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    # If the bounds are crossed, the lower one wins.
    return maximum(minimum(t, clip_value_max), clip_value_min, name)

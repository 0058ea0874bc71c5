"""Trigonometric and hyperbolic functions and their inverses, elementwise."""

from __future__ import annotations

import cmath
import math

import numpy as np

from ...ir.definition import Ufunc
from ...kernels.elementary.functions import elementary_function
from ..support.families import Unary, UnaryOperation, make_samples
from .complex import conj
from .elementwise import sqrt, square
from .zero_products import divide_unless_zero, multiply_unless_zero

_X = [[0.5, -0.8], [0.1, -0.3]]
_Z = [0.5 + 0.25j, -0.75 + 0.5j, 0.2 - 0.9j]

sin: Unary = UnaryOperation(
    "Sin",
    "sin",
    "Sine of an angle in radians, elementwise.",
    kernel=Ufunc("sin"),
    keeps_zero=True,
    gradient=lambda x, y, g: g * conj(cos(x)),
    samples=make_samples(math.sin, _X, cmath.sin, _Z),
    examples={"np.array([0.0, np.pi / 2])": "array([0., 1.])"},
).declare_type()

cos: Unary = UnaryOperation(
    "Cos",
    "cos",
    "Cosine of an angle in radians, elementwise.",
    kernel=Ufunc("cos"),
    gradient=lambda x, y, g: -(g * conj(sin(x))),
    samples=make_samples(math.cos, _X, cmath.cos, _Z),
    examples={"np.array([0.0, np.pi])": "array([ 1., -1.])"},
).declare_type()

tan: Unary = UnaryOperation(
    "Tan",
    "tan",
    "Tangent of an angle in radians, elementwise.",
    kernel=Ufunc("tan"),
    keeps_zero=True,
    gradient=lambda x, y, g: multiply_unless_zero(g, conj(multiply_unless_zero(y, y) + 1)),
    samples=make_samples(math.tan, _X, cmath.tan, _Z),
    examples={"np.array([0.0, np.pi / 4])": "array([0., 1.])"},
).declare_type()

asin: Unary = UnaryOperation(
    "Asin",
    "asin",
    "Angle in radians whose sine is `x`, elementwise.",
    kernel=Ufunc("arcsin"),
    keeps_zero=True,
    # The slope is infinite at -1 and 1.
    gradient=lambda x, y, g: divide_unless_zero(g, conj(sqrt(1 - square(x)))),
    samples=make_samples(math.asin, _X, cmath.asin, _Z),
    examples={"np.array([0.0, 1.0])": "array([0.        , 1.57079633])"},
).declare_type()

acos: Unary = UnaryOperation(
    "Acos",
    "acos",
    "Angle in radians whose cosine is `x`, elementwise.",
    kernel=Ufunc("arccos"),
    gradient=lambda x, y, g: -divide_unless_zero(g, conj(sqrt(1 - square(x)))),
    samples=make_samples(math.acos, _X, cmath.acos, _Z),
    examples={"np.array([1.0, -1.0])": "array([0.        , 3.14159265])"},
).declare_type()

atan: Unary = UnaryOperation(
    "Atan",
    "atan",
    "Angle in radians whose tangent is `x`, elementwise.",
    kernel=Ufunc("arctan"),
    keeps_zero=True,
    gradient=lambda x, y, g: divide_unless_zero(g, conj(square(x) + 1)),
    samples=make_samples(math.atan, _X, cmath.atan, _Z),
    examples={"np.array([1.0, np.inf])": "array([0.78539816, 1.57079633])"},
).declare_type()

sinh: Unary = UnaryOperation(
    "Sinh",
    "sinh",
    "Hyperbolic sine, elementwise.",
    kernel=Ufunc("sinh"),
    keeps_zero=True,
    gradient=lambda x, y, g: multiply_unless_zero(g, conj(cosh(x))),
    samples=make_samples(math.sinh, _X, cmath.sinh, _Z),
    examples={"np.array([0.0, 1.0])": "array([0.        , 1.17520119])"},
).declare_type()

cosh: Unary = UnaryOperation(
    "Cosh",
    "cosh",
    "Hyperbolic cosine, elementwise.",
    kernel=Ufunc("cosh"),
    gradient=lambda x, y, g: multiply_unless_zero(g, conj(sinh(x))),
    samples=make_samples(math.cosh, _X, cmath.cosh, _Z),
    examples={"np.array([0.0, 1.0])": "array([1.        , 1.54308063])"},
).declare_type()

tanh: Unary = UnaryOperation(
    "Tanh",
    "tanh",
    "Hyperbolic tangent, elementwise.",
    kernel=Ufunc("tanh", here=elementary_function(np, "tanh")),
    keeps_zero=True,
    gradient=lambda x, y, g: g * conj(1 - square(y)),
    samples=make_samples(math.tanh, _X, cmath.tanh, _Z),
    examples={"np.array([0.0, 1.0, 100.0])": "array([0.        , 0.76159416, 1.        ])"},
).declare_type()

asinh: Unary = UnaryOperation(
    "Asinh",
    "asinh",
    "Inverse hyperbolic sine, elementwise.",
    kernel=Ufunc("arcsinh"),
    keeps_zero=True,
    gradient=lambda x, y, g: divide_unless_zero(g, conj(sqrt(square(x) + 1))),
    samples=make_samples(math.asinh, _X, cmath.asinh, _Z),
    examples={"np.array([0.0, 1.0])": "array([0.        , 0.88137359])"},
).declare_type()

acosh: Unary = UnaryOperation(
    "Acosh",
    "acosh",
    "Inverse hyperbolic cosine, elementwise; NaN below 1.",
    kernel=Ufunc("arccosh"),
    # Not the root of x ** 2 - 1, which has other branch cuts for complex numbers.
    gradient=lambda x, y, g: divide_unless_zero(g, conj(multiply_unless_zero(sqrt(x - 1), sqrt(x + 1)))),
    samples=make_samples(math.acosh, [1.5, 3.0, 10.0], cmath.acosh, _Z),
    examples={"np.array([1.0, 2.0])": "array([0.       , 1.3169579])"},
).declare_type()

atanh: Unary = UnaryOperation(
    "Atanh",
    "atanh",
    "Inverse hyperbolic tangent, elementwise; NaN beyond -1 and 1.",
    kernel=Ufunc("arctanh"),
    gradient=lambda x, y, g: divide_unless_zero(g, conj(1 - square(x))),
    samples=make_samples(math.atanh, _X, cmath.atanh, _Z),
    examples={"np.array([0.0, 0.5])": "array([0.        , 0.54930614])"},
).declare_type()

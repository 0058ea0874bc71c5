"""Comparisons, logic and bits, elementwise with NumPy broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.definition import NotDifferentiable, Sample, Ufunc
from ..support import array_library as arrays
from ..support.families import Binary, BinaryOperation, Unary, UnaryOperation
from ..support.literals import f64, flags, i32

_BOOL = (dtypes.bool_,)
# Operands of the samples: a row and a column of numbers, all pairs of bools, and integers with signs.
_A = f64([[1.5, -2.0, 4.0]])
_B = f64([[1.5], [4.0]])
_P = flags([True, True, False, False])
_Q = flags([True, False, True, False])
_I = i32([12, -1, 7])
_J = i32([10, 6, 0])
_BOOL_RESULT = NotDifferentiable("its result is bool")
_BITS = NotDifferentiable("it works on the bits of integers")


def _sample_by(function: Callable[[Any, Any], Any], x: Any, y: Any) -> list[Sample]:
    """Return a sample whose results are those of a Python function of two scalars."""
    return [Sample([x, y], np.vectorize(function, otypes=[bool]))]


equal: Binary = BinaryOperation(
    "Equal",
    "equal",
    "True where two values are equal, elementwise; NaN equals nothing, not even NaN.",
    where=dtypes.VALUES,
    output="bool",
    kernel=Ufunc("equal"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(operator.eq, _A, _B),
    examples={'[1.0, 2.0, float("nan")], [1.0, 3.0, float("nan")]': "array([ True, False, False])"},
).declare_type()

not_equal: Binary = BinaryOperation(
    "NotEqual",
    "not_equal",
    "True where two values differ, elementwise; NaN differs from everything, even from NaN.",
    where=dtypes.VALUES,
    output="bool",
    kernel=Ufunc("not_equal"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(operator.ne, _A, _B),
    examples={'[1.0, 2.0, float("nan")], [1.0, 3.0, float("nan")]': "array([False,  True,  True])"},
).declare_type()

less: Binary = BinaryOperation(
    "Less",
    "less",
    "True where ``x < y``, elementwise.",
    where=dtypes.REAL,
    output="bool",
    kernel=Ufunc("less"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(operator.lt, _A, _B),
    examples={"[1, 2, 3], 2": "array([ True, False, False])"},
).declare_type()

less_equal: Binary = BinaryOperation(
    "LessEqual",
    "less_equal",
    "True where ``x <= y``, elementwise.",
    where=dtypes.REAL,
    output="bool",
    kernel=Ufunc("less_equal"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(operator.le, _A, _B),
    examples={"[1, 2, 3], 2": "array([ True,  True, False])"},
).declare_type()

greater: Binary = BinaryOperation(
    "Greater",
    "greater",
    "True where ``x > y``, elementwise.",
    where=dtypes.REAL,
    output="bool",
    kernel=Ufunc("greater"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(operator.gt, _A, _B),
    examples={"[1, 2, 3], 2": "array([False, False,  True])"},
).declare_type()

greater_equal: Binary = BinaryOperation(
    "GreaterEqual",
    "greater_equal",
    "True where ``x >= y``, elementwise.",
    where=dtypes.REAL,
    output="bool",
    kernel=Ufunc("greater_equal"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(operator.ge, _A, _B),
    examples={"[1, 2, 3], 2": "array([False,  True,  True])"},
).declare_type()

logical_and: Binary = BinaryOperation(
    "LogicalAnd",
    "logical_and",
    "True where both operands are true, elementwise.",
    where=_BOOL,
    output="bool",
    kernel=Ufunc("logical_and"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(lambda p, q: p and q, _P, _Q),
    examples={"[True, True, False], [True, False, False]": "array([ True, False, False])"},
).declare_type()

logical_or: Binary = BinaryOperation(
    "LogicalOr",
    "logical_or",
    "True where at least one operand is true, elementwise.",
    where=_BOOL,
    output="bool",
    kernel=Ufunc("logical_or"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(lambda p, q: p or q, _P, _Q),
    examples={"[True, True, False], [True, False, False]": "array([ True,  True, False])"},
).declare_type()

logical_xor: Binary = BinaryOperation(
    "LogicalXor",
    "logical_xor",
    "True where exactly one operand is true, elementwise.",
    where=_BOOL,
    output="bool",
    kernel=Ufunc("logical_xor"),
    gradient=_BOOL_RESULT,
    samples=_sample_by(lambda p, q: bool(p) != bool(q), _P, _Q),
    examples={"[True, True, False], [True, False, False]": "array([False,  True, False])"},
).declare_type()

logical_not: Unary = UnaryOperation(
    "LogicalNot",
    "logical_not",
    "True where a value is false, elementwise.",
    where=_BOOL,
    output="bool",
    kernel=Ufunc("logical_not"),
    gradient=_BOOL_RESULT,
    samples=[Sample([_P], flags([False, False, True, True]))],
    examples={"[True, False]": "array([False,  True])"},
).declare_type()

bitwise_and: Binary = BinaryOperation(
    "BitwiseAnd",
    "bitwise_and",
    "Bits set in both operands, elementwise.",
    where=dtypes.INTEGER,
    kernel=Ufunc("bitwise_and"),
    gradient=_BITS,
    samples=[Sample([_I, _J], i32([8, 6, 0]))],
    examples={"[0b1100, -1], 0b1010": "array([ 8, 10], dtype=int32)"},
).declare_type()

bitwise_or: Binary = BinaryOperation(
    "BitwiseOr",
    "bitwise_or",
    "Bits set in at least one operand, elementwise.",
    where=dtypes.INTEGER,
    kernel=Ufunc("bitwise_or"),
    gradient=_BITS,
    samples=[Sample([_I, _J], i32([14, -1, 7]))],
    examples={"[0b1100, -1], 0b1010": "array([14, -1], dtype=int32)"},
).declare_type()

bitwise_xor: Binary = BinaryOperation(
    "BitwiseXor",
    "bitwise_xor",
    "Bits set in exactly one operand, elementwise.",
    where=dtypes.INTEGER,
    kernel=Ufunc("bitwise_xor"),
    gradient=_BITS,
    samples=[Sample([_I, _J], i32([6, -7, 7]))],
    examples={"[0b1100, -1], 0b1010": "array([  6, -11], dtype=int32)"},
).declare_type()

# Where all bits are shifted out, NumPy returns 0, or -1 for a negative number shifted right; GPUs return anything, so
# other array libraries get functions with NumPy's results.
left_shift: Binary = BinaryOperation(
    "LeftShift",
    "left_shift",
    "Bits of `x` moved up by `y` places, elementwise.",
    where=dtypes.INTEGER,
    kernel=Ufunc("left_shift", elsewhere=arrays.shifted_left),
    gradient=_BITS,
    samples=[Sample([i32([1, -3, 5]), i32([4, 1, 0])], i32([16, -6, 5]))],
    examples={"[1, -3], 4": "array([ 16, -48], dtype=int32)"},
).declare_type()

right_shift: Binary = BinaryOperation(
    "RightShift",
    "right_shift",
    "Bits of `x` moved down by `y` places, keeping the sign, elementwise.",
    where=dtypes.INTEGER,
    kernel=Ufunc("right_shift", elsewhere=arrays.shifted_right),
    gradient=_BITS,
    samples=[Sample([i32([16, -6, 5]), i32([4, 1, 1])], i32([1, -3, 2]))],
    examples={"[16, -6], 1": "array([ 8, -3], dtype=int32)"},
).declare_type()

invert: Unary = UnaryOperation(
    "Invert",
    "invert",
    "All bits flipped, elementwise.",
    where=dtypes.INTEGER,
    kernel=Ufunc("invert"),
    gradient=_BITS,
    samples=[Sample([_I], i32([-13, 0, -8]))],
    examples={"[0, 5]": "array([-1, -6], dtype=int32)"},
).declare_type()

"""Products and quotients for gradients at singular points: 0 where the incoming gradient is 0, whatever the slope.

The gradient of an elementwise function is its slope times the incoming gradient. A slope may be infinite or NaN, such
as the slope of a logarithm at 0, and zero times infinity is NaN: a single such element would spoil all sums it enters,
although nothing depends on the element. So the product is 0 where the incoming gradient is 0. Other results have the
bits of ``*`` and ``/``.

Both are operations, not a ``where`` around a product: `jvp` and higher orders differentiate a gradient by the incoming
gradient, starting from 0, where the derivative is the slope.
"""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...ir.apply import apply
from ...ir.definition import Sample
from ...ir.operation import Operation
from ...ir.rules.fusing import StepWriter
from ...ir.tensor import Tensor
from ..support.families import Binary, BinaryOperation, keep_dtype, make_samples
from ..support.fusing import fuse_elementwise, has_rows
from ..support.literals import f64
from .complex import conj

_A = [[1.5, -2.0, 3.0]]
_B = [[0.5], [4.0]]
_Z = ([1 + 2j, -0.5 + 1j], [[0.5 - 1j], [2 + 0.25j]])
_INF, _NAN = float("inf"), float("nan")


def multiply_unless_zero(g: Tensor, slope: Tensor) -> Tensor:
    """Return ``g * slope``, with 0 where `g` is 0."""
    return apply("MulNoNan", slope, g)


def divide_unless_zero(g: Tensor, divisor: Tensor) -> Tensor:
    """Return ``g / divisor``, with 0 where `g` is 0."""
    return apply("DivOrZero", g, divisor)


@keep_dtype
def _compute_mul_no_nan(xp: Any, x: Any, y: Any) -> Any:
    is_zero, zero = y == 0, xp.zeros((), y.dtype)
    # Both factors are replaced: infinity times 0 would be an invalid operation.
    return xp.where(is_zero, zero, x) * xp.where(is_zero, zero, y)


@keep_dtype
def _compute_div_or_zero(xp: Any, x: Any, y: Any) -> Any:
    is_zero, zero = x == 0, xp.zeros((), x.dtype)
    return xp.where(is_zero, zero, x) / xp.where(is_zero, xp.ones((), y.dtype), y)


def _write_product(op: Operation, writer: StepWriter) -> None:
    zero = writer.number(op, 0)
    mask = writer.add("not_equal", [op.inputs[1], zero])
    writer.add("where", [mask, writer.add("multiply", op.inputs), zero], op.outputs[0])


def _write_quotient(op: Operation, writer: StepWriter) -> None:
    zero = writer.number(op, 0)
    mask = writer.add("not_equal", [op.inputs[0], zero])
    writer.add("where", [mask, writer.add("divide", op.inputs), zero], op.outputs[0])


multiply_no_nan: Binary = BinaryOperation(
    "MulNoNan",
    "multiply_no_nan",
    "Multiply elementwise, with 0 where the second operand is 0, even if the first is infinite or NaN.",
    where=dtypes.DIFFERENTIABLE,
    kernel=_compute_mul_no_nan,
    rules=[fuse_elementwise(_write_product, needs=lambda op: has_rows(op.inputs[1].shape, op.outputs[0].shape))],
    gradient=lambda x, y, z, g: (
        multiply_unless_zero(g, conj(y)),
        multiply_unless_zero(g, conj(x)),
    ),
    samples=[
        *make_samples(lambda x, y: x * y, (_A, _B), lambda x, y: x * y, _Z),
        Sample([f64([_INF, _NAN, _INF, 2]), f64([0, -0.0, 3, 0])], f64([0, 0, _INF, 0]), differentiable=False),
    ],
    examples={'[2.0, float("inf"), float("nan")], [3.0, 0.0, 0.0]': "array([6., 0., 0.], dtype=float32)"},
).declare_type()

BinaryOperation(
    "DivOrZero",
    "divide_or_zero",
    "Divide elementwise, with 0 where the dividend is 0, even if the divisor is 0 or NaN.",
    where=dtypes.DIFFERENTIABLE,
    kernel=_compute_div_or_zero,
    rules=[fuse_elementwise(_write_quotient, needs=lambda op: has_rows(op.inputs[0].shape, op.outputs[0].shape))],
    gradient=lambda x, y, z, g: (
        divide_unless_zero(g, conj(y)),
        -multiply_unless_zero(g, conj(divide_unless_zero(z, y))),
    ),
    samples=[
        *make_samples(lambda x, y: x / y, (_A, _B), lambda x, y: x / y, _Z),
        Sample([f64([0, -0.0, 0, 3]), f64([0, _NAN, 2, 1.5])], f64([0, 0, 0, 2]), differentiable=False),
    ],
).declare_type()

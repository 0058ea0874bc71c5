"""Elementwise arithmetic on two operands, with NumPy broadcasting."""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import UNKNOWN, Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.builder import Builder
from ...ir.definition import Sample, Ufunc, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched
from ...ir.rules.fusing import Fusion, StepWriter
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support import array_library as arrays
from ..support.arguments import list_argument
from ..support.batching import emit_copy
from ..support.common import broadcast_all, zeros_like
from ..support.families import Binary, BinaryOperation, keep_dtype, make_samples
from ..support.fusing import fuse_elementwise
from ..support.literals import f64, i32
from ..support.tangents import SUM, SUM_OF_ALL, multilinear
from ..support.vectorizing.families import spread_pointwise
from .complex import conj
from .zero_products import divide_unless_zero, multiply_unless_zero

_A = [[1.5, -2.0, 3.0]]
_B = [[0.5], [4.0]]
_POSITIVE = [[1.5, 0.25, 3.0]]
_Z = ([1 + 2j, -0.5 + 1j], [[0.5 - 1j], [2 + 0.25j]])

add: Binary = BinaryOperation(
    "Add",
    "add",
    "Add elementwise; strings are concatenated.",
    where=(*dtypes.NUMERIC, dtypes.string),
    kernel=Ufunc("add"),
    rules=[SUM],
    gradient=lambda x, y, z, g: (g, g),
    samples=[*make_samples(lambda x, y: x + y, (_A, _B)), Sample([i32(3), i32(4)], i32(7))],
    examples={
        "[1, 2], 10": "array([11, 12], dtype=int32)",
        '["a", "b"], "c"': "array(['ac', 'bc'], dtype=StringDType())",
    },
).declare_type()

subtract: Binary = BinaryOperation(
    "Sub",
    "subtract",
    "Subtract elementwise.",
    kernel=Ufunc("subtract"),
    rules=[SUM],
    gradient=lambda x, y, z, g: (g, -g),
    samples=[*make_samples(lambda x, y: x - y, (_A, _B)), Sample([i32(3), i32(4)], i32(-1))],
    examples={"[[10], [20]], [1, 2, 3]": "array([[ 9,  8,  7],\n       [19, 18, 17]], dtype=int32)"},
).declare_type()

multiply: Binary = BinaryOperation(
    "Mul",
    "multiply",
    "Multiply elementwise.",
    kernel=Ufunc("multiply"),
    rules=[multilinear(0, 1)],
    gradient=lambda x, y, z, g: (g * conj(y), g * conj(x)),
    samples=make_samples(lambda x, y: x * y, (_A, _B), lambda x, y: x * y, _Z),
    examples={"[1.5, -2.0], 2": "array([ 3., -4.], dtype=float32)"},
).declare_type()


def _infer_quotient_shape(op: Operation) -> Shape:
    """Return the broadcast shape of a quotient; raise DtypeError for integers."""
    if op.inputs[0].dtype.is_integer:
        raise DtypeError(
            "division is not defined for integers",
            wanted="a floating or complex dtype",
            got=op.inputs[0].dtype,
            operation=op,
            hint="use // for whole numbers, or cast both operands to 'float32' first",
        )
    return broadcast_all(op)


divide: Binary = BinaryOperation(
    "RealDiv",
    "divide",
    "Divide elementwise; integers are refused (use ``floordiv`` or cast them).",
    kernel=Ufunc("divide"),
    shape=_infer_quotient_shape,
    # The second slope is -z / y: the square in -x / y ** 2 overflows earlier.
    gradient=lambda x, y, z, g: (divide_unless_zero(g, conj(y)), -multiply_unless_zero(g, conj(z / y))),
    samples=make_samples(lambda x, y: x / y, (_A, _B), lambda x, y: x / y, _Z),
    examples={"[7.0, -7.0], 2": "array([ 3.5, -3.5], dtype=float32)"},
).declare_type()
realdiv: Binary = divide
truediv: Binary = divide
div: Binary = divide


def _refuse_zero_divisors(xp: Any, x: Any, y: Any) -> None:
    if y.dtype.kind in "iu" and x.size and not xp.all(y):
        raise ZeroDivisionError("integer division by zero")


@keep_dtype
def _floor_divide(xp: Any, x: Any, y: Any) -> Any:
    _refuse_zero_divisors(xp, x, y)
    return xp.floor_divide(x, y)


@keep_dtype
def _floor_mod(xp: Any, x: Any, y: Any) -> Any:
    _refuse_zero_divisors(xp, x, y)
    return xp.remainder(x, y)


floordiv: Binary = BinaryOperation(
    "FloorDiv",
    "floordiv",
    "Divide elementwise and round towards minus infinity; an integer divided by zero raises ZeroDivisionError.",
    where=dtypes.REAL,
    rules=[ReadsValues()],
    kernel=_floor_divide,
    gradient=lambda x, y, z, g: (zeros_like(x), zeros_like(y)),
    samples=[
        *make_samples(lambda x, y: math.floor(x / y), ([7.5, -7.5, 3.2], 2.0)),
        Sample([i32([7, -7, 6]), i32(2)], i32([3, -4, 3])),
    ],
    examples={"[7, -7], 2": "array([ 3, -4], dtype=int32)"},
).declare_type()

floormod: Binary = BinaryOperation(
    "FloorMod",
    "floormod",
    "Remainder of ``floordiv``, with the sign of the divisor; an integer zero divisor raises ZeroDivisionError.",
    where=dtypes.REAL,
    rules=[ReadsValues()],
    kernel=_floor_mod,
    # Of x - y * floordiv(x, y), whose quotient is constant between jumps.
    gradient=lambda x, y, z, g: (g, -(g * floordiv(x, y))),
    samples=[
        *make_samples(lambda x, y: x - y * math.floor(x / y), ([7.5, -7.5, 3.2], 2.0)),
        Sample([i32([7, -7, 6]), i32([2, 2, -4])], i32([1, 1, -2])),
    ],
    examples={"[7, -7, 7], [3, 3, -3]": "array([ 1,  2, -2], dtype=int32)"},
).declare_type()
mod: Binary = floormod


def _slope_exponent(x: Tensor, y: Tensor) -> Tensor:
    """Return the exponent ``y - 1`` of the slope, with 1 instead of -1 where `x` and `y` are 0.

    A power with exponent 0 is constant; ``1 / x`` would make its higher derivatives infinite or NaN at 0.
    """
    # A value that may be fed is not known, even if it is computed from constants.
    known = None if y.graph.is_feedable(y) else static_value(y)
    if known is not None and known.all():
        return y - 1
    ended = apply("LogicalAnd", apply("Equal", x, 0), apply("Equal", y, 0))
    return apply("Where", ended, 1, y - 1)


def _power_gradient(x: Tensor, y: Tensor, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # With an exponent of 0 the power is constant, even where x ** (y - 1) is infinite.
    slope = multiply_unless_zero(y, pow(x, _slope_exponent(x, y)))
    # The logarithm of 1 stands in where `x` has none, so that no NaN reaches the cotangent of `y`.
    defined = apply("NotEqual", x, 0) if x.dtype.is_complex else x > 0
    logarithm = apply("Log", apply("Where", defined, x, 1))
    return multiply_unless_zero(g, conj(slope)), multiply_unless_zero(g, conj(multiply_unless_zero(z, logarithm)))


pow: Binary = BinaryOperation(
    "Pow",
    "pow",
    "Raise `x` to the power `y` elementwise; an integer to a negative power raises ValueError.",
    rules=[ReadsValues()],
    kernel=Ufunc("power", elsewhere=arrays.compute_power),
    gradient=_power_gradient,
    samples=[
        *make_samples(math.pow, (_POSITIVE, [[2.0], [-0.5]]), lambda x, y: cmath.exp(y * cmath.log(x)), _Z),
        Sample([i32([2, -3]), i32([10, 3])], i32([1024, -27])),
    ],
    examples={"[2, -3], [10, 3]": "array([1024,  -27], dtype=int32)"},
).declare_type()


def _pick_gradient(x: Tensor, y: Tensor, mask: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return apply("Where", mask, g, 0), apply("Where", mask, 0, g)


maximum: Binary = BinaryOperation(
    "Maximum",
    "maximum",
    "Larger of two values, elementwise; NaN wins, and of equals `x` takes the gradient.",
    where=dtypes.REAL,
    kernel=Ufunc("maximum"),
    gradient=lambda x, y, z, g: _pick_gradient(x, y, x >= y, g),
    samples=make_samples(max, (_A, _B)),
    examples={'[1.0, -1.0, float("nan")], 0.0': "array([ 1.,  0., nan], dtype=float32)"},
).declare_type()

minimum: Binary = BinaryOperation(
    "Minimum",
    "minimum",
    "Smaller of two values, elementwise; NaN wins, and of equals `x` takes the gradient.",
    where=dtypes.REAL,
    kernel=Ufunc("minimum"),
    gradient=lambda x, y, z, g: _pick_gradient(x, y, x <= y, g),
    samples=make_samples(min, (_A, _B)),
    examples={'[1.0, -1.0, float("nan")], 0.0': "array([ 0., -1., nan], dtype=float32)"},
).declare_type()


def _squared_difference_gradient(x: Tensor, y: Tensor, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # The result is real, so only the real part of the cotangent counts, twice.
    slope = (g + conj(g)) * (x - y)
    return slope, -slope


@keep_dtype
def _squared_difference(xp: Any, x: Any, y: Any) -> Any:
    difference = x - y
    return difference * xp.conjugate(difference)


def _squared_difference_steps(op: Operation, writer: StepWriter) -> None:
    difference = writer.add("subtract", op.inputs)
    writer.add("multiply", [difference, difference], op.outputs[0])


squared_difference: Binary = BinaryOperation(
    "SquaredDifference",
    "squared_difference",
    "``(x - y) * conj(x - y)``, elementwise.",
    kernel=_squared_difference,
    rules=[fuse_elementwise(_squared_difference_steps)],
    gradient=_squared_difference_gradient,
    samples=make_samples(lambda x, y: (x - y) ** 2, (_A, _B), lambda x, y: abs(x - y) ** 2 + 0j, _Z),
    examples={"[1.0, 5.0], 2.0": "array([1., 9.], dtype=float32)"},
).declare_type()


def _atan2_gradient(y: Tensor, x: Tensor, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # The angle has no slope at the origin, where a cotangent of 0 stays 0.
    scaled = divide_unless_zero(g, x * x + y * y)
    return x * scaled, -(y * scaled)


BinaryOperation(
    "Atan2",
    "atan2",
    "Angle of the point (second operand, first operand) in radians, elementwise.",
    where=dtypes.FLOATING,
    kernel=Ufunc("arctan2"),
    gradient=_atan2_gradient,
    samples=make_samples(math.atan2, (_A, _B)),
).declare_type()


@public
def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """Angle of the point (`x`, `y`) in radians, from -pi to pi, elementwise.

    Parameters
    ----------
    y, x : Tensor of a floating dtype
        Same dtype; shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.atan2(np.array([1.0, -1.0]), -1.0)).sync()
    array([ 2.35619449, -2.35619449])
    """
    return apply("Atan2", y, x, name=name)


@keep_dtype
def _divide_no_nan(xp: Any, x: Any, y: Any) -> Any:
    # The divisor is replaced too: quotients that `where` drops should raise no floating-point errors.
    zero = y == 0
    return xp.where(zero, xp.zeros((), y.dtype), x / xp.where(zero, xp.ones((), y.dtype), y))


def _divide_no_nan_gradient(x: Tensor, y: Tensor, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return div_no_nan(g, conj(y)), -multiply_unless_zero(g, conj(div_no_nan(z, y)))


div_no_nan: Binary = BinaryOperation(
    "DivNoNan",
    "div_no_nan",
    "Divide elementwise, with 0 where the divisor is 0.",
    where=dtypes.DIFFERENTIABLE,
    kernel=_divide_no_nan,
    gradient=_divide_no_nan_gradient,
    samples=[
        *make_samples(lambda x, y: x / y, (_A, _B)),
        Sample([f64([1, 0, 3]), f64([0, 0, 2])], f64([0, 0, 1.5]), differentiable=False),
    ],
    examples={"[3.0, 1.0, 0.0], [2.0, 0.0, 0.0]": "array([1.5, 0. , 0. ], dtype=float32)"},
).declare_type()


@keep_dtype
def _x_log_y(xp: Any, x: Any, y: Any) -> Any:
    zero = x == 0
    return xp.where(zero, xp.zeros((), x.dtype), x * xp.log(xp.where(zero, xp.ones((), y.dtype), y)))


def _x_log_y_gradient(x: Tensor, y: Tensor, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # 1 where `x` is not 0: ``xlogy(used, y)`` is the logarithm of `y` there and 0 elsewhere.
    used = apply("Cast", apply("NotEqual", x, 0), dtype=x.dtype)
    return multiply_unless_zero(g, conj(xlogy(used, y))), multiply_unless_zero(g, conj(div_no_nan(x, y)))


xlogy: Binary = BinaryOperation(
    "Xlogy",
    "xlogy",
    "``x * log(y)``, with 0 where `x` is 0, elementwise.",
    where=dtypes.DIFFERENTIABLE,
    kernel=_x_log_y,
    gradient=_x_log_y_gradient,
    samples=[
        *make_samples(lambda x, y: x * math.log(y), (_A, _B)),
        Sample([f64([0, 0]), f64([0, 2])], f64([0, 0]), differentiable=False),
    ],
    examples={"np.array([0.0, 2.0]), np.array([0.0, np.e])": "array([0., 2.])"},
).declare_type()


def _same_shapes(op: Operation) -> Shape:
    """Merge the static shapes of the terms; raise ShapeError where two are incompatible."""
    merged = UNKNOWN
    for tensor in op.inputs:
        if not merged.is_compatible_with(tensor.shape):
            raise ShapeError(
                "the terms of a sum differ in shape",
                wanted=merged,
                got=f"{tensor.shape} of {tensor.name}",
                operation=op,
                hint="terms do not broadcast here; use + for that",
            )
        merged = merged.merge(tensor.shape)
    return merged


def _add_all(xp: Any, first: Any, *rest: Any) -> Any:
    """Sum arrays of equal shape in a single new array; return a lone term as it is."""
    if any(x.shape != first.shape for x in rest):
        raise ValueError(f"the terms of a sum differ in shape: {[x.shape for x in (first, *rest)]}")
    if not rest:
        return first
    # A sum of 0-d arrays is a NumPy scalar, which `out` does not accept.
    total = xp.asarray(first + rest[0], first.dtype)
    for x in rest[1:]:
        xp.add(total, x, out=total)
    return total


def _batch_sum(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Rebuild AddN where all terms vary, else a chain of Add, which broadcasts the other terms."""
    if all(varying):
        return lambda builder, operands: emit_copy(builder, op, operands)

    def emit_sum(builder: Builder, operands: list[Tensor]) -> list[Tensor]:
        return [functools.reduce(lambda a, b: builder.tensor("Add", a, b), operands)]

    return emit_sum


def _has_equal_terms(op: Operation) -> bool:
    """True if at least two terms all have the static shape of the sum: fused steps would broadcast others."""
    return len(op.inputs) > 1 and all(t.shape == op.outputs[0].shape for t in op.inputs)


def _add_n_steps(op: Operation, writer: StepWriter) -> None:
    first, *middle, last = op.inputs
    total: Any = first
    for term in middle:
        total = writer.add("add", [total, term])
    writer.add("add", [total, last], op.outputs[0])


define(
    "AddN",
    "inputs: *T -> sum: T",
    rules=[Vectorize(spread_pointwise), SUM_OF_ALL, Batch(_batch_sum), Fusion(_has_equal_terms, _add_n_steps)],
    where={"T": dtypes.NUMERIC},
    shape=_same_shapes,
    kernel=_add_all,
    gradient=lambda op, g: [g] * len(op.inputs),
    samples=[
        Sample([[f64([1, 2]), f64([3, 4]), f64([5, 6])]], f64([9, 12])),
        Sample([[f64(3)]], f64(3)),
    ],
)


@public
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Add tensors of equal shape.

    Parameters
    ----------
    inputs : sequence of Tensor of any numeric dtype
        At least one; same dtype and shape.

    Returns
    -------
    Tensor
        Of the dtype and shape of the terms.

    Raises
    ------
    ShapeError
        If shapes differ: terms do not broadcast.
    GraphError
        If there are no terms.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.add_n([[1, 2], [3, 4], [5, 6]])).sync()
    array([ 9, 12], dtype=int32)
    """
    terms = [inputs] if isinstance(inputs, Tensor) else list_argument(inputs, "add_n")
    if not terms:
        raise GraphError("add_n needs at least one term", got=inputs, hint="use zeros for an empty sum")
    return apply("AddN", terms, name=name)


@public
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """Add tensors of equal shape, stating shape and dtype.

    Parameters
    ----------
    inputs : sequence of Tensor of any numeric dtype
        At least one; same dtype and shape.
    shape : sequence of int or None, optional
        Shape of the terms.
    tensor_dtype : dtype-like, optional
        Dtype of the terms.

    Returns
    -------
    Tensor
        Of the dtype and shape of the terms.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.accumulate_n([[1.0, 2.0], [3.0, 4.0]], shape=[2], tensor_dtype="float64")).sync()
    array([4., 6.])
    """
    result = add_n([convert_to_tensor(x, tensor_dtype) for x in inputs], name)
    if shape is not None:
        result.set_shape(shape)
    return result

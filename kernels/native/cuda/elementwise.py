"""Elementwise operations in kernels of native programs: C for each ufunc and kind of dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...steps import STEPS
from ..program import Computation, Instruction
from .emitting import emit_ufunc, emits
from .values import Shape, Value, cast, joint_shape

if TYPE_CHECKING:
    from .writer import Writer

# functions in place of operators: signed overflow is undefined in C, and wraps in NumPy
_INTEGERS = {
    "add": "plus({}, {})",
    "subtract": "minus({}, {})",
    "multiply": "times({}, {})",
    "square": "times({0}, {0})",
    "absolute": "magnitude({})",
    "bitwise_and": "{} & {}",
    "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}",
    "invert": "~{}",
}
_NUMBERS = {
    "maximum": "larger({}, {})",
    "minimum": "smaller({}, {})",
    "equal": "{} == {}",
    "not_equal": "{} != {}",
    "greater": "{} > {}",
    "greater_equal": "{} >= {}",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
}
_TRUTH = {
    "equal": "{} == {}",
    "not_equal": "{} != {}",
    "logical_and": "{} && {}",
    "logical_or": "{} || {}",
    "logical_xor": "{} != {}",
    "logical_not": "!{}",
}
# in addition to the functions of fused operations, which are registered from STEPS
_REALS = {
    "floor": "floor({})",
    "ceil": "ceil({})",
    "rint": "rint({})",
    "tan": "tan({})",
    "arcsin": "asin({})",
    "arccos": "acos({})",
    "arctan": "atan({})",
    "arctan2": "atan2({}, {})",
    "sinh": "sinh({})",
    "cosh": "cosh({})",
    "arcsinh": "asinh({})",
    "arccosh": "acosh({})",
    "arctanh": "atanh({})",
    "isnan": "isnan({})",
    "isinf": "isinf({})",
    "isfinite": "isfinite({})",
}


def result_shape(values: Sequence[Value]) -> Shape:
    """Return the broadcast shape of values."""
    return joint_shape([each.shape for each in values])


def _register(name: str, kinds: str, expression: str) -> None:
    def emit(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
        w.map(each.outputs[0], result_shape(values), expression, values)

    emit_ufunc(name, kinds, emit)


for _kinds, _table in (("iu", _INTEGERS), ("iu", _NUMBERS), ("b", _TRUTH), ("f", _REALS)):
    for _name, _expression in _table.items():
        _register(_name, _kinds, _expression)
_register("negative", "i", "negated({})")
for _step in STEPS.values():
    if _step.is_elementwise and _step.ufunc and isinstance(_step.cuda, str):
        _register(_step.ufunc, "f", _step.cuda)


@emits("Sigmoid", kinds="f")
def _sigmoid(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map(each.outputs[0], values[0].shape, "sigmoid({})", values)


@emits("Relu", kinds="iuf")
def _relu(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map(each.outputs[0], values[0].shape, f"larger({{}}, {cast(values[0].dtype, '0')})", values)


@emits("Softplus", kinds="f")
def _softplus(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map(each.outputs[0], values[0].shape, f"log_add_exp({{}}, {cast(values[0].dtype, '0')})", values)


@emits("SquaredDifference", kinds="iuf")
def _squared_difference(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map(each.outputs[0], result_shape(values), "times(minus({0}, {1}), minus({0}, {1}))", values)


@emits("MulNoNan", kinds="f")
def _multiply_no_nan(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    expression = f"{{1}} == 0 ? {cast(values[1].dtype, '0')} : {{0}} * {{1}}"
    w.map(each.outputs[0], result_shape(values), expression, values)


@emits("DivOrZero", kinds="f")
def _divide_or_zero(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    expression = f"{{0}} == 0 ? {cast(values[0].dtype, '0')} : {{0}} / {{1}}"
    w.map(each.outputs[0], result_shape(values), expression, values)


@emits("AddN", kinds="iuf")
def _add_n(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    sum = "{}"
    for _ in values[1:]:
        sum = f"plus({sum}, {{}})"
    w.map(each.outputs[0], result_shape(values), sum, values)


@emits("Where")
def _where(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map(each.outputs[0], result_shape(values), "{} ? {} : {}", values)


@emits("Cast")
def _cast(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    dtype = w.dtype_of(each.outputs[0])
    expression = "{} != 0" if dtype.kind == "b" else cast(dtype, "{}")
    w.map(each.outputs[0], values[0].shape, expression, values)


def _divides(integers: str, reals: str, type: str) -> None:
    """Register a division that rounds down; division of integers by 0 is an error."""

    def emit(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
        if values[0].dtype.kind == "f":
            w.map(each.outputs[0], result_shape(values), f"{reals}({{}}, {{}})", values)
        elif values[1].is_element:
            w.fail_if(f"{values[1].code} == 0")
            w.map(each.outputs[0], result_shape(values), f"{integers}({{}}, {{}})", values)
        else:
            # a thread cannot leave alone: it notes the error, and its quotient by 0 is not used
            checked = f"({{1}} == 0 ? ({w.fail_later()}, {{1}}) : {{1}})"
            w.map(each.outputs[0], result_shape(values), f"{integers}({{0}}, {checked})", values)

    emits(type, kinds="iuf")(emit)


_divides("floor_divide", "real_floor_divide", "FloorDiv")
_divides("floor_modulo", "real_modulo", "FloorMod")

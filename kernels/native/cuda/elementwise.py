"""Elementwise operations in kernels of native programs: C for each ufunc and kind of dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...steps import STEPS
from ..program import Computation, Instruction
from .emitting import emit_ufunc, emits_operations
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


def _register_ufunc(name: str, kinds: str, expression: str) -> None:
    def emit_expression(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
        w.map_elements(each.outputs[0], result_shape(values), expression, values)

    emit_ufunc(name, kinds, emit_expression)


for _kinds, _table in (("iu", _INTEGERS), ("iu", _NUMBERS), ("b", _TRUTH), ("f", _REALS)):
    for _name, _expression in _table.items():
        _register_ufunc(_name, _kinds, _expression)
_register_ufunc("negative", "i", "negated({})")
for _step in STEPS.values():
    if _step.is_elementwise and _step.ufunc and isinstance(_step.cuda, str):
        _register_ufunc(_step.ufunc, "f", _step.cuda)


@emits_operations("Sigmoid", kinds="f")
def _emit_sigmoid(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map_elements(each.outputs[0], values[0].shape, "sigmoid({})", values)


@emits_operations("Relu", kinds="iuf")
def _emit_relu(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map_elements(each.outputs[0], values[0].shape, f"larger({{}}, {cast(values[0].dtype, '0')})", values)


@emits_operations("Softplus", kinds="f")
def _emit_softplus(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map_elements(each.outputs[0], values[0].shape, f"log_add_exp({{}}, {cast(values[0].dtype, '0')})", values)


@emits_operations("SquaredDifference", kinds="iuf")
def _emit_squared_difference(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map_elements(each.outputs[0], result_shape(values), "times(minus({0}, {1}), minus({0}, {1}))", values)


@emits_operations("MulNoNan", kinds="f")
def _emit_multiply_no_nan(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    expression = f"{{1}} == 0 ? {cast(values[1].dtype, '0')} : {{0}} * {{1}}"
    w.map_elements(each.outputs[0], result_shape(values), expression, values)


@emits_operations("DivOrZero", kinds="f")
def _emit_divide_or_zero(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    expression = f"{{0}} == 0 ? {cast(values[0].dtype, '0')} : {{0}} / {{1}}"
    w.map_elements(each.outputs[0], result_shape(values), expression, values)


@emits_operations("AddN", kinds="iuf")
def _emit_add_n(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    sum = "{}"
    for _ in values[1:]:
        sum = f"plus({sum}, {{}})"
    w.map_elements(each.outputs[0], result_shape(values), sum, values)


@emits_operations("Where")
def _emit_where(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    w.map_elements(each.outputs[0], result_shape(values), "{} ? {} : {}", values)


@emits_operations("Cast")
def _emit_cast(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    dtype = w.dtype_of(each.outputs[0])
    expression = "{} != 0" if dtype.kind == "b" else cast(dtype, "{}")
    w.map_elements(each.outputs[0], values[0].shape, expression, values)


def _register_division(integers: str, reals: str, type: str) -> None:
    """Register a division that rounds down; division of integers by 0 is an error."""

    def emit_division(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
        if values[0].dtype.kind == "f":
            w.map_elements(each.outputs[0], result_shape(values), f"{reals}({{}}, {{}})", values)
        elif values[1].is_element:
            w.fail_if(f"{values[1].code} == 0")
            w.map_elements(each.outputs[0], result_shape(values), f"{integers}({{}}, {{}})", values)
        else:
            # a thread cannot leave alone: it notes the error, and its quotient by 0 is not used
            checked = f"({{1}} == 0 ? ({w.fail_later()}, {{1}}) : {{1}})"
            w.map_elements(each.outputs[0], result_shape(values), f"{integers}({{0}}, {checked})", values)

    emits_operations(type, kinds="iuf")(emit_division)


_register_division("floor_divide", "real_floor_divide", "FloorDiv")
_register_division("floor_modulo", "real_modulo", "FloorMod")

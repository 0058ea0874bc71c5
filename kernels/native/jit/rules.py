"""Rules that compute inner loops for an element, or a vector of elements, in LLVM's intermediate representation.

A rule returns None for types that it does not cover; then the inner loop is called. Results equal those of the inner
loops to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .listed import ListedStep
from .types import Value, element_of, is_float, lanes_of, size_of, with_lanes_of, zero_of
from .writer import Writer

_Rule = Callable[[Writer, Sequence[Value], str, bool], "Value | None"]


def _binary_rule(floats: str | None = None, integers: str | None = None) -> _Rule:
    """Return the rule of an instruction with two operands, for floats, integers or both."""

    def write_binary(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
        text = floats if is_float(type_) else integers
        if text is None or values[0].type != type_:
            return None
        return to.let(type_, f"{text} {values[0]}, {values[1].name}")

    return write_binary


def _comparison_rule(floats: str, signed_test: str, unsigned_test: str) -> _Rule:
    """Return the rule of a comparison, by LLVM's conditions for floats, signed and unsigned integers."""

    def write_comparison(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value:
        test = f"icmp {signed_test if signed else unsigned_test}"
        if is_float(values[0].type):
            test = f"fcmp {floats}"
        truth = to.let(with_lanes_of("i1", type_), f"{test} {values[0]}, {values[1].name}")
        return to.let(type_, f"zext {truth} to {type_}")

    return write_comparison


def _float_function_rule(name: str) -> _Rule:
    """Return the rule of an intrinsic function for floats."""

    def write_call(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
        return to.call_intrinsic(type_, name, *values) if is_float(type_) else None

    return write_call


def _extreme_rule(name: str) -> _Rule:
    """Return the rule of a maximum or minimum of integers; inner loops decide between zeros and NaNs of floats."""

    def write_extreme(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
        return to.call_intrinsic(type_, ("s" if signed else "u") + name, *values) if not is_float(type_) else None

    return write_extreme


def _write_negative(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value:
    if is_float(type_):
        return to.let(type_, f"fneg {values[0]}")
    return to.let(type_, f"sub {type_} {zero_of(type_)}, {values[0].name}")


def _write_absolute(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
    if is_float(type_):
        return to.call_intrinsic(type_, "fabs", *values)
    # false: the smallest integer stays as it is, instead of undefined
    return to.call_intrinsic(type_, "abs", *values, more=", i1 false") if signed else None


def _write_square(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
    return _binary_rule("fmul", "mul")(to, [values[0], values[0]], type_, signed)


def _write_squared_difference(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
    difference = _binary_rule("fsub")(to, values, type_, signed)
    return difference and _write_square(to, [difference], type_, signed)


def _zero_unless_rule(text: str, which: int) -> _Rule:
    """Return the rule of an operation on floats whose result is 0 where operand `which` is 0."""

    def write_zero_unless(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
        result = _binary_rule(text)(to, values, type_, signed)
        if result is None:
            return None
        # une is true for NaN: only zeros are replaced
        truth = to.let(with_lanes_of("i1", type_), f"fcmp une {values[which]}, {zero_of(type_)}")
        return to.let(type_, f"select {truth}, {result}, {type_} {zero_of(type_)}")

    return write_zero_unless


def _logical_rule(text: str) -> _Rule:
    """Return the rule of an operation on truth values."""

    def write_logical(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
        if any(v.type != type_ for v in values):
            return None
        truths = [to.let(with_lanes_of("i1", v.type), f"icmp ne {v}, {zero_of(v.type)}") for v in values]
        truth = to.let(truths[0].type, f"{text} {truths[0]}, {truths[-1].name}")
        return to.let(type_, f"zext {truth} to {type_}")

    return write_logical


def _write_logical_not(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
    if values[0].type != type_:
        return None
    truth = to.let(with_lanes_of("i1", type_), f"icmp eq {values[0]}, {zero_of(type_)}")
    return to.let(type_, f"zext {truth} to {type_}")


def _write_is_nan(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
    # only a NaN is unordered with itself
    return (
        _comparison_rule("uno", "", "")(to, [values[0], values[0]], type_, signed) if is_float(values[0].type) else None
    )


def _write_where(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value:
    truth = to.let(with_lanes_of("i1", values[0].type), f"icmp ne {values[0]}, {zero_of(values[0].type)}")
    return to.let(type_, f"select {truth}, {values[1]}, {values[2]}")


def _write_cast(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
    """Convert integers and truth values to any type, and floats to floats."""
    (value,) = values
    source, target = element_of(value.type), element_of(type_)
    if source == target:
        return value
    if is_float(source):
        if not is_float(target):
            return None  # C leaves the result undefined for a number that is too large
        return to.let(type_, f"{'fpext' if target == 'double' else 'fptrunc'} {value} to {type_}")
    if is_float(target):
        return to.let(type_, f"{'sitofp' if signed else 'uitofp'} {value} to {type_}")
    how = "trunc" if size_of(target) < size_of(source) else "sext" if signed else "zext"
    return to.let(type_, f"{how} {value} to {type_}")


def _floor_division_rule(gives_rest: bool) -> _Rule:
    """Return the rule of an integer division that rounds down, or of its remainder, for divisors other than zero."""

    def write_floor_division(to: Writer, values: Sequence[Value], type_: str, signed: bool) -> Value | None:
        if is_float(values[0].type):
            return None
        if not signed:
            return _binary_rule(None, "urem" if gives_rest else "udiv")(to, values, type_, signed)
        x, y = values
        return _floor_signed(to, x, y, type_, gives_rest)

    return write_floor_division


def _floor_signed(to: Writer, x: Value, y: Value, type_: str, gives_rest: bool) -> Value:
    """Divide signed integers, or return the remainder, with corrections from truncation to rounding down."""
    truth, nothing = with_lanes_of("i1", type_), zero_of(type_)
    one = to.splat(Value("1", element_of(type_)), lanes_of(type_))
    minus_one = to.let(type_, f"sub {type_} {nothing}, {one.name}")
    by_minus_one = to.let(truth, f"icmp eq {y}, {minus_one.name}")  # the smallest integer by -1 overflows, and traps
    divisor = to.let(type_, f"select {by_minus_one}, {one}, {y}")
    rest = to.let(type_, f"srem {x}, {divisor.name}")
    left = to.let(truth, f"icmp ne {rest}, {nothing}")
    sign = to.let(truth, f"icmp slt {to.let(type_, f'xor {rest}, {y.name}')}, {nothing}")
    adjusts = to.let(truth, f"and {left}, {sign.name}")
    if gives_rest:
        adjusted = to.let(type_, f"add {rest}, {y.name}")
        rest = to.let(type_, f"select {adjusts}, {adjusted}, {rest}")
        return to.let(type_, f"select {by_minus_one}, {type_} {nothing}, {rest}")
    quotient = to.let(type_, f"sdiv {x}, {divisor.name}")
    less = to.let(type_, f"sub {quotient}, {one.name}")
    quotient = to.let(type_, f"select {adjusts}, {less}, {quotient}")
    negated = to.let(type_, f"sub {type_} {nothing}, {x.name}")
    return to.let(type_, f"select {by_minus_one}, {negated}, {quotient}")


_RULES: dict[str, _Rule] = {
    "add": _binary_rule("fadd", "add"),
    "subtract": _binary_rule("fsub", "sub"),
    "multiply": _binary_rule("fmul", "mul"),
    "divide": _binary_rule("fdiv"),
    "bitwise_and": _binary_rule(None, "and"),
    "bitwise_or": _binary_rule(None, "or"),
    "bitwise_xor": _binary_rule(None, "xor"),
    "negative": _write_negative,
    "absolute": _write_absolute,
    "square": _write_square,
    "sqrt": _float_function_rule("sqrt"),
    "floor": _float_function_rule("floor"),
    "ceil": _float_function_rule("ceil"),
    "trunc": _float_function_rule("trunc"),
    "rint": _float_function_rule("rint"),
    "maximum": _extreme_rule("max"),
    "minimum": _extreme_rule("min"),
    "equal": _comparison_rule("oeq", "eq", "eq"),
    "not_equal": _comparison_rule("une", "ne", "ne"),
    "less": _comparison_rule("olt", "slt", "ult"),
    "less_equal": _comparison_rule("ole", "sle", "ule"),
    "greater": _comparison_rule("ogt", "sgt", "ugt"),
    "greater_equal": _comparison_rule("oge", "sge", "uge"),
    "logical_and": _logical_rule("and"),
    "logical_or": _logical_rule("or"),
    "logical_xor": _logical_rule("xor"),
    "logical_not": _write_logical_not,
    "isnan": _write_is_nan,
    "where": _write_where,
    "cast": _write_cast,
    "floor_div": _floor_division_rule(gives_rest=False),
    "floor_mod": _floor_division_rule(gives_rest=True),
    "squared_difference": _write_squared_difference,
    "mul_no_nan": _zero_unless_rule("fmul", 1),
    "div_or_zero": _zero_unless_rule("fdiv", 0),
}
_NOT_OF_FLOATS = frozenset(
    ("floor_div", "floor_mod", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "cast")
)
_OF_TRUTH_VALUES = frozenset(name for name in _RULES if name.startswith("logical_"))  # any byte except 0 is true
_OF_MIXED = frozenset(("where", "cast"))  # dtypes


def rule_named(name: str) -> _Rule | None:
    """Return the rule of a function for floats, or None if its inner loop is called."""
    return None if name in _NOT_OF_FLOATS else _RULES.get(name)


def rule_of(step: ListedStep) -> _Rule | None:
    """Return the rule of a step, or None if its inner loop is called."""
    inputs = step.dtypes[:-1]
    if step.name in _OF_MIXED:
        return _RULES[step.name] if step.dtypes[-1].kind != "b" or step.name == "where" else None
    if len(set(inputs)) != 1 or (inputs[0].kind == "b" and step.name not in _OF_TRUTH_VALUES):
        return None
    return _RULES.get(step.name)

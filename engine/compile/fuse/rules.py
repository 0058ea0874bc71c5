"""What a fused operation can do: for each operation, whether its shapes fit, what it reads, and its steps.

All values of a fused operation have the same rows, the dimensions before the last. A row, a column and a scalar are
repeated as NumPy repeats them. A comparison is done where its result is used: truth values do not leave the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.builder import Builder
from ...ir.definition import Ufunc
from ...ir.operation import Operation
from ...ir.tensor import Tensor

FLOATS = (dtypes.float32, dtypes.float64)
COMPARISONS = frozenset({"Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"})
MOVES = frozenset({"Concat", "Split", "SplitV", "Unreduce", "BroadcastTo"})


class Temporary:
    """A value between two steps of one operation."""


Value = Tensor | Temporary


@dataclass
class FusedProgram:
    """A program while it is written: values have registers."""

    inputs: list[Tensor] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    steps: list[tuple[str, list[Value], Any, Value]] = field(default_factory=list)

    def add(self, name: str, operands: list[Any], made: Value | None = None, detail: Any = ()) -> Value:
        """Append a step and return its result."""
        result = Temporary() if made is None else made
        self.steps.append((name, operands, detail, result))
        return result

    def finish(self) -> dict[Value, int]:
        """Find the inputs and the constants; return the register of each value."""
        made = {value for *_, value in self.steps}
        used = dict.fromkeys(t for _, operands, *_ in self.steps for t in operands if t not in made)
        read = [t for t in used if isinstance(t, Tensor)]
        self.constants = [t for t in read if _is_constant(t)]
        self.inputs = [t for t in read if not _is_constant(t)]
        values: list[Value] = [*self.inputs, *self.constants, *(value for *_, value in self.steps)]
        return {value: i for i, value in enumerate(values)}


def can_fuse(op: Operation) -> bool:
    """Whether steps can do what `op` does."""
    if op.type not in STEPS or op.control_inputs or any(t.dtype not in FLOATS for t in op.outputs):
        return False
    return all(_has_rows(t.shape) for t in op.outputs) and _fits(op)


def write(op: Operation, code: FusedProgram) -> None:
    """Append the steps of an operation."""
    STEPS[op.type](op, code)


def operands(op: Operation) -> list[Tensor]:
    """Return what the steps of `op` read."""
    if op.type in ("Where", "Cast"):
        return [*op.inputs[0].op.inputs, *op.inputs[1:]]
    return op.inputs[:1] if op.type in _FIRST_ONLY else op.inputs


def is_full(shape: Shape, like: Shape) -> bool:
    """Whether a value has all rows of another."""
    return shape.rank == like.rank and shape.dims[:-1] == like.dims[:-1]


def _is_constant(tensor: Tensor) -> bool:
    return tensor.op.is_constant and tensor.shape == SCALAR and not tensor.op.control_inputs


def _has_rows(shape: Shape) -> bool:
    return bool(shape.rank) and bool(shape.dims[-1]) and 0 not in shape.dims


def _fits(op: Operation) -> bool:
    if op.type in ("Concat", "Split", "SplitV"):
        return _moves_columns(op)
    if op.type in _ROW_REDUCTIONS or op.type == "Softmax":
        return _is_last(op) and _has_rows(op.inputs[0].shape)
    if op.type in ("SumTo", "Unreduce", "BroadcastTo"):
        return _FIT[op.type](op)
    if op.type in ("Where", "Cast") and not _compares(op.inputs[0], op.outputs[0]):
        return False
    shape = op.outputs[0].shape
    if op.type == "AddN":
        return len(op.inputs) > 1 and all(t.shape == shape for t in op.inputs)
    read = operands(op)
    return any(is_full(t.shape, shape) for t in read) and all(_broadcasts(t, op.outputs[0]) for t in read)


def _broadcasts(operand: Tensor, output: Tensor) -> bool:
    """Whether an operand is whole, a scalar, a column, or one row for all rows."""
    if operand.dtype is not output.dtype or operand.rank is None:
        return False
    dims, whole = operand.shape.dims, output.shape.dims
    if not dims or (len(dims) <= len(whole) and all(d == 1 for d in dims[:-1]) and dims[-1] in (1, whole[-1])):
        return True
    return is_full(operand.shape, output.shape) and dims[-1] in (1, whole[-1])


def _compares(mask: Tensor, output: Tensor) -> bool:
    """Whether a tensor is a comparison of values of which one has all rows."""
    op = mask.op
    if op.type not in COMPARISONS or op.control_inputs or mask.rank is None:
        return False
    return any(is_full(t.shape, output.shape) for t in op.inputs) and all(t.dtype in FLOATS for t in op.inputs)


def _moves_columns(op: Operation) -> bool:
    """Whether a Concat, Split or SplitV works along the last dimension, by sizes that are known."""
    whole = op.inputs if op.type == "Concat" else op.inputs[:1]
    return _axis(op) and all(_has_rows(t.shape) and is_full(t.shape, op.outputs[0].shape) for t in whole)


def _axis(op: Operation) -> bool:
    return op.attrs["axis"] in (-1, len(op.outputs[0].shape.dims) - 1)


def _is_last(op: Operation) -> bool:
    """Whether an operation reduces the last dimension and keeps it with size 1, or is along it."""
    last, axis = len(op.outputs[0].shape.dims) - 1, op.attrs["axis"]
    if op.type == "Softmax":
        return axis in (-1, last)
    return axis in ((-1,), (last,)) and op.attrs["keepdims"]


def _sums_rows(op: Operation) -> bool:
    x, y = op.inputs[0].shape, op.outputs[0].shape
    return x.is_fully_known and y.is_fully_known and _has_rows(x) and is_full(x, y) and y.dims[-1] == 1 != x.dims[-1]


def _spreads(op: Operation) -> bool:
    """Whether a column goes along its rows, or a scalar to all places of a known shape."""
    x, y = op.inputs[0].shape, op.outputs[0].shape
    if x == SCALAR:
        return y.is_fully_known
    known = y.is_fully_known or (op.type == "Unreduce" and _is_last(op))
    return known and is_full(x, y) and x.dims[-1] == 1


_FIT: dict[str, Callable[[Operation], bool]] = {"SumTo": _sums_rows, "Unreduce": _spreads, "BroadcastTo": _spreads}


def _loop(op: Operation, code: FusedProgram) -> None:
    code.add(_ufunc(op), op.inputs, op.outputs[0])


def _ufunc(op: Operation) -> str:
    kernel = op.definition.kernel
    assert isinstance(kernel, Ufunc)
    return kernel.name


def _constant(op: Operation, value: float) -> Tensor:
    return Builder(op.region, op, "number").constant(value, op.outputs[0].dtype)


def _relu(op: Operation, code: FusedProgram) -> None:
    code.add("maximum", [*op.inputs, _constant(op, 0)], op.outputs[0])


def _softplus(op: Operation, code: FusedProgram) -> None:
    code.add("logaddexp", [*op.inputs, _constant(op, 0)], op.outputs[0])


def _sigmoid(op: Operation, code: FusedProgram) -> None:
    code.add("sigmoid", op.inputs, op.outputs[0])


def _rsqrt(op: Operation, code: FusedProgram) -> None:
    code.add("divide", [_constant(op, 1), code.add("sqrt", op.inputs)], op.outputs[0])


def _squared_difference(op: Operation, code: FusedProgram) -> None:
    difference = code.add("subtract", op.inputs)
    code.add("multiply", [difference, difference], op.outputs[0])


def _add_n(op: Operation, code: FusedProgram) -> None:
    total: Value = op.inputs[0]
    for term in op.inputs[1:-1]:
        total = code.add("add", [total, term])
    code.add("add", [total, op.inputs[-1]], op.outputs[0])


def _softmax(op: Operation, code: FusedProgram) -> None:
    (x,) = op.inputs
    exponentials = code.add("exp", [code.add("subtract", [x, code.add("max", [x])])])
    code.add("divide", [exponentials, code.add("sum", [exponentials])], op.outputs[0])


def _compare(op: Operation, code: FusedProgram) -> Value:
    return code.add(_ufunc(op), op.inputs)


def _where(op: Operation, code: FusedProgram) -> None:
    code.add("where", [_compare(op.inputs[0].op, code), *op.inputs[1:]], op.outputs[0])


def _cast(op: Operation, code: FusedProgram) -> None:
    code.add("where", [_compare(op.inputs[0].op, code), _constant(op, 1), _constant(op, 0)], op.outputs[0])


def _reduce(op: Operation, code: FusedProgram) -> None:
    code.add(_ROW_REDUCTIONS.get(op.type, "sum"), op.inputs[:1], op.outputs[0])


def _spread(op: Operation, code: FusedProgram) -> None:
    code.add("spread", op.inputs[:1], op.outputs[0], (0, op.outputs[0].shape.dims[-1]))


def _join(op: Operation, code: FusedProgram) -> None:
    code.add("join", op.inputs, op.outputs[0])


def _cut(op: Operation, code: FusedProgram) -> None:
    start = 0
    for piece in op.outputs:
        stop = start + piece.shape[-1]
        code.add("cut", op.inputs[:1], piece, (start, stop))
        start = stop


_FIRST_ONLY = frozenset({"Split", "SplitV", "SumTo", "Unreduce", "BroadcastTo"})
_ROW_REDUCTIONS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min"}
STEPS: dict[str, Callable[[Operation, FusedProgram], None]] = {
    **dict.fromkeys(
        (
            "Add",
            "Sub",
            "Mul",
            "RealDiv",
            "Neg",
            "Abs",
            "Sign",
            "Square",
            "Sqrt",
            "Reciprocal",
            "Exp",
            "Expm1",
            "Log",
            "Log1p",
            "Tanh",
            "Sin",
            "Cos",
            "Pow",
            "Maximum",
            "Minimum",
        ),
        _loop,
    ),
    **dict.fromkeys((*_ROW_REDUCTIONS, "SumTo"), _reduce),
    "Unreduce": _spread,
    "BroadcastTo": _spread,
    "Sigmoid": _sigmoid,
    "Relu": _relu,
    "Softplus": _softplus,
    "Rsqrt": _rsqrt,
    "SquaredDifference": _squared_difference,
    "AddN": _add_n,
    "Softmax": _softmax,
    "Where": _where,
    "Cast": _cast,
    "Concat": _join,
    "Split": _cut,
    "SplitV": _cut,
}

"""Remove sums (`SumTo`) over dimensions that were not broadcast: of cotangents already of their target's shape.

With a batch of unknown size, the gradient of ``x * y`` has to sum its cotangents down to the shapes of `x` and `y`,
either of which may have been broadcast. Once the feeds are known, equal unknown sizes can be traced to a dimension.
Where both shapes are the same, the sum is removed, together with the operations that computed the shape; where a column
was repeated along its rows, the sum becomes a sum of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.rules.shapes import ShapeOnly
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from ...ops.support.shape_equality import BINARY, UNARY

Size = int | object  # a number, or an object that identifies an unknown size
Sizes = tuple[Size, ...] | None


def drop_sums(program: Program) -> Program:
    """Return the program without sums to their input's own shape; `program` is used up."""
    known = _Known()
    for op in program.graph.root.walk():
        known.note(op)
    replacements = dict(_find_needless_sums(program, known))
    if not replacements:
        return program
    # Found first and replaced afterwards, because a replacement may itself be a needless sum.
    substitute(program, {t: _final_replacement(t, replacements) for t in replacements})
    return copy_program(program)


def _final_replacement(tensor: Tensor, replacements: dict[Tensor, Tensor]) -> Tensor:
    """Follow replacements to the last tensor: a sum may replace the input of another."""
    while tensor in replacements:
        tensor = replacements[tensor]
    return tensor


def _find_needless_sums(program: Program, known: _Known) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the result of each needless sum, or sum of rows, and its replacement."""
    for op in list(program.graph.root.walk()):
        if op.type == "SumTo" and not op.control_inputs:
            x, target = known.sizes_of(op.inputs[0]), known.sizes_in(op.inputs[1])
            if x is None or target is None or len(x) != len(target):
                continue
            if x == target:
                yield op.outputs[0], op.inputs[0]
            elif x and x[:-1] == target[:-1] and target[-1] == 1:
                yield op.outputs[0], _row_sums(op)


def _row_sums(op: Operation) -> Tensor:
    """Return the sums along the last dimension of a SumTo's input, in place of the SumTo."""
    # With `keepdims`, because the target has a last dimension of 1.
    x, (output,) = op.inputs[0], op.outputs
    return Builder(op.region, op).tensor("Sum", x, known_shape=output.shape, axis=(-1,), keepdims=True)


class _Known:
    """Sizes of tensors: symbols, equal only for sizes equal in every step."""

    def __init__(self) -> None:
        self._sizes: dict[Tensor, Sizes] = {}

    def sizes_of(self, tensor: Tensor) -> Sizes:
        """Return the sizes of a tensor, None if its rank is unknown."""
        if tensor not in self._sizes:
            self._sizes[tensor] = _static_sizes(tensor)
        return self._sizes[tensor]

    def sizes_in(self, vector: Tensor) -> Sizes:
        """Return the sizes held by a vector of integers (the result of Shape, or a constant), None if unknown."""
        if vector.op.definition.has(ShapeOnly) and vector.rank == 1:
            return self.sizes_of(vector.op.inputs[0])
        return tuple(vector.op.attrs["value"].tolist()) if vector.op.is_constant else None

    def note(self, op: Operation) -> None:
        """Record the sizes of an operation's only result, by the rule of its type."""
        rule = _rule_of(op.type)
        # Without a rule, `sizes_of` makes new symbols from the static shape, which equal no others.
        if rule is not None and len(op.outputs) == 1 and op.outputs[0].rank is not None:
            sizes = rule(self, op)
            if sizes is not None and len(sizes) == op.outputs[0].rank:
                self._sizes[op.outputs[0]] = _prefer_static_sizes(sizes, op.outputs[0])


def _static_sizes(tensor: Tensor) -> Sizes:
    """Return the sizes in a static shape, with a new symbol for each unknown size."""
    # A new object equals only itself.
    return None if tensor.rank is None else tuple(object() if d is None else d for d in tensor.shape.dims)


def _prefer_static_sizes(sizes: tuple[Size, ...], tensor: Tensor) -> tuple[Size, ...]:
    """Return the sizes, with numbers from the static shape in place of symbols."""
    return tuple(s if d is None else d for s, d in zip(sizes, tensor.shape.dims, strict=True))


def _sizes_of_input(known: _Known, op: Operation) -> Sizes:
    return known.sizes_of(op.inputs[0])


def _broadcast_sizes(known: _Known, op: Operation) -> Sizes:
    operands = [known.sizes_of(t) for t in op.inputs]
    rank = max((len(s) for s in operands if s is not None), default=0)
    rows = [(1,) * (rank - len(s)) + s for s in operands if s is not None]
    return tuple(map(_common_size, zip(*rows, strict=True))) if len(rows) == len(operands) else None


def _common_size(sizes: tuple[Size, ...]) -> Size:
    """Return the common size after broadcasting; a new symbol if ambiguous."""
    # Sizes of 1 do not count unless all are 1.
    different = {s for s in sizes if s != 1} or {1}
    # A number and a symbol broadcast to the number: the symbol's size is 1 or that number, or the step fails.
    numbers = {s for s in different if isinstance(s, int)}
    return (numbers or different).pop() if len(different) == 1 or len(numbers) == 1 else object()


def _matmul_sizes(known: _Known, op: Operation) -> Sizes:
    a, b = (known.sizes_of(t) for t in op.inputs)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    return a[1 if op.attrs["transpose_a"] else 0], b[0 if op.attrs["transpose_b"] else 1]


def _reduced_sizes(known: _Known, op: Operation) -> Sizes:
    x, axis, keepdims = known.sizes_of(op.inputs[0]), op.attrs["axis"], op.attrs["keepdims"]
    if x is None:
        return None
    axes = range(len(x)) if axis is None else [a % len(x) for a in axis]
    return tuple(1 if i in axes else s for i, s in enumerate(x) if keepdims or i not in axes)


def _filled_sizes(known: _Known, op: Operation) -> Sizes:
    return known.sizes_in(op.inputs[0])


def _reshaped_sizes(known: _Known, op: Operation) -> Sizes:
    return known.sizes_in(op.inputs[1])


_RULES: dict[str, Callable[[_Known, Operation], Sizes]] = {
    **dict.fromkeys(("Cast", "Identity", "LogSoftmax", "Relu", "Softmax", "Softplus", "StopGradient"), _sizes_of_input),
    **dict.fromkeys(("AddN", "Where"), _broadcast_sizes),
    **dict.fromkeys(("Sum", "Mean", "Max", "Min"), _reduced_sizes),
    **dict.fromkeys(("BroadcastTo", "SumTo", "Unreduce"), _reshaped_sizes),
    "Fill": _filled_sizes,
    "MatMul": _matmul_sizes,
}


def _rule_of(type: str) -> Callable[[_Known, Operation], Sizes] | None:
    """Return the rule of a type, None if there is none.

    BINARY and UNARY are looked up late: definitions fill them as they are imported.
    """
    elementwise = _broadcast_sizes if type in BINARY else _sizes_of_input if type in UNARY else None
    return _RULES.get(type, elementwise)

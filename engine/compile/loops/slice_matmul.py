"""Compute only the used rows and columns of a product.

The gradient of ``concat([x, h], 1) @ w`` multiplies with all of `w` and splits the result; if `x` needs no gradient,
half of the result is discarded. A partly used product takes only the matching part of a factor, sliced once, before the
loop.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import accumulate, groupby, pairwise

from ...base import dtypes
from ...ir.builder import Builder
from ...ir.loops import is_counted
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from .products import inner_axis, is_known, is_product

Piece = tuple[Tensor, int, int]  # a slice, its start and its stop


def narrow_products(program: Program) -> Program:
    """Return the program with products narrowed to their used parts; `program` is used up."""
    kept = count_noninput_uses(program)
    moved: dict[Tensor, Tensor] = {}
    for op in list(program.graph.root.walk()):
        axis, pieces = _find_cut(op)
        used = [piece for piece in pieces if piece[0]._consumers or piece[0] in kept]
        if used and _is_narrower(used, op.inputs[0], axis) and _may_narrow(op, axis, kept):
            for run in _group_adjacent(used):
                moved.update(_emit_narrow_product(op.inputs[0].op, axis, run))
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _find_cut(op: Operation) -> tuple[int, list[Piece]]:
    """Return the axis along which an operation cuts a matrix, and the pieces; none for other operations."""
    if not op.inputs or op.inputs[0].rank != 2 or not all(map(is_known, (op.inputs[0], *op.outputs))):
        return 0, []
    if op.type in ("Split", "SplitV"):
        axis = op.attrs["axis"] % 2
        edges = accumulate((t.shape.as_tuple()[axis] for t in op.outputs), initial=0)
        return axis, [(t, *edge) for t, edge in zip(op.outputs, pairwise(edges), strict=True)]
    return _find_partial_slice(op) if op.type == "StridedSlice" and len(op.inputs) == 1 else (0, [])


def _find_partial_slice(op: Operation) -> tuple[int, list[Piece]]:
    """Return the axis and the piece of an index expression with a single partial slice."""
    parts = [*op.attrs["spec"], slice(None)][:2]
    if len(op.attrs["spec"]) > 2 or not all(isinstance(part, slice) for part in parts):
        return 0, []
    cut = [axis for axis, part in enumerate(parts) if part != slice(None)]
    if len(cut) != 1:
        return 0, []
    start, stop, step = parts[cut[0]].indices(op.inputs[0].shape.as_tuple()[cut[0]])
    return cut[0], [(op.outputs[0], start, stop)] if step == 1 and start < stop else []


def _is_narrower(used: Sequence[Piece], whole: Tensor, axis: int) -> bool:
    return sum(stop - start for _, start, stop in used) < whole.shape.as_tuple()[axis]


def _may_narrow(op: Operation, axis: int, kept: Container[Tensor]) -> bool:
    """Return True if `op` alone uses a product, which has a factor outside of the loop and cheap to slice."""
    product = op.inputs[0]
    producer, loop = product.op, op.region.owner
    if not is_product(producer) or product in kept or set(product._consumers) != {op} or op.control_inputs:
        return False
    if producer.region is not op.region or producer.inputs[axis].region is op.region:
        return False
    # Slicing rows makes a view; slicing columns a copy, which pays in a loop that runs often.
    return 1 - inner_axis(producer, axis) == 0 or (loop is not None and loop.is_while and is_counted(loop))


def _group_adjacent(used: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces in runs of adjacent ones."""
    starts = [start for _, start, _ in used]
    stops = [0, *(stop for _, _, stop in used)]
    number = list(accumulate(int(start != stop) for start, stop in zip(starts, stops)))
    return [[piece for _, piece in run] for _, run in groupby(zip(number, used), key=lambda pair: pair[0])]


def _emit_narrow_product(made: Operation, axis: int, run: Sequence[Piece]) -> dict[Tensor, Tensor]:
    """Return the replacements of adjacent pieces: a narrower product, split if there are several."""
    (_, start, _), (_, _, stop) = run[0], run[-1]
    factor, outer = made.inputs[axis], 1 - inner_axis(made, axis)
    spec = (slice(None),) * outer + (slice(start, stop),)
    factors = list(made.inputs)
    factors[axis] = Builder(factor.region, made, "part").tensor("StridedSlice", factor, spec=spec)
    inside = Builder(made.region, made, "narrow")
    product = inside.tensor("MatMul", *factors, **made.attrs)
    if len(run) == 1:
        return {run[0][0]: product}
    sizes = [stop - start for _, start, stop in run]
    parts = inside.emit("SplitV", product, inside.constant(sizes, dtypes.int32), num=len(sizes), axis=axis).outputs
    return dict(zip([piece[0] for piece in run], parts, strict=True))

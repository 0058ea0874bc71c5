"""Compute only the columns of a product that are used.

The gradient of ``concat([x, h], 1) @ w`` multiplies with all of `w` and splits the result; where `x` needs no gradient,
half of that is thrown away. A product of which one piece is used takes just the rows of `w` for that piece, cut out
once, outside the loop.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise

import numpy as np

from ...base.shapes import Shape
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.substitute import returned, substitute
from ...ir.tensor import Tensor
from ...ops.array import strided as _operation  # noqa: F401  declares StridedSlice


def narrow_products(program: Program) -> Program:
    """Return the program with products narrowed to what is used of them; the given one is used up."""
    kept = returned(program)
    moved: dict[Tensor, Tensor] = {}
    for op in list(program.graph.root.walk()):
        if op.type in ("Split", "SplitV") and _splits_product(op, kept):
            used = [t for t in op.outputs if t._consumers or t in kept]
            if len(used) == 1 and len(op.outputs) > 1:
                moved[used[0]] = _narrow(op, used[0])
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _splits_product(op: Operation, kept: Container[Tensor]) -> bool:
    """Whether all that an operation does is to split the columns of a product with rows of an outer matrix."""
    product = op.inputs[0]
    made = product.op
    if made.type != "MatMul" or product.rank != 2 or op.attrs["axis"] not in (1, -1):
        return False
    if product in kept or set(product._consumers) != {op} or op.control_inputs or made.control_inputs:
        return False
    if made.attrs["transpose_a"] or not made.attrs["transpose_b"] or made.region is not op.region:
        return False
    known = all(t.shape.is_fully_known for t in [*op.outputs, *made.inputs])
    return known and made.inputs[1].region is not op.region


def _narrow(op: Operation, piece: Tensor) -> Tensor:
    made = op.inputs[0].op
    edges = np.cumsum([0, *(t.shape.as_tuple()[1] for t in op.outputs)])
    start, stop = list(pairwise(map(int, edges)))[piece.index]
    narrow = Operation(
        op.region,
        "MatMul",
        op.graph.unique_name(f"{made.name}/narrow"),
        [made.inputs[0], _rows(made.inputs[1], start, stop)],
        [(piece.dtype, piece.shape)],
        attrs=dict(made.attrs),
        device=made.device,
        source=made.source,
    )
    return narrow.outputs[0]


def _rows(matrix: Tensor, start: int, stop: int) -> Tensor:
    shape = Shape([stop - start, *matrix.shape.as_tuple()[1:]])
    cut = Operation(
        matrix.region,
        "StridedSlice",
        matrix.graph.unique_name(f"{matrix.op.name}/rows"),
        [matrix],
        [(matrix.dtype, shape)],
        attrs={"spec": (slice(start, stop, None),)},
        device=matrix.op.device,
        source=matrix.op.source,
    )
    return cut.outputs[0]

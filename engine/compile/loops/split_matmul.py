"""Split products with concatenated factors into a sum of products of parts, some of which can leave the loop.

``concat([x, h], 1) @ w`` multiplies the input and the state at once. The sum ``x @ w[:n] + h @ w[n:]`` has a product
with the state and a product independent of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import groupby

from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from .liftable import Liftable
from .products import inner_axis, is_known, is_product, work


def split_products(program: Program, liftable: Liftable, may_copy: bool, fits: Callable[[Tensor], bool]) -> bool:
    """Split the products of a loop's body of which a part is worth lifting; return True if there were any.

    Parameters
    ----------
    program : Program
        Changed in place.
    liftable : Liftable
        Of the body before the change.
    may_copy : bool
        True if the loop runs often enough to pay for a copy of a factor's columns; slices of rows are views.
    fits : callable
        ``fits(result)`` is True if a product of this result may be lifted.
    """
    moved: dict[Tensor, Tensor] = {}
    for op in list(liftable.loop.body.operations):
        if is_product(op) and liftable.kind(op.outputs[0]) is None and fits(op.outputs[0]):
            for side in (0, 1):
                pieces = _group_parts(op, side, liftable, may_copy)
                # Split once: the pieces of the second factor would belong to a product that is replaced already.
                if pieces and op.outputs[0] not in moved:
                    moved[op.outputs[0]] = _sum_split_products(op, side, pieces)
    substitute(program, moved)
    return bool(moved)


def _group_parts(op: Operation, side: int, liftable: Liftable, may_copy: bool) -> list[list[Tensor]]:
    """Return the parts of a factor, in groups to multiply together; none for a single group."""
    axis, (factor, other) = inner_axis(op, side), op.inputs[:: 1 if side == 0 else -1]
    if not _is_joined(factor, axis) or not liftable.loop.is_outside(other):
        return []
    # Parts of the other factor are views if cut along rows, copies otherwise.
    if inner_axis(op, 1 - side) != 0 and not may_copy:
        return []
    cost = work(op) // factor.shape.as_tuple()[axis]  # multiplications per row or column of a part
    # Adjacent parts of one kind first, then of one kind after those too small to lift have joined the rest.
    groups = [list(parts) for _, parts in groupby(_flatten_concat(factor, axis), liftable.kind)]

    def kind(parts: list[Tensor]) -> bool | None:
        # The first part stands for its group, whose parts are all of one kind.
        width = sum(t.shape.as_tuple()[axis] for t in parts)
        return liftable.kind_if_worth(op, side, parts[0], cost * width)

    pieces = [[t for parts in same for t in parts] for _, same in groupby(groups, kind)]
    return pieces if len(pieces) > 1 else []


def _flatten_concat(factor: Tensor, axis: int) -> list[Tensor]:
    """Return the parts of a concatenated matrix, with nested concatenations flattened."""
    return [t for part in factor.op.inputs for t in (_flatten_concat(part, axis) if _is_joined(part, axis) else [part])]


def _is_joined(factor: Tensor, axis: int) -> bool:
    """Return True if a matrix is a concatenation, along this axis, of parts of known shape."""
    op = factor.op
    along = op.type == "Concat" and op.attrs["axis"] in (axis, axis - 2)
    return along and not op.control_inputs and all(map(is_known, op.inputs))


def _sum_split_products(op: Operation, side: int, pieces: list[list[Tensor]]) -> Tensor:
    """Multiply each piece with its part of the other factor, and add the products in the order of the pieces."""
    other, start, terms = op.inputs[1 - side], 0, []
    # Slices of the other factor belong where the factor is: outside, they are cut once and not in each iteration.
    inside, outside = Builder(op.region, op), Builder(other.region, op)
    for parts in pieces:
        axis = inner_axis(op, side)
        stop = start + sum(t.shape.as_tuple()[axis] for t in parts)
        part = slice(start, stop)
        spec = (part,) if inner_axis(op, 1 - side) == 0 else (slice(None), part)
        factors = [inside.tensor("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]]
        factors.insert(1 - side, outside.tensor("StridedSlice", other, spec=spec))
        terms.append(inside.tensor("MatMul", *factors, **op.attrs))
        start = stop
    return reduce(lambda a, b: inside.tensor("Add", a, b), terms)

"""Products with joined factors: the sum of the products of their parts, of which some need not be in the loop.

``concat([x, h], 1) @ w`` multiplies what was read and the state at once. As ``x @ w[:n] + h @ w[n:]`` it is a product
that depends on the state and one that does not.
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
from .products import WORTH, inner_axis, is_known, is_product, work


def split_products(program: Program, liftable: Liftable, may_copy: bool, fits: Callable[[Tensor], bool]) -> bool:
    """Split the products of a loop's body of which a part is worth being lifted; return whether there were any.

    Parameters
    ----------
    program : Program
        Is changed.
    liftable : Liftable
        Of the body as it is before.
    may_copy : bool
        Whether the loop runs often enough to pay for a copy of a factor's columns; rows are not copied.
    fits : callable
        Whether a product may be lifted, by its size.
    """
    moved: dict[Tensor, Tensor] = {}
    for op in list(liftable.loop.body.operations):
        if is_product(op) and liftable.kind(op.outputs[0]) is None and fits(op.outputs[0]):
            for side in (0, 1):
                pieces = _pieces(op, side, liftable, may_copy)
                if pieces and op.outputs[0] not in moved:
                    moved[op.outputs[0]] = _split(op, side, pieces)
    substitute(program, moved)
    return bool(moved)


def _pieces(op: Operation, side: int, liftable: Liftable, may_copy: bool) -> list[list[Tensor]]:
    """Return the parts of a factor, those together that are multiplied together; nothing if all are."""
    joined, other = op.inputs[side].op, op.inputs[1 - side]
    axis = inner_axis(op, side)
    if joined.type != "Concat" or joined.control_inputs or joined.attrs["axis"] not in (axis, axis - 2):
        return []
    if not liftable.loop.is_outside(other) or not all(map(is_known, joined.inputs)):
        return []
    if inner_axis(op, 1 - side) != 0 and not may_copy:
        return []
    pieces: list[tuple[bool | None, list[Tensor]]] = []
    for kind, group in groupby(joined.inputs, liftable.kind):
        parts = list(group)
        part = sum(t.shape.as_tuple()[axis] for t in parts) * work(op) // op.inputs[side].shape.as_tuple()[axis]
        kind = kind if part >= WORTH else None
        if pieces and pieces[-1][0] is kind:
            pieces[-1][1].extend(parts)
        else:
            pieces.append((kind, parts))
    return [parts for _, parts in pieces] if any(kind is not None for kind, _ in pieces) and len(pieces) > 1 else []


def _split(op: Operation, side: int, pieces: list[list[Tensor]]) -> Tensor:
    """Multiply each piece with its part of the other factor, and add; first what was joined first."""
    other, start, terms = op.inputs[1 - side], 0, []
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

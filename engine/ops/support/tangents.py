"""Rules of tangents common to families of operations: linear, multilinear and diagonal ones.

See docs/design/0060-forward-mode.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...ir.apply import apply, build
from ...ir.gradient_overrides import cotangents_of_inputs
from ...ir.operation import Operation
from ...ir.rules.forward_mode import Tangents
from ...ir.tensor import Tensor
from .common import zeros_like
from .shape_equality import keeps_shape

Given = Sequence[Tensor | None]


def linear(*places: int) -> Tangents:
    """Return the rule of an operation linear in its inputs at `places` together; by default in all floating inputs."""

    def push_linear(op: Operation, given: Given) -> Sequence[Tensor] | None:
        inside = places or [i for i, t in enumerate(op.inputs) if t.dtype.is_differentiable]
        if any(t is not None and i not in inside for i, t in enumerate(given)):
            return None
        moved = list(op.inputs)
        for i in inside:
            tangent = given[i]
            moved[i] = zeros_like(op.inputs[i]) if tangent is None else tangent
        return repeat_operation(op, moved)

    return Tangents(push_linear)


def multilinear(*places: int) -> Tangents:
    """Return the rule of an operation linear in each of its inputs at `places`, as a product is."""

    def push_product(op: Operation, given: Given) -> Sequence[Tensor | None] | None:
        if any(t is not None and i not in places for i, t in enumerate(given)):
            return None
        terms = []
        for i in places:
            tangent = given[i]
            if tangent is not None:
                terms.append(repeat_operation(op, [*op.inputs[:i], tangent, *op.inputs[i + 1 :]]))
        return [functools.reduce(lambda a, b: apply("Add", a, b), parts) for parts in zip(*terms, strict=True)]

    return Tangents(push_product)


def _push_diagonal(op: Operation, given: Given) -> Sequence[Tensor | None] | None:
    """Return the tangent of an elementwise function of one real operand: its Jacobian is its own transpose."""
    if op.inputs[0].dtype.is_complex or op.outputs[0].dtype.is_complex:
        return None
    found: list[Tensor | None] = cotangents_of_inputs(op, given)
    return found


def _push_sum(op: Operation, given: Given) -> Sequence[Tensor] | None:
    """Return the tangent of a sum or difference of two operands, the tangent of one if it has the shape of both."""
    x, y = given
    if x is not None and y is not None:
        return repeat_operation(op, [x, y])
    one, other = (0, 1) if y is None else (1, 0)
    tangent = given[one]
    assert tangent is not None
    if not keeps_shape(op.inputs[one], op.inputs[other]):
        inputs = [tangent, zeros_like(op.inputs[other])]
        return repeat_operation(op, inputs if one == 0 else inputs[::-1])
    return [apply("Neg", tangent) if one == 1 and op.type == "Sub" else tangent]


def _push_sum_of_all(op: Operation, given: Given) -> Sequence[Tensor]:
    """Return the tangent of a sum of tensors of one shape: the sum of the tangents that are not zero."""
    moving = [t for t in given if t is not None]
    return moving if len(moving) == 1 else repeat_operation(op, moving)


def repeat_operation(op: Operation, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the outputs of an operation of the same type and attributes on other inputs."""
    return build(op.type, list(inputs), **op.own_attrs).outputs


LINEAR = linear()
LINEAR_IN_FIRST = linear(0)
DIAGONAL = Tangents(_push_diagonal)
SUM = Tangents(_push_sum)
SUM_OF_ALL = Tangents(_push_sum_of_all)

"""Tangents by transposing a gradient: the gradient of an operation is linear in the cotangents of its outputs.

Its derivative by the cotangents, in the direction of the tangents of the inputs, is the tangent of the outputs. So each
operation with a gradient has a tangent. What was built for the derivative alone is taken out of the graph again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import scopes
from ..ir.gradient_overrides import cotangents_of_inputs
from ..ir.operation import Operation
from ..ir.structured import is_structured
from ..ir.tensor import Tensor
from ..ops.support.common import zeros_like
from . import arrays
from .activity import active_tensors
from .backward import Backward
from .cotangents import Cotangents, densify
from .zeros import with_shape


def transpose_gradient(op: Operation, given: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the tangent of each output of an operation from the tangents of its inputs, None where zero."""
    region = scopes.current_region()
    operations, start = region.operations, len(region.operations)
    # Zeros serve as well as any values, because the derivative ignores them.
    cotangents = [zeros_like(t) if t.dtype.is_differentiable else None for t in op.outputs]
    with arrays.scope(region):
        pulled = cotangents_of_inputs(op, cotangents)
        pairs = [
            (densify(with_shape(g, x)), t)
            for g, x, t in zip(pulled, op.inputs, given, strict=True)
            if g is not None and t is not None
        ]
        made = operations[start:]
        dummies = [c for c in cotangents if c is not None]
        walk = Backward(active_tensors(dummies, set(), region, operations=made), set())
        back = Cotangents()
        for pulled_back, tangent in pairs:
            walk.contribute(back, pulled_back, tangent)
        walk.walk(made, back)
        found = [None if c is None else back.dense(c) for c in cotangents]
    _remove_unused(operations, start, {t for t in found if t is not None})
    return found


def _remove_unused(operations: list[Operation], start: int, used: set[Tensor]) -> None:
    """Remove the operations from number `start` on that nothing uses, except those with regions or effects."""
    for k in range(len(operations) - 1, start - 1, -1):
        op = operations[k]
        if is_structured(op) or op.definition.effects or any(t in used or t.consumers() for t in op.outputs):
            continue
        del operations[k]
        op.graph._by_name.pop(op.name, None)
        for tensor in op.inputs:
            tensor._consumers.pop(op, None)

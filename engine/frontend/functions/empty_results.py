"""Shapes of the results of `map_fn` in steps where it has no elements, so that its function never runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import scopes
from ...ir.apply import apply, constant
from ...ir.builder import clone_operation
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ...ops.array.creation import zeros
from ...ops.support.common import shape_of
from ..control.conditional import cond
from .elements import Elements, SparseRows

_HARMLESS = (Effect.NONE, Effect.RANDOM)  # copies of these operations change no state


def shapes_of_none(results: Sequence[Tensor], elements: Sequence[Tensor], source: Elements) -> list[Tensor | None]:
    """Return the shapes that the results of `map_fn`'s body would have, for steps without elements.

    A result without elements is an empty array, whose other dimensions may be sizes known in the step only. So copies
    of the body's operations compute one result from elements of zeros, in a branch taken by steps without elements.

    Parameters
    ----------
    results : sequence of Tensor
        Results of the body.
    elements : sequence of Tensor
        Elements as read in the body.
    source : Elements
        Arrays that the elements are read from.

    Returns
    -------
    list of int32 Tensor of shape [rank], or None
        For each result. None where the shape is known while building, or cannot be computed: the rank is unknown, or
        the operations have effects, regions or control inputs.
    """
    # With a static, positive count no step is without elements.
    if isinstance(source.count, int) and source.count:
        return [None] * len(results)
    return [None if t.shape.is_fully_known else _shape_of_none(t, elements, source) for t in results]


def _shape_of_none(result: Tensor, elements: Sequence[Tensor], source: Elements) -> Tensor | None:
    """Return the shape of a result for elements of zeros, computed only by steps without elements."""
    body = elements[0].region
    needed = _list_operations(result, set(elements), body)
    # Zeros can stand in only for elements of a dense tensor of known rank.
    can_be_zeros = all(rows.rank is not None and not isinstance(rows, SparseRows) for rows in source.rows_given)
    if needed is None or result.rank is None or not can_be_zeros:
        return None
    rank = result.rank

    def compute_shape() -> Tensor:
        copies = dict(zip(elements, _zeros_like_elements(source), strict=True))
        region = scopes.current_region()
        # The counter and the arrays' flows are scalars, and zero as in a first iteration.
        for param in body.params:
            copies[param] = constant(np.zeros((), param.dtype.numpy))
        for op in needed:
            copy = clone_operation(op, region, [copies.get(t, t) for t in op.inputs])
            copies.update(zip(op.outputs, copy.outputs, strict=True))
        return shape_of(copies.get(result, result))

    # Steps with elements never use the shape; both branches have to return the same dtype and rank.
    return cond(apply("Equal", source.count, 0), compute_shape, lambda: zeros([rank], "int32"))


def _zeros_like_elements(source: Elements) -> list[Tensor]:
    """Return zeros in the shape of one element, for each array of elements."""
    return [apply("Fill", shape_of(rows)[1:], constant(np.zeros((), rows.dtype.numpy))) for rows in source.rows_given]


def _list_operations(result: Tensor, elements: set[Tensor], body: Region) -> list[Operation] | None:
    """Return the operations of a body that compute a result; None if an operation cannot be copied."""
    operations: set[Operation] = set()
    sources = elements | set(body.params)
    pending = [result]
    while pending:
        tensor = pending.pop()
        # Elements and parameters get stand-ins; tensors from outside are read as they are.
        if tensor in sources or tensor.region is not body:
            continue
        op = tensor.op
        # Copies would repeat effects; regions and control inputs would need copies of their own.
        if op.regions or op.definition.effects not in _HARMLESS or op.control_inputs:
            return None
        if op not in operations:
            operations.add(op)
            pending += op.inputs
    # In the order of construction, so that inputs are copied before their readers.
    return [op for op in body.operations if op in operations]

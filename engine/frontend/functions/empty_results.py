"""Shapes of the results of map_fn in steps without elements, where the function never runs."""

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

_HARMLESS = (Effect.NONE, Effect.RANDOM)  # effects of operations that may run once more unnoticed


def shapes_of_none(results: Sequence[Tensor], elements: Sequence[Tensor], source: Elements) -> list[Tensor | None]:
    """Return the shapes of a body's results for elements of zeros, for steps without elements.

    The shape of a result may depend on sizes only known in the step, through the body's operations: copies of these
    operations run in a branch taken by steps without elements.

    Parameters
    ----------
    results : sequence of Tensor
        Results of the body.
    elements : sequence of Tensor
        Elements as read in the body.
    source : Elements

    Returns
    -------
    list of int32 vectors, or None
        None where the shape is known while building, or cannot be computed: the operations have effects, or regions.
    """
    # With a static, positive count no step is without elements.
    if isinstance(source.count, int) and source.count:
        return [None] * len(results)
    return [None if t.shape.is_fully_known else _shape_of_none(t, elements, source) for t in results]


def _shape_of_none(result: Tensor, elements: Sequence[Tensor], source: Elements) -> Tensor | None:
    """Return a tensor with the shape of a result for elements of zeros, computed only by steps without elements."""
    body = elements[0].region
    needed = _list_operations(result, set(elements), body)
    if (
        needed is None
        or result.rank is None
        or any(rows.rank is None or isinstance(rows, SparseRows) for rows in source.rows_given)
    ):
        return None
    rank = result.rank

    def of_zeros() -> Tensor:
        copies = dict(zip(elements, _zeros_like_rows(elements, source), strict=True))
        region = scopes.current_region()
        for param in body.params:  # the counter and the arrays' flows are zero, as in a first iteration
            copies[param] = constant(np.zeros((), param.dtype.numpy))
        for op in needed:
            copy = clone_operation(op, region, [copies.get(t, t) for t in op.inputs])
            copies.update(zip(op.outputs, copy.outputs, strict=True))
        return shape_of(copies.get(result, result))

    return cond(apply("Equal", source.count, 0), of_zeros, lambda: zeros([rank], "int32"))


def _zeros_like_rows(elements: Sequence[Tensor], source: Elements) -> list[Tensor]:
    """Return an element of zeros for each tensor of elements, in the sizes known to the step."""
    return [apply("Fill", shape_of(rows)[1:], constant(np.zeros((), rows.dtype.numpy))) for rows in source.rows_given]


def _list_operations(result: Tensor, elements: set[Tensor], body: Region) -> list[Operation] | None:
    """Return the operations of a body that compute a result from elements; None if they cannot be copied."""
    operations: set[Operation] = set()
    sources = elements | set(body.params)
    work = [result]
    while work:
        tensor = work.pop()
        # Elements and parameters get stand-ins; tensors from outside are read as they are.
        if tensor in sources or tensor.region is not body:
            continue
        op = tensor.op
        # Copies would repeat effects; regions and control inputs would need copies of their own.
        if op.regions or op.definition.effects not in _HARMLESS or op.control_inputs:
            return None
        if op not in operations:
            operations.add(op)
            work += op.inputs
    # In the order of construction, so that inputs are copied before their readers.
    return [op for op in body.operations if op in operations]

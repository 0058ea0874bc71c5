"""Shapes of what a function would return, in steps that call it for no element at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.builder import copied
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ir.traits import Effect
from ..ops.array.creation import zeros
from ..ops.support.common import shape_of
from .conditional import cond
from .elements import Elements, SparseRows

_HARMLESS = (Effect.NONE, Effect.RANDOM)  # what may be done once more without being noticed


def shapes_of_none(results: Sequence[Tensor], elements: Sequence[Tensor], source: Elements) -> list[Tensor | None]:
    """Return the shapes of the results of a body for elements of zeros, where a step has no elements.

    The shape of a result may depend on sizes that only the step knows, and then only the body's operations say it: a
    branch that is taken where there are no elements runs copies of them.

    Parameters
    ----------
    results : sequence of Tensor
        In the body.
    elements : sequence of Tensor
        As they are read there.
    source : Elements

    Returns
    -------
    list of int32 vectors, or None
        None where the shape is known while building, or cannot be found: the operations have effects, or regions.
    """
    if isinstance(source.count, int) and source.count:
        return [None] * len(results)
    return [None if t.shape.is_fully_known else _shape_of_none(t, elements, source) for t in results]


def _shape_of_none(result: Tensor, elements: Sequence[Tensor], source: Elements) -> Tensor | None:
    body = elements[0].region
    needed = _operations(result, set(elements), body)
    if (
        needed is None
        or result.rank is None
        or any(rows.rank is None or isinstance(rows, SparseRows) for rows in source.rows_given)
    ):
        return None
    rank = result.rank

    def of_zeros() -> Tensor:
        made = dict(zip(elements, _zeros_like_rows(elements, source), strict=True))
        region = scopes.current_region()
        for param in body.params:
            made[param] = constant(np.zeros((), param.dtype.numpy))
        for op in needed:
            copy = copied(op, region, [made.get(t, t) for t in op.inputs])
            made.update(zip(op.outputs, copy.outputs, strict=True))
        return shape_of(made.get(result, result))

    return cond(apply("Equal", source.count, 0), of_zeros, lambda: zeros([rank], "int32"))


def _zeros_like_rows(elements: Sequence[Tensor], source: Elements) -> list[Tensor]:
    """Return an element of zeros for each tensor that is gone through, of the sizes that the step knows."""
    return [apply("Fill", shape_of(rows)[1:], constant(np.zeros((), rows.dtype.numpy))) for rows in source.rows_given]


def _operations(result: Tensor, elements: set[Tensor], body: Region) -> list[Operation] | None:
    """Return the operations of a body that compute a result of its elements; None if they cannot be copied."""
    found: set[Operation] = set()
    given = elements | set(body.params)
    work = [result]
    while work:
        tensor = work.pop()
        if tensor in given or tensor.region is not body:
            continue
        op = tensor.op
        if op.regions or op.definition.effects not in _HARMLESS or op.control_inputs:
            return None
        if op not in found:
            found.add(op)
            work += op.inputs
    return [op for op in body.operations if op in found]

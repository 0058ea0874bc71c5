"""Batch rules for groups of operations: how to emit many instances of an operation as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...ir.builder import Builder
from ...ir.definition import host_inputs
from ...ir.operation import Operation
from ...ir.rules.batching import Batched, BatchRule
from ...ir.tensor import Tensor


def emit_copy(builder: Builder, op: Operation, operands: Sequence[Tensor], **changed: Any) -> list[Tensor]:
    """Emit an operation of the same type on other operands, with some attributes changed."""
    attrs = {key: op.attrs[key] for key in op.definition.attrs}
    return builder.emit(op.type, *operands, **{**attrs, **changed}).outputs


def batch_pointwise(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Batch rule of an elementwise `op`: operands `varying` among instances are broadcast as before.

    A varying operand of lower rank than the result gets dimensions of size 1 after the instance dimension.
    """
    rank = op.outputs[0].rank
    lower = [v and t.rank != rank for t, v in zip(op.inputs, varying, strict=True)]
    # Raising the rank takes a Reshape, which needs all sizes except the number of instances.
    if rank is None or any(t.rank is None or not t.shape.is_fully_known for t, low in zip(op.inputs, lower) if low):
        return None

    def emit_broadcast(builder: Builder, operands: list[Tensor]) -> list[Tensor]:
        triples = zip(operands, op.inputs, lower, strict=True)
        return emit_copy(builder, op, [_raise_rank(builder, x, old, rank) if low else x for x, old, low in triples])

    return emit_broadcast


def _raise_rank(builder: Builder, x: Tensor, old: Tensor, rank: int) -> Tensor:
    # Broadcasting aligns the last dimensions: without the 1s the instances would meet a dimension of the operation.
    ones = [1] * (rank - len(old.shape))
    return emit_reshape(builder, x, [-1, *ones, *old.shape.as_tuple()])


def emit_reshape(builder: Builder, x: Tensor, dims: Sequence[int]) -> Tensor:
    """Emit, by `builder`, a Reshape of `x` to `dims`, which may contain a -1."""
    return builder.tensor("Reshape", x, builder.constant(dims, dtypes.int32))


def batch_along(attr: str = "axis") -> BatchRule:
    """Return the batch rule of an operation along axes of all its array operands, except operands in host memory."""

    def batch_along_axes(op: Operation, varying: Sequence[bool]) -> Batched | None:
        rank = op.inputs[0].rank
        arrays = [not host for host in host_inputs(op)]
        # All arrays vary or none: the axis of an array without instances would not move.
        if rank is None or list(varying) != arrays or any(t.rank != rank for t, v in zip(op.inputs, varying) if v):
            return None
        axis = _behind_first(op.attrs[attr], rank)
        return lambda builder, operands: emit_copy(builder, op, operands, **{attr: axis})

    return batch_along_axes


def _behind_first(axis: Any, rank: int) -> Any:
    if axis is None:
        # All axes except the first, which counts instances.
        return tuple(range(1, rank + 1))
    if isinstance(axis, tuple):
        return tuple(a % rank + 1 for a in axis)
    return axis % rank + 1


def to_known_shape(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Batch rule of an `op` reshaping its first operand, alone `varying` among instances, to a known shape."""
    shape = op.outputs[0].shape
    # Beside a size of 0 the -1 of the Reshape has no unique value.
    if not varying[0] or any(varying[1:]) or not shape.is_fully_known or 0 in shape.as_tuple():
        return None
    return lambda builder, operands: [emit_reshape(builder, operands[0], [-1, *shape.as_tuple()])]


def emit_transpose(builder: Builder, x: Tensor) -> Tensor:
    """Emit, by `builder`, the transposes of `x`, a stack of matrices."""
    return builder.tensor("Transpose", x, perm=(0, 2, 1))

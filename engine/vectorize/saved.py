"""Vectorization of values saved by loops and branches for gradients built in the function.

A series keeps its slots by iteration; the slots hold values of all examples. Where the iteration differs between
examples, in the gradient of a loop left at different iterations, the slots are read as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import int32, series
from ..base.shapes import Shape
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.examples import batched_shape, join_sizes, known_rank
from ..ir.operation import Operation
from ..ir.structured import is_structured, num_results, save_series, saved_value
from ..ir.tensor import Tensor
from .batched import MARKS, BatchedTensors
from .loops import nested_saving
from .walk import RULES, Vectorization


def _slot_attributes(walk: Vectorization, op: Operation) -> dict[str, Any]:
    attrs = dict(op.own_attrs)
    if "shape" in attrs and op.outputs[0] in walk.batched and op.outputs[0].dtype is not series:
        attrs["shape"] = batched_shape(attrs["shape"], walk.count)
    return attrs


def _read_common(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Read the slot of an iteration common to all examples."""
    slots, index = op.inputs[:2]
    if index in walk.batched:
        raise nested_saving(op)
    operands = [walk.value(slots), walk.value(index)]
    if len(op.inputs) > 2:
        operands.append(_shape_for_all(walk, op, 2))
    return [apply(op.type, *operands, **_slot_attributes(walk, op))]


def _read_slot(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Read a slot; for slots different in each example, take each example's from the array of all slots."""
    slots, index = op.inputs
    if index not in walk.batched:
        return _read_common(walk, op)
    rows = _join_slots(walk, op)
    places = apply("Cast", walk.value(index), dtype=int32)
    if slots not in walk.batched:
        return [apply("Gather", rows, places, axis=0)]
    # The values of all examples in a slot are as many rows.
    numbers = apply("Range", constant(np.int32(0)), walk.count, constant(np.int32(1)))
    return [apply("Gather", rows, places * walk.count + numbers, axis=0)]


def _join_slots(walk: Vectorization, op: Operation) -> Tensor:
    """Return the rows of all slots of a series as an array, made beside the operation of the series.

    The rows of a slot are the values of the examples, or a single common value.
    """
    slots = walk.inner_value(op.inputs[0])
    if slots in walk.stacks:
        return walk.stacks[slots]
    value = saved_value(slots)
    # A value saved in some iterations only, as with checkpoint_every, leaves slots empty.
    if value is None or value.dtype is series or _may_be_missing(value):
        raise nested_saving(op)
    if op.inputs[0] not in walk.batched:
        slots, value = _with_rows(op, slots, value)
    with scopes.inside(slots.op.region):
        # Without iterations nothing is read, whatever the unknown sizes.
        known_rank(value)
        like = constant(np.asarray([0, *((1 if d is None else d) for d in value.shape.dims[1:])], np.int32))
        shape = Shape([None]) + value.shape[1:]
        rows = apply("SeriesConcat", slots, like, dtype=value.dtype, shape=shape)
    walk.stacks[walk.inner_value(op.inputs[0])] = rows
    return rows


def _with_rows(op: Operation, slots: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return a series of the same values with a first dimension of size 1, by which they are joined."""
    loop = slots.op
    if not loop.is_while:
        raise nested_saving(op)
    with scopes.inside(loop.regions[1]):
        row = apply("ExpandDims", value, axis=0)
    return save_series(loop, row), row


def _may_be_missing(value: Tensor) -> bool:
    """Return True for a value saved by a branch, dead where the branch did not run."""
    return is_structured(value.op) and value.index >= num_results(value.op)


def _shape_for_all(walk: Vectorization, op: Operation, i: int) -> Tensor:
    """Return the shape in operand `i`, with the number of examples in front if the result differs between them."""
    shape = walk.value(op.inputs[i])
    return join_sizes(walk.count, shape) if op.outputs[0] in walk.batched else shape


def _sum_slots(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    return [apply(op.type, walk.value(op.inputs[0]), _shape_for_all(walk, op, 1), **op.own_attrs)]


def _add_slots(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Add two series; slots common to all examples have no room for values of each."""
    differs = op.outputs[0] in walk.batched
    return [apply(op.type, *(walk.spread_value(t) if differs else walk.value(t) for t in op.inputs))]


def _keep_form(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Build an operation on values of any shapes."""
    return [apply(op.type, *(walk.value(t) for t in op.inputs), **op.own_attrs)]


def _concat_slots(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Join the rows of all slots, which for all examples are along axis 1."""
    if op.outputs[0] not in walk.batched:
        return _keep_form(walk, op)
    like = join_sizes(walk.count, walk.value(op.inputs[1]))
    attrs = {**_slot_attributes(walk, op), "axis": op.attrs["axis"] + 1}
    return [apply(op.type, walk.value(op.inputs[0]), like, **attrs)]


def _split_slots(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Split rows into slots, as long as the slots of another series."""
    rows, like = op.inputs
    axis, like_axis = op.attrs["axis"] + (rows in walk.batched), op.attrs["like_axis"] + (like in walk.batched)
    return [apply(op.type, walk.value(rows), walk.value(like), axis=axis, like_axis=like_axis)]


def _mark_first(batched: BatchedTensors, op: Operation) -> None:
    """Mark the result if the first input differs: the others are shapes, or tell slots."""
    if op.inputs[0] in batched:
        batched.add(op.outputs[0])


def _mark_read(batched: BatchedTensors, op: Operation) -> None:
    if batched.any(op.inputs[:2]):
        batched.add(op.outputs[0])


RULES.update(
    SeriesRead=_read_slot,
    SeriesReadOrZeros=_read_common,
    SeriesReadSeries=_read_common,
    SeriesSum=_sum_slots,
    SeriesAdd=_add_slots,
    SeriesSumSeries=_keep_form,
    SeriesSpread=_keep_form,
    SeriesConcat=_concat_slots,
    SeriesSplit=_split_slots,
    MaybeGet=_keep_form,
)
MARKS.update(
    SeriesRead=_mark_read,
    SeriesReadOrZeros=_mark_read,
    SeriesReadSeries=_mark_read,
    SeriesSum=_mark_first,
    SeriesSumSeries=_mark_first,
    SeriesSpread=_mark_first,
    SeriesConcat=_mark_first,
    SeriesSplit=_mark_first,
)

"""Vectorization of TensorArrays: each element of an array holds the values of all examples.

The handle of an array counts as different between examples if a written value differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.errors import VectorizationError
from ..base.shapes import Shape
from ..ir.apply import apply
from ..ir.examples import batched_shape, join_sizes, known_rank
from ..ir.operation import Operation
from ..ir.rules.batching import taken_row
from ..ir.tensor import Tensor
from .batched import MARKS, BatchedTensors
from .walk import RULES, Vectorization


def _mark_array_of(value: int) -> Callable[[BatchedTensors, Operation], None]:
    """Return the mark of the array if the written value, an operand, differs."""

    def mark_array(batched: BatchedTensors, op: Operation) -> None:
        if op.inputs[value] in batched:
            batched.add(op.inputs[0])

    return mark_array


def _mark_result(batched: BatchedTensors, op: Operation) -> None:
    """Mark the value read, or the gradient array, if the array differs."""
    if op.inputs[0] in batched:
        batched.add(op.outputs[0])


def _mark_element(batched: BatchedTensors, op: Operation) -> None:
    """Mark the element read if the array differs, or the index."""
    if batched.any(op.inputs[:2]):
        batched.add(op.outputs[0])


def _mark_nothing(batched: BatchedTensors, op: Operation) -> None:
    """Mark no result: a new array, a size."""


def _element_shape(walk: Vectorization, op: Operation, handle: Tensor) -> Shape:
    shape = Shape(op.attrs["element_shape"])
    return batched_shape(shape, walk.count) if handle in walk.batched else shape


def _make_array(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    attrs = {**op.own_attrs, "element_shape": _element_shape(walk, op, op.outputs[0])}
    outputs: list[Tensor] = apply("TensorArrayNew", _common_operand(walk, op, 0), **attrs)
    return outputs


def _make_gradient_array(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Make a gradient array; its elements may differ between examples where the array's do not."""
    handle, flow = op.inputs
    any_shape = op.outputs[0] in walk.batched and handle not in walk.batched
    attrs = {**op.own_attrs, "any_shape": any_shape}
    outputs: list[Tensor] = apply("TensorArrayGrad", walk.value(handle), walk.value(flow), **attrs)
    return outputs


def _common_operand(walk: Vectorization, op: Operation, i: int) -> Tensor:
    return walk.examples(op).shared(i)


def _to_elements(value: Tensor, rank: int) -> Tensor:
    """Return a value [examples, elements, ...] as elements with all examples, or back."""
    return apply("Transpose", value, perm=(1, 0, *range(2, rank + 1)))


def _written_value(walk: Vectorization, op: Operation, i: int, stacked: bool) -> Tensor:
    """Return a value written to an array, for all examples if the array differs between them."""
    handle, value = op.inputs[0], op.inputs[i]
    if handle not in walk.batched:
        return walk.value(value)
    if handle.op.region.encloses(walk.region) and handle.op.region is not walk.region:
        raise VectorizationError(
            "a value that differs between examples is written to a TensorArray from outside of the vectorized function",
            wanted="an array made in the function",
            got=op.name,
            operation=op,
            source=op.source,
            hint="return the values from the function, and write them afterwards",
        )
    spread = walk.spread_value(value)
    return _to_elements(spread, known_rank(value)) if stacked else spread


def _write_element(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, _, _, flow = op.inputs
    value = _written_value(walk, op, 2, stacked=False)
    return [apply(op.type, walk.value(handle), _common_operand(walk, op, 1), value, walk.value(flow))]


def _scatter_rows(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, _, _, flow = op.inputs
    value = _written_value(walk, op, 2, stacked=True)
    return [apply(op.type, walk.value(handle), _common_operand(walk, op, 1), value, walk.value(flow))]


def _unstack_rows(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, _, flow = op.inputs
    return [apply(op.type, walk.value(handle), _written_value(walk, op, 1, stacked=True), walk.value(flow))]


def _split_rows(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, _, _, flow = op.inputs
    if handle in walk.batched:
        raise _refuse_joined(op)
    return [apply(op.type, *(walk.value(t) for t in (handle, op.inputs[1], op.inputs[2], flow)))]


def _refuse_joined(op: Operation) -> VectorizationError:
    """Return the error for elements of several lengths."""
    return VectorizationError(
        f"{op.type} joins or splits the elements of a TensorArray different in each example",
        wanted="stack and unstack",
        got=op.name,
        operation=op,
        source=op.source,
        hint="use stack(), and reshape the result",
    )


def _shape_of_zeros(walk: Vectorization, op: Operation, first: int, lead: int) -> list[Tensor]:
    """Return the optional shape of unwritten elements, for all examples."""
    if len(op.inputs) <= first:
        return []
    shape = walk.value(op.inputs[first])
    if op.inputs[0] not in walk.batched:
        return [shape]
    return [join_sizes(shape[:lead], walk.count, shape[lead:]) if lead else join_sizes(walk.count, shape)]


def _read_element(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Read an element, or for an index of each example a row of the value unstacked into the array."""
    handle, index, flow = op.inputs[:3]
    attrs = {**op.own_attrs, "element_shape": _element_shape(walk, op, handle)}
    if index not in walk.batched:
        operands = [walk.value(handle), walk.value(index), walk.value(flow)]
        return [apply(op.type, *operands, _shape_of_zeros(walk, op, 3, 0), **attrs)]
    row = taken_row(op)
    if row is None:
        _common_operand(walk, op, 1)
    assert row is not None
    rows, places = walk.value(row[0]), walk.value(index)
    if row[0] in walk.batched:
        return [apply("Gather", rows, places, axis=1, batch_dims=1)]
    return [apply("Gather", rows, places, axis=0)]


def _gather_rows(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, _, flow = op.inputs[:3]
    attrs = {**op.own_attrs, "element_shape": _element_shape(walk, op, handle)}
    operands = [walk.value(handle), _common_operand(walk, op, 1), walk.value(flow)]
    value = apply(op.type, *operands, _shape_of_zeros(walk, op, 3, 1), **attrs)
    return [_to_elements(value, known_rank(op.outputs[0])) if handle in walk.batched else value]


def _stack_rows(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, flow = op.inputs[:2]
    attrs = {**op.own_attrs, "element_shape": _element_shape(walk, op, handle)}
    value = apply(op.type, walk.value(handle), walk.value(flow), _shape_of_zeros(walk, op, 2, 1), **attrs)
    return [_to_elements(value, known_rank(op.outputs[0])) if handle in walk.batched else value]


def _concat_rows(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    handle, flow, *like = op.inputs
    if handle in walk.batched:
        raise _refuse_joined(op)
    operands = [walk.value(handle), walk.value(flow)]
    outputs: list[Tensor] = apply("TensorArrayConcat", *operands, [walk.value(t) for t in like], **op.own_attrs)
    return outputs


def _count_elements(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    return [apply(op.type, *(walk.value(t) for t in op.inputs))]


def _close_array(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    apply(op.type, *(walk.value(t) for t in op.inputs))
    return []


RULES.update(
    TensorArrayNew=_make_array,
    TensorArrayGrad=_make_gradient_array,
    TensorArrayWrite=_write_element,
    TensorArrayScatter=_scatter_rows,
    TensorArrayUnstack=_unstack_rows,
    TensorArraySplit=_split_rows,
    TensorArrayRead=_read_element,
    TensorArrayGather=_gather_rows,
    TensorArrayStack=_stack_rows,
    TensorArrayConcat=_concat_rows,
    TensorArraySize=_count_elements,
    TensorArrayClose=_close_array,
)
MARKS.update(
    TensorArrayNew=_mark_nothing,
    TensorArrayGrad=_mark_result,
    TensorArrayWrite=_mark_array_of(2),
    TensorArrayScatter=_mark_array_of(2),
    TensorArrayUnstack=_mark_array_of(1),
    TensorArraySplit=_mark_array_of(1),
    TensorArrayRead=_mark_element,
    TensorArrayGather=_mark_result,
    TensorArrayStack=_mark_result,
    TensorArrayConcat=_mark_result,
    TensorArraySize=_mark_nothing,
)

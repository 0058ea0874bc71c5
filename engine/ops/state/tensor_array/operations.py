"""Operations on TensorArrays: a handle names the array, a float32 scalar `flow` carries order along its uses.

Reading operations take an optional input `zeros`: the shape of the zeros read for unwritten elements. Only gradients
pass `zeros`, so that a gradient array needs no value of its primal (the cotangent of an unread element is zeros of the
element's shape, rule 113 of docs/semantics.md). The cotangent of a flow is a flow of the gradient array.

Elements that an unstack writes may also be read as blocks of rows, which loops process at once (the `block` pass): the
pass lists the sizes in the attribute `blocks` of the unstack, and adds TensorArrayReadBlock and TensorArrayRowOf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base import dtypes
from ....base.dtypes import DType
from ....base.errors import TensorArrayError
from ....base.shapes import SCALAR, Shape
from ....ir.apply import apply, constant
from ....ir.definition import REQUIRED, NotDifferentiable, define
from ....ir.operation import Operation
from ....ir.rules.batching import TakesRow
from ....ir.rules.edges import WarnsUnused
from ....ir.rules.kernels import NoRetry
from ....ir.rules.native import RunsAs
from ....ir.rules.shapes import LoadsElement, StoresElement
from ....ir.static_values import static_dimension, static_shape, static_value
from ....ir.tensor import Tensor
from ....ir.traits import Effect
from ...support.attributes import takes_attributes
from ...support.common import infer_nothing, infer_scalar, shape_of
from ...support.context import KernelContext, result_after
from .element_rules import ArraySpec
from .gradient_arrays import gradient_array
from .storage import ArrayStorage
from .tangents import MAKES, reads, writes

# Flows carry order alone: their number is never read.
_FLOW = np.float32(0)
_UNUSED = (
    "nobody uses the array that this write returned, so nothing is written: go on with that, as in ta = ta.write(...)"
)
_HANDLE = NotDifferentiable("it only names an array; cotangents travel along the flow")
_WHERE = {"T": dtypes.VALUES, "I": dtypes.INDEX}
_READ_ATTRS = {"dtype": REQUIRED, "element_shape": Shape(None)}


def _element_shape(op: Operation) -> Shape:
    return Shape(op.attrs["element_shape"])


def _loaded_shape(op: Operation, element: Shape, lead: Shape, zeros_index: int) -> Shape:
    """Return the static shape of the result of a read.

    `element` is the shape of written elements, as far as known; `lead` has the number of stacked elements, or no
    dimension; `zeros_index` is the number of the optional input `zeros`.
    """
    if len(op.inputs) <= zeros_index:
        return lead + element
    zeros = static_shape(op.inputs[zeros_index])
    # An unwritten element is read as zeros of this shape, which need not be the shape of written elements.
    return lead.merge(zeros[: len(lead)]) + element.relax(zeros[len(lead) :])


def _stacked_count(op: Operation) -> Shape:
    """Return the number of stacked elements as a one-dimensional shape."""
    made = op.inputs[0].op
    size = op.attrs["size"]
    # Only an array of fixed size: any other may have grown since it was made.
    if size is None and made.type == "TensorArrayNew" and not made.attrs["dynamic_size"]:
        value = static_value(made.inputs[0])
        size = static_dimension(made.inputs[0]) if value is None else int(value)
    return Shape([size])


def _initial_flow() -> Tensor:
    return constant(_FLOW)


def _first_or_none(zeros: tuple[Any, ...]) -> Any:
    """Return the optional input `zeros`, which kernels get as a tuple of at most 1 element."""
    return zeros[0] if zeros else None


@takes_attributes(ArraySpec)
def _make_tensor_array(xp: Any, context: KernelContext, size: Any, attrs: ArraySpec) -> tuple[ArrayStorage, Any]:
    """Make the storage of an array for the step, and its flow; TensorArrayError for a negative size."""
    if size < 0:
        raise TensorArrayError(
            "the size of a TensorArray is negative",
            wanted="0 or more",
            got=int(size),
            operation=context.operation,
            hint="leave size out for an array that grows as elements are written",
        )
    array = ArrayStorage(
        attrs.dtype, int(size), attrs.element_rules(), name=attrs.array_name or context.operation, xp=xp
    )
    step = context.step
    # Freed at the end of the step, also of a step without a TensorArrayClose.
    step.resources.add_to_step(step.number, array)
    # An array needs the swapper for rows that stay in host memory until read, even if its elements are not swapped out.
    array.swapper = step.swap if attrs.accepts_host_rows else None
    array.swappable = attrs.swappable and array.swapper is not None
    return array, _FLOW


define(
    "TensorArrayNew",
    "size: host int32 -> handle: resource, flow: host float32",
    attrs={
        "dtype": REQUIRED,
        "element_shape": Shape(None),
        "dynamic_size": False,
        "clear_after_read": True,
        "identical_shapes": False,
        "array_name": "",
        "swappable": False,
        "accepts_host_rows": False,
        "sums": False,
    },
    shape=lambda op: [SCALAR, SCALAR],
    kernel=_make_tensor_array,
    gradient=_HANDLE,
    rules=[MAKES, RunsAs("NEW")],
    effects=Effect.WRITES,
)

define(
    "TensorArrayGrad",
    "handle: resource, flow: host float32 -> gradient: resource, gradient_flow: host float32",
    attrs={"source": None, "any_shape": False},
    shape=lambda op: [SCALAR, SCALAR],
    kernel=lambda xp, context, array, flow, **how: (array.gradient(context=context, **how), flow),
    gradient=_HANDLE,
    rules=[RunsAs("NEW")],
    effects=Effect.WRITES,
)


def _read_gradient(op: Operation, g: Tensor) -> list[Any]:
    handle, index, _, *zeros = op.inputs
    # The write begins a flow of its own: `gradients` adds up the flows of all reads, whose order does not matter.
    flow = apply("TensorArrayWrite", gradient_array(handle), index, g, _initial_flow())
    return [None, None, flow, *(None for _ in zeros)]


def _source_row(op: Operation) -> tuple[Tensor, Tensor] | None:
    """Return the value whose rows are exactly the array's elements, and the index of the read; None if unknown."""
    handle, index, flow, *zeros = op.inputs
    unstack, new = flow.op, handle.op
    is_unstacked = unstack.type == "TensorArrayUnstack" and unstack.inputs[0] is handle
    if zeros or not is_unstacked or new.type != "TensorArrayNew" or new.attrs["dynamic_size"]:
        return None
    # An array of fixed size, and as many rows: the unstack has written each element, and none is written twice.
    rows, size = unstack.inputs[1], static_value(new.inputs[0])
    has_all_rows = size is not None and rows.rank and rows.shape[0] == int(size)
    return (rows, index) if has_all_rows else None


define(
    "TensorArrayRead",
    "handle: resource, index: host I, flow: host float32, zeros: host *int32 -> value: @dtype",
    where=_WHERE,
    attrs=_READ_ATTRS,
    shape=_element_shape,
    kernel=lambda xp, context, array, index, flow, *zeros, **_: array.read(index, context, _first_or_none(zeros)),
    gradient=_read_gradient,
    rules=[
        LoadsElement(lambda op, element: _loaded_shape(op, element, SCALAR, 3)),
        TakesRow(_source_row),
        RunsAs("GET"),
        reads(2),
    ],
    effects=Effect.READS,
)


def _write_element(xp: Any, context: KernelContext, array: ArrayStorage, index: Any, value: Any, flow: Any) -> Any:
    return result_after(array.write(index, value, context), flow)


def _write_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Read the cotangent of the written value from the gradient array."""
    # The flow `g` is passed on: gradients of earlier operations wait for the same additions to the gradient array.
    handle, index, value, _ = op.inputs
    cotangent = apply(
        "TensorArrayRead",
        gradient_array(handle),
        index,
        g,
        [shape_of(value)],
        dtype=value.dtype,
        element_shape=value.shape,
    )
    return [None, None, cotangent, g]


define(
    "TensorArrayWrite",
    "handle: resource, index: host I, value: T, flow: host float32 -> flow_out: host float32",
    where=_WHERE,
    shape=infer_scalar,
    kernel=_write_element,
    gradient=_write_gradient,
    rules=[StoresElement(lambda op: op.inputs[2].shape), WarnsUnused(_UNUSED), RunsAs("PUT"), writes(2)],
    effects=Effect.WRITES,
)


def _gather_elements(
    xp: Any,
    context: KernelContext,
    array: ArrayStorage,
    indices: Any,
    flow: Any,
    *zeros: Any,
    element_shape: Shape,
    **_: Any,
) -> Any:
    """Read the elements at `indices`, stacked; the array or an awaitable."""
    return array.stack(np.asarray(indices), context, _first_or_none(zeros), Shape(element_shape))


def _gather_gradient(op: Operation, g: Tensor) -> list[Any]:
    handle, indices, _, *zeros = op.inputs
    flow = apply("TensorArrayScatter", gradient_array(handle), indices, g, _initial_flow())
    return [None, None, flow, *(None for _ in zeros)]


define(
    "TensorArrayGather",
    "handle: resource, indices: host I, flow: host float32, zeros: host *int32 -> value: @dtype",
    where=_WHERE,
    attrs=_READ_ATTRS,
    shape=lambda op: op.inputs[1].shape.merge(Shape([None])) + _element_shape(op),
    kernel=_gather_elements,
    gradient=_gather_gradient,
    rules=[
        LoadsElement(lambda op, element: _loaded_shape(op, element, op.inputs[1].shape.merge(Shape([None])), 3)),
        reads(2),
        RunsAs("GATHER"),
    ],
    effects=Effect.READS,
)


def _scatter_elements(xp: Any, context: KernelContext, array: ArrayStorage, indices: Any, value: Any, flow: Any) -> Any:
    return result_after(array.write_rows(np.asarray(indices), value, context), flow)


def _scatter_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Read the cotangents of the written rows from the gradient array."""
    handle, indices, value, _ = op.inputs
    cotangent = apply(
        "TensorArrayGather",
        gradient_array(handle),
        indices,
        g,
        [shape_of(value)],
        dtype=value.dtype,
        element_shape=value.shape[1:],
    )
    return [None, None, cotangent, g]


define(
    "TensorArrayScatter",
    "handle: resource, indices: host I, value: T, flow: host float32 -> flow_out: host float32",
    where=_WHERE,
    shape=infer_scalar,
    # Not run again: elements written before a refusal of memory cannot be written twice.
    rules=[
        NoRetry(),
        StoresElement(lambda op: op.inputs[2].shape[1:]),
        WarnsUnused(_UNUSED),
        writes(2),
        RunsAs("SCATTER"),
    ],
    kernel=_scatter_elements,
    gradient=_scatter_gradient,
    effects=Effect.WRITES,
)


def _stack_elements(
    xp: Any,
    context: KernelContext,
    array: ArrayStorage,
    flow: Any,
    *zeros: Any,
    element_shape: Shape,
    **_: Any,
) -> Any:
    """Read all elements, stacked; in a gradient array the first size in `zeros` is their number."""
    shape = _first_or_none(zeros)
    count = array.size if shape is None else int(shape[0])
    return array.stack(range(count), context, shape, Shape(element_shape))


def _stack_gradient(op: Operation, g: Tensor) -> list[Any]:
    handle, _, *zeros = op.inputs
    flow = apply("TensorArrayUnstack", gradient_array(handle), g, _initial_flow())
    return [None, flow, *(None for _ in zeros)]


define(
    "TensorArrayStack",
    "handle: resource, flow: host float32, zeros: host *int32 -> value: @dtype",
    attrs={**_READ_ATTRS, "size": None},
    shape=lambda op: Shape([op.attrs["size"]]) + _element_shape(op),
    kernel=_stack_elements,
    gradient=_stack_gradient,
    rules=[
        LoadsElement(lambda op, element: _loaded_shape(op, element, _stacked_count(op), 2)),
        reads(1),
        RunsAs("STACK"),
    ],
    effects=Effect.READS,
)


def _write_all_rows(
    array: ArrayStorage, value: Any, context: KernelContext, *, host_backed: bool, blocks: tuple[int, ...]
) -> Any:
    """Write the rows of a value to the elements, and make the rows readable in blocks of each number in `blocks`.

    `host_backed` is True if the value is a feed, whose rows may stay in host memory until they are read.
    """
    if type(value) is np.ndarray and not (value.flags.c_contiguous or host_backed):
        value = np.ascontiguousarray(value)  # rows of a transposed array would be strided
    adding = array.write_rows(range(len(value) if getattr(value, "ndim", 0) else 0), value, context)
    for count in blocks:
        array.cut(value, count)
    if host_backed:
        array.wrap_host_rows(value)
    return adding


def _unstack_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Stack the cotangents of the rows from the gradient array."""
    handle, value, _ = op.inputs
    cotangent = apply(
        "TensorArrayStack",
        gradient_array(handle),
        g,
        [shape_of(value)],
        dtype=value.dtype,
        element_shape=value.shape[1:],
        size=value.shape[0],
    )
    return [None, cotangent, g]


define(
    "TensorArrayUnstack",
    "handle: resource, value: T, flow: host float32 -> flow_out: host float32",
    where=_WHERE,
    attrs={"host_backed": False, "blocks": ()},
    shape=infer_scalar,
    rules=[
        NoRetry(),
        StoresElement(lambda op: op.inputs[1].shape[1:]),
        WarnsUnused(_UNUSED),
        writes(1),
        RunsAs("UNSTACK"),
    ],
    kernel=lambda xp, context, array, value, flow, **attrs: result_after(
        _write_all_rows(array, value, context, **attrs), flow
    ),
    gradient=_unstack_gradient,
    effects=Effect.WRITES,
)

# A pass adds these operations to a program, after its gradients were built. TensorArrayReadBlock reads the `count` rows
# around an element, from a multiple of `count` on; TensorArrayRowOf takes an element's row of a block, or of what was
# computed from a block. With `reads` the element counts as read, in place of the read that was removed.
_AFTER_GRADIENTS = NotDifferentiable("programs get it when their gradients are built")

define(
    "TensorArrayReadBlock",
    "handle: resource, index: host I, flow: host float32 -> block: @dtype",
    where=_WHERE,
    attrs={**_READ_ATTRS, "count": REQUIRED},
    shape=lambda op: Shape([None]) + _element_shape(op),
    kernel=lambda xp, context, array, index, flow, *, count, **_: array.read_block(int(index), count, context),
    gradient=_AFTER_GRADIENTS,
    effects=Effect.READS,
)

define(
    "TensorArrayRowOf",
    "handle: resource, index: host I, flow: host float32, block: T -> row: T",
    where=_WHERE,
    attrs={"count": REQUIRED, "reads": True},
    shape=lambda op: op.inputs[3].shape[1:],
    kernel=lambda xp, context, array, index, flow, block, **how: array.row_of(block, int(index), context, **how),
    gradient=_AFTER_GRADIENTS,
    effects=Effect.READS,
)


def _concat_elements(
    xp: Any, context: KernelContext, array: ArrayStorage, flow: Any, *like: Any, dtype: DType, element_shape: Shape
) -> Any:
    return array.concat(like, context, element_shape)


def _concat_gradient(op: Operation, g: Tensor, _: Any = None) -> list[Any]:
    handle, _flow, *like = op.inputs
    # None if only the lengths were used, which have no gradient.
    if g is None:
        return [None for _ in op.inputs]
    flow = apply("TensorArraySplit", gradient_array(handle), g, op.outputs[1], _initial_flow())
    return [None, flow, *(None for _ in like)]


define(
    "TensorArrayConcat",
    "handle: resource, flow: host float32, like: host *int32 -> value: @dtype, lengths: host int32",
    attrs=_READ_ATTRS,
    shape=lambda op: [Shape([None]) + _element_shape(op)[1:], Shape([None])],
    kernel=_concat_elements,
    gradient=_concat_gradient,
    rules=[reads(1, has_shape=False)],
    effects=Effect.READS,
)


def _split_value(xp: Any, context: KernelContext, array: ArrayStorage, value: Any, lengths: Any, flow: Any) -> Any:
    return result_after(array.split(value, lengths, context), flow)


def _split_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Join the cotangents of the pieces from the gradient array."""
    handle, value, lengths, _ = op.inputs
    cotangent, _lengths = apply(
        "TensorArrayConcat",
        gradient_array(handle),
        g,
        [shape_of(value), lengths],
        dtype=value.dtype,
        element_shape=Shape([None]) + value.shape[1:],
    )
    cotangent.set_shape(value.shape)
    return [None, cotangent, None, g]


define(
    "TensorArraySplit",
    "handle: resource, value: T, lengths: host int32, flow: host float32 -> flow_out: host float32",
    where=_WHERE,
    shape=infer_scalar,
    rules=[
        NoRetry(),
        StoresElement(lambda op: Shape([None]) + op.inputs[1].shape[1:]),
        WarnsUnused(_UNUSED),
        writes(1),
    ],
    kernel=_split_value,
    gradient=_split_gradient,
    effects=Effect.WRITES,
)

define(
    "TensorArraySize",
    "handle: resource, flow: host float32 -> size: host int32",
    shape=infer_scalar,
    kernel=lambda xp, context, array, flow: np.int32(array.size),
    gradient=NotDifferentiable("its result is an integer"),
    effects=Effect.READS,
)

define(
    "TensorArrayClose",
    "handle: resource, flow: host float32 ->",
    shape=infer_nothing,
    kernel=lambda xp, context, array, flow: array.close(),
    gradient=NotDifferentiable("it has no value"),
    effects=Effect.WRITES,
)

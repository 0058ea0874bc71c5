"""Operations of ``tensor[...]``: integers, slices, ellipsis and new axes, with bounds known or computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.indexing import DYNAMIC, Dynamic, slice_tensor, whole_rows
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched, TakesRow
from ...ir.rules.fusing import AddsPart
from ...ir.rules.kernels import Elements, KeepsSize
from ...ir.rules.placing import TakesPart
from ...ir.rules.shapes import ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape, static_value
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, index_tensor, shape_in
from ..support.batching import emit_copy
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST, linear
from ..support.vectorizing.indexing import strided_slice_examples, strided_slice_grad_examples

_X = np.arange(12.0).reshape(3, 4)
_SPEC = (slice(None, None, -1), DYNAMIC)


def _fill_bounds(spec: Iterable[Any], bounds: Iterable[Any]) -> tuple[Any, ...]:
    """Replace each DYNAMIC bound of the spec by the next of `bounds`."""
    values = iter(bounds)

    def fill_part(part: Any) -> Any:
        if isinstance(part, slice):
            # the inputs hold the bounds of each slice in the order start, stop, step
            return slice(fill_part(part.start), fill_part(part.stop), fill_part(part.step))
        return next(values) if isinstance(part, Dynamic) else part

    return tuple(map(fill_part, spec))


def _known_bound(tensor: Tensor) -> Any:
    value = static_value(tensor)
    return DYNAMIC if value is None else int(value)


def _expand_ellipsis(spec: tuple[Any, ...], rank: int) -> list[Any]:
    """Replace the ellipsis (or append a missing one) by whole slices, a part for every dimension."""
    # new axes and the ellipsis stand for no single dimension of the tensor
    used = sum(part is not None and part is not Ellipsis for part in spec)
    dots = [i for i, part in enumerate(spec) if part is Ellipsis]
    if used > rank or len(dots) > 1:
        raise ShapeError(
            "a tensor has fewer dimensions than indices",
            wanted=f"at most {rank} and one ...",
            got=spec,
            hint="use expand_dims, or None, for new dimensions",
        )
    at = dots[0] if dots else len(spec)
    return [*spec[:at], *[slice(None)] * (rank - used), *spec[at + 1 :]]


def _sliced_length(size: int | None, part: slice) -> int | None:
    """Return the length of a slice of a dimension; None where a bound or the size is unknown."""
    if part.step == 0:
        raise ShapeError(
            "the step of a slice cannot be zero",
            got=part,
            wanted="any other integer",
            hint="use broadcast_to to repeat an element",
        )
    # a whole dimension keeps its size, in reverse order too
    if part in (slice(None), slice(None, None, -1)):
        return size
    if size is None or any(isinstance(b, Dynamic) for b in (part.start, part.stop, part.step)):
        return None
    return len(range(*part.indices(size)))


def _check_index(size: int | None, index: Any) -> None:
    """Raise ShapeError if the index and the size are known, and the index is out of range."""
    if size is not None and not isinstance(index, Dynamic) and not -size <= index < size:
        raise ShapeError(
            "an index is out of range",
            wanted=f"{-size} to {size - 1}",
            got=index,
            hint="negative numbers count from the end; a slice may reach further",
        )


def _strided_shape(op: Operation) -> Shape:
    """Infer the shape, part by part; ShapeError for an index out of range."""
    x = op.inputs[0].shape
    if x.rank is None:
        return x
    dims = iter(x)
    result: list[int | None] = []
    for part in _expand_ellipsis(_fill_bounds(op.attrs["spec"], map(_known_bound, op.inputs[1:])), x.rank):
        if part is None:
            result.append(1)
        elif isinstance(part, slice):
            result.append(_sliced_length(next(dims), part))
        else:
            _check_index(next(dims), part)
    return Shape(result)


def _slice_key(spec: tuple[Any, ...], bounds: tuple[Any, ...]) -> tuple[Any, ...]:
    key = _fill_bounds(spec, map(int, bounds))
    # with an ellipsis NumPy returns an array of rank 0 instead of a scalar
    return key if any(part is Ellipsis for part in key) else (*key, Ellipsis)


def _strided_gradient(op: Operation, g: Tensor) -> list[Any]:
    x, *bounds = op.inputs
    return [apply("StridedSliceGrad", shape_of(x), g, bounds, spec=op.attrs["spec"]), *[None] * len(bounds)]


def _sliced_shape(op: Operation) -> Shape | None:
    """Return the known part of a slice of a shape, or of a single size."""
    spec = op.attrs["spec"]
    # as in x.shape[1:] and x.shape[0]; other indices of shapes are rare
    if len(spec) != 1 or not isinstance(spec[0], (int, slice)):
        return None
    if isinstance(spec[0], slice):
        bounds = (spec[0].start, spec[0].stop, spec[0].step)
        return None if any(isinstance(b, Dynamic) for b in bounds) else static_shape(op.inputs[0])[spec[0]]
    shape = static_shape(op.inputs[0])
    known = shape.rank is not None and -shape.rank <= spec[0] < shape.rank
    return Shape([shape[spec[0]]]) if known else None


def _batch_slice(op: Operation, varying: Sequence[bool]) -> Batched | None:
    if not varying[0] or any(varying[1:]):
        return None
    # a whole slice in front of the others keeps all instances
    return lambda builder, operands: emit_copy(builder, op, operands, spec=(slice(None), *op.attrs["spec"]))


def _source_row(op: Operation) -> tuple[Tensor, Tensor] | None:
    x, *bounds = op.inputs
    spec = op.attrs["spec"]
    return (x, bounds[0]) if spec and spec[0] is DYNAMIC and len(bounds) == 1 and whole_rows(spec) else None


define(
    "StridedSlice",
    "input: T, bounds: host *any -> output: T",
    rules=[
        Vectorize(strided_slice_examples),
        LINEAR_IN_FIRST,
        Batch(_batch_slice),
        TakesRow(_source_row),
        TakesPart(),
        ShapeVector(_sliced_shape),
        KeepsSize(),
    ],
    attrs={"spec": REQUIRED},
    shape=_strided_shape,
    kernel=lambda xp, x, *bounds, spec: x[_slice_key(spec, bounds)],
    gradient=_strided_gradient,
    samples=[
        Sample([_X, []], f64([[1, 3], [9, 11]]), {"spec": (slice(None, None, 2), slice(1, None, 2))}),
        Sample([_X, [np.int32(1)]], f64([9, 5, 1]), {"spec": _SPEC}),
        Sample([_X, []], f64([[3], [7], [11]]), {"spec": (..., None, -1)}),
        Sample([_X, []], np.float64(6), {"spec": (1, 2)}),
    ],
)


def _strided_scatter(xp: Any, shape: Any, dy: Any, *bounds: Any, spec: tuple[Any, ...]) -> Any:
    out = xp.zeros(as_sizes(shape), dtype=dy.dtype)
    # a slice names no element twice, so that an assignment is enough for the sum of gradients
    out[_slice_key(spec, bounds)] = dy
    return out


def _strided_grad_gradient(op: Operation, g: Tensor) -> list[Any]:
    bounds = op.inputs[2:]
    return [None, apply("StridedSlice", g, bounds, spec=op.attrs["spec"]), *[None] * len(bounds)]


define(
    "StridedSliceGrad",
    "shape: host I, dy: T, bounds: host *any -> dx: T",
    where={"I": dtypes.INDEX},
    attrs={"spec": REQUIRED},
    shape=lambda op: static_shape(op.inputs[0]),
    rules=[Vectorize(strided_slice_grad_examples), linear(1), Elements(shape_in(0)), AddsPart("AddToSlice")],
    kernel=_strided_scatter,
    gradient=_strided_grad_gradient,
    samples=[Sample([i32([2, 2]), f64([7, 8]), [np.int32(1)]], f64([[0, 8], [0, 7]]), {"spec": _SPEC})],
)


def _add_to_slice(xp: Any, total: Any, shape: Any, dy: Any, *bounds: Any, spec: tuple[Any, ...]) -> Any:
    if total.shape != as_sizes(shape) or not total.ndim:
        return total + _strided_scatter(xp, shape, dy, *bounds, spec=spec)
    result = total.copy()
    result[_slice_key(spec, bounds)] += dy
    return result


# A tensor and a StridedSliceGrad added up: the `add_parts` pass makes it of both.
define(
    "AddToSlice",
    "total: T, shape: host I, dy: T, bounds: host *any -> sum: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    attrs={"spec": REQUIRED},
    shape=lambda op: op.inputs[0].shape.broadcast(static_shape(op.inputs[1])),
    kernel=keep_dtype(_add_to_slice),
    gradient=NotDifferentiable("it is made after gradients are"),
    samples=[
        Sample(
            [_X, i32([3, 4]), f64([7, 8, 9]), [np.int32(1)]],
            _X + [[0, 9, 0, 0], [0, 8, 0, 0], [0, 7, 0, 0]],
            {"spec": _SPEC},
        ),
        Sample(
            [_X[:1], i64([3, 4]), np.float64(5), []],
            _X[[0, 0, 0]] + [[0], [5], [0]] * f64([0, 0, 1, 0]),
            {"spec": (1, 2)},
        ),
    ],
)


@public
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    name: str | None = None,
) -> Tensor:
    """Slice with vectors of bounds: ``input_[begin:end:strides]`` for every dimension.

    Parameters
    ----------
    input_ : Tensor of any dtype and shape
    begin, end, strides : int32 or int64 vectors of the same, statically known length
        First index, index after the last, and step (1 when None).
    begin_mask, end_mask : int
        Bit i: the bound i is open.
    ellipsis_mask, new_axis_mask, shrink_axis_mask : int
        Bit i: entry i stands for ``...``, for a new axis of size 1, or for the index ``begin[i]``.

    Returns
    -------
    Tensor
        Of the dtype of `input_`.

    Raises
    ------
    GraphError
        If the vectors have unknown or different lengths.
    ShapeError
        If there are more entries than dimensions, or an index is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.strided_slice(tg.range(10), [1], [9], [3])).sync()
    array([1, 4, 7], dtype=int32)
    >>> tg.function(lambda: tg.strided_slice([[1, 2], [3, 4]], [0, -1], [2, 0], shrink_axis_mask=0b10)).sync()
    array([2, 4], dtype=int32)
    """
    starts, stops = _vector_entries(begin), _vector_entries(end)
    steps = [None] * len(starts) if strides is None else _vector_entries(strides)
    if not len(starts) == len(stops) == len(steps):
        raise GraphError(
            "begin, end and strides have different lengths",
            got=(len(starts), len(stops), len(steps)),
            wanted="one length",
            hint="give one entry for each dimension that is sliced",
        )

    def slice_part(i: int) -> Any:
        bit = 1 << i
        # in the precedence of TensorFlow
        if ellipsis_mask & bit:
            return Ellipsis
        if new_axis_mask & bit:
            return None
        if shrink_axis_mask & bit:
            return starts[i]
        return slice(None if begin_mask & bit else starts[i], None if end_mask & bit else stops[i], steps[i])

    result = slice_tensor(convert_to_tensor(input_), tuple(slice_part(i) for i in range(len(starts))))
    return result if name is None else apply("Identity", result, name=name)


def _vector_entries(vector: Any) -> list[Any]:
    """Return the entries of a vector: numbers where known, otherwise scalar tensors."""
    if isinstance(vector, (list, tuple)):
        return list(vector)
    tensor = index_tensor(vector)
    value = static_value(tensor)
    if value is not None:
        entries: list[Any] = value.tolist()
        return entries
    if tensor.rank != 1 or tensor.shape[0] is None:
        raise GraphError(
            "the length of this vector has to be known while the graph is built",
            got=tensor,
            wanted="a vector of known length",
            operation=tensor.op,
            hint="give it a shape with set_shape, or use slice",
        )
    return [tensor[i] for i in range(tensor.shape[0])]

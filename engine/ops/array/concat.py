"""Tensors joined along an axis and split again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.fusing import Fusion, StepWriter, all_inputs
from ...ir.rules.kernels import KeepsSize
from ...ir.rules.shapes import ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_dimension, static_shape
from ...ir.tensor import Tensor
from ..support.arguments import axis_within, index_tensor, partial_values, static_int, sum_of, with_dimension
from ..support.batching import batch_along
from ..support.common import cotangents_of, size_along
from ..support.fusing import first_input, has_rows, is_along_last, is_register
from ..support.late_axes import axis_to_front, concat_along_late, late_axis, permute_dimensions
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR, LINEAR_IN_FIRST
from ..support.vectorizing.families import along

_X = np.arange(6.0).reshape(2, 3)


def _list_tensors(values: Any, function: str) -> list[Any]:
    """Return the tensors as a list; GraphError unless `values` is a tensor or a sequence with elements."""
    if isinstance(values, Tensor):
        return [values]
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes)):
        raise GraphError(
            f"{function} takes a list of tensors",
            wanted="a list or tuple of tensors",
            got=repr(values),
            hint=f"{function}([a, b], axis=0)"
            if function == "stack"
            else f"{function}([a, b], axis=0), the list first",
        )
    if not len(values):
        raise GraphError(
            f"{function} needs at least one tensor",
            got=values,
            wanted="one or more",
            hint="use zeros with a dimension of 0 for nothing",
        )
    return list(values)


def _merge_shapes(shapes: Sequence[Shape], what: str) -> Shape:
    """Merge the shapes; ShapeError with the text `what` if two are known to differ."""
    result = Shape(None)
    for shape in shapes:
        if not result.is_compatible_with(shape):
            raise ShapeError(what, wanted=result, got=shape, hint="reshape, pad or slice the one that differs")
        result = result.merge(shape)
    return result


def _concat_shape(op: Operation) -> Shape:
    """Infer the shape; the size along the axis is the sum of the sizes of the inputs."""
    rank = next((t.rank for t in op.inputs if t.rank is not None), None)
    if rank is None:
        return Shape(None)
    axis = axis_within(op.attrs["axis"], rank)
    # sizes along the axis may differ, so they are left open while the shapes are merged
    open_shapes = [t.shape if t.rank != rank else with_dimension(t.shape, axis, None) for t in op.inputs]
    result = _merge_shapes(open_shapes, f"concat needs equal shapes except along axis {axis}")
    return with_dimension(result, axis, sum_of([t.shape[axis] for t in op.inputs]))


def _concat_gradient(op: Operation, g: Tensor) -> list[Any]:
    axis = op.attrs["axis"]
    # sizes of the step: static shapes may lack the size along the axis
    sizes = apply("Stack", [size_along(t, axis) for t in op.inputs], axis=0)
    return apply("SplitV", g, sizes, num=len(op.inputs), axis=axis)


def _joined_shape(op: Operation) -> Shape:
    """Return the shape given by the concatenated vectors of sizes."""
    result = Shape(())
    for part in op.inputs:
        result = result + static_shape(part)
    return result


def _keeps_rows(reads: Callable[[Operation], Sequence[Tensor]]) -> Callable[[Operation], bool]:
    """Return a predicate: the operation joins or cuts rows along the last dimension, and `reads` has known sizes."""

    def keeps_whole_rows(op: Operation) -> bool:
        whole = reads(op)
        return is_along_last(op) and all(is_register(t.shape) and has_rows(t.shape, op.outputs[0].shape) for t in whole)

    return keeps_whole_rows


def _concat_steps(op: Operation, writer: StepWriter) -> None:
    writer.add("concat", op.inputs, op.outputs[0])


def _write_slices(op: Operation, writer: StepWriter) -> None:
    """Write a fused slice of the last dimension for each piece."""
    start = 0
    for piece in op.outputs:
        stop = start + piece.shape[-1]
        writer.add("slice", op.inputs[:1], piece, (start, stop))
        start = stop


_SPLIT = Fusion(_keeps_rows(first_input), _write_slices, first_input, moves=True)

define(
    "Concat",
    "values: *T -> output: T",
    rules=[
        Vectorize(along()),
        LINEAR,
        Batch(batch_along()),
        ShapeVector(_joined_shape),
        Fusion(_keeps_rows(all_inputs), _concat_steps, moves=True),
    ],
    attrs={"axis": REQUIRED},
    shape=_concat_shape,
    kernel=lambda xp, *arrays, axis: xp.concatenate(arrays, axis=axis),
    gradient=_concat_gradient,
    samples=[
        Sample([[_X, 10 + _X[:, :1]]], f64([[0, 1, 2, 10], [3, 4, 5, 13]]), {"axis": -1}),
        Sample([[i32([1]), i32([2, 3])]], i32([1, 2, 3]), {"axis": 0}),
    ],
)


@public
def concat(values: Any, axis: Any, name: str | None = None) -> Tensor:
    """Join tensors along an existing axis.

    Parameters
    ----------
    values : sequence of Tensor
        Of equal dtypes and ranks (at least 1), equal sizes except along `axis`.
    axis : int, or int32 or int64 scalar

    Returns
    -------
    Tensor
        The size along `axis` is the sum of the sizes of the inputs.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.concat([[[1, 2]], [[3, 4], [5, 6]]], axis=0)).sync()
    array([[1, 2],
           [3, 4],
           [5, 6]], dtype=int32)
    """
    late = late_axis(axis)
    if late is not None:
        return concat_along_late(_list_tensors(values, "concat"), late, name)
    return apply("Concat", _list_tensors(values, "concat"), name=name, axis=static_int(axis))


def _stack_shape(op: Operation) -> Shape:
    each = _merge_shapes([t.shape for t in op.inputs], "stack needs equal shapes")
    if each.rank is None:
        return each
    axis = axis_within(op.attrs["axis"], each.rank + 1)
    return Shape([*each.dims[:axis], len(op.inputs), *each.dims[axis:]])


def _stacked_shape(op: Operation) -> Shape | None:
    # a vector of scalars may be the shape of another tensor
    return Shape([static_dimension(t) for t in op.inputs]) if all(t.shape == SCALAR for t in op.inputs) else None


define(
    "Stack",
    "values: *T -> output: T",
    attrs={"axis": 0},
    shape=_stack_shape,
    rules=[Vectorize(along(new_axes=1)), LINEAR, ShapeVector(_stacked_shape)],
    kernel=lambda xp, *arrays, axis: xp.stack(arrays, axis=axis),
    gradient=lambda op, g: apply("Unstack", g, num=len(op.inputs), axis=op.attrs["axis"]),
    samples=[
        Sample([[_X[0], _X[1]]], f64([[0, 3], [1, 4], [2, 5]]), {"axis": 1}),
        Sample([[np.int32(1), np.int32(2)]], i32([1, 2])),
    ],
)


def stack(values: Any, axis: Any = 0, name: str | None = None) -> Tensor:
    """Join tensors of equal shape along a new axis.

    Parameters
    ----------
    values : sequence of Tensor
        Of equal dtypes and shapes.
    axis : int
        Position of the new axis in the result.

    Returns
    -------
    Tensor
        With an additional dimension.

    Raises
    ------
    ShapeError
        If the shapes differ.
    """
    return apply("Stack", _list_tensors(values, "stack"), name=name, axis=static_int(axis))


def _unstack_shape(op: Operation) -> list[Shape]:
    """Infer the shape of each row; ShapeError if `num` is known not to be the number of rows."""
    x, num = op.inputs[0].shape, op.attrs["num"]
    if num < 0:
        raise ShapeError("unstack makes one tensor for each row", wanted="0 or more", got=num, hint="leave num= out")
    if x.rank is None:
        return [x] * num
    axis = axis_within(op.attrs["axis"], x.rank)
    if x[axis] not in (num, None):
        raise ShapeError(
            "unstack makes one tensor for each row",
            wanted=x[axis],
            got=num,
            hint="leave num= out where the number of rows is known",
        )
    return [Shape([*x.dims[:axis], *x.dims[axis + 1 :]])] * num


def _compute_unstack(xp: Any, x: Any, num: int, axis: int) -> list[Any]:
    if x.shape[axis] != num:
        raise ValueError(f"unstack: there are {x.shape[axis]} rows along axis {axis}, not {num}")
    rows = xp.moveaxis(x, axis, 0)
    # with the ellipsis the rows of a vector are arrays of rank 0, not scalars
    return [rows[i, ...] for i in range(num)]


define(
    "Unstack",
    "value: T -> output: num*T",
    attrs={"num": REQUIRED, "axis": 0},
    shape=_unstack_shape,
    kernel=_compute_unstack,
    rules=[Vectorize(along()), LINEAR_IN_FIRST],
    gradient=lambda op, *gs: [apply("Stack", cotangents_of(op, gs), axis=op.attrs["axis"])],
    samples=[Sample([_X], (f64([0, 3]), f64([1, 4]), f64([2, 5])), {"num": 3, "axis": -1})],
)


@public
def unstack(value: Any, num: int | None = None, axis: Any = 0, name: str | None = None) -> list[Tensor]:
    """Split a tensor into its rows along an axis.

    Parameters
    ----------
    value : Tensor of any dtype and rank at least 1
    num : int, optional
        Number of rows; needed unless known statically.
    axis : int

    Returns
    -------
    list of Tensor
        Without the axis.

    Raises
    ------
    ShapeError
        If `num` is unknown, or not the number of rows.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unstack([[1, 2], [3, 4]])).sync()
    [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    >>> tg.function(lambda: tg.unstack([[1, 2], [3, 4]], axis=1)).sync()
    [array([1, 3], dtype=int32), array([2, 4], dtype=int32)]
    """
    tensor, axis = convert_to_tensor(value), static_int(axis)
    if num is None and tensor.rank is not None:
        num = tensor.shape[axis_within(axis, tensor.rank)]
    if num is None:
        raise ShapeError("the number of rows is not known", got=tensor.shape, hint="give num=, or use a TensorArray")
    return apply("Unstack", tensor, name=name, num=num, axis=axis)


def _split_shape(op: Operation) -> list[Shape]:
    """Infer the shape of `num` equal pieces; ShapeError if the size is not a multiple of `num`."""
    x, num = op.inputs[0].shape, op.attrs["num"]
    if num < 1:
        raise ShapeError(
            "split makes at least one part",
            got=num,
            wanted="1 or more",
            hint="give the number of pieces, or their sizes",
        )
    if x.rank is None:
        return [x] * num
    axis = axis_within(op.attrs["axis"], x.rank)
    if x[axis] is not None and x[axis] % num:
        raise ShapeError(
            "split needs a size that can be divided evenly",
            wanted=f"a multiple of {num}",
            got=x[axis],
            hint="give a list of sizes instead of their number",
        )
    return [with_dimension(x, axis, None if x[axis] is None else x[axis] // num)] * num


def _concat_cotangents(op: Operation, *cotangents: Any) -> list[Any]:
    joined = apply("Concat", cotangents_of(op, cotangents), axis=op.attrs["axis"])
    # the other input, if any, is the sizes of a SplitV
    return [joined, *[None] * (len(op.inputs) - 1)]


define(
    "Split",
    "value: T -> output: num*T",
    rules=[Vectorize(along()), LINEAR_IN_FIRST, Batch(batch_along()), _SPLIT],
    attrs={"num": REQUIRED, "axis": 0},
    shape=_split_shape,
    kernel=lambda xp, x, num, axis: xp.split(x, num, axis=axis),
    gradient=_concat_cotangents,
    samples=[Sample([np.arange(4.0)], (f64([0, 1]), f64([2, 3])), {"num": 2})],
)


def _split_v_shape(op: Operation) -> list[Shape]:
    """Infer the shape of each piece from the sizes known; ShapeError if their number is not `num`."""
    x, num = op.inputs[0].shape, op.attrs["num"]
    sizes = partial_values(op.inputs[1]) or [None] * num
    if len(sizes) != num:
        raise ShapeError(
            "split needs one size for each part",
            wanted=num,
            got=len(sizes),
            hint="leave num= out where the length of the sizes is known",
        )
    _check_sizes(sizes)
    if x.rank is None:
        return [x] * num
    axis = axis_within(op.attrs["axis"], x.rank)
    return [with_dimension(x, axis, d) for d in _complete_sizes(sizes, x[axis])]


def _check_sizes(sizes: Sequence[int | None]) -> None:
    """Raise ShapeError for more than a single -1, or a size below -1, among the known sizes."""
    # Also where nothing remains: several pieces of 0 rows would hide the mistake until there are rows.
    negative = [d for d in sizes if d is not None and d < 0]
    if negative not in ([], [-1]):
        raise ShapeError(
            "split cannot tell how much each of these pieces takes",
            wanted="sizes >= 0, at most one -1",
            got=list(sizes),
            hint="one of them may be -1: it takes the rest",
        )


def _complete_sizes(sizes: Sequence[int | None], total: int | None) -> list[int | None]:
    """Compute a single missing size; ShapeError if the sizes do not add up to `total`."""
    known = sum(d for d in sizes if d is not None and d >= 0)
    missing = sum(d is None or d < 0 for d in sizes)
    # two missing sizes, or an unknown total, are left for the step
    if missing > 1 or total is None:
        return [None if d is None or d < 0 else d for d in sizes]
    if known > total or (not missing and known != total):
        raise ShapeError(
            "the sizes of a split have to add up",
            wanted=total,
            got=list(sizes),
            hint="one of them may be -1: it takes the rest",
        )
    return [total - known if d is None or d < 0 else d for d in sizes]


def _split_v(xp: Any, x: Any, sizes: Any, num: int, axis: int) -> list[Any]:
    """Cut `x` into pieces of the given sizes; a size of -1 takes the remaining rows."""
    lengths = sizes.tolist()
    _check_sizes(lengths)
    rest = x.shape[axis] - sum(n for n in lengths if n >= 0)
    lengths = [rest if n < 0 else n for n in lengths]
    if len(lengths) != num or rest < 0 or sum(lengths) != x.shape[axis]:
        raise ValueError(f"split: sizes {sizes.tolist()} do not make {num} parts of {x.shape[axis]} rows")
    # xp.split takes the ends of all pieces except the last
    pieces: list[Any] = xp.split(x, np.cumsum(lengths)[:-1].tolist(), axis=axis)
    return pieces


define(
    "SplitV",
    "value: T, sizes: host I -> output: num*T",
    rules=[Vectorize(along()), LINEAR_IN_FIRST, Batch(batch_along()), KeepsSize(), _SPLIT],
    where={"I": dtypes.INDEX},
    attrs={"num": REQUIRED, "axis": 0},
    shape=_split_v_shape,
    kernel=_split_v,
    gradient=_concat_cotangents,
    samples=[
        Sample([_X, i32([1, -1])], (_X[:, [0]], _X[:, [1, 2]]), {"num": 2, "axis": 1}),
        Sample([_X, i64([2, 0])], (_X, np.zeros((0, 3))), {"num": 2}),
    ],
)


@public
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str | None = None
) -> list[Tensor]:
    """Split a tensor into pieces along an axis.

    Parameters
    ----------
    value : Tensor of any dtype and rank at least 1
    num_or_size_splits : int, or int32 or int64 vector
        Number of equal pieces; or the sizes of the pieces, at most a single -1 among them.
    axis : int, or int32 or int64 scalar
    num : int, optional
        Number of pieces, when the length of a vector of sizes is not known statically.

    Returns
    -------
    list of Tensor
        Of the rank of `value`.

    Raises
    ------
    ShapeError
        If the pieces do not add up, or several sizes are -1, or a size is less.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.split(tg.range(4), 2)).sync()
    [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    >>> tg.function(lambda: tg.split(tg.range(4), [1, -1])).sync()
    [array([0], dtype=int32), array([1, 2, 3], dtype=int32)]
    """
    late = late_axis(axis)
    if late is not None:
        moved, back = axis_to_front(convert_to_tensor(value), late)
        return [permute_dimensions(piece, back, name) for piece in split(moved, num_or_size_splits, 0, num)]
    axis = static_int(axis)
    if isinstance(num_or_size_splits, (int, np.integer)):
        return apply("Split", value, name=name, num=int(num_or_size_splits), axis=axis)
    sizes = index_tensor(num_or_size_splits)
    # a scalar is the number of pieces, and so of outputs, which the graph has to know
    if sizes.rank == 0:
        return apply("Split", value, name=name, num=static_int(sizes, "num_or_size_splits"), axis=axis)
    num = sizes.shape[0] if num is None else num
    if num is None:
        raise ShapeError("the number of pieces is not known", got=sizes.shape, hint="give num=")
    return apply("SplitV", value, sizes, name=name, num=num, axis=axis)

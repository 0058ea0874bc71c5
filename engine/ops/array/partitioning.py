"""Rows distributed over several tensors by part number, and merged from several tensors by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor, list_argument, static_int
from ..support.array_library import last_writers
from ..support.bounds import check_bounds
from ..support.common import cotangents_of, shape_of
from ..support.literals import f64, i32, i64
from ..support.vectorizing.families import one_by_one

_X = f64([[1, 2], [3, 4], [5, 6]])


def _partition_shape(op: Operation) -> list[Shape]:
    """Infer `num` shapes of an unknown number of rows; ShapeError if the partitions do not fit."""
    data, partitions = (t.shape for t in op.inputs)
    if op.attrs["num"] < 1:
        raise ShapeError(
            "dynamic_partition makes at least one part",
            wanted="1 or more",
            got=op.attrs["num"],
            hint="give the number of parts as num_partitions",
        )
    if data.rank is None or partitions.rank is None:
        return [Shape(None)] * op.attrs["num"]
    if not data[: partitions.rank].is_compatible_with(partitions):
        raise ShapeError(
            "the partitions have to fit the leading dimensions of the data",
            wanted=data,
            got=partitions,
            hint="give one number for each row",
        )
    # the values of the partitions decide how many rows each part has
    return [Shape([None]) + data[partitions.rank :]] * op.attrs["num"]


def _compute_partition(xp: Any, data: Any, partitions: Any, num: int) -> list[Any]:
    """Select the rows of each part by comparing the part numbers."""
    if data.shape[: partitions.ndim] != partitions.shape:
        raise ValueError(f"dynamic_partition: partitions {partitions.shape} do not fit data {data.shape}")
    check_bounds(partitions, num, "dynamic_partition")
    numbers = partitions.reshape(-1)
    rows = data.reshape(numbers.size, *data.shape[partitions.ndim :])
    return [rows[numbers == i] for i in range(num)]


def _partition_gradient(op: Operation, *gs: Tensor | None) -> list[Any]:
    """Stitch the cotangents of the rows back together; partitioning the row positions yields the indices."""
    data, partitions = op.inputs
    places = apply("Range", constant(i32(0)), apply("Size", partitions), constant(i32(1)))
    dealt = apply("DynamicPartition", apply("Reshape", places, shape_of(partitions)), partitions, num=op.attrs["num"])
    return [apply("Reshape", apply("DynamicStitch", dealt, cotangents_of(op, gs)), shape_of(data)), None]


define(
    "DynamicPartition",
    "data: T, partitions: I -> outputs: num*T",
    where={"I": dtypes.INDEX},
    attrs={"num": REQUIRED},
    shape=_partition_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_compute_partition,
    gradient=_partition_gradient,
    samples=[
        Sample([_X, i32([1, 0, 1])], (f64([[3, 4]]), f64([[1, 2], [5, 6]])), {"num": 2}),
        Sample([_X, i64([[2, 0], [0, 2], [2, 2]])], (f64([2, 3]), f64([]), f64([1, 4, 5, 6])), {"num": 3}),
        Sample([f64(7), i32(0)], (f64([7]),), {"num": 1}),
    ],
)


@public
def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Distribute rows over several tensors.

    In Python: ``[data[partitions == i] for i in range(num_partitions)]``.

    Parameters
    ----------
    data : Tensor of any dtype
    partitions : int32 or int64 Tensor
        The part number of each row, in [0, num_partitions); of the shape of the leading dimensions of `data`.
    num_partitions : int

    Returns
    -------
    list of Tensor
        For each part its rows, in their order, of shape ``[n] + data.shape[partitions.rank:]``; `dynamic_stitch` is
        the inverse.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit, or there is no part.
    OpError
        When the step runs, if a number is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> even, odd = tg.function(lambda: tg.dynamic_partition(tg.range(5), tg.range(5) % 2, 2)).sync()
    >>> even.tolist(), odd.tolist()
    ([0, 2, 4], [1, 3])
    """
    num = static_int(num_partitions, "num_partitions")
    return apply("DynamicPartition", data, index_tensor(partitions), name=name, num=num)


def _split_in_halves(arrays: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]


def _stitch_shape(op: Operation) -> Shape:
    """Infer the shape; the number of rows is known where all indices are."""
    indices, data = _split_in_halves(op.inputs)
    row = Shape(None)
    for index, values in zip(indices, data, strict=True):
        if index.rank is None or values.rank is None:
            continue
        if not values.shape[: index.rank].is_compatible_with(index.shape):
            raise ShapeError(
                "dynamic_stitch: data have to have a row for each index",
                wanted=f"a shape that begins with {index.shape}",
                got=values.shape,
                hint="data[m] has the shape indices[m].shape + the shape of a row",
            )
        row = row.merge(values.shape[index.rank :])
    known = [value for index in indices if (value := static_value(index)) is not None]
    # -1 without indices: then the result has no rows
    largest = max((int(value.max()) for value in known if value.size), default=-1)
    return Shape([largest + 1 if len(known) == len(indices) else None]) + row


def _where_true(xp: Any, mask: Any, rows: Any) -> Any:
    """Return the rows, with zeros where the mask is false."""
    return xp.where(mask.reshape(-1, *[1] * (rows.ndim - 1)), rows, xp.zeros((), rows.dtype))


def _compute_stitch(xp: Any, *arrays: Any) -> Any:
    """Put rows at their indices; the last row for an index wins, missing indices get zeros."""
    indices, data = _split_in_halves(arrays)
    row = data[0].shape[indices[0].ndim :]
    for index, values in zip(indices, data, strict=True):
        if values.shape != index.shape + row:
            raise ValueError(f"dynamic_stitch: data {values.shape} do not fit indices {index.shape} and rows {row}")
    places = xp.concatenate([index.reshape(-1) for index in indices])
    values = xp.concatenate([v.reshape(i.size, *row) for i, v in zip(indices, data, strict=True)])
    if not places.size:
        return values
    if int(places.min()) < 0:
        raise IndexError(f"dynamic_stitch: indices have to be at least 0, got {int(places.min())}")
    # absent indices have -1, the last row, in `last`; the mask replaces these rows by zeros
    last = last_writers(xp, places, int(places.max()) + 1)
    return _where_true(xp, last >= 0, values[last])


define(
    "DynamicStitch",
    "indices: *I, data: *T -> merged: T",
    where={"I": dtypes.INDEX},
    shape=_stitch_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_compute_stitch,
    gradient=lambda op, g: [None] * (len(op.inputs) // 2) + _stitch_gradients(op, g),
    samples=[
        Sample([[i32([2, 0]), i32(1)], [f64([[1, 2], [3, 4]]), f64([5, 6])]], f64([[3, 4], [5, 6], [1, 2]])),
        Sample([[i64([[0, 3]]), i64([3, 3])], [f64([[1, 2]]), f64([3, 4])]], f64([1, 0, 0, 4])),
        Sample([[i32([])], [f64([])]], f64([])),
    ],
)


def _stitch_gradients(op: Operation, g: Tensor) -> list[Tensor]:
    indices, _ = _split_in_halves(op.inputs)
    return apply("DynamicStitchGrad", g, indices, num=len(indices))


def _stitch_grad(xp: Any, g: Any, *indices: Any, num: int) -> list[Any]:
    places = xp.concatenate([index.reshape(-1) for index in indices])
    # rows overwritten by a later row of the same index get no gradient
    written = last_writers(xp, places, g.shape[0])[places] == xp.arange(places.size)
    rows = _where_true(xp, written, g[places])
    # where the rows of each tensor end among the rows of all
    ends = [sum(i.size for i in indices[: k + 1]) for k in range(num)]
    return [rows[e - i.size : e].reshape(*i.shape, *g.shape[1:]) for i, e in zip(indices, ends, strict=True)]


define(
    "DynamicStitchGrad",
    "g: T, indices: *I -> dx: num*T",
    where={"T": dtypes.DIFFERENTIABLE, "I": dtypes.INDEX},
    attrs={"num": REQUIRED},
    shape=lambda op: [t.shape + op.inputs[0].shape[1:] for t in op.inputs[1:]],
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_stitch_grad,
    # a row without a gradient was overwritten by a later row, and is overwritten in this stitch too
    gradient=lambda op, *gs: [apply("DynamicStitch", op.inputs[1:], cotangents_of(op, gs)), *[None] * op.attrs["num"]],
    samples=[
        Sample([f64([1, 2, 3]), [i32([[0, 2]]), i32([2, 1])]], (f64([[1, 0]]), f64([3, 2])), {"num": 2}),
        Sample([f64([[1, 2]]), [i32(0)]], (f64([1, 2]),), {"num": 1}),
    ],
)


@public
def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Merge the rows of several tensors, each at its index.

    In Python: ``for i, rows in zip(indices, data): merged[i] = rows``. So the last row of a repeated index holds, and
    receives the whole gradient. An absent index has a row of zeros.

    Parameters
    ----------
    indices : list of int32 or int64 Tensor of any shapes
        Of equal dtypes; from 0 up.
    data : list of Tensor of equal dtypes
        Each of the shape of its indices, and of a row: ``indices[m].shape + row``.

    Returns
    -------
    Tensor
        Of shape ``[largest index + 1] + row``.

    Raises
    ------
    GraphError
        If there are no tensors, or the lists differ in length.
    ShapeError
        If the shapes are known not to fit.
    OpError
        When the step runs, if an index is negative or the shapes do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> def f(x):
    ...     sign = tg.cast(x > 0.0, "int32")
    ...     below, above = tg.dynamic_partition(x, sign, 2)
    ...     places = tg.dynamic_partition(tg.range(3), sign, 2)
    ...     return tg.dynamic_stitch(places, [tg.abs(below), tg.sqrt(above)])
    >>> tg.function(lambda: f(tg.constant([1.0, -2.0, 9.0]))).sync().tolist()
    [1.0, 2.0, 3.0]
    """
    example = "[i, j], [rows_at_i, rows_at_j]"
    indices, data = (list_argument(each, "dynamic_stitch", example=example) for each in (indices, data))
    if len(indices) != len(data) or not indices:
        raise GraphError(
            "dynamic_stitch takes a tensor of data for each of indices",
            wanted="two lists of one length, at least 1",
            got=f"{len(indices)} of indices, {len(data)} of data",
            hint="give dynamic_stitch([i, j], [rows_at_i, rows_at_j])",
        )
    return apply("DynamicStitch", list(map(index_tensor, indices)), list(data), name=name)

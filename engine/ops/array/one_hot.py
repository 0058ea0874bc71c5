"""One-hot vectors, and identity matrices, whose rows are one-hot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor, only_scalars, shape_vector, static_int
from ..support.batching import emit_copy
from ..support.common import scalar_like, shape_of, sum_to
from ..support.literals import f64, i32, i64
from ..support.vectorizing.indexing import one_hot_examples
from .creation import range


def _one_hot_shape(op: Operation) -> Shape:
    only_scalars(op, 1, 2, 3)
    indices, depth = op.inputs[0].shape, static_value(op.inputs[1])
    if indices.rank is None:
        return indices
    # Counted among the dimensions of the result.
    axis = op.attrs["axis"] % (indices.rank + 1)
    return Shape([*indices.dims[:axis], None if depth is None else int(depth), *indices.dims[axis:]])


def _one_hot(xp: Any, indices: Any, depth: Any, on: Any, off: Any, axis: int) -> Any:
    if int(depth) < 0:
        raise ValueError(f"one_hot: a depth cannot be negative, got {int(depth)}")
    # Compared with all classes: an index out of range makes a row without a mark, as in TensorFlow.
    hot = xp.moveaxis(indices[..., None] == xp.arange(int(depth)), -1, axis)
    return xp.where(hot, on, off)


def _one_hot_gradient(op: Operation, g: Tensor) -> list[Any]:
    indices, depth, on, off = op.inputs
    hot = apply("OneHot", indices, depth, scalar_like(1, g), scalar_like(0, g), axis=op.attrs["axis"])
    return [None, None, sum_to(g * hot, on), sum_to(g * (1 - hot), off)]


def _batch_one_hot(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Mark all indices at once, if the new dimension is the last."""
    # -1 is still the last dimension when the instances are in front.
    if any(varying[1:]) or op.attrs["axis"] not in (-1, op.inputs[0].rank):
        return None
    return lambda builder, operands: emit_copy(builder, op, operands, axis=-1)


define(
    "OneHot",
    "indices: I, depth: host int32, on_value: T, off_value: T -> output: T",
    where={"I": (dtypes.int8, dtypes.uint8, dtypes.int16, *dtypes.INDEX)},
    attrs={"axis": -1},
    rules=[
        Vectorize(one_hot_examples),
        Batch(_batch_one_hot),
        Elements(lambda indices, depth, *_, axis: indices.size * int(depth)),
    ],
    shape=_one_hot_shape,
    kernel=_one_hot,
    gradient=_one_hot_gradient,
    samples=[
        Sample(
            [i32([2, 0, 5]), np.int32(3), np.float64(4), np.float64(-1)],
            f64([[-1, -1, 4], [4, -1, -1], [-1] * 3]),
        ),
        Sample(
            [i64([1, 0]), np.int32(3), np.int32(1), np.int32(0)],
            i32([[0, 1], [1, 0], [0, 0]]),
            {"axis": 0},
        ),
    ],
)


def _hot_values(on: Any, off: Any, dtype: Any) -> list[Tensor]:
    """Return both values as tensors, with 1 and 0 as defaults in the dtype of the other value."""
    given = [convert_to_tensor(v, dtype) for v in (on, off) if v is not None]
    kind = dtypes.as_dtype(dtype or (given[0].dtype if given else dtypes.float32))
    one, zero = (constant(np.asarray(v).astype(kind.numpy)) for v in (1, 0))
    # A single given value is both the first and the last.
    return [one if on is None else given[0], zero if off is None else given[-1]]


@public
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Make, for each index, a row of length `depth` with `on_value` at the index.

    Parameters
    ----------
    indices : integer Tensor of any shape
        An index outside [0, depth) marks nothing.
    depth : int32 scalar
    on_value, off_value : scalars of the same dtype, optional
        1 and 0 of dtype `dtype` when None.
    axis : int, optional
        Position of the new dimension; last when None.
    dtype : dtype-like, optional
        Defaults to the dtype of the values, else float32.

    Returns
    -------
    Tensor
        With a dimension more than `indices`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.one_hot([2, 7], 3)).sync().tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    >>> tg.function(lambda: tg.one_hot([1], 2, on_value="hot", off_value="cold")).sync()
    array([['cold', 'hot']], dtype=StringDType())
    """
    place = -1 if axis is None else static_int(axis)
    marks = index_tensor(indices)
    if place < -1 or (marks.rank is not None and place > marks.rank):
        raise ShapeError(
            "one_hot has no such axis",
            wanted=f"-1 to {marks.rank}",
            got=place,
            operation=marks.op,
            hint="-1 is the last dimension of the result",
        )
    values = _hot_values(on_value, off_value, dtype)
    return apply("OneHot", marks, depth, *values, name=name, axis=place)


@public
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Make an identity matrix, or a batch of them.

    Parameters
    ----------
    num_rows, num_columns : int32 scalars
        As many columns as rows when None.
    batch_shape : int32 vector, optional
        Leading dimensions.
    dtype : dtype-like
        Bool or any numeric dtype.

    Returns
    -------
    Tensor
        Of shape ``batch_shape + [num_rows, num_columns]``.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.eye(2)).sync()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> tg.function(lambda: tg.eye(1, 3, dtype="int32")).sync()
    array([[1, 0, 0]], dtype=int32)
    """
    columns = num_rows if num_columns is None else num_columns
    matrix = one_hot(range(num_rows), columns, dtype=dtype, name=None if batch_shape is not None else name)
    if batch_shape is None:
        return matrix
    shape = apply("Concat", [shape_vector(batch_shape), shape_of(matrix)], axis=0)
    return apply("BroadcastTo", matrix, shape, name=name)

"""Broadcasting to a shape, and the sum to a smaller shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.fusing import Fusion
from ...ir.rules.kernels import Elements, KeepsSize
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, shape_in, shape_vector
from ..support.common import shape_of, sum_to
from ..support.fusing import first_input, fuse_broadcast, has_rows, is_register, reduce_by
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.shapes import broadcast_examples, sum_examples_to


def _check_broadcast_target(small: Shape, large: Shape) -> Shape:
    """Return the known sizes of `large`; ShapeError if `small` does not broadcast to `large`."""
    result = small.broadcast(large)
    if not result.is_compatible_with(large):
        raise ShapeError(
            "a shape does not broadcast to the other",
            wanted=large,
            got=small,
            hint="dimensions must be equal or 1; reshape or expand_dims first",
        )
    return large if result.rank is None else result


def _broadcast_shape(op: Operation) -> Shape:
    return _check_broadcast_target(op.inputs[0].shape, static_shape(op.inputs[1]))


define(
    "BroadcastTo",
    "input: T, shape: host I -> output: T",
    where={"I": dtypes.INDEX},
    shape=_broadcast_shape,
    rules=[Vectorize(broadcast_examples), LINEAR_IN_FIRST, Elements(shape_in(1)), fuse_broadcast()],
    # a copy, because broadcast_to returns a read-only view with overlapping elements
    kernel=lambda xp, x, shape: xp.broadcast_to(x, as_sizes(shape)).copy(),
    gradient=lambda op, g: [sum_to(g, op.inputs[0]), None],
    samples=[
        Sample([f64([[1], [2]]), i32([2, 2, 3])], lambda x, s: np.ones((2, 2, 3)) * x),
        Sample([np.float64(3), i64([2])], f64([3, 3])),
    ],
)


@public
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeat along missing dimensions and dimensions of size 1, as NumPy's broadcasting does.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    shape : int32 or int64 vector, or list of integers and scalar tensors

    Returns
    -------
    Tensor
        Of shape `shape`.

    Raises
    ------
    ShapeError
        If `input` does not broadcast to `shape`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.broadcast_to([[1], [2]], [2, 3])).sync()
    array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    return apply("BroadcastTo", input, shape_vector(shape), name=name)


def _sum_to_shape(op: Operation) -> Shape:
    target = static_shape(op.inputs[1])
    _check_broadcast_target(target, op.inputs[0].shape)
    return target


def _sum_to(xp: Any, x: Any, shape: Any) -> Any:
    """Sum over the dimensions of `x` that broadcasting from `shape` adds or enlarges."""
    sizes = as_sizes(shape)
    if x.shape == sizes:
        return x
    # dimensions are aligned at the last one, as in broadcasting
    extra = x.ndim - len(sizes)
    axes = (*range(extra), *(i + extra for i, n in enumerate(sizes) if n == 1 and x.shape[i + extra] != 1))
    # the dtype is explicit because NumPy sums small integers in int64
    return xp.asarray(x.sum(axis=axes, dtype=x.dtype)).reshape(sizes)


def _sums_rows(op: Operation) -> bool:
    """Return True if the shapes are known and only the last dimension is summed."""
    x, y = op.inputs[0].shape, op.outputs[0].shape
    known = x.is_fully_known and y.is_fully_known and is_register(x)
    return known and has_rows(x, y) and y.dims[-1] == 1 != x.dims[-1]


define(
    "SumTo",
    "x: T, shape: host I -> y: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    shape=_sum_to_shape,
    rules=[Vectorize(sum_examples_to), LINEAR_IN_FIRST, KeepsSize(), Fusion(_sums_rows, reduce_by("sum"), first_input)],
    kernel=_sum_to,
    gradient=lambda op, g: [apply("BroadcastTo", g, shape_of(op.inputs[0])), None],
    samples=[
        Sample([np.arange(12.0).reshape(2, 2, 3), i32([2, 1])], f64([[24], [42]])),
        Sample([np.arange(4, dtype=np.int32), np.zeros(0, np.int32)], np.int32(6)),
    ],
)


def sum_to_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Sum `x` down to a shape from which broadcasting leads back: the transpose of `broadcast_to`.

    Parameters
    ----------
    x : Tensor of any numeric dtype
    shape : int32 or int64 vector, or list of integers and scalar tensors

    Returns
    -------
    Tensor
        Of shape `shape`.

    Raises
    ------
    ShapeError
        If `shape` does not broadcast to the shape of `x`.
    """
    return apply("SumTo", x, shape_vector(shape), name=name)

"""Coordinates of grids, coordinates of flat positions, and broadcast shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.shapes import ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, check_rank, index_tensor, list_argument, shape_vector
from ..support.literals import i32, i64
from ..support.partial_shapes import Part, join_parts, with_parts
from ..support.vectorizing.families import one_by_one
from .shapes import shape, size


@public
def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Spread vectors of coordinates over a grid, each along its own dimension.

    Parameters
    ----------
    args : Tensor of any dtype
        For each dimension the coordinates, flattened to a vector.
    indexing : {'xy', 'ij'}
        With 'ij' the i-th vector goes along dimension i; with 'xy' the first vector goes along dimension 1, the second
        along dimension 0.

    Returns
    -------
    list of Tensor
        A tensor for each vector, of its dtype, all of the same shape: a dimension for each vector.

    Raises
    ------
    GraphError
        If `indexing` is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> x, y = tg.function(lambda: tg.meshgrid([1, 2, 3], [4, 5])).sync()
    >>> x.tolist(), y.tolist()
    ([[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]])
    """
    if not isinstance(indexing, str) or indexing not in ("xy", "ij"):
        raise GraphError(
            "meshgrid does not know this order of dimensions",
            wanted="'xy' or 'ij'",
            got=repr(indexing),
            hint="'ij' puts the first vector along the first dimension, 'xy' along the second",
        )
    vectors = [apply("Reshape", convert_to_tensor(v), constant(i32([-1]))) for v in args]
    axes = [*range(len(vectors))]  # the dimension of each vector
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    # Sizes known while building stay numbers, so that the static shape has them. Exchanging two axes is its own
    # inverse: `axes` also lists the vector of each dimension.
    sizes: list[Part] = [size(vectors[i]) if vectors[i].shape[0] is None else vectors[i].shape[0] for i in axes]
    return [_spread_vector(vector, axis, sizes, name) for vector, axis in zip(vectors, axes, strict=True)]


def _spread_vector(vector: Tensor, axis: int, sizes: Sequence[Part], name: str | None) -> Tensor:
    """Return a tensor of shape `sizes` that repeats a vector along all dimensions except `axis`."""
    vector_sizes: list[Part] = [d if i == axis else 1 for i, d in enumerate(sizes)]
    column = apply("Reshape", vector, join_parts(vector_sizes))
    return with_parts(apply("BroadcastTo", column, join_parts(sizes), name=name), sizes)


def _infer_unraveled_shape(op: Operation) -> Shape:
    """Infer the shape [k] for a scalar, [k, n] for n indices, with k dims; ShapeError for unsupported ranks."""
    indices, dims = (t.shape for t in op.inputs)
    if dims.rank not in (1, None) or (indices.rank is not None and indices.rank > 1):
        raise ShapeError(
            "unravel_index takes positions in a tensor of a shape",
            wanted="a scalar or vector of indices, a vector of dims",
            got=f"{indices} and {dims}",
            operation=op,
            hint="reshape the indices to [-1]",
        )
    return Shape(None) if indices.rank is None else Shape([dims[0]]) + indices


def _unravel_positions(xp: Any, indices: Any, dims: Any) -> Any:
    """Compute the coordinates; IndexError for positions outside the shape."""
    check_rank(indices, 0, 1, "unravel_index takes a number, or a vector of them")
    sizes = as_sizes(dims)
    count = math.prod(sizes)
    if indices.size and not (indices.min() >= 0 and indices.max() < count):
        raise IndexError(f"unravel_index: indices have to be in [0, {count}), got {indices.min()} to {indices.max()}")
    if not sizes:
        return xp.zeros((0, *indices.shape), dtype=indices.dtype)
    # Row-major: a step along a dimension passes all elements of the later dimensions.
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    # A size of 0 leaves no indices; 1 in its place avoids a division by zero.
    return xp.stack([indices // max(stride, 1) % max(d, 1) for stride, d in zip(strides, sizes, strict=True)])


define(
    "UnravelIndex",
    "indices: I, dims: host I -> output: I",
    where={"I": dtypes.INDEX},
    shape=_infer_unraveled_shape,
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_unravel_positions,
    gradient=NotDifferentiable("its results are positions"),
    samples=[
        Sample([i32([22, 41, 37]), i32([7, 6])], i32([[3, 6, 6], [4, 5, 1]])),
        Sample([i64(1621), i64([6, 7, 8, 9])], i64([3, 1, 4, 1])),
        Sample([i32([]), i32([0, 3])], np.zeros((2, 0), np.int32)),
    ],
)


@public
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Return the coordinates of flat positions in a tensor of shape `dims`.

    Parameters
    ----------
    indices : int32 or int64 Tensor, a scalar or of shape [n]
        Positions in row-major order.
    dims : Tensor of the same dtype, of shape [k]
        Shape of the tensor that the positions refer to.

    Returns
    -------
    Tensor
        Of the same dtype and of shape [k], or [k, n]: for each dimension the coordinates.

    Raises
    ------
    ShapeError
        If the ranks do not fit.
    OpError
        When the step runs, if a position is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.unravel_index([2, 5, 7], [3, 3])).sync()
    array([[0, 1, 2],
           [2, 2, 1]], dtype=int32)
    """
    return apply("UnravelIndex", index_tensor(indices), index_tensor(dims), name=name)


@public
def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """Return the shapes of several tensors as values; see `shape`.

    Parameters
    ----------
    input : sequence of Tensor of any dtypes
    out_type : dtype-like
        int32 or int64.

    Returns
    -------
    list of Tensor
        For each tensor a vector of dtype `out_type`, as long as the tensor's rank.

    Examples
    --------
    >>> import tagloom as tg
    >>> [s.tolist() for s in tg.function(lambda: tg.shape_n([tg.zeros([2, 3]), tg.zeros([])])).sync()]
    [[2, 3], []]
    """
    return [shape(each, name, out_type) for each in list_argument(input, "shape_n")]


def _infer_broadcast_shape(op: Operation) -> Shape:
    """Return the broadcast shape of the shapes that the inputs contain, as far as known."""
    x, y = (static_shape(t) for t in op.inputs)
    return x.broadcast(y)


def _infer_broadcast_rank(op: Operation) -> Shape:
    return Shape([_infer_broadcast_shape(op).rank])


def _compute_broadcast_shape(xp: Any, x: Any, y: Any) -> Any:
    return np.asarray(np.broadcast_shapes(as_sizes(x), as_sizes(y)), x.dtype)


define(
    "BroadcastArgs",
    "shape_x: host I, shape_y: host I -> shape: host I",
    where={"I": dtypes.INDEX},
    shape=_infer_broadcast_rank,
    kernel=_compute_broadcast_shape,
    gradient=NotDifferentiable("shapes are integers"),
    rules=[Vectorize(one_by_one), ShapeVector(_infer_broadcast_shape, is_checked=True)],
    samples=[
        Sample([i32([2, 1]), i32([3])], i32([2, 3])),
        Sample([i64([]), i64([4, 0])], i64([4, 0])),
    ],
)


@public
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any, name: str | None = None) -> Tensor:
    """Return, as a value, the broadcast shape of two shapes.

    Parameters
    ----------
    shape_x, shape_y : int32 or int64 Tensor of shapes [m] and [n]
        Same dtype.

    Returns
    -------
    Tensor
        A vector of the same dtype.

    Raises
    ------
    ShapeError
        If the shapes are known not to broadcast; in a running step, as the cause of an OpError.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.broadcast_dynamic_shape([5, 1, 3], [4, 1])).sync()
    array([5, 4, 3], dtype=int32)
    """
    return apply("BroadcastArgs", shape_vector(shape_x), shape_vector(shape_y), name=name)


@public
def broadcast_static_shape(shape_x: Any, shape_y: Any) -> Shape:
    """Return the static broadcast shape of two static shapes.

    Parameters
    ----------
    shape_x, shape_y : Shape, or sequence of int or None

    Returns
    -------
    Shape
        The broadcast shape, as far as known.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.broadcast_static_shape([5, 1, None], tg.Shape([4, 3]))
    Shape(5, 4, 3)
    """
    return Shape(shape_x).broadcast(Shape(shape_y))

"""Elements and blocks by index vectors: taken, put into zeros, and added to a tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.fusing import AddsPart
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.placing import TakesPart
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, check_rank, index_tensor, shape_in, shape_vector
from ..support.array_library import add_at, add_rows, cast_to_accumulator
from ..support.bounds import check_bounds
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST, linear
from ..support.vectorizing import indexing

_X = np.arange(12.0).reshape(3, 4)


def _gather_nd_shape(op: Operation) -> Shape:
    """Infer the shape; ShapeError if index vectors are longer than the rank of `params`."""
    params, indices = (t.shape for t in op.inputs)
    if indices.rank == 0:
        raise ShapeError(
            "gather_nd needs indices of rank at least 1",
            got=indices,
            wanted="rank 1 or more",
            hint="use gather for one number",
        )
    depth = indices[-1]
    if params.rank is None or depth is None:
        return Shape(None)
    if depth > params.rank:
        raise ShapeError(
            "gather_nd: an index is longer than the rank",
            wanted=f"at most {params.rank}",
            got=depth,
            hint="the last dimension of the indices says how many dimensions each one names",
        )
    return Shape(indices[:-1]) + Shape(params[depth:])


def flat_rows(xp: Any, indices: Any, sizes: tuple[int, ...], what: str) -> Any:
    """Return the row numbers of index vectors into the leading dimensions `sizes`."""
    rows = xp.zeros(indices.shape[:-1], dtype=xp.intp)
    for i, size in enumerate(sizes):
        check_bounds(indices[..., i], size, what)
        # Horner's scheme; an index vector of length 0 leaves the single row 0, which is all of the array
        rows = rows * size + indices[..., i]
    return rows


def _gather_nd(xp: Any, params: Any, indices: Any) -> Any:
    depth = indices.shape[-1]
    check_rank(params, depth, None, f"gather_nd with index vectors of {depth} numbers")
    rows = flat_rows(xp, indices, params.shape[:depth], "gather_nd")
    table = params.reshape(math.prod(params.shape[:depth]), *params.shape[depth:])
    return xp.asarray(table[rows], dtype=params.dtype)


define(
    "GatherNd",
    "params: T, indices: I -> output: T",
    where={"I": dtypes.INDEX},
    shape=_gather_nd_shape,
    rules=[
        Vectorize(indexing.gather_nd_examples),
        LINEAR_IN_FIRST,
        TakesPart(),
        Elements(lambda params, indices: math.prod((*indices.shape[:-1], *params.shape[indices.shape[-1] :]))),
        ReadsValues(),
    ],
    kernel=_gather_nd,
    gradient=lambda op, g: [apply("ScatterNd", op.inputs[1], g, shape_of(op.inputs[0])), None],
    samples=[
        Sample([_X, i32([[2, 1], [0, 3], [2, 1]])], f64([9, 3, 9])),
        Sample([_X, i64([[1]])], f64([[4, 5, 6, 7]])),
        Sample([_X, np.zeros((2, 0), np.int32)], lambda x, i: np.stack([x, x])),
    ],
)


@public
def gather_nd(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Take elements or blocks by index vectors.

    Parameters
    ----------
    params : Tensor of any dtype and shape
    indices : int32 or int64 Tensor of shape [..., k]
        Each vector indexes the first k dimensions.

    Returns
    -------
    Tensor
        Of shape ``indices.shape[:-1] + params.shape[k:]``.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]])).sync()
    array([2, 3], dtype=int32)
    >>> tg.function(lambda: tg.gather_nd([[1, 2], [3, 4]], [[1]])).sync()
    array([[3, 4]], dtype=int32)
    """
    return apply("GatherNd", params, index_tensor(indices), name=name)


def _scatter_shape(op: Operation) -> Shape:
    """Return the requested shape; ShapeError if the updates are known not to fit the indices."""
    indices, updates, shape = op.inputs[0].shape, op.inputs[1].shape, static_shape(op.inputs[2])
    depth = indices[-1] if indices.rank else None
    if depth is not None and shape.rank is not None:
        wanted = indices[:-1] + shape[depth:]
        if depth > shape.rank or not updates.is_compatible_with(wanted):
            raise ShapeError(
                "scatter_nd: the updates do not fit the indices",
                wanted=wanted,
                got=updates,
                hint="updates have the shape indices.shape[:-1] + shape[indices.shape[-1]:]",
            )
    return shape


def _scatter_nd(xp: Any, indices: Any, updates: Any, shape: Any) -> Any:
    """Add the updates to an array of zeros; ValueError if the shapes do not fit."""
    sizes, depth = as_sizes(shape), indices.shape[-1]
    if depth > len(sizes):
        raise ValueError(f"scatter_nd: index vectors of {depth} numbers do not fit shape {list(sizes)}")
    rows = flat_rows(xp, indices, sizes[:depth], "scatter_nd")
    if updates.shape != rows.shape + sizes[depth:]:
        raise ValueError(f"scatter_nd: updates need shape {rows.shape + sizes[depth:]}, got {updates.shape}")
    table = updates.reshape(rows.size, math.prod(sizes[depth:]))
    return add_rows(xp, math.prod(sizes[:depth]), rows, table).reshape(sizes)


define(
    "ScatterNd",
    "indices: I, updates: T, shape: host J -> output: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=_scatter_shape,
    rules=[
        Vectorize(indexing.scatter_nd_examples),
        linear(1),
        Elements(shape_in(2)),
        ReadsValues(),
        AddsPart("AddToRows"),
    ],
    kernel=_scatter_nd,
    gradient=lambda op, g: [None, apply("GatherNd", g, op.inputs[0]), None],
    samples=[
        Sample([i32([[2], [0], [2]]), f64([1, 2, 3]), i32([4])], f64([2, 0, 4, 0])),
        Sample([i64([[1]]), f64([[5, 6]]), i64([2, 2])], f64([[0, 0], [5, 6]])),
    ],
)


def _add_to_rows(xp: Any, total: Any, indices: Any, updates: Any, shape: Any) -> Any:
    """Add rows one after the other to a tensor; to a broadcast tensor all at once."""
    sizes, depth = as_sizes(shape), indices.shape[-1]
    if total.shape != sizes or not sizes:
        return total + _scatter_nd(xp, indices, updates, shape)
    rows = flat_rows(xp, indices, sizes[:depth], "scatter_nd").reshape(-1)
    width = math.prod(sizes[depth:])
    # added in a wider dtype where sums have one
    table = cast_to_accumulator(xp, total).reshape(-1, width).copy()
    add_at(xp, table, rows, cast_to_accumulator(xp, updates).reshape(rows.size, width))
    return table.reshape(sizes)


# A tensor and a ScatterNd added up: the `add_parts` pass makes it of both.
define(
    "AddToRows",
    "total: T, indices: I, updates: T, shape: host J -> sum: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=lambda op: op.inputs[0].shape.broadcast(static_shape(op.inputs[3])),
    rules=[ReadsValues()],
    kernel=keep_dtype(_add_to_rows),
    gradient=NotDifferentiable("it is made after gradients are"),
    samples=[
        Sample([f64([1, 2, 3, 4]), i32([[2], [0], [2]]), f64([1, 2, 3]), i32([4])], f64([3, 2, 7, 4])),
        Sample([f64([1, 2]), i64([[1]]), f64([[5, 6]]), i64([2, 2])], f64([[1, 2], [6, 8]])),
    ],
)


@public
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Put elements or blocks into a tensor of zeros; repeated indices add up.

    Parameters
    ----------
    indices : int32 or int64 Tensor of shape [..., k]
    updates : Tensor of any numeric dtype, of shape ``indices.shape[:-1] + shape[k:]``
    shape : int32 or int64 vector

    Returns
    -------
    Tensor
        Of shape `shape`.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.scatter_nd([[1], [3], [1]], [10, 20, 5], [5])).sync()
    array([ 0, 15,  0, 20,  0], dtype=int32)
    """
    return apply("ScatterNd", index_tensor(indices), updates, shape_vector(shape), name=name)

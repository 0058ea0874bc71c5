"""Elements and blocks of a tensor replaced by, or combined with, updates at index vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...base.dtypes import DType
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Gradient, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import check_rank, index_tensor
from ..support.array_library import add_at, last_writers
from ..support.common import raised_to, scalar_like, shape_of
from ..support.literals import f64, i32, i64
from ..support.segmented import combine_at
from ..support.vectorizing.indexing import tensor_scatter_examples
from .index_vectors import flat_rows

_X = f64([[1, 2], [3, 4], [5, 6]])


def put_rows(xp: Any, table: Any, rows: Any, updates: Any) -> None:
    """Put rows into a table by number, in place; of rows with the same number the last holds."""
    if is_numpy(xp):
        table[rows] = updates
    elif rows.size:
        # of repeated rows NumPy keeps the last, while a GPU may keep any
        last = last_writers(xp, rows, table.shape[0])
        table[...] = xp.where((last >= 0)[:, None], updates[last], table)


def change_rows(xp: Any, function: str, tensor: Any, indices: Any, updates: Any) -> None:
    """Change elements or blocks of a tensor at index vectors, in place.

    Parameters
    ----------
    xp : module
    function : {'put', 'add', 'subtract', 'maximum', 'minimum'}
    tensor : C-contiguous array, since the change goes through a reshaped view
    indices : integer array of shape [..., k]
    updates : array of shape ``indices.shape[:-1] + tensor.shape[k:]``
    """
    depth = indices.shape[-1]
    check_rank(tensor, depth, None, f"a scatter with index vectors of {depth} numbers")
    rows = flat_rows(xp, indices, tensor.shape[:depth], "scatter")
    if updates.shape != rows.shape + tensor.shape[depth:]:
        raise ValueError(f"the updates need shape {rows.shape + tensor.shape[depth:]}, got {updates.shape}")
    width = math.prod(tensor.shape[depth:])
    # the table is a view of the contiguous tensor, which its changes reach
    table, flat = tensor.reshape(math.prod(tensor.shape[:depth]), width), updates.reshape(rows.size, width)
    if function == "put":
        put_rows(xp, table, rows.reshape(-1), flat)
    elif function in ("add", "subtract"):
        add_at(xp, table, rows.reshape(-1), flat, function)
    else:
        combine_at(xp, function, table, rows.reshape(-1), flat)


def scattered_shape(tensor: Shape, indices: Shape, updates: Shape, op: Operation) -> None:
    """Raise ShapeError if the updates are known not to fit the tensor and the index vectors."""
    depth = indices[-1] if indices.rank else None
    if indices.rank == 0 or (depth is not None and tensor.rank is not None and depth > tensor.rank):
        raise ShapeError(
            "index vectors name leading dimensions of the tensor",
            wanted=f"indices of shape [..., k], k at most {tensor.rank}",
            got=indices,
            operation=op,
            hint="for numbers of rows give indices[:, None]",
        )
    if depth is None or tensor.rank is None:
        return
    wanted = indices[:-1] + tensor[depth:]
    if not updates.is_compatible_with(wanted):
        raise ShapeError(
            "the updates do not fit the indices",
            wanted=wanted,
            got=updates,
            operation=op,
            hint="updates have the shape indices.shape[:-1] + tensor.shape[indices.shape[-1]:]",
        )


def _tensor_shape(op: Operation) -> Shape:
    tensor, indices, updates = (t.shape for t in op.inputs)
    scattered_shape(tensor, indices, updates, op)
    return tensor


def _replaced_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the cotangents: to the last update of each place, and to the tensor where no update came."""
    _, indices, updates = op.inputs
    places = shape_of(indices)[:-1]
    numbers = apply("Reshape", apply("Range", 0, apply("Prod", places, axis=(0,)), 1), places)
    size = shape_of(g)[: _index_depth(indices)]
    # scattering the numbers of the updates, as the forward pass scattered the updates, tells which came last
    last = apply("GatherNd", apply("TensorScatterUpdate", apply("Fill", size, i32(0)), indices, numbers), indices)
    to_updates = apply("GatherNd", g, indices)
    held = raised_to(apply("Equal", last, numbers), to_updates)
    nothing = apply("Fill", shape_of(updates), scalar_like(0, g))
    rest = apply("TensorScatterUpdate", g, indices, nothing)
    return [rest, None, apply("Where", held, to_updates, scalar_like(0, g))]


def _index_depth(indices: Tensor) -> Any:
    known = None if indices.rank is None else indices.shape[-1]
    return shape_of(indices)[-1] if known is None else known


def _chosen_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Share each cotangent among the element and the updates equal to the result."""
    tensor, indices, updates = op.inputs
    y = op.outputs[0]
    stays = apply("Cast", apply("Equal", tensor, y), dtype=g.dtype)
    comes = apply("Cast", apply("Equal", updates, apply("GatherNd", y, indices)), dtype=g.dtype)
    # at least 1: a NaN result equals nothing, which would divide by zero
    share = g / apply("Maximum", stays + apply("ScatterNd", indices, comes, shape_of(g)), 1)
    return [stays * share, None, comes * apply("GatherNd", share, indices)]


def _define_tensor_scatter(
    type: str, function: str, where: tuple[DType, ...], gradient: Gradient, samples: list[Sample]
) -> None:
    """Define the operation `type`, which changes a copy of the tensor by `function`."""

    def scatter_into_copy(xp: Any, tensor: Any, indices: Any, updates: Any) -> Any:
        result = tensor.copy()
        change_rows(xp, function, result, indices, updates)
        return result

    define(
        type,
        "tensor: T, indices: I, updates: T -> output: T",
        where={"T": where, "I": dtypes.INDEX},
        shape=_tensor_shape,
        rules=[Vectorize(tensor_scatter_examples), ReadsValues()],
        kernel=scatter_into_copy,
        gradient=gradient,
        samples=samples,
    )


_define_tensor_scatter(
    "TensorScatterUpdate",
    "put",
    dtypes.VALUES,
    _replaced_gradient,
    [
        Sample([_X, i32([[2], [0]]), f64([[9, 8], [7, 6]])], f64([[7, 6], [3, 4], [9, 8]])),
        Sample([_X, i64([[0, 1], [2, 0], [0, 1]]), f64([7, 8, 9])], f64([[1, 9], [3, 4], [8, 6]])),
        Sample([i32([1, 2]), np.zeros((0, 1), np.int32), i32([])], i32([1, 2])),
        Sample([_X, np.zeros((1, 0), np.int32), -_X[None]], -_X),
    ],
)
_define_tensor_scatter(
    "TensorScatterMax",
    "maximum",
    dtypes.REAL,
    _chosen_gradient,
    [
        Sample([_X, i32([[2], [0], [2]]), f64([[9, 1], [-7, 6], [8, 7]])], f64([[1, 6], [3, 4], [9, 7]])),
        Sample([f64([-np.inf, 2]), i64([[1]]), f64([1])], f64([-np.inf, 2]), differentiable=False),
    ],
)
_define_tensor_scatter(
    "TensorScatterMin",
    "minimum",
    dtypes.REAL,
    _chosen_gradient,
    [Sample([_X, i32([[2], [0], [2]]), f64([[9, 1], [-7, 6], [8, 7]])], f64([[-7, 2], [3, 4], [5, 1]]))],
)


@public
def tensor_scatter_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Replace elements or blocks of a tensor; of updates with the same index the last holds.

    In Python, with ``y`` a copy: ``for i, block in zip(indices, updates): y[tuple(i)] = block``.

    Parameters
    ----------
    tensor : Tensor of any dtype
    indices : int32 or int64 Tensor of shape [..., k]
        Each vector indexes the first k dimensions.
    updates : Tensor of the same dtype, of shape ``indices.shape[:-1] + tensor.shape[k:]``

    Returns
    -------
    Tensor
        Of the dtype and shape of `tensor`.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.
    OpError
        When the step runs, if an index is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tensor_scatter_update([1, 2, 3, 4], [[3], [0]], [30, 10])).sync()
    array([10,  2,  3, 30], dtype=int32)
    """
    return apply("TensorScatterUpdate", tensor, index_tensor(indices), updates, name=name)


@public
def tensor_scatter_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Add to elements or blocks of a tensor; updates with the same index add up. See `tensor_scatter_update`.

    Parameters
    ----------
    tensor : Tensor of any numeric dtype
    indices, updates
        As in `tensor_scatter_update`.

    Returns
    -------
    Tensor
        Of the dtype and shape of `tensor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tensor_scatter_add([1, 2, 3], [[2], [0], [2]], [10, 20, 30])).sync()
    array([21,  2, 43], dtype=int32)
    """
    return _combine_scattered("Add", tensor, indices, updates, name)


@public
def tensor_scatter_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Subtract from elements or blocks of a tensor; updates with the same index add up. See `tensor_scatter_update`.

    Parameters
    ----------
    tensor : Tensor of any numeric dtype
    indices, updates
        As in `tensor_scatter_update`.

    Returns
    -------
    Tensor
        Of the dtype and shape of `tensor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tensor_scatter_sub([1, 2, 3], [[2], [0], [2]], [10, 20, 30])).sync()
    array([-19,   2, -37], dtype=int32)
    """
    return _combine_scattered("Sub", tensor, indices, updates, name)


def _combine_scattered(type: str, tensor: Any, indices: Any, updates: Any, name: str | None) -> Tensor:
    """Scatter the updates into zeros and combine the result with the tensor by the operation `type`."""
    values = convert_to_tensor(tensor)
    blocks = convert_to_tensor(updates, values.dtype)
    placed = apply("ScatterNd", index_tensor(indices), blocks, shape_of(values))
    return apply(type, values, placed, name=name)


@public
def tensor_scatter_nd_max(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Take the largest of an element and the updates with its index; equals share the gradient.

    Parameters
    ----------
    tensor : Tensor of an integer or floating dtype
    indices, updates
        As in `tensor_scatter_update`.

    Returns
    -------
    Tensor
        Of the dtype and shape of `tensor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tensor_scatter_nd_max([1, 2, 3], [[2], [0], [2]], [10, -20, 30])).sync()
    array([ 1,  2, 30], dtype=int32)
    """
    return apply("TensorScatterMax", tensor, index_tensor(indices), updates, name=name)


@public
def tensor_scatter_nd_min(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Take the smallest of an element and the updates with its index; equals share the gradient.

    Parameters
    ----------
    tensor : Tensor of an integer or floating dtype
    indices, updates
        As in `tensor_scatter_update`.

    Returns
    -------
    Tensor
        Of the dtype and shape of `tensor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tensor_scatter_nd_min([1, 2, 3], [[2], [0], [2]], [10, -20, 30])).sync()
    array([-20,   2,   3], dtype=int32)
    """
    return apply("TensorScatterMin", tensor, index_tensor(indices), updates, name=name)

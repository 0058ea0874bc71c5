"""Places of a sparse tensor: sorting, selection, and filling of empty rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor
from ..support.common import size_along
from ..support.literals import i32
from .grouping import sum_of_groups
from .sparse_tensor import SparseTensor, as_sparse, extreme_size, known_rank, sizes_of, sizes_vector


def in_order(
    indices: Tensor, values: Tensor, sizes: Tensor, by: Tensor | None = None, name: str | None = None
) -> SparseTensor:
    """Return a sparse tensor of `indices`, `values` and `sizes`, sorted by its places or `by` other index vectors."""
    order = apply("SparseOrder", indices if by is None else by)
    return SparseTensor(apply("Gather", indices, order), apply("Gather", values, order, name=name), sizes)


def where_true(sp: SparseTensor, mask: Tensor, name: str | None = None) -> SparseTensor:
    """Return the elements of `sp` for which a `mask` is true."""
    values = apply("BooleanMask", sp.values, mask, name=name)
    return SparseTensor(apply("BooleanMask", sp.indices, mask), values, sp.dense_shape)


@public
def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Sort the places of a sparse tensor in the order of rows.

    Parameters
    ----------
    sp_input : SparseTensor

    Returns
    -------
    SparseTensor
        The same tensor; values of equal places keep their order.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[1, 0], [0, 3], [0, 1]], [7, 8, 9], [2, 4])
    >>> tg.function(lambda: tg.sparse_reorder(x)).sync().values
    array([9, 8, 7], dtype=int32)
    """
    sp = as_sparse(sp_input, "sparse_reorder")
    return in_order(sp.indices, sp.values, sp.dense_shape, name=name)


@public
def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Keep some of the values of a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor
    to_retain : bool Tensor of shape [n]
        Which of the values to keep.

    Returns
    -------
    SparseTensor
        Of the same shape.

    Raises
    ------
    ShapeError
        If the lengths of `to_retain` and of the values differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 1], [1, 0]], [-5, 6], [2, 2])
    >>> tg.function(lambda: tg.sparse_retain(x, [False, True])).sync().indices
    array([[1, 0]])
    """
    sp = as_sparse(sp_input, "sparse_retain")
    return where_true(sp, convert_to_tensor(to_retain, dtypes.bool_))


@public
def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Cut a block out of a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor
    start : integer vector
        First place of the block.
    size : integer vector
        Size of the block, cut at the end of the tensor.

    Returns
    -------
    SparseTensor
        With places relative to `start`.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 1], [1, 2], [2, 0]], [5, 6, 7], [3, 3])
    >>> tg.function(lambda: tg.sparse_slice(x, [1, 1], [9, 2])).sync()
    SparseTensorValue(indices=array([[0, 1]]), values=array([6], dtype=int32), dense_shape=array([2, 2]))
    """
    sp = as_sparse(sp_input, "sparse_slice")
    first, extent = (apply("Cast", index_tensor(v), dtype=dtypes.int64) for v in (start, size))
    # A block that begins after the end of the tensor has size 0.
    rest = apply("Maximum", apply("Minimum", extent, sp.dense_shape - first), 0)
    return cut_block(sp, first, rest, rest, name)


def cut_block(sp: SparseTensor, start: Tensor, size: Tensor, shape: Tensor, name: str | None = None) -> SparseTensor:
    """Return the block of `sp` that begins at `start` and has a `size`, as a sparse tensor of a `shape`."""
    moved = sp.indices - start
    inside = apply("All", (moved >= 0) & (moved < size), axis=(1,))
    return where_true(SparseTensor(moved, sp.values, shape), inside, name)


@public
def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Fill the empty rows of a sparse tensor with a default value.

    Parameters
    ----------
    sp_input : SparseTensor of known rank
    default_value : scalar of the same dtype
        Value at the first place of each empty row.

    Returns
    -------
    SparseTensor
        In the order of rows; the values of a row keep their order.
    Tensor of bool, of shape [rows]
        Which rows had no value.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 1], [2, 0]], [5, 6], [3, 2])
    >>> filled, was_empty = tg.function(lambda: tg.sparse_fill_empty_rows(x, -1)).sync()
    >>> filled.values.tolist(), was_empty.tolist()
    ([5, -1, 6], [False, True, False])
    """
    sp = as_sparse(sp_input, "sparse_fill_empty_rows")
    rank = known_rank(sp, "sparse_fill_empty_rows")
    row, count = sp.indices[:, 0], sizes_of(sp, rank)[0]
    ones = apply("Fill", apply("Shape", row), constant(1))
    is_empty = apply("Equal", sum_of_groups(ones, row, convert_to_tensor(count, dtypes.int64)), 0)
    # A filling value goes to the first place of its row: (row, 0, ..., 0).
    first = np.eye(1, rank, dtype=np.int64)
    added = apply("NonZero", is_empty) * constant(first)
    default = convert_to_tensor(default_value, None if isinstance(default_value, Tensor) else sp.dtype)
    filling = apply("Fill", apply("Reshape", size_along(added, 0), constant(i32([1]))), default)
    indices = apply("Concat", [sp.indices, added], axis=0)
    values = apply("Concat", [sp.values, filling], axis=0)
    # A stable sort by row number alone keeps the order of the values within each row.
    return in_order(indices, values, sp.dense_shape, by=indices[:, :1], name=name), is_empty


def split_sizes(size: Any, parts: int) -> list[tuple[Any, Any]]:
    """Return the begin and size of each of `parts` parts; the remainder enlarges the first parts by 1 each."""
    whole, extra = size // parts, size % parts
    # The first `extra` parts have an element more, so part k begins min(k, extra) elements later.
    starts = [k * whole + extreme_size("Minimum", extra, k) for k in range(parts + 1)]
    return [(start, stop - start) for start, stop in pairwise(starts)]


def with_size(sizes: list[Any], axis: int, size: Any) -> Tensor:
    """Return sizes as a vector, with the size of an axis replaced."""
    return sizes_vector([size if i == axis else old for i, old in enumerate(sizes)])

"""Sums, maxima and minima of two sparse tensors; sparse tensors added to dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.distinct import distinct_rows
from ..support.common import size_along
from ..support.literals import i64
from .grouping import after_checks, same_sizes, sum_of_groups
from .rows import where_true
from .sparse_tensor import SparseTensor, SparseTensorValue, as_sparse


def _is_sparse(value: Any) -> bool:
    return isinstance(value, (SparseTensor, SparseTensorValue))


def _join_places(a: SparseTensor, b: SparseTensor, what: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the distinct places of two sparse tensors, the place number of each value, their count, and the shape."""
    sizes = same_sizes(a.dense_shape, b.dense_shape, what)
    with after_checks([sizes]):
        # Places of different ranks cannot be concatenated; the check reports a better error first.
        unique, numbers, count = distinct_rows(apply("Concat", [a.indices, b.indices], axis=0))
    # The constant itself, so that the static shape of the result is known.
    return unique, numbers, count, a.dense_shape if a.dense_shape.op.is_constant else sizes


@public
def sparse_add(a: Any, b: Any, thresh: Any = 0, name: str | None = None) -> SparseTensor | Tensor:
    """Add two tensors, at least one of them sparse.

    Parameters
    ----------
    a, b : SparseTensor or Tensor of one numeric dtype and one shape
    thresh : scalar of the real dtype
        Drop places common to two sparse tensors where the absolute value of the sum is below this threshold.

    Returns
    -------
    SparseTensor or Tensor
        Sparse for two sparse tensors, in the order of rows, with values of equal places added up; otherwise dense.

    Raises
    ------
    GraphError
        If neither is sparse.
    ShapeError
        If the shapes are known to differ.
    OpError
        In a step, if the shapes differ and were unknown while building.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 1], [1, 0]], [5, 6], [2, 2])
    >>> y = tg.SparseTensorValue([[0, 1], [1, 1]], [-5, 7], [2, 2])
    >>> tg.function(lambda: tg.sparse_add(x, y, thresh=1)).sync().values
    array([6, 7], dtype=int32)
    >>> tg.function(lambda: tg.sparse_add(x, [[1, 1], [1, 1]])).sync()
    array([[1, 6],
           [7, 1]], dtype=int32)
    """
    if not _is_sparse(a) or not _is_sparse(b):
        return _with_dense(a, b, name)
    x, y = as_sparse(a, "sparse_add"), as_sparse(b, "sparse_add")
    unique, numbers, count, sizes = _join_places(x, y, "sparse_add")
    keeps_all = not isinstance(thresh, Tensor) and np.size(thresh) == 1 and np.all(np.equal(thresh, 0))
    both = apply("Concat", [x.values, y.values], axis=0)
    total = SparseTensor(unique, sum_of_groups(both, numbers, count, name if keeps_all else None), sizes)
    if keeps_all:
        return total
    size = apply("Abs", total.values)
    # Groups of a single value: a place of only one operand is kept whatever its value.
    is_alone = sum_of_groups(apply("Fill", apply("Shape", numbers), constant(1)), numbers, count) < 2
    limit = convert_to_tensor(thresh, None if isinstance(thresh, Tensor) else size.dtype)
    return where_true(total, is_alone | (size >= limit), name)


def _with_dense(a: Any, b: Any, name: str | None) -> Tensor:
    """Add a sparse and a dense tensor; GraphError if neither is sparse, ShapeError if the shapes differ."""
    if not _is_sparse(a) and not _is_sparse(b):
        raise GraphError(
            "sparse_add was given no sparse tensor",
            wanted="a SparseTensor as one of both",
            got=f"{a!r} and {b!r}",
            hint="add(a, b) adds dense tensors, sparse_from_dense(x) makes one sparse",
        )
    sp, other = (as_sparse(a, "sparse_add"), b) if _is_sparse(a) else (as_sparse(b, "sparse_add"), a)
    dense = convert_to_tensor(other, None if isinstance(other, Tensor) else sp.dtype)
    if not sp.shape.is_compatible_with(dense.shape):
        raise ShapeError(
            "sparse_add adds tensors of one shape",
            wanted=sp.shape,
            got=dense.shape,
            operation=dense.op,
            hint="broadcast_to gives the dense one another shape",
        )
    # Known shapes have been compared above.
    known = dense.shape.is_fully_known and sp.shape.is_fully_known
    sizes = apply("Cast", apply("Shape", dense), dtype="int64")
    shape = sp.dense_shape if known else same_sizes(sp.dense_shape, sizes, "sparse_add")
    return apply("Add", dense, apply("ScatterNd", sp.indices, sp.values, shape), name=name)


def _choose_elements(type: str, a: SparseTensor, b: SparseTensor, what: str, name: str | None) -> SparseTensor:
    """Return the larger or smaller element at each place of either tensor; missing elements count as 0."""
    unique, numbers, count, sizes = _join_places(a, b, what)
    # The first numbers are of the places of `a`; sums of single values are the values, and 0 elsewhere.
    own = size_along(a.values, 0)
    x, y = sum_of_groups(a.values, numbers[:own], count), sum_of_groups(b.values, numbers[own:], count)
    return SparseTensor(unique, apply(type, x, y, name=name), sizes)


@public
def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Larger elements of two sparse tensors; a missing element counts as 0.

    Parameters
    ----------
    sp_a, sp_b : SparseTensor of one real dtype and one shape

    Returns
    -------
    SparseTensor
        With the places of both, in the order of rows.

    Raises
    ------
    ShapeError
        If the shapes are known to differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0], [1]], [-5, 6], [3])
    >>> y = tg.SparseTensorValue([[1], [2]], [8, -7], [3])
    >>> tg.function(lambda: tg.sparse_maximum(x, y)).sync().values
    array([0, 8, 0], dtype=int32)
    """
    what = "sparse_maximum"
    return _choose_elements("Maximum", as_sparse(sp_a, what), as_sparse(sp_b, what), what, name)


@public
def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Smaller elements of two sparse tensors; a missing element counts as 0.

    Parameters
    ----------
    sp_a, sp_b : SparseTensor of one real dtype and one shape

    Returns
    -------
    SparseTensor
        With the places of both, in the order of rows.

    Raises
    ------
    ShapeError
        If the shapes are known to differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0], [1]], [-5, 6], [3])
    >>> y = tg.SparseTensorValue([[1], [2]], [8, -7], [3])
    >>> tg.function(lambda: tg.sparse_minimum(x, y)).sync().values
    array([-5,  6, -7], dtype=int32)
    """
    what = "sparse_minimum"
    return _choose_elements("Minimum", as_sparse(sp_a, what), as_sparse(sp_b, what), what, name)


@public
def sparse_eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = "float32", name: str | None = None
) -> SparseTensor:
    """Sparse matrix with ones on its diagonal.

    Parameters
    ----------
    num_rows : int
    num_columns : int, optional
        As many as rows when None.
    dtype : dtype-like

    Returns
    -------
    SparseTensor
        Of shape [num_rows, num_columns].

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_eye(2, 3)).sync().indices.tolist()
    [[0, 0], [1, 1]]
    """
    columns = num_rows if num_columns is None else num_columns
    shape = Shape([num_rows, columns])
    diagonal = np.arange(min(shape.as_tuple()))
    values = constant(np.ones(len(diagonal), convert_to_tensor(0, dtype).dtype.numpy), name=name)
    return SparseTensor(constant(np.stack([diagonal, diagonal], 1)), values, constant(i64(shape.as_tuple())))

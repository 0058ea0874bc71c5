"""Reductions of sparse tensors over axes, and softmax of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.apply import apply, constant
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.distinct import distinct_rows
from ..math.reductions import reduced_axes
from ..support.arguments import static_ints
from ..support.literals import i32, i64
from .grouping import largest_of_groups, sum_of_groups
from .sparse_tensor import SparseTensor, as_sparse, known_rank, sizes_of, sizes_vector

# A function of values, their group numbers, the number of groups and a name, with a result for each group.
Groups = Callable[[Tensor, Tensor, Tensor, str | None], Tensor]


def _remaining_places(sp: SparseTensor, axis: Any, keepdims: bool, what: str) -> tuple[Tensor, Tensor]:
    """Return for each value its index in the reduced tensor, and the sizes of the reduced tensor.

    Parameters
    ----------
    axis : int, sequence of int, or None
        Reduced axes; all when None.
    keepdims : bool
        True to keep the reduced axes, with size 1 and index 0.
    what : str
        Name of the function, for errors.

    Returns
    -------
    places : int64 Tensor of shape [values, reduced rank]
    sizes : Tensor of shape [reduced rank]
    """
    rank = known_rank(sp, what)
    reduced = reduced_axes(None if axis is None else static_ints(axis), rank)
    sizes = sizes_of(sp, rank)
    if keepdims:
        mask = constant(i64([[i not in reduced for i in range(rank)]]))
        # With 0 along reduced axes, places that differ only there become equal.
        return sp.indices * mask, sizes_vector([1 if i in reduced else size for i, size in enumerate(sizes)])
    remaining = [i for i in range(rank) if i not in reduced]
    places = apply("Gather", sp.indices, constant(i32(remaining)), axis=1)
    return places, sizes_vector([sizes[i] for i in remaining])


def _reduce_sparse(
    value: Any, axis: Any, keepdims: bool, reduce_groups: Groups, what: str, name: str | None = None
) -> SparseTensor:
    """Return the sparse result of reducing the values that share a place of the reduced tensor."""
    sp = as_sparse(value, what)
    places, sizes = _remaining_places(sp, axis, keepdims, what)
    distinct_places, group_numbers, count = distinct_rows(places)
    return SparseTensor(distinct_places, reduce_groups(sp.values, group_numbers, count, name), sizes)


@public
def sparse_reduce_sum(sp_input: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Sum of a sparse tensor over axes, as a dense tensor.

    Parameters
    ----------
    sp_input : SparseTensor of any numeric dtype, of known rank
    axis : int or sequence of int, optional
        Axes to reduce; all when None.
    keepdims : bool
        Keep the reduced axes, with size 1.

    Returns
    -------
    Tensor
        Same dtype, of the shape of `sp_input` without the reduced axes; 0 where there are no values.

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated, or the rank is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 0], [0, 2], [1, 1]], [5, 6, 7], [3, 3])
    >>> tg.function(lambda: tg.sparse_reduce_sum(x, axis=1)).sync()
    array([11,  7,  0], dtype=int32)
    """
    sp = as_sparse(sp_input, "sparse_reduce_sum")
    places, sizes = _remaining_places(sp, axis, keepdims, "sparse_reduce_sum")
    return apply("ScatterNd", places, sp.values, sizes, name=name)


@public
def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> SparseTensor:
    """Sum of a sparse tensor over axes, as a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor of any numeric dtype, of known rank
    axis, keepdims
        As in `sparse_reduce_sum`.

    Returns
    -------
    SparseTensor
        Same dtype, with an element at each place of the reduced tensor to which values were reduced.

    Raises
    ------
    ShapeError
        As in `sparse_reduce_sum`.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 0], [0, 2], [2, 1]], [5, 6, 7], [3, 3])
    >>> tg.function(lambda: tg.sparse_reduce_sum_sparse(x, axis=1)).sync().indices.tolist()
    [[0], [2]]
    """
    return _reduce_sparse(sp_input, axis, keepdims, sum_of_groups, "sparse_reduce_sum_sparse", name)


@public
def sparse_reduce_max(sp_input: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Maximum of a sparse tensor over axes, as a dense tensor.

    Parameters
    ----------
    sp_input : SparseTensor of any real dtype, of known rank
    axis, keepdims
        As in `sparse_reduce_sum`.

    Returns
    -------
    Tensor
        Same dtype, of the shape of `sp_input` without the reduced axes; 0 where there are no values. Missing elements
        do not count as 0: the maximum of negative values is negative. Equal largest values share the gradient.

    Raises
    ------
    ShapeError
        As in `sparse_reduce_sum`.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 0], [0, 2], [1, 1]], [5, 6, -7], [3, 3])
    >>> tg.function(lambda: tg.sparse_reduce_max(x, axis=1)).sync()
    array([ 6, -7,  0], dtype=int32)
    """
    reduced = _reduce_sparse(sp_input, axis, keepdims, largest_of_groups, "sparse_reduce_max")
    return apply("ScatterNd", reduced.indices, reduced.values, reduced.dense_shape, name=name)


@public
def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> SparseTensor:
    """Maximum of a sparse tensor over axes, as a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor of any real dtype, of known rank
    axis, keepdims
        As in `sparse_reduce_sum`.

    Returns
    -------
    SparseTensor
        Same dtype, with an element at each place of the reduced tensor to which values were reduced.

    Raises
    ------
    ShapeError
        As in `sparse_reduce_sum`.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 0], [0, 2], [2, 1]], [5, 6, -7], [3, 3])
    >>> tg.function(lambda: tg.sparse_reduce_max_sparse(x, axis=1)).sync().values
    array([ 6, -7], dtype=int32)
    """
    return _reduce_sparse(sp_input, axis, keepdims, largest_of_groups, "sparse_reduce_max_sparse", name)


@public
def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Softmax over the values in each row of a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor of a floating dtype, of known rank
        Rows go along the last dimension; missing elements count as minus infinity.

    Returns
    -------
    SparseTensor
        With the same places.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 0], [0, 2], [1, 1]], [0.0, 0.0, 7.0], [2, 3])
    >>> tg.function(lambda: tg.sparse_softmax(x)).sync().values
    array([0.5, 0.5, 1. ], dtype=float32)
    """
    sp = as_sparse(sp_input, "sparse_softmax")
    rank = known_rank(sp, "sparse_softmax")
    # A row is a group: the values whose indices differ in the last dimension alone.
    _, row_numbers, count = distinct_rows(sp.indices[:, : max(rank - 1, 0)])
    # Subtracted against overflow; the largest value cancels, so its gradient is zero.
    largest = apply("StopGradient", largest_of_groups(sp.values, row_numbers, count))
    exponentials = apply("Exp", sp.values - apply("Gather", largest, row_numbers))
    total = sum_of_groups(exponentials, row_numbers, count)
    return sp.with_values(apply("RealDiv", exponentials, apply("Gather", total, row_numbers), name=name))

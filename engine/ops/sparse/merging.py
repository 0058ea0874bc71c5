"""Sparse tensors merged from ids and values, and sparse tensors with other bounds."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import int64
from ...base.errors import GraphError, ShapeError
from ...base.source_lines import user_source
from ...ir import scopes
from ...ir.apply import apply
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.concat import concat
from ..array.shapes import expand_dims
from ..control.assertions import assert_equal, assert_less_equal
from ..math.casting import cast
from ..math.reductions import reduce_max
from ..support.arguments import index_tensor
from ..support.common import ones_like, shape_of
from .rows import sparse_reorder
from .sparse_tensor import SparseTensor, SparseTensorValue, as_sparse


@public
def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """Put values at the places named by ids: each value of a row goes to the column of its id.

    Parameters
    ----------
    sp_ids : SparseTensor of an integer dtype, of shape [..., n]; or a list of them
        The ids; each tensor of a list makes a dimension of the result.
    sp_values : SparseTensor of any dtype
        A value for each id, at the same indices (checked).
    vocab_size : int64 scalar, or a list of scalars
        Size of the dimension, above the largest id.
    already_sorted : bool
        Whether the ids of each row are in order, so that sorting is unnecessary.

    Returns
    -------
    SparseTensor
        Of the dtype of the values, of shape [..., vocab_size].

    Raises
    ------
    GraphError
        If there are not as many sizes as tensors of ids.
    OpError
        In a step, if the indices of ids and values differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> def merged():
    ...     places = [[0, 0], [0, 1], [1, 0]]
    ...     ids, values = (tg.SparseTensor(places, each, [2, 2]) for each in ([3, 1, 0], [0.5, 2.0, 7.0]))
    ...     return tg.sparse_tensor_to_dense(tg.sparse_merge(ids, values, 4))
    >>> tg.function(merged).sync()
    array([[0. , 2. , 0. , 0.5],
           [7. , 0. , 0. , 0. ]], dtype=float32)
    """
    several = isinstance(sp_ids, (list, tuple)) and not isinstance(sp_ids, SparseTensorValue)
    ids = [as_sparse(each, "sparse_merge") for each in (sp_ids if several else [sp_ids])]
    sizes = list(vocab_size) if several and isinstance(vocab_size, (list, tuple)) else [vocab_size]
    if len(ids) != len(sizes) or not ids:
        raise GraphError(
            "sparse_merge has a size for each tensor of ids", wanted=len(ids), got=len(sizes), hint="vocab_size=[...]"
        )
    values = as_sparse(sp_values, "sparse_merge")
    same = [assert_equal(each.indices, values.indices, "indices of ids and of values") for each in ids]
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *same)):
        columns = [expand_dims(cast(each.values, int64), 1) for each in ids]
        # An id takes the place of the last number of its index vector.
        indices = concat([ids[0].indices[:, :-1], *columns], 1)
    dims = [expand_dims(cast(index_tensor(size), int64), 0) for size in sizes]
    merged = SparseTensor(indices, values.values, concat([ids[0].dense_shape[:-1], *dims], 0, name=name))
    return merged if already_sorted else sparse_reorder(merged)


@public
def sparse_reset_shape(sp_input: Any, new_shape: Any = None, name: str | None = None) -> SparseTensor:
    """Change the bounds of a sparse tensor around the same elements.

    Parameters
    ----------
    sp_input : SparseTensor of any dtype
    new_shape : int64 vector, optional
        At least as large as the old shape in each dimension; just large enough for the elements when None.

    Returns
    -------
    SparseTensor
        The same elements.

    Raises
    ------
    ShapeError
        If the new shape is known to have another rank, or to be smaller.
    OpError
        In a step, if the new shape proves not to fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.SparseTensor([[0, 1], [2, 0]], [5.0, 7.0], [9, 9])
    ...     shapes = [tg.sparse_reset_shape(x).dense_shape, tg.sparse_reset_shape(x, [10, 9]).dense_shape]
    >>> with tg.SyncSession(graph) as session:
    ...     [shape.tolist() for shape in session.run(shapes)]
    [[3, 2], [10, 9]]
    """
    x = as_sparse(sp_input, "sparse_reset_shape")
    if new_shape is None:
        nothing = expand_dims(-ones_like(x.dense_shape), 0)  # places -1, so that without elements the sizes are 0
        largest = reduce_max(concat([x.indices, nothing], 0), 0)
        return SparseTensor(x.indices, x.values, apply("Add", largest, 1, name=name))
    wanted = cast(index_tensor(new_shape), int64)
    _check_larger(wanted, x)
    same = assert_equal(shape_of(wanted), shape_of(x.dense_shape), "ranks of a sparse tensor and of its new shape")
    with scopes.within(control_inputs=(*scopes.current().control_inputs, same)):
        # After the comparison of ranks: vectors of different lengths cannot be compared.
        enough = assert_less_equal(x.dense_shape, wanted, "the old and the new shape of a sparse tensor")
    with scopes.within(control_inputs=(*scopes.current().control_inputs, enough)):
        return SparseTensor(x.indices, x.values, apply("Identity", wanted, name=name))


def _check_larger(wanted: Tensor, x: SparseTensor) -> None:
    """Refuse a shape that is known to be smaller than the old shape, or of another rank."""
    new, old = static_value(wanted), static_value(x.dense_shape)
    rank = wanted.shape[0] if wanted.rank == 1 else None
    is_other_rank = wanted.rank not in (1, None) or (None not in (rank, x.rank) and rank != x.rank)
    if is_other_rank or (new is not None and old is not None and (new < old).any()):
        raise ShapeError(
            "a sparse tensor does not fit a new shape",
            wanted=f"at least {x.shape}",
            got=wanted.shape if new is None else new.tolist(),
            source=user_source(),
            hint="leave new_shape out for the smallest",
        )

"""Combined embeddings: rows of a table selected by sparse ids."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError
from ...ir import scopes
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.sparse.grouping import sum_of_groups
from ...ops.sparse.sparse_tensor import as_sparse
from ...ops.support.common import scalar_like
from ...ops.support.literals import i32
from .embedding import Shards, name_in_scope


@public
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str | None = None,
    name: str | None = None,
    combiner: str = "mean",
    max_norm: Any = None,
) -> Tensor:
    """Combine the table rows selected by each row of ids; the table may be in shards on several devices.

    Parameters
    ----------
    params : Tensor, Variable, list of them, or PartitionedVariable
        The table, or its shards along dimension 0, as for `embedding_lookup`: of a floating dtype, of shape [n, ...].
    sp_ids : SparseTensor of int32 or int64, of shape [rows, m] with any m
        Indices of rows of the table.
    sp_weights : SparseTensor of the table's dtype, or None
        A weight for each id, at the same indices, which is not checked; all weights are 1 when None.
    partition_strategy : {'mod', 'div'}, optional
        As for `embedding_lookup`.
    combiner : {'mean', 'sum', 'sqrtn'}
        Divide the weighted sum by the sum of weights, by nothing, or by the root of the sum of squared weights.
    max_norm : float, optional
        Rows of the table with a larger Euclidean norm are scaled down to `max_norm` before they are combined.

    Returns
    -------
    Tensor
        Of shape [rows, ...], with ``rows = sp_ids.dense_shape[0]``; zeros for rows without ids, or with weights that
        add up to 0. The gradient of the table is an IndexedSlices.

    Raises
    ------
    GraphError
        If the combiner or strategy is unknown, or there is no shard.
    DtypeError
        If the dtypes of the shards differ.
    ShapeError
        If their rows differ in shape, or `max_norm` is used with rows of unknown rank.

    Examples
    --------
    >>> import tagloom as tg
    >>> ids = tg.SparseTensorValue([[0, 0], [0, 1], [2, 0]], [1, 3, 0], [3, 2])
    >>> tg.function(lambda: tg.embedding_lookup_sparse([10.0, 20.0, 30.0, 40.0], ids, None)).sync()
    array([30.,  0., 10.], dtype=float32)
    """
    sp = as_sparse(sp_ids, "embedding_lookup_sparse")
    if combiner not in ("mean", "sum", "sqrtn"):
        raise GraphError(
            "embedding_lookup_sparse has no such combiner",
            wanted="'mean', 'sum' or 'sqrtn'",
            got=combiner,
            operation=sp.values.op,
            hint="'mean' divides by the sum of weights",
        )
    # A nested list of numbers is a table, a list of tensors is a list of shards.
    is_literal = isinstance(params, (list, tuple)) and not any(hasattr(param, "dtype") for param in params)
    table = Shards.of(convert_to_tensor(params) if is_literal and params else params, partition_strategy)
    with scopes.within(name=name_in_scope(name or "embedding_lookup_sparse")):
        rows = table.lookup(sp.values, max_norm)
        weights = None if sp_weights is None else as_sparse(sp_weights, "embedding_lookup_sparse").values
        return _combine_rows(rows, weights, sp.indices[:, 0], sp.dense_shape[0], combiner)


def _combine_rows(rows: Tensor, weights: Tensor | None, segment_ids: Tensor, count: Tensor, combiner: str) -> Tensor:
    """Combine the rows of each segment: row i belongs to result ``segment_ids[i]`` of `count` results."""
    total = sum_of_groups(rows if weights is None else rows * _widen_to_rows(weights, rows), segment_ids, count)
    if combiner == "sum":
        return total
    if weights is None:
        # Weights of 1, which are their own squares.
        terms = apply("Fill", apply("Shape", segment_ids), scalar_like(1, rows))
    else:
        terms = weights if combiner == "mean" else apply("Square", weights)
    divisor = sum_of_groups(terms, segment_ids, count)
    divisor = _safe_sqrt(divisor) if combiner == "sqrtn" else divisor
    # A result without ids is 0 / 0, here 0.
    return apply("DivNoNan", total, _widen_to_rows(divisor, total))


def _safe_sqrt(squares: Tensor) -> Tensor:
    """Return the square root, with a gradient of 0 at 0 instead of infinity."""
    positive = squares > 0
    # The inner `where` keeps the root and its gradient finite, the outer one restores the zeros.
    return apply("Where", positive, apply("Sqrt", apply("Where", positive, squares, 1)), squares)


def _widen_to_rows(vector: Tensor, rows: Tensor) -> Tensor:
    """Return a vector with trailing dimensions of size 1, to broadcast with rows."""
    if rows.rank is not None:
        return apply("Reshape", vector, constant(i32([-1, *[1] * (rows.rank - 1)])))
    # Of unknown rank: as many ones as a row has dimensions, after a -1.
    extra = apply("Reshape", apply("Rank", rows) - 1, constant(i32([1])))
    sizes = apply("Concat", [constant(i32([-1])), apply("Fill", extra, constant(1))], axis=0)
    return apply("Reshape", vector, sizes)

"""Rows of a table that sparse ids name, combined; rows of slices that are left out."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.errors import GraphError
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..control.checks import clip_by_norm
from ..support.common import same_as
from ..support.indexed_slices import IndexedSlices
from ..support.literals import f64, flags, i32, i64
from .grouping import sum_of_groups
from .sparse_tensor import as_sparse

define(
    "IsIn",
    "x: T, values: T -> is_in: bool",
    where={"T": dtypes.REAL},
    shape=same_as(0),
    kernel=lambda xp, x, values: xp.isin(x, values),
    gradient=NotDifferentiable("its result is bool"),
    samples=[
        Sample([i64([[3, 1], [2, 3]]), i64([2, 3, 3])], flags([[True, False], [True, True]])),
        Sample([f64([0.5, 1]), f64([])], flags([False, False])),
    ],
)


@public
def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Leave out some rows of IndexedSlices.

    Parameters
    ----------
    a : IndexedSlices
    mask_indices : int32 or int64 vector
        Which rows of the tensor that they stand for to leave out.

    Returns
    -------
    IndexedSlices
        The other rows.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default() as graph:
    ...     rows = tg.IndexedSlices(tg.constant([[1.0], [2.0], [3.0]]), tg.constant([4, 6, 4]))
    ...     kept = tg.sparse_mask(rows, [4])
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(kept.values)
    array([[2.]], dtype=float32)
    """
    if not isinstance(a, IndexedSlices):
        raise GraphError(
            "sparse_mask wants IndexedSlices",
            wanted="rows, as gradients of gather are",
            got=repr(a),
            hint="sparse_retain keeps some values of a SparseTensor",
        )
    left_out = convert_to_tensor(mask_indices, None if isinstance(mask_indices, Tensor) else a.indices.dtype)
    kept = apply("LogicalNot", apply("IsIn", a.indices, left_out))
    values = apply("BooleanMask", a.values, kept, name=name)
    return IndexedSlices(values, apply("BooleanMask", a.indices, kept), a.dense_shape)


@public
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str = "mean",
    max_norm: Any = None,
) -> Tensor:
    """Combine, for each row of ids, the rows of a table that they name.

    Parameters
    ----------
    params : Tensor or Variable of a floating dtype, of shape [n, ...]
        The table, or a list with it.
    sp_ids : SparseTensor of int32 or int64, of shape [rows, most]
        Numbers of rows of the table.
    sp_weights : SparseTensor of the table's dtype, or None
        A weight for each id, at the same places; 1 when None.
    partition_strategy : str
        Has no meaning for one table; it keeps TensorFlow's argument order.
    combiner : {'mean', 'sum', 'sqrtn'}
        Divide the weighted sum by the sum of weights, by nothing, or by the root of the sum of their squares.
    max_norm : float, optional
        Rows of the table that are longer are scaled down to this length first.

    Returns
    -------
    Tensor
        Of shape [rows, ...], all of which ``sp_ids.dense_shape`` counts; zeros where there are no ids, or the weights
        add up to 0. The gradient of the table is an IndexedSlices.

    Raises
    ------
    GraphError
        If there is no such combiner, or more than one table.

    Examples
    --------
    >>> import tagflow as tg
    >>> ids = tg.SparseTensorValue([[0, 0], [0, 1], [2, 0]], [1, 3, 0], [3, 2])
    >>> tg.function(lambda: tg.embedding_lookup_sparse([10.0, 20.0, 30.0, 40.0], ids, None)).sync()
    array([30.,  0., 10.], dtype=float32)
    """
    table, sp = _single(params), as_sparse(sp_ids, "embedding_lookup_sparse")
    if combiner not in ("mean", "sum", "sqrtn"):
        raise GraphError(
            "embedding_lookup_sparse has no such combiner",
            wanted="'mean', 'sum' or 'sqrtn'",
            got=combiner,
            operation=table.op,
            hint="'mean' divides by the sum of weights",
        )
    rows = apply("Gather", table, sp.values)
    if max_norm is not None:
        rows = _clipped(rows, max_norm)
    ids, count = sp.indices[:, 0], sp.dense_shape[0]
    if sp_weights is None:
        weights = apply("Fill", apply("Shape", sp.values), apply("Cast", convert_to_tensor(1), dtype=table.dtype))
    else:
        weights = as_sparse(sp_weights, "embedding_lookup_sparse").values
    plain = sp_weights is None
    total = sum_of_groups(rows if plain else rows * _widened(weights, rows), ids, count)
    if combiner == "sum":
        return apply("Identity", total, name=name)  # type: ignore[no-any-return]
    squares = weights if plain or combiner == "mean" else apply("Square", weights)
    norm = sum_of_groups(squares, ids, count)
    norm = _root(norm) if combiner == "sqrtn" else norm
    return apply("DivNoNan", total, _widened(norm, total), name=name)  # type: ignore[no-any-return]


def _single(params: Any) -> Tensor:
    """Return the table as a tensor."""
    tables = params if isinstance(params, (list, tuple)) and any(hasattr(t, "dtype") for t in params) else [params]
    if len(tables) != 1:
        raise GraphError(
            "embedding_lookup_sparse reads one table",
            wanted="a tensor or a variable",
            got=f"{len(tables)} of them",
            hint="concat puts tables into one",
        )
    return convert_to_tensor(tables[0])


def _clipped(rows: Tensor, max_norm: Any) -> Tensor:
    if rows.rank is None:
        raise GraphError(
            "max_norm wants a table of known rank",
            got=rows.shape,
            wanted="[n, ...]",
            operation=rows.op,
            hint="give the table a shape, or use clip_by_norm",
        )
    return clip_by_norm(rows, max_norm, axes=list(range(1, rows.rank)))


def _root(squares: Tensor) -> Tensor:
    """Return the square root, whose slope at 0 is taken as 0."""
    positive = squares > 0
    return apply("Where", positive, apply("Sqrt", apply("Where", positive, squares, 1)), squares)  # type: ignore[no-any-return]


def _widened(numbers: Tensor, rows: Tensor) -> Tensor:
    """Return a vector with dimensions of size 1 behind, so that it broadcasts with rows."""
    if rows.rank is not None:
        return apply("Reshape", numbers, constant(i32([-1, *[1] * (rows.rank - 1)])))  # type: ignore[no-any-return]
    extra = apply("Reshape", apply("Rank", rows) - 1, constant(i32([1])))
    sizes = apply("Concat", [constant(i32([-1])), apply("Fill", extra, constant(1))], axis=0)
    return apply("Reshape", numbers, sizes)  # type: ignore[no-any-return]

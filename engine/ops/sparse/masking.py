"""Removal of rows from IndexedSlices."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.errors import GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.common import same_as
from ..support.indexed_slices import IndexedSlices
from ..support.literals import f64, flags, i64
from ..support.vectorizing.families import one_by_one

define(
    "IsIn",
    "x: T, values: T -> is_in: bool",
    where={"T": dtypes.REAL},
    shape=same_as(0),
    rules=[Vectorize(one_by_one)],
    kernel=lambda xp, x, values: xp.isin(x, values),
    gradient=NotDifferentiable("its result is bool"),
    samples=[
        Sample([i64([[3, 1], [2, 3]]), i64([2, 3, 3])], flags([[True, False], [True, True]])),
        Sample([f64([0.5, 1]), f64([])], flags([False, False])),
    ],
)


@public
def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Remove some rows of IndexedSlices.

    Parameters
    ----------
    a : IndexedSlices
    mask_indices : int32 or int64 vector
        Rows of the dense tensor to remove.

    Returns
    -------
    IndexedSlices
        The remaining rows.

    Examples
    --------
    >>> import tagloom as tg
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

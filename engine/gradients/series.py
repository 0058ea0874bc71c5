"""Gradients of reading saved values: the cotangent of a read goes to the slot read."""

from __future__ import annotations

from ..base.dtypes import series
from ..ir import scopes
from ..ir.apply import apply
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.support.common import shape_of
from .backward import RULES, Backward
from .cotangents import Cotangents, Slot


def sum_of(collected: Tensor, like: Tensor) -> Tensor:
    """Return the sum of all slots of a series of cotangents of `like`."""
    if like.dtype is series:
        return apply("SeriesSumSeries", collected)  # type: ignore[no-any-return]
    return apply("SeriesSum", collected, shape_of(like), dtype=like.dtype)  # type: ignore[no-any-return]


def _total(op: Operation, cotangents: Cotangents) -> Tensor:
    total = cotangents.dense(op.outputs[0])
    assert total is not None
    return total


def _read(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    index = scopes.current_region().resolve(op.inputs[1])
    walk.contribute(cotangents, op.inputs[0], Slot(index, _total(op, cotangents)))


def _get(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], _total(op, cotangents))


def _add(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    for tensor in op.inputs:
        walk.contribute(cotangents, tensor, _total(op, cotangents))


def _concat(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], apply("SeriesSplit", _total(op, cotangents), op.inputs[0]))


def _split(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    rows = op.inputs[0]
    joined = apply("SeriesConcat", _total(op, cotangents), shape_of(rows), dtype=rows.dtype, shape=rows.shape)
    walk.contribute(cotangents, rows, joined)


def _sum(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], apply("SeriesSpread", _total(op, cotangents), op.inputs[0]))


def _spread(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], sum_of(_total(op, cotangents), op.inputs[0]))


RULES.update(
    SeriesRead=_read,
    SeriesReadOrZeros=_read,
    SeriesReadSeries=_read,
    MaybeGet=_get,
    SeriesAdd=_add,
    SeriesConcat=_concat,
    SeriesSplit=_split,
    SeriesSum=_sum,
    SeriesSumSeries=_sum,
    SeriesSpread=_spread,
)

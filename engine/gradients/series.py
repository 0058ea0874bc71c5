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
        return apply("SeriesSumSeries", collected)
    return apply("SeriesSum", collected, shape_of(like), dtype=like.dtype)


def _dense_total(op: Operation, cotangents: Cotangents) -> Tensor:
    total = cotangents.dense(op.outputs[0])
    assert total is not None
    return total


def _pull_back_read(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    index = scopes.current_region().resolve(op.inputs[1])
    walk.contribute(cotangents, op.inputs[0], Slot(index, _dense_total(op, cotangents)))


def _pull_back_get(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], _dense_total(op, cotangents))


def _pull_back_add(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    for tensor in op.inputs:
        walk.contribute(cotangents, tensor, _dense_total(op, cotangents))


def _pull_back_concat(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], _split(op, _dense_total(op, cotangents)))


def _split(op: Operation, rows: Tensor) -> Tensor:
    axis = op.attrs["axis"]
    return apply("SeriesSplit", rows, op.inputs[0], axis=axis, like_axis=axis)


def _pull_back_split(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    rows = op.inputs[0]
    attrs = {"dtype": rows.dtype, "shape": rows.shape, "axis": op.attrs["axis"]}
    joined = apply("SeriesConcat", _dense_total(op, cotangents), shape_of(rows), **attrs)
    walk.contribute(cotangents, rows, joined)


def _pull_back_sum(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], apply("SeriesSpread", _dense_total(op, cotangents), op.inputs[0]))


def _pull_back_spread(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    walk.contribute(cotangents, op.inputs[0], sum_of(_dense_total(op, cotangents), op.inputs[0]))


RULES.update(
    SeriesRead=_pull_back_read,
    SeriesReadOrZeros=_pull_back_read,
    SeriesReadSeries=_pull_back_read,
    MaybeGet=_pull_back_get,
    SeriesAdd=_pull_back_add,
    SeriesConcat=_pull_back_concat,
    SeriesSplit=_pull_back_split,
    SeriesSum=_pull_back_sum,
    SeriesSumSeries=_pull_back_sum,
    SeriesSpread=_pull_back_spread,
)

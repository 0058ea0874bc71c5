"""Gradients of reading saved values: a read gives its cotangent to the slot it read."""

from __future__ import annotations

from typing import Any

from ..base.errors import GraphError
from ..ir import scopes
from ..ir.build import apply
from ..ir.operation import Operation
from .backward import RULES, Backward, Cotangents, slots
from .cotangents import Maybe, Slot, densify, is_maybe


def _read(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    series, index = op.inputs[:2]
    index = scopes.current_region().resolve(index)
    for value in slots(cotangents.take(op.outputs[0]), op.outputs[0]):
        walk.contribute(cotangents, series, Slot(index, value))


def _get(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    maybe = op.inputs[0]
    total = cotangents.dense(op.outputs[0])
    assert total is not None
    walk.contribute(cotangents, maybe, Maybe(total) if is_maybe(maybe) else total)


def _add(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    total = cotangents.dense(op.outputs[0])
    for tensor in op.inputs:
        walk.contribute(cotangents, tensor, total)


def _concat(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    total: Any = densify(cotangents.sum(op.outputs[0]))
    walk.contribute(cotangents, op.inputs[0], apply("SeriesSplit", total, op.inputs[0]))


def _split(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    total = cotangents.dense(op.outputs[0])
    rows = op.inputs[0]
    shape = apply("Shape", rows)
    walk.contribute(cotangents, rows, apply("SeriesConcat", total, shape, dtype=rows.dtype, shape=rows.shape))


def _sum(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    raise GraphError(
        "a gradient of this order through a branch in a loop over gradients is not supported", operation=op,
        hint="differentiate each row of the hessian by itself",
    )  # fmt: skip


RULES.update(
    SeriesRead=_read, SeriesReadOrZeros=_read, SeriesReadSeries=_read, MaybeGet=_get, SeriesAdd=_add,
    SeriesConcat=_concat, SeriesSplit=_split, SeriesSum=_sum,
)  # fmt: skip

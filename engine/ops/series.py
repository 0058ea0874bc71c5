"""Saved values: what a loop keeps for its gradient, one slot per iteration.

A series is a result of a While (see ``engine/ir/structured.py``). Reading does not remove. The cotangent of a
series is a series too, whose unwritten slots are zero; the reverse walk in ``engine/gradients`` handles the
pairing of reads and writes, so these operations have no gradient function of their own.
"""

from __future__ import annotations

from typing import Any

from ..base import dtypes
from ..base.shapes import SCALAR, Shape
from ..ir.definition import REQUIRED, NotDifferentiable, define
from ..ir.operation import Operation

_BY_WALK = NotDifferentiable("the reverse walk pairs reads with writes of a series")


def _declared(op: Operation) -> Shape:
    return Shape(op.attrs["shape"])


define(
    "SeriesPush",
    "value: any, index: *int64 -> flow: float32",
    attrs={"series": 0},
    shape=lambda op: SCALAR,
    kernel=None,
    gradient=_BY_WALK,
    stateful=True,
)

define(
    "SeriesExit",
    "flow: float32 -> series: series",
    attrs={"series": 0},
    shape=lambda op: SCALAR,
    kernel=None,
    gradient=_BY_WALK,
    stateful=True,
)

define(
    "TripCount",
    "pred: bool -> count: int64",
    shape=lambda op: SCALAR,
    kernel=None,
    gradient=NotDifferentiable("a count is not differentiable"),
    stateful=True,
)

define(
    "SeriesRead",
    "series: series, index: int64 -> value: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None)},
    shape=_declared,
    kernel=None,
    gradient=_BY_WALK,
)


def _read_or_zeros(xp: Any, series: Any, index: Any, shape: Any, dtype: Any) -> Any:
    value = series.get(int(index))
    return xp.zeros(tuple(shape), dtype.numpy) if value is None else value


define(
    "SeriesReadOrZeros",
    "series: series, index: int64, shape: int32 -> value: @dtype",
    attrs={"dtype": REQUIRED},
    shape=lambda op: _static(op),
    kernel=_read_or_zeros,
    gradient=_BY_WALK,
)


def _static(op: Operation) -> Shape:
    from ..ir.build import static_shape

    return static_shape(op.inputs[2])


def _series_or_empty(xp: Any, series: Any, index: Any) -> Any:
    value = series.get(int(index))
    return type(series)() if value is None else value


define(
    "SeriesReadSeries",
    "series: series, index: int64 -> value: series",
    shape=lambda op: SCALAR,
    kernel=_series_or_empty,
    gradient=_BY_WALK,
)

define(
    "MaybeGet",
    "maybe: T -> value: T",
    where={"T": dtypes.ALL},
    shape=lambda op: op.inputs[0].shape,
    kernel=lambda xp, x: x,
    gradient=_BY_WALK,
)

"""Saved values: values kept by a loop for its gradient, a slot per iteration.

A series is a result of a While (see ``engine/ir/structured.py``). Only a read known to be the last of its slot removes
the value. The cotangent of a series is a series too, whose unwritten slots are zero; the reverse walk in
``engine/gradients`` pairs reads with writes, so these operations have no gradient functions of their own.

Lowering makes of a saved value a SeriesPush in each iteration, and a SeriesExit that sends the series when the frame is
done. A *flow* is a float32 scalar without meaning, which only puts operations in order. The executors know the
operations without a kernel by their roles.

The attributes are: `series`, the number of the series among its loop's saved values; `swappable` and `host_backed`, as
in the glossary of ARCHITECTURE.md; `maybe`, True if the slot may be unwritten, so that a read is dead; `last`, True if
a read is the last of its slot.
"""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.rules.gradients import Reread
from ...ir.rules.kernels import Elements
from ...ir.rules.native import RunsAs
from ...ir.rules.shapes import ShapeVector
from ...ir.static_values import static_shape
from ...ir.structured import saved_value
from ...ir.traits import Effect, Role
from ...kernels.scheduler.series import Series
from ..support.arguments import shape_in
from ..support.tangents import LINEAR_IN_FIRST, SUM

_BY_WALK = NotDifferentiable("the reverse walk pairs reads with writes of a series")


def _slot_shape(op: Operation) -> Shape:
    """Return the static shape of a value read from a slot: as declared, and as known of the saved tensor."""
    value = saved_value(op.inputs[0])
    declared = Shape(op.attrs["shape"])
    return declared if value is None else declared.merge(value.shape)


def _saved_static_shape(op: Operation) -> Shape | None:
    """Return the static shape that a saved shape vector contains, as far as known; None if the read may be dead."""
    value = None if op.attrs["maybe"] else saved_value(op.inputs[0])
    return None if value is None else static_shape(value)


define(
    "SeriesPush",
    "value: any, index: host *int64 -> flow: host float32",
    attrs={"series": 0, "swappable": False, "host_backed": False},
    shape=lambda op: SCALAR,
    role=Role.SERIES_PUSH,
    kernel=None,
    gradient=_BY_WALK,
    effects=Effect.WRITES,
)

define(
    "SeriesExit",
    "flow: host float32 -> series: series",
    attrs={"series": 0},
    shape=lambda op: SCALAR,
    role=Role.SERIES_EXIT,
    kernel=None,
    gradient=_BY_WALK,
    effects=Effect.READS,
)

define(
    "TripCount",  # the executors count the iterations of the frame, which the predicate only connects
    "pred: host bool -> count: host int64",
    shape=lambda op: SCALAR,
    role=Role.TRIP_COUNT,
    kernel=None,
    gradient=NotDifferentiable("a count is not differentiable"),
    effects=Effect.READS,
)

define(
    "SeriesRead",
    "series: series, index: host int64 -> value: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None), "maybe": False, "last": False},
    shape=_slot_shape,
    rules=[ShapeVector(_saved_static_shape), Reread(), RunsAs("READ"), LINEAR_IN_FIRST],
    role=Role.SERIES_READ,
    kernel=None,
    gradient=_BY_WALK,
)


def _read_or_zeros(xp: Any, series: Any, index: Any, shape: Any, dtype: Any) -> Any:
    value = series.get(int(index))
    # An unwritten slot of a cotangent is zero, of the shape of the forward value.
    return xp.zeros(tuple(shape), dtype.numpy) if value is None else value


define(
    "SeriesReadOrZeros",
    "series: series, index: host int64, shape: host int32 -> value: @dtype",
    attrs={"dtype": REQUIRED},
    shape=lambda op: static_shape(op.inputs[2]),
    rules=[Elements(shape_in(2)), Reread(), RunsAs("READ"), LINEAR_IN_FIRST],
    role=Role.SERIES,
    kernel=_read_or_zeros,
    gradient=_BY_WALK,
)


def _series_or_empty(xp: Any, series: Any, index: Any) -> Any:
    """Return the series in a slot; an unwritten slot of a cotangent is an empty series, which is zero."""
    value = series.get(int(index))
    return Series() if value is None else value


define(
    "SeriesReadSeries",
    "series: series, index: host int64 -> value: series",
    shape=lambda op: SCALAR,
    role=Role.SERIES,
    rules=[Reread(), RunsAs("READ_NESTED"), LINEAR_IN_FIRST],
    kernel=_series_or_empty,
    gradient=_BY_WALK,
)

define(
    "MaybeGet",  # the identity, asserting to analyses of liveness that a maybe is alive here
    "maybe: T -> value: T",
    where={"T": dtypes.ALL},
    shape=lambda op: op.inputs[0].shape,
    role=Role.MAYBE_GET,
    rules=[Reread(), LINEAR_IN_FIRST],
    kernel=lambda xp, x: x,
    gradient=_BY_WALK,
)

define(
    "SeriesEmpty",
    "-> series: series",
    shape=lambda op: SCALAR,
    role=Role.SERIES,
    kernel=lambda xp: Series(),
    gradient=NotDifferentiable("it has no inputs"),
)


def _compute_series_add(xp: Any, a: Any, b: Any) -> Any:
    """Add two series slot by slot; an unwritten slot is zero, so the sum is the other side's value."""
    total = Series()
    for index in sorted({*a.indices(), *b.indices()}):
        left, right = a.get(index), b.get(index)
        if left is None or right is None:
            total.put(index, right if left is None else left)
        else:
            # The sum of two arrays of rank 0 is a NumPy scalar.
            total.put(
                index, _compute_series_add(xp, left, right) if isinstance(left, Series) else xp.asarray(left + right)
            )
    return total


define(
    "SeriesAdd",
    "a: series, b: series -> sum: series",
    shape=lambda op: SCALAR,
    role=Role.SERIES,
    kernel=_compute_series_add,
    gradient=_BY_WALK,
    rules=[SUM],
)


def _compute_series_sum(xp: Any, series: Any, shape: Any, dtype: Any) -> Any:
    total = xp.zeros(tuple(shape), dtype.numpy)
    for index in series.indices():
        total = total + series.get(index)
    return xp.asarray(total)


define(
    "SeriesSum",
    "series: series, shape: host int32 -> value: @dtype",
    attrs={"dtype": REQUIRED},
    shape=lambda op: static_shape(op.inputs[1]),
    role=Role.SERIES,
    kernel=_compute_series_sum,
    gradient=_BY_WALK,
    rules=[LINEAR_IN_FIRST],
)


def _compute_series_sum_series(xp: Any, series: Any) -> Any:
    total = Series()
    for index in series.indices():
        total = _compute_series_add(xp, total, series.get(index))
    return total


define(
    "SeriesSumSeries",
    "series: series -> value: series",
    shape=lambda op: SCALAR,
    role=Role.SERIES,
    kernel=_compute_series_sum_series,
    gradient=_BY_WALK,
    rules=[LINEAR_IN_FIRST],
)


def _compute_series_spread(xp: Any, value: Any, like: Any) -> Any:
    """Put `value` into every slot that is written in the series `like`: the transpose of a sum."""
    copies = Series()
    for index in like.indices():
        copies.put(index, value)
    return copies


define(
    "SeriesSpread",
    "value: any, like: series -> copies: series",
    shape=lambda op: SCALAR,
    role=Role.SERIES,
    kernel=_compute_series_spread,
    gradient=_BY_WALK,
    rules=[LINEAR_IN_FIRST],
)


def _concat_shape(op: Operation) -> Shape:
    """Return the shape of concatenated rows, from the attribute `shape` of the rows of one slot."""
    rows, axis = Shape(op.attrs["shape"]), op.attrs["axis"]
    return rows if rows.rank is None else rows[:axis] + Shape([None]) + rows[axis + 1 :]


def _compute_series_concat(xp: Any, series: Any, like: Any, dtype: Any, shape: Any, axis: int) -> Any:
    """Concatenate the slots along an axis; without slots, return no rows, of the other sizes of `like`."""
    rows = [series.get(index) for index in series.indices()]
    if rows:
        return xp.concatenate(rows, axis)
    return xp.zeros(tuple(0 if i == axis else int(n) for i, n in enumerate(like)), dtype.numpy)


define(
    "SeriesConcat",
    "series: series, like: host int32 -> value: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None), "axis": 0},
    shape=_concat_shape,
    role=Role.SERIES,
    kernel=_compute_series_concat,
    gradient=_BY_WALK,
    rules=[LINEAR_IN_FIRST],
)


def _compute_series_split(xp: Any, rows: Any, like: Any, axis: int, like_axis: int) -> Any:
    """Split rows along an axis into the slots of the series `like`, as many for each as the slot has in `like`."""
    parts, start = Series(), 0
    # In slot order, as `_compute_series_concat` joined the rows.
    for index in sorted(like.indices()):
        stop = start + like.get(index).shape[like_axis]
        parts.put(index, rows[(slice(None),) * axis + (slice(start, stop),)])
        start = stop
    return parts


define(
    "SeriesSplit",
    "rows: T, like: series -> parts: series",
    attrs={"axis": 0, "like_axis": 0},
    shape=lambda op: SCALAR,
    role=Role.SERIES,
    kernel=_compute_series_split,
    gradient=_BY_WALK,
    rules=[LINEAR_IN_FIRST],
)

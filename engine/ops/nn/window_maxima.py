"""Places of the largest elements of windows, and gradients through these places.

A place is the number of an element in its window, rows first. For fixed places the gradient of a maximum is a sum, and
the gradient of the sum a choice: derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...ir.rules.fusing import LargestPlaces, SpreadsWindows
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ..support.arguments import as_sizes, shape_in
from ..support.common import shape_of
from ..support.literals import f64, i32, i64
from ..support.vectorizing.families import merged, merged_or_one_by_one, one_by_one
from ..support.windows import (
    WINDOWS,
    Windows,
    check_fits,
    check_not_empty,
    iterate_places,
    patch_size,
    spatial_axes,
    windows_of,
    windows_shape,
)

_X = f64([3, 1, 4, 1, 5, 9, 2, 6, 5]).reshape(1, 3, 3, 1)
_GAPS = f64([1, 7, np.nan, np.nan, 9, np.nan]).reshape(1, 2, 3, 1)
_TWO = {"window": (2, 2), "strides": (1, 1), "rates": (1, 1), "padding": "VALID"}
_SAME = {"window": (3,), "strides": (2,), "rates": (1,), "padding": "SAME", "channels_first": True}
_PLACE = NotDifferentiable("its result is an index")


def lowest_value(dtype: Any) -> Any:
    """Return the least value of a dtype, -inf if floating."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _first_along(xp: Any, x: Any, place: Any, axis: int, windows: Windows, step: int) -> tuple[Any, Any]:
    """Return the first largest element, or NaN, of each window along an axis, and its place, `step` per element."""
    lead = (slice(None),) * axis
    shape = (*x.shape[:axis], windows.count, *x.shape[axis + 1 :])
    # -1 marks a window without an element so far.
    best, where = xp.full(shape, lowest_value(x.dtype), dtype=x.dtype), xp.full(shape, -1, dtype=xp.int32)
    for k in range(windows.window):
        outer, inner = ((*lead, part) for part in windows.at(k))
        value, largest = x[inner], best[outer]
        # The first NaN is larger than all numbers; a window without an element yet takes any, even -inf.
        better = (value > largest) | ((value != value) & (largest == largest)) | (where[outer] < 0)
        xp.copyto(best[outer], x[inner], where=better)
        xp.copyto(where[outer], place[inner] + k * step, where=better)
    return best, where


def _max_place(xp: Any, x: Any, **attrs: Any) -> Any:
    """Return the place of the first largest element of each window."""
    windows = windows_of(x.shape, attrs)
    check_not_empty(windows)
    # The last axis first: of equal elements the first in row-major order remains.
    place, step = xp.zeros(x.shape, dtype=xp.int32), 1
    for axis, each in reversed(list(zip(spatial_axes(attrs), windows, strict=True))):
        x, place = _first_along(xp, x, place, axis, each, step)
        step *= each.window
    return place


define(
    "MaxPoolPlace",
    "value: T -> place: int32",
    where={"T": dtypes.REAL},
    attrs=WINDOWS,
    shape=lambda op: windows_shape(op.inputs[0].shape, op.attrs),
    kernel=_max_place,
    gradient=_PLACE,
    rules=[Vectorize(merged(0)), LargestPlaces("MaxPool")],
    samples=[
        Sample([_X], i32([3, 3, 3, 1]).reshape(1, 2, 2, 1), _TWO),
        Sample([i32([[[2, 2, 1, 1]]])], i32([[[0, 0]]]), _SAME),
        Sample([f64([[[-np.inf, -np.inf, 3]]])], i32([[[1, 1]]]), _SAME),
        Sample([_GAPS], i32([2, 1]).reshape(1, 1, 2, 1), _TWO),
    ],
)


def _of_image(op: Operation) -> Shape:
    return static_shape(op.inputs[2])


def _checked_windows(g: Any, place: Any, sizes: tuple[int, ...], attrs: Mapping[str, Any]) -> list[Windows]:
    windows = windows_of(sizes, attrs)
    check_fits(place.shape, sizes, windows, attrs)
    check_fits(g.shape, sizes, windows, attrs)
    return windows


def _compute_max_pool_gradient(xp: Any, g: Any, place: Any, shape: Any, **attrs: Any) -> Any:
    """Add the gradient of each window to the element at its place."""
    sizes = as_sizes(shape)
    windows, zero = _checked_windows(g, place, sizes, attrs), xp.zeros((), dtype=g.dtype)
    dx = xp.zeros(sizes, dtype=g.dtype)
    for number, outer, inner in iterate_places(windows, attrs):
        view = dx[inner]
        # Windows overlap between places, never within a place, where += would lose additions.
        view += xp.where(place[outer] == number, g[outer], zero)
    return dx


define(
    "MaxPoolGrad",
    "g: T, place: int32, shape: host J -> dx: T",
    where={"T": dtypes.FLOATING, "J": dtypes.INDEX},
    attrs=WINDOWS,
    shape=_of_image,
    rules=[Vectorize(merged(0, 1, sizes=(2,))), Elements(shape_in(2)), SpreadsWindows()],
    kernel=_compute_max_pool_gradient,
    gradient=lambda op, g: [apply("MaxPoolPick", g, op.inputs[1], **op.own_attrs), None, None],
    samples=[
        Sample(
            [f64([1, 2, 3, 4]).reshape(1, 2, 2, 1), i32([3, 3, 3, 1]).reshape(1, 2, 2, 1), i32([1, 3, 3, 1])],
            f64([0, 0, 0, 0, 1, 6, 0, 3, 0]).reshape(1, 3, 3, 1),
            _TWO,
        ),
        Sample([f64([[[5, 7]]]), i32([[[2, 0]]]), i64([1, 1, 4])], f64([[[0, 0, 12, 0]]]), _SAME),
    ],
)


def _pick_maxima(xp: Any, x: Any, place: Any, **attrs: Any) -> Any:
    windows = windows_of(x.shape, attrs)
    check_fits(place.shape, x.shape, windows, attrs)
    y = xp.zeros(place.shape, dtype=x.dtype)
    for number, outer, inner in iterate_places(windows, attrs):
        xp.copyto(y[outer], x[inner], where=place[outer] == number)
    return y


define(
    "MaxPoolPick",
    "value: T, place: int32 -> output: T",
    where={"T": dtypes.FLOATING},
    attrs=WINDOWS,
    shape=lambda op: windows_shape(op.inputs[0].shape, op.attrs).merge(op.inputs[1].shape),
    rules=[Vectorize(merged(0, 1))],
    kernel=_pick_maxima,
    gradient=lambda op, g: [apply("MaxPoolGrad", g, op.inputs[1], shape_of(op.inputs[0]), **op.own_attrs), None],
    samples=[
        Sample([_X, i32([0, 1, 2, 3]).reshape(1, 2, 2, 1)], f64([3, 4, 2, 5]).reshape(1, 2, 2, 1), _TWO),
        Sample([f64([[[5, 7, 1, 2]]]), i32([[[2, 0]]])], f64([[[1, 1]]]), _SAME),
    ],
)


def _flat_places(xp: Any, place: Any, shape: Any, include_batch: bool, dtype: DType, **attrs: Any) -> Any:
    """Return indices in the flattened image: along each axis the start of the window, and the element's place."""
    sizes, first = as_sizes(shape), spatial_axes(attrs)[0]
    windows = windows_of(sizes, attrs)
    check_fits(place.shape, sizes, windows, attrs)
    kind = dtype.numpy
    rest, flat, unit = place.astype(kind), xp.zeros(place.shape, dtype=kind), 1
    # From the last axis on: `unit` counts the elements of all axes behind.
    for axis in reversed(range(0 if include_batch else 1, place.ndim)):
        at = xp.arange(place.shape[axis], dtype=kind).reshape(-1, *[1] * (place.ndim - axis - 1))
        if 0 <= axis - first < len(windows):
            each = windows[axis - first]
            # `rest` holds the place along this axis and the axes before.
            at = at * each.stride - each.before + rest % each.window * each.rate
            rest = rest // each.window
        flat += at * unit
        unit *= sizes[axis]
    return flat


define(
    "FlatPlaces",
    "place: int32, shape: host J -> indices: @dtype",
    where={"J": dtypes.INDEX},
    attrs={**WINDOWS, "include_batch": False, "dtype": dtypes.int64},
    shape=lambda op: op.inputs[0].shape,
    rules=[Vectorize(one_by_one)],
    kernel=_flat_places,
    gradient=_PLACE,
    samples=[
        Sample([i32([3, 3, 3, 1]).reshape(1, 2, 2, 1), i32([1, 3, 3, 1])], i64([4, 5, 7, 5]).reshape(1, 2, 2, 1), _TWO),
        Sample(
            [i32([[[2, 0]], [[0, 1]]]), i32([2, 1, 4])],
            i32([[[2, 2]], [[4, 7]]]),
            {**_SAME, "include_batch": True, "dtype": dtypes.int32},
        ),
    ],
)


def _sum_by_place(xp: Any, g: Any, place: Any, **attrs: Any) -> Any:
    axes, zero = tuple(range(g.ndim - 1)), xp.zeros((), dtype=g.dtype)
    rows = [xp.sum(xp.where(place == k, g, zero), axes, g.dtype) for k in range(patch_size(attrs))]
    return xp.stack(rows).reshape(*attrs["window"], g.shape[-1])


def _filter_shape(op: Operation) -> Shape:
    shape = op.inputs[0].shape
    return Shape([*op.attrs["window"], None if shape.rank is None else shape[-1]])


define(
    "PlaceSum",
    "g: T, place: int32 -> filter: T",
    where={"T": dtypes.FLOATING},
    attrs=WINDOWS,
    shape=_filter_shape,
    rules=[Vectorize(one_by_one)],
    kernel=_sum_by_place,
    gradient=lambda op, g: [apply("PlacePick", g, op.inputs[1], **op.own_attrs), None],
    samples=[
        Sample(
            [f64([[[[1, 2], [3, 4]]]]), i32([[[[0, 3], [0, 1]]]])],
            f64([[[4, 0], [0, 4]], [[0, 0], [0, 2]]]),
            _TWO,
        ),
    ],
)


def _pick_filter_elements(xp: Any, filter: Any, place: Any, **attrs: Any) -> Any:
    rows = filter.reshape(patch_size(attrs), filter.shape[-1])
    channels = xp.arange(filter.shape[-1])
    # The last axis of `place` counts channels, along which `channels` broadcasts.
    return rows[place, channels]


define(
    "PlacePick",
    "filter: T, place: int32 -> output: T",
    where={"T": dtypes.FLOATING},
    attrs=WINDOWS,
    shape=lambda op: op.inputs[1].shape,
    rules=[Vectorize(merged_or_one_by_one(1))],
    kernel=_pick_filter_elements,
    gradient=lambda op, g: [apply("PlaceSum", g, op.inputs[1], **op.own_attrs), None],
    samples=[
        Sample(
            [np.arange(8.0).reshape(2, 2, 2), i32([[[[0, 3], [0, 1]]]])],
            f64([[[[0, 7], [0, 3]]]]),
            _TWO,
        ),
    ],
)

"""Kernels of pooling: the largest element, or the mean, of each window of an image, and the gradient of the mean.

Windows are boxes: maxima and sums over windows are taken along each axis in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import Sample, define
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, shape_in
from ..support.array_library import cast_to_accumulator
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.literals import f64, i32
from ..support.vectorizing.families import merged
from ..support.windows import (
    WINDOWS,
    Windows,
    check_fits,
    check_not_empty,
    spatial_axes,
    windows_of,
    windows_shape,
)
from .window_maxima import lowest_value

_X = f64([3, 1, 4, 1, 5, 9, 2, 6, 5.5]).reshape(1, 3, 3, 1)
_TWO = {"window": (2, 2), "strides": (1, 1), "rates": (1, 1), "padding": "VALID"}
_ROWS = f64([[[1, 5, 2, 4], [8, 0, 3, -1]]])
_THREE = {"window": (3,), "strides": (2,), "rates": (1,), "padding": "SAME", "channels_first": True}
_MEANS = {**WINDOWS, "mean": True}


def _pooled_shape(op: Operation) -> Shape:
    return windows_shape(op.inputs[0].shape, op.attrs)


def _reduce_along(xp: Any, ufunc: Any, x: Any, axis: int, windows: Windows, start: Any) -> Any:
    """Reduce the windows along one axis."""
    lead = (slice(None),) * axis
    parts = [windows.at(place) for place in range(windows.window)]
    whole = next((part for part in parts if part[0] == slice(0, windows.count)), None)
    # An element that all windows have starts the result, which saves filling an array with `start`.
    if whole is None:
        out = xp.full((*x.shape[:axis], windows.count, *x.shape[axis + 1 :]), start, dtype=x.dtype)
    else:
        out = x[*lead, whole[1]].copy()
        parts.remove(whole)
    for outer, inner in parts:
        view = out[*lead, outer]
        ufunc(view, x[*lead, inner], out=view)
    return out


@keep_dtype
def _max_pool(xp: Any, x: Any, **attrs: Any) -> Any:
    windows = windows_of(x.shape, attrs)
    check_not_empty(windows)
    for axis, each in zip(spatial_axes(attrs), windows, strict=True):
        x = _reduce_along(xp, xp.maximum, x, axis, each, lowest_value(x.dtype))
    return x


def _max_pool_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x,) = op.inputs
    return [apply("MaxPoolGrad", g, apply("MaxPoolPlace", x, **op.own_attrs), shape_of(x), **op.own_attrs)]


define(
    "MaxPool",
    "value: T -> output: T",
    where={"T": dtypes.REAL},
    attrs=WINDOWS,
    shape=_pooled_shape,
    rules=[Vectorize(merged(0))],
    kernel=_max_pool,
    gradient=_max_pool_gradient,
    samples=[
        Sample([_X], f64([5, 9, 6, 9]).reshape(1, 2, 2, 1), _TWO),
        Sample([_X], f64(5.5).reshape(1, 1, 1, 1), {**_TWO, "rates": (2, 2)}),
        Sample([_ROWS], f64([[[5, 4], [8, 3]]]), _THREE),
        Sample([i32([[[-5, -7, -3]]])], i32([[[-5, -3]]]), _THREE),
        Sample([np.zeros((0, 3, 3, 2))], np.zeros((0, 2, 2, 2)), _TWO),
    ],
)


def _divide_by_counts(xp: Any, x: Any, axis: int, windows: Windows) -> None:
    """Divide sums over windows by the number of elements of each window, in place."""
    # Lengths along the axes multiply to the number of elements of the whole window, padding excluded.
    lengths = np.asarray(windows.lengths(), x.dtype).reshape(-1, *[1] * (x.ndim - axis - 1))
    x /= xp.asarray(lengths)


@keep_dtype
def _avg_pool(xp: Any, x: Any, mean: bool, **attrs: Any) -> Any:
    windows, x = windows_of(x.shape, attrs), cast_to_accumulator(xp, x)
    check_not_empty(windows)
    for axis, each in zip(spatial_axes(attrs), windows, strict=True):
        x = _reduce_along(xp, xp.add, x, axis, each, 0)
        if mean:
            _divide_by_counts(xp, x, axis, each)
    return x


define(
    "AvgPool",
    "value: T -> output: T",
    where={"T": dtypes.FLOATING},
    attrs=_MEANS,
    shape=_pooled_shape,
    rules=[Vectorize(merged(0))],
    kernel=_avg_pool,
    gradient=lambda op, g: [apply("AvgPoolGrad", g, shape_of(op.inputs[0]), **op.own_attrs)],
    samples=[
        Sample([_X], f64([2.5, 4.75, 3.5, 6.375]).reshape(1, 2, 2, 1), _TWO),
        Sample([_X], f64(3.625).reshape(1, 1, 1, 1), {**_TWO, "rates": (2, 2)}),
        Sample([_ROWS], f64([[[8 / 3, 3], [11 / 3, 1]]]), _THREE),
        Sample([_ROWS], f64([[[8, 6], [11, 2]]]), {**_THREE, "mean": False}),
        Sample([_ROWS], f64([[[1, 3.5, 4], [8, 1.5, -1]]]), {**_THREE, "window": (2,), "padding": ((1, 1),)}),
        Sample([np.zeros((0, 3, 3, 2))], np.zeros((0, 2, 2, 2)), _TWO),
    ],
)


def _spread_along(xp: Any, g: Any, axis: int, windows: Windows) -> Any:
    """Add the value of each window to all its elements along an axis."""
    lead = (slice(None),) * axis
    out = xp.zeros((*g.shape[:axis], windows.size, *g.shape[axis + 1 :]), dtype=g.dtype)
    for outer, inner in map(windows.at, range(windows.window)):
        # Windows overlap at different places only: within a place no element is added to twice.
        view = out[*lead, inner]
        view += g[*lead, outer]
    return out


@keep_dtype
def _avg_pool_grad(xp: Any, g: Any, shape: Any, mean: bool, **attrs: Any) -> Any:
    """Spread the gradient of each window over its elements, along the axes in reverse order."""
    sizes = as_sizes(shape)
    windows = windows_of(sizes, attrs)
    check_fits(g.shape, sizes, windows, attrs)
    check_not_empty(windows)
    # A copy, because `_divide_by_counts` writes and `wide` may return the input itself.
    g = cast_to_accumulator(xp, g).copy()
    for axis, each in reversed(list(zip(spatial_axes(attrs), windows, strict=True))):
        if mean:
            _divide_by_counts(xp, g, axis, each)
        g = _spread_along(xp, g, axis, each)
    return g


define(
    "AvgPoolGrad",
    "g: T, shape: host J -> dx: T",
    where={"T": dtypes.FLOATING, "J": dtypes.INDEX},
    attrs=_MEANS,
    shape=lambda op: static_shape(op.inputs[1]),
    rules=[Vectorize(merged(0, sizes=(1,))), Elements(shape_in(1))],
    kernel=_avg_pool_grad,
    gradient=lambda op, g: [apply("AvgPool", g, **op.own_attrs), None],
    samples=[
        Sample([f64([[[3, 4], [6, 2]]]), i32([1, 2, 4])], f64([[[1, 1, 3, 2], [2, 2, 3, 1]]]), _THREE),
        Sample([f64([[[3, 4]]]), i32([1, 1, 4])], f64([[[3, 3, 7, 4]]]), {**_THREE, "mean": False}),
        Sample(
            [f64([4, 8, 12, 16]).reshape(1, 2, 2, 1), i32([1, 3, 3, 1])],
            f64([1, 3, 2, 4, 10, 6, 3, 7, 4]).reshape(1, 3, 3, 1),
            _TWO,
        ),
    ],
)

"""Dilation and erosion of images by a structuring function (Serra, 1982, for images of many values)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..nn.window_maxima import lowest_value
from ..support.common import shape_of
from ..support.literals import f64, i32
from ..support.vectorizing.families import merged_or_one_by_one
from ..support.window_texts import of_pooling, padding_alone
from ..support.windows import (
    WINDOWS,
    check_not_empty,
    counts_in,
    iterate_places,
    padding_of,
    spatial_numbers,
    windows_of,
    windows_shape,
)

_X = f64([3, 1, 4, 1, 5, 9, 2, 6, 5]).reshape(1, 3, 3, 1)
_FILTER = f64([0, 1, 5, -3]).reshape(2, 2, 1)
_TALL, _UNEVEN = f64([[[[1, 5], [2, 4], [7, 1]]]]), f64([[[0, 1], [1, -9]]])
_TWO = {"window": (2, 2), "strides": (1, 1), "rates": (1, 1), "padding": "VALID"}
_WIDE = {"window": (1, 2), "strides": (1, 2), "rates": (1, 2), "padding": "SAME"}


def _dilated_shape(op: Operation) -> Shape:
    """Return the shape of the windows; refuse a filter of another size, or with other channels."""
    x, filter = op.inputs[0].shape, op.inputs[1].shape
    wanted = Shape([*op.attrs["window"], x[-1] if x.rank else None])
    if not filter.is_compatible_with(wanted):
        raise ShapeError(
            "a filter does not fit the images",
            wanted=wanted,
            got=filter,
            hint="its shape is [height, width, channels of the images]",
        )
    return windows_shape(x, op.attrs)


def _compute_dilation(xp: Any, x: Any, filter: Any, attrs: Any) -> tuple[Any, Any]:
    """Return the largest sums of pixels and filter, and the place in the window of the first maximum."""
    windows = windows_of(x.shape, attrs)
    check_not_empty(windows)
    if filter.shape != (*attrs["window"], x.shape[-1]):
        raise ValueError(f"a filter of shape {list(filter.shape)} does not fit images of shape {list(x.shape)}")
    shape = counts_in(x.shape, windows, attrs)
    rows = filter.reshape(-1, x.shape[-1])
    best, place = xp.full(shape, lowest_value(x.dtype), dtype=x.dtype), xp.full(shape, -1, dtype=xp.int32)
    for number, outer, inner in iterate_places(windows, attrs):
        value = x[inner] + rows[number]
        # The first place inside of the image always counts, even if its value is the lowest, or NaN.
        better = (value > best[outer]) | (place[outer] < 0)
        xp.copyto(best[outer], value, where=better)
        place[outer] = xp.where(better, xp.full((), number, dtype=xp.int32), place[outer])
    return best, place


def _dilation_gradient(op: Operation, g: Tensor) -> list[Any]:
    # The places route cotangents to pixels, as in max pooling, and to the elements of the filter.
    x, filter = op.inputs
    place = apply("DilationPlace", x, filter, **op.own_attrs)
    return [apply("MaxPoolGrad", g, place, shape_of(x), **op.own_attrs), apply("PlaceSum", g, place, **op.own_attrs)]


define(
    "Dilation2D",
    "input: T, filter: T -> output: T",
    where={"T": dtypes.REAL},
    attrs=WINDOWS,
    shape=_dilated_shape,
    rules=[Vectorize(merged_or_one_by_one(0))],
    kernel=lambda xp, x, filter, **attrs: _compute_dilation(xp, x, filter, attrs)[0],
    gradient=_dilation_gradient,
    samples=[
        Sample([_X, _FILTER], f64([6, 10, 7, 11]).reshape(1, 2, 2, 1), _TWO),
        Sample([_TALL, _UNEVEN], f64([[[[3, -5], [2, 5]]]]), _WIDE),
        Sample([i32(_X), i32(_FILTER)], i32([6, 10, 7, 11]).reshape(1, 2, 2, 1), _TWO),
    ],
)

define(
    "DilationPlace",
    "input: T, filter: T -> place: int32",
    where={"T": dtypes.REAL},
    attrs=WINDOWS,
    shape=_dilated_shape,
    rules=[Vectorize(merged_or_one_by_one(0))],
    kernel=lambda xp, x, filter, **attrs: _compute_dilation(xp, x, filter, attrs)[1],
    gradient=NotDifferentiable("its result is an index"),
    samples=[
        Sample([_X, _FILTER], np.full((1, 2, 2, 1), 2, np.int32), _TWO),
        Sample([_TALL, _UNEVEN], i32([[[[1, 1], [0, 0]]]]), _WIDE),
    ],
)


@public
@padding_alone(of_pooling(2)).complete
def dilation2d(
    input: Any, filter: Any, strides: Any = 1, rates: Any = 1, padding: Any = "VALID", name: str | None = None
) -> Tensor:
    """Largest sum of the pixels of each window and a filter, for each channel.

    Padding never counts. Gradients go to the first of equal largest sums.

    Parameters
    ----------
    input : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
    filter : Tensor of the same dtype, of shape [height, width, channels]
        Numbers added to the pixels, with known height and width.
    strides, rates : int, or sequence of 2 or 4
        Distances between windows, and between the pixels of a window.

    Returns
    -------
    Tensor
        Same dtype, with a row and a column for each window.

    Raises
    ------
    ShapeError
        If the filter has other channels, an unknown size, or does not fit into the image.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[3.0], [1.0], [4.0], [0.0]]]]
    >>> tg.function(lambda: tg.dilation2d(image, [[[0.0], [5.0]]])).sync().ravel()
    array([6., 9., 5.], dtype=float32)
    """
    x = convert_to_tensor(input)
    weights = convert_to_tensor(filter, x.dtype)
    attrs = _filter_windows(weights, strides, rates, padding)
    return apply("Dilation2D", x, weights, name=name, **attrs)


def _filter_windows(filter: Tensor, strides: Any, rates: Any, padding: Any) -> dict[str, Any]:
    """Return the attributes of windows of the size of a filter; raise ShapeError if the size is unknown."""
    if filter.rank != 3 or not filter.shape[:2].is_fully_known:
        raise ShapeError(
            "the height and width of a filter have to be known while the graph is built",
            wanted="[height, width, channels]",
            got=filter.shape,
            operation=filter.op,
            hint="set_shape says what is known of a tensor",
        )
    return {
        "window": filter.shape[:2].as_tuple(),
        "strides": spatial_numbers(strides, 2, "strides"),
        "rates": spatial_numbers(rates, 2, "rates"),
        "padding": padding_of(padding, 2),
    }


@public
@padding_alone(of_pooling(2)).complete
def erosion2d(
    value: Any, kernel: Any, strides: Any = 1, rates: Any = 1, padding: Any = "VALID", name: str | None = None
) -> Tensor:
    """Smallest difference of the pixels of each window and a kernel, for each channel.

    Equals the negative of the dilation of ``-value`` by the kernel reversed in height and width.

    Parameters
    ----------
    value : Tensor of a signed integer or floating dtype, of shape [batch, height, width, channels]
    kernel : Tensor of the same dtype, of shape [height, width, channels]
        Numbers subtracted from the pixels, with known height and width.
    strides, rates
        As of `dilation2d`.

    Returns
    -------
    Tensor
        Same dtype, with a row and a column for each window.

    Raises
    ------
    ShapeError
        If the kernel has other channels, an unknown size, or does not fit into the image.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[3.0], [1.0], [4.0], [0.0]]]]
    >>> tg.function(lambda: tg.erosion2d(image, [[[0.0], [5.0]]])).sync().ravel()
    array([-2., -4., -1.], dtype=float32)
    """
    x = convert_to_tensor(value)
    turned = apply("Reverse", convert_to_tensor(kernel, x.dtype), axis=(0, 1))
    return apply("Neg", dilation2d(apply("Neg", x), turned, strides, rates, padding), name=name)

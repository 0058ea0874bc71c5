"""Colours of pixels: grey, and hue, saturation and value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import DtypeError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.concat import stack, unstack
from ..control.weights import with_last
from ..math.arithmetic import div_no_nan, maximum, minimum
from ..math.casting import cast
from ..math.elementwise import abs, clip_by_value
from ..math.reductions import reduce_sum

_GREY = np.array([0.2989, 0.5870, 0.1140])  # ITU-R BT.601


def as_fractions(image: Tensor, dtype: DType = dtypes.float32) -> Tensor:
    """Return an image in a floating dtype; integers are divided by the largest of their dtype."""
    if not image.dtype.is_integer:
        return image
    return cast(image, dtype) * (1 / image.dtype.max)


def _as_before(image: Tensor, dtype: DType) -> Tensor:
    """Undo `as_fractions`: scale by the largest integer `m` plus a half, clip and truncate: ``n / m`` becomes n."""
    if not dtype.is_integer:
        return image
    return cast(clip_by_value(image * (dtype.max + 0.5), float(dtype.min), float(dtype.max)), dtype)


def color_pixels(images: Any, floating: bool) -> Tensor:
    """Return images as a tensor, whose last dimension is checked to be three colours."""
    x = with_last(convert_to_tensor(images), 3, "pixels have three colours")
    if not x.dtype.is_floating and (floating or not x.dtype.is_integer):
        raise DtypeError(
            "colours are numbers of a floating dtype", wanted="float32", got=x.dtype, hint='cast(x, "float32") / 255'
        )
    return x


@public
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Convert colours to shades of grey of the same perceived brightness (ITU-R BT.601).

    Parameters
    ----------
    images : Tensor of an integer or floating dtype, of shape [..., 3]
        Red, green and blue.

    Returns
    -------
    Tensor
        Same dtype, of shape [..., 1]. Integers are computed in float32, and converted as by `convert_image_dtype`.

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 3.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.rgb_to_grayscale(np.array([[255, 255, 255], [255, 0, 0]], np.uint8))).sync()
    array([[255],
           [ 76]], dtype=uint8)
    """
    x = color_pixels(images, floating=False)
    parts = as_fractions(x)
    grey = reduce_sum(parts * _GREY.astype(parts.dtype.numpy), -1, keepdims=True)
    return apply("Identity", _as_before(grey, x.dtype), name=name)


@public
def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Turn red, green and blue into hue, saturation and value (Smith, 1978).

    Parameters
    ----------
    images : Tensor of a floating dtype, of shape [..., 3]
        From 0 to 1.

    Returns
    -------
    Tensor
        Same dtype and shape, from 0 to 1; hue 0 is red, 1/3 green, 2/3 blue. Grey has hue 0.

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 3.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.rgb_to_hsv(np.array([[0.0, 0.5, 0.0], [0.2, 0.2, 0.2]]))).sync()
    array([[0.33333333, 1.        , 0.5       ],
           [0.        , 0.        , 0.2       ]])
    """
    red, green, blue = unstack(color_pixels(images, floating=True), 3, axis=-1)
    value = maximum(maximum(red, green), blue)
    spread = value - minimum(minimum(red, green), blue)
    # A spread of 0 divides to 0: grey has hue 0.
    # In fractions of the circle red is at 0, green at a third, and blue at two thirds.
    third = 1 / 3
    of_others = apply(
        "Where",
        apply("Equal", green, value),
        div_no_nan(blue - red, spread * 6) + third,
        div_no_nan(red - green, spread * 6) + 2 * third,
    )
    hue = apply("Where", apply("Equal", red, value), div_no_nan(green - blue, spread * 6), of_others)
    hue = apply("Where", hue < 0, hue + 1, hue)
    return stack([hue, div_no_nan(spread, value), value], axis=-1, name=name)


@public
def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Turn hue, saturation and value into red, green and blue (Smith, 1978).

    Parameters
    ----------
    images : Tensor of a floating dtype, of shape [..., 3]
        From 0 to 1.

    Returns
    -------
    Tensor
        Same dtype and shape, from 0 to 1.

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.hsv_to_rgb([[0.5, 1.0, 0.5], [0.0, 0.0, 0.25]])).sync()
    array([[0.  , 0.5 , 0.5 ],
           [0.25, 0.25, 0.25]], dtype=float32)
    """
    hue, saturation, value = unstack(color_pixels(images, floating=True), 3, axis=-1)
    place = hue * 6
    # Each colour is 1 in a third of the circle of hues, and goes to 0 linearly within a sixth on both sides.
    pure = (abs(place - 3) - 1, 2 - abs(place - 2), 2 - abs(place - 4))
    colours = [((1 - saturation) + saturation * clip_by_value(each, 0.0, 1.0)) * value for each in pure]
    return stack(colours, axis=-1, name=name)

"""Conversion of images to other dtypes, and changes of brightness, contrast, gamma, hue, saturation and layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType, as_dtype
from ...base.errors import DtypeError, GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.bits import saturate_cast
from ..array.concat import concat, stack, unstack
from ..array.layout import transpose
from ..control.weights import with_last
from ..math.arithmetic import floormod, pow
from ..math.casting import cast, widen_halves
from ..math.elementwise import clip_by_value
from ..math.reductions import reduce_mean
from ..support.arguments import known_rank
from .color import hsv_to_rgb, rgb_to_hsv
from .transforms import image_tensor


@public
def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Convert images to another dtype, scaled so that the largest integer is 1 as a float.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
        Floats from 0 to 1.
    dtype : dtype-like
        An integer or floating dtype.
    saturate : bool
        Clip values out of range to the smallest or largest integer.

    Returns
    -------
    Tensor
        Of `dtype` and the same shape. Floats are multiplied by the largest integer plus a half and truncated, so that
        ``n / 255`` becomes n; integers of other dtypes are multiplied or divided by a power of two.

    Raises
    ------
    DtypeError
        If a dtype is no number, or complex.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.convert_image_dtype([0.0, 0.5, 1.0], "uint8")).sync()
    array([  0, 127, 255], dtype=uint8)
    """
    x, wanted = convert_to_tensor(image), as_dtype(dtype)
    for each in (x.dtype, wanted):
        if not (each.is_integer or each.is_floating):
            raise DtypeError("pixels are numbers", wanted="an integer or floating dtype", got=each, hint="cast them")
    convert: Callable[[Any, DType], Tensor] = saturate_cast if saturate else cast
    if x.dtype is wanted:
        found = x
    elif x.dtype.is_integer and wanted.is_integer:
        found = _of_other_integers(x, wanted, convert)
    elif x.dtype.is_integer:
        found = cast(x, wanted) * (1 / x.dtype.max)
    elif wanted.is_integer:
        # Short floats could not hold the largest integers.
        # `cast` truncates: 0.5 more than the largest integer makes 1.0 this integer, as in TensorFlow.
        found = convert(widen_halves(x) * (wanted.max + 0.5), wanted)
    else:
        found = cast(x, wanted)
    return apply("Identity", found, name=name)


def _of_other_integers(x: Tensor, wanted: DType, convert: Callable[[Any, DType], Tensor]) -> Tensor:
    # The largest integers are powers of two minus 1, so that scales are powers of two.
    if x.dtype.max > wanted.max:
        scale = (int(x.dtype.max) + 1) // (int(wanted.max) + 1)
        return convert(x // convert_to_tensor(scale, x.dtype), wanted)
    scale = (int(wanted.max) + 1) // (int(x.dtype.max) + 1)
    return convert(x, wanted) * convert_to_tensor(scale, wanted)


def _adjust_as_float(image: Any, adjust: Callable[[Tensor], Tensor], name: str | None) -> Tensor:
    """Change images as floats, and return them in their own dtype, saturated."""
    x = convert_to_tensor(image)
    if x.dtype.is_floating:
        return apply("Identity", adjust(x), name=name)
    found = adjust(convert_image_dtype(x, dtypes.float32))
    return convert_image_dtype(found, x.dtype, saturate=True, name=name)


def _scalar_in_dtype(value: Any, like: Tensor) -> Tensor:
    return cast(convert_to_tensor(value, like.dtype if isinstance(value, (int, float)) else None), like.dtype)


@public
def adjust_brightness(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Add the same number to all pixels.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
        Integers are divided by the largest of their dtype.
    delta : scalar of a floating dtype
        From -1 to 1.

    Returns
    -------
    Tensor
        Same dtype and shape; integers are converted as by `convert_image_dtype`, and saturate.

    Raises
    ------
    DtypeError
        If pixels are no numbers.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.adjust_brightness(np.array([0, 100, 250], np.uint8), 0.1)).sync()
    array([ 25, 125, 255], dtype=uint8)
    """
    return _adjust_as_float(image, lambda x: x + _scalar_in_dtype(delta, x), name)


@public
def adjust_contrast(images: Any, contrast_factor: Any, name: str | None = None) -> Tensor:
    """Scale the differences of pixels from the mean of their image and channel.

    Parameters
    ----------
    images : Tensor of an integer or floating dtype, of shape [..., height, width, channels]
    contrast_factor : scalar of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape, ``(x - mean) * contrast_factor + mean``; integers saturate.

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.adjust_contrast([[[1.0], [3.0]]], 2.0)).sync().ravel()
    array([0., 4.], dtype=float32)
    """

    def stretch_contrast(x: Tensor) -> Tensor:
        mean = reduce_mean(x, (-3, -2), keepdims=True)
        return (x - mean) * _scalar_in_dtype(contrast_factor, x) + mean

    return _adjust_as_float(image_tensor(images), stretch_contrast, name)


@public
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1, name: str | None = None) -> Tensor:
    """Raise pixels to a power, ``gain * image ** gamma``.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
        Integers are divided by the largest of their dtype.
    gamma : scalar of a floating dtype
        At least 0; above 1 the image gets darker.
    gain : scalar of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape; integers are converted as by `convert_image_dtype`, and saturate.

    Raises
    ------
    GraphError
        If `gamma` is known to be negative.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.adjust_gamma([0.5, 1.0], gamma=2.0)).sync()
    array([0.25, 1.  ], dtype=float32)
    """
    known = static_value(convert_to_tensor(gamma)) if isinstance(gamma, Tensor) else gamma
    if known is not None and np.any(np.asarray(known) < 0):
        raise GraphError("'gamma' is a power of pixels", wanted="0 or more", got=known, hint="as gamma=0.5")
    return _adjust_as_float(image, lambda x: pow(x, _scalar_in_dtype(gamma, x)) * _scalar_in_dtype(gain, x), name)


@public
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Turn the hue of all pixels.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
        Red, green and blue.
    delta : scalar of a floating dtype
        Fraction of a whole turn, -1 to 1: 1/3 turns red into green.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 3.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.adjust_hue(np.array([[200, 0, 0]], np.uint8), 1 / 3)).sync()
    array([[  0, 200,   0]], dtype=uint8)
    """

    def turn_hue(x: Tensor) -> Tensor:
        hue, saturation, value = unstack(rgb_to_hsv(x), 3, axis=-1)
        # A hue is a fraction of the full turn.
        turned = floormod(hue + _scalar_in_dtype(delta, x), _scalar_in_dtype(1.0, x))
        return hsv_to_rgb(stack([turned, saturation, value], axis=-1))

    return _adjust_as_float(image, turn_hue, name)


@public
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiply the saturation of all pixels.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
        Red, green and blue.
    saturation_factor : scalar of a floating dtype
        0 makes all pixels grey.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 3.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.adjust_saturation(np.array([[200, 100, 100]], np.uint8), 2.0)).sync()
    array([[200,   0,   0]], dtype=uint8)
    """

    def multiply_saturation(x: Tensor) -> Tensor:
        hue, saturation, value = unstack(rgb_to_hsv(x), 3, axis=-1)
        more = clip_by_value(
            saturation * _scalar_in_dtype(saturation_factor, x), _scalar_in_dtype(0.0, x), _scalar_in_dtype(1.0, x)
        )
        return hsv_to_rgb(stack([hue, more, value], axis=-1))

    return _adjust_as_float(image, multiply_saturation, name)


@public
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Repeat the only channel of images for red, green and blue.

    Parameters
    ----------
    images : Tensor of any dtype, of shape [..., 1]

    Returns
    -------
    Tensor
        Same dtype, of shape [..., 3].

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 1.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.grayscale_to_rgb([[1], [2]])).sync()
    array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    x = with_last(convert_to_tensor(images), 1, "grey has one channel")
    return concat([x, x, x], -1, name=name)


@public
def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Exchange rows and columns of images.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels] and known rank

    Returns
    -------
    Tensor
        Same dtype, of shape [..., width, height, channels].

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.transpose_image([[[1], [2]]])).sync()[:, :, 0]
    array([[1],
           [2]], dtype=int32)
    """
    x = image_tensor(image)
    rank = known_rank(x, "transpose_image")
    return transpose(x, [*range(rank - 3), rank - 2, rank - 3, rank - 1], name=name)

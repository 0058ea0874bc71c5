"""Images made brighter, more contrasted, more colourful, or turned around, by a given or a random amount."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType, as_dtype
from ...base.errors import DtypeError, GraphError, ShapeError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.bits import saturate_cast
from ..array.broadcasting import broadcast_to
from ..array.concat import concat, stack, unstack
from ..array.layout import transpose
from ..math.arithmetic import floormod, pow
from ..math.casting import cast, widened
from ..math.elementwise import clip_by_value
from ..math.random import random_uniform
from ..math.reductions import reduce_mean
from ..support.arguments import known_rank
from ..support.common import shape_of
from .color import hsv_to_rgb, rgb_to_hsv
from .transforms import flip_left_right, flip_up_down, image_tensor


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
        Bring what is out of range to the smallest or largest integer.

    Returns
    -------
    Tensor
        Of `dtype` and the same shape. A float is multiplied by the largest integer plus a half, and its fraction left
        out, so that ``n / 255`` becomes n; integers become larger or smaller ones by a power of two.

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
        found = convert(widened(x) * (wanted.max + 0.5), wanted)
    else:
        found = cast(x, wanted)
    return apply("Identity", found, name=name)  # type: ignore[no-any-return]


def _of_other_integers(x: Tensor, wanted: DType, convert: Callable[[Any, DType], Tensor]) -> Tensor:
    if x.dtype.max > wanted.max:
        scale = (int(x.dtype.max) + 1) // (int(wanted.max) + 1)
        return convert(x // convert_to_tensor(scale, x.dtype), wanted)
    scale = (int(wanted.max) + 1) // (int(x.dtype.max) + 1)
    return convert(x, wanted) * convert_to_tensor(scale, wanted)


def _adjusted(image: Any, adjust: Callable[[Tensor], Tensor], name: str | None) -> Tensor:
    """Change images as floats, and return them in their own dtype, saturated."""
    x = convert_to_tensor(image)
    if x.dtype.is_floating:
        return apply("Identity", adjust(x), name=name)  # type: ignore[no-any-return]
    found = adjust(convert_image_dtype(x, dtypes.float32))
    return convert_image_dtype(found, x.dtype, saturate=True, name=name)


def _scalar(value: Any, like: Tensor) -> Tensor:
    return cast(convert_to_tensor(value, like.dtype if isinstance(value, (int, float)) else None), like.dtype)


@public
def adjust_brightness(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Add the same to all pixels.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
        Integers are taken as parts of the largest of their dtype.
    delta : scalar of a floating dtype
        From -1 to 1.

    Returns
    -------
    Tensor
        Same dtype and shape; integers are rounded and kept in range.

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
    return _adjusted(image, lambda x: x + _scalar(delta, x), name)


@public
def adjust_contrast(images: Any, contrast_factor: Any, name: str | None = None) -> Tensor:
    """Stretch how far pixels are from the mean of their image and channel.

    Parameters
    ----------
    images : Tensor of an integer or floating dtype, of shape [..., height, width, channels]
    contrast_factor : scalar of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape, ``(x - mean) * contrast_factor + mean``; integers are rounded and kept in range.

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

    def stretch(x: Tensor) -> Tensor:
        mean = reduce_mean(x, (-3, -2), keepdims=True)
        return (x - mean) * _scalar(contrast_factor, x) + mean

    return _adjusted(image_tensor(images), stretch, name)


@public
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1, name: str | None = None) -> Tensor:
    """Raise pixels to a power, ``gain * image ** gamma``.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
        Integers are taken as parts of the largest of their dtype.
    gamma : scalar of a floating dtype
        At least 0; above 1 the image gets darker.
    gain : scalar of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape; integers are rounded and kept in range.

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
    return _adjusted(image, lambda x: pow(x, _scalar(gamma, x)) * _scalar(gain, x), name)


@public
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Turn the hue of all pixels.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
        Red, green and blue.
    delta : scalar of a floating dtype
        Which part of a whole turn, -1 to 1: 1/3 makes green of red.

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

    def turn(x: Tensor) -> Tensor:
        hue, saturation, value = unstack(rgb_to_hsv(x), 3, axis=-1)
        turned = floormod(hue + _scalar(delta, x), _scalar(1.0, x))
        return hsv_to_rgb(stack([turned, saturation, value], axis=-1))

    return _adjusted(image, turn, name)


@public
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiply the saturation of all pixels.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
        Red, green and blue.
    saturation_factor : scalar of a floating dtype
        At 0 all is grey.

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

    def multiply(x: Tensor) -> Tensor:
        hue, saturation, value = unstack(rgb_to_hsv(x), 3, axis=-1)
        more = clip_by_value(saturation * _scalar(saturation_factor, x), _scalar(0.0, x), _scalar(1.0, x))
        return hsv_to_rgb(stack([hue, more, value], axis=-1))

    return _adjusted(image, multiply, name)


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
    x = convert_to_tensor(images)
    if x.rank == 0 or (x.rank is not None and x.shape[-1] not in (1, None)):
        raise ShapeError("grey has one channel", wanted="a last dimension of 1", got=x.shape, hint="expand_dims(x, -1)")
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


def _range(low: Any, high: Any, what: str, least: float = 0.0) -> None:
    """Refuse bounds of a random amount that are no numbers, too small, or the wrong way round."""
    if not all(isinstance(each, (int, float, np.number)) for each in (low, high)) or not least <= low < high:
        raise GraphError(
            f"{what} is drawn from a range",
            wanted=f"two numbers of at least {least:g}, the smaller first",
            got=f"{low} and {high}",
            hint="as 0.5, 1.5",
        )


def _most(max_delta: Any, limit: float) -> float:
    if not isinstance(max_delta, (int, float, np.number)) or not 0 <= max_delta <= limit:
        raise GraphError(
            "'max_delta' is the largest change", wanted=f"a number from 0 to {limit:g}", got=max_delta, hint="as 0.1"
        )
    return float(max_delta)


@public
def random_brightness(image: Any, max_delta: float, seed: int | None = None, name: str | None = None) -> Tensor:
    """Add the same random number to all pixels: `adjust_brightness` from ``-max_delta`` to `max_delta`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
    max_delta : float
        At least 0.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If `max_delta` is negative.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> found = tg.function(lambda: tg.random_brightness(np.zeros(3), 0.5)).sync()
    >>> bool(abs(found[0]) <= 0.5), bool(found[0] == found[2])
    (True, True)
    """
    most = _most(max_delta, float("inf"))
    return adjust_brightness(image, random_uniform([], -most, most, seed=seed), name=name)


@public
def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None, name: str | None = None) -> Tensor:
    """Stretch the contrast of images by a random factor: `adjust_contrast` from `lower` to `upper`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., height, width, channels]
    lower, upper : float
        At least 0.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If the bounds are negative, or the wrong way round.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_contrast([[[1.0], [3.0]]], 0.0, 1.0)).sync().ravel()
    >>> bool(1 <= found[0] <= found[1] <= 3)
    True
    """
    _range(lower, upper, "a contrast")
    return adjust_contrast(image, random_uniform([], float(lower), float(upper), seed=seed), name=name)


@public
def random_hue(image: Any, max_delta: float, seed: int | None = None, name: str | None = None) -> Tensor:
    """Turn the hue of all pixels by the same random part: `adjust_hue` from ``-max_delta`` to `max_delta`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
    max_delta : float
        From 0 to 0.5.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If `max_delta` is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.random_hue([[0.5, 0.5, 0.5]], 0.5)).sync()  # grey has no hue
    array([[0.5, 0.5, 0.5]], dtype=float32)
    """
    most = _most(max_delta, 0.5)
    return adjust_hue(image, random_uniform([], -most, most, seed=seed), name=name)


@public
def random_saturation(
    image: Any, lower: float, upper: float, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Multiply the saturation of all pixels by a random factor: `adjust_saturation` from `lower` to `upper`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
    lower, upper : float
        At least 0.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If the bounds are negative, or the wrong way round.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_saturation([[0.8, 0.4, 0.4]], 0.0, 1.0)).sync()[0]
    >>> round(float(found[0]), 3), bool(0.4 <= found[1] <= 0.8)
    (0.8, True)
    """
    _range(lower, upper, "a saturation")
    return adjust_saturation(image, random_uniform([], float(lower), float(upper), seed=seed), name=name)


def _sometimes(image: Any, change: Callable[[Any], Tensor], seed: int | None, name: str | None) -> Tensor:
    """Return for each image, as often, the image itself or a changed one."""
    x = image_tensor(image)
    rank = known_rank(x, "a random flip")
    draws = random_uniform(concat([shape_of(x)[: rank - 3], [1, 1, 1]], 0), seed=seed)
    chosen = broadcast_to(apply("Less", draws, 0.5), shape_of(x))
    return apply("Where", chosen, change(x), x, name=name)  # type: ignore[no-any-return]


@public
def random_flip_left_right(image: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Turn each image around, left to right, with a probability of one half.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels] and known rank
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape; images of a batch are drawn for one by one.

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_flip_left_right([[[1], [2]]])).sync().ravel().tolist()
    >>> found in ([1, 2], [2, 1])
    True
    """
    return _sometimes(image, flip_left_right, seed, name)


@public
def random_flip_up_down(image: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Turn each image upside down with a probability of one half.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels] and known rank
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape; images of a batch are drawn for one by one.

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_flip_up_down([[[1]], [[2]]])).sync().ravel().tolist()
    >>> found in ([1, 2], [2, 1])
    True
    """
    return _sometimes(image, flip_up_down, seed, name)

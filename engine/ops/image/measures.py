"""Differences within images, and between them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import DType, float32
from ...base.errors import GraphError, ShapeError
from ...ir.apply import apply, as_symbolic, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.concat import concat, stack, unstack
from ..array.padding import pad
from ..control.effects import Assert
from ..control.weights import behind
from ..math.casting import as_before, cast, widened
from ..math.elementwise import abs, log, square
from ..math.reductions import reduce_mean, reduce_sum
from ..support.arguments import static_int
from ..support.common import shape_of, zeros_like
from .color import as_fractions
from .transforms import image_tensor

_PIXELS = (-3, -2, -1)


@public
def image_gradients(image: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Differences of each pixel from the one below, and from the one to the right.

    Parameters
    ----------
    image : Tensor of any numeric dtype, of shape [..., height, width, channels]

    Returns
    -------
    dy, dx : Tensor
        Same dtype and shape; the last row of `dy` and the last column of `dx` are 0.

    Examples
    --------
    >>> import tagloom as tg
    >>> dy, dx = tg.function(lambda: tg.image_gradients([[[1], [2]], [[4], [8]]])).sync()
    >>> dy[..., 0].tolist(), dx[..., 0].tolist()
    ([[3, 6], [0, 0]], [[1, 0], [4, 0]])
    """
    x = image_tensor(image)
    down = x[..., 1:, :, :] - x[..., :-1, :, :]
    right = x[..., 1:, :] - x[..., :-1, :]
    dy = concat([down, zeros_like(x[..., :1, :, :])], -3, name)
    return dy, concat([right, zeros_like(x[..., :1, :])], -2)


@public
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Sum of the absolute differences of neighbouring pixels of each image (Rudin et al., 1992).

    Parameters
    ----------
    images : Tensor of any numeric dtype, of shape [..., height, width, channels]

    Returns
    -------
    Tensor
        Same dtype, of shape ``images.shape[:-3]``.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.total_variation([[[1.0], [2.0]], [[4.0], [8.0]]])).sync()
    array(14., dtype=float32)
    """
    x = image_tensor(images)
    down = abs(x[..., 1:, :, :] - x[..., :-1, :, :])
    right = abs(x[..., 1:, :] - x[..., :-1, :])
    return apply("Add", reduce_sum(down, _PIXELS), reduce_sum(right, _PIXELS), name=name)  # type: ignore[no-any-return]


@public
def sobel_edges(image: Any, name: str | None = None) -> Tensor:
    """Derivatives along height and width, smoothed across (Sobel and Feldman, 1968).

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
        At least two rows and columns; it is mirrored at its border.

    Returns
    -------
    Tensor
        Same dtype, of shape [batch, height, width, channels, 2]: along the height, then along the width.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[0.0], [1.0], [5.0]], [[0.0], [1.0], [5.0]]]]
    >>> tg.function(lambda: tg.sobel_edges(image)).sync()[0, 0, :, 0]
    array([[ 0.,  0.],
           [ 0., 20.],
           [ 0.,  0.]], dtype=float32)
    """
    x = pad(image_tensor(image, 4), [[0, 0], [1, 1], [1, 1], [0, 0]], "reflect")
    across = x[:, :, :-2] + x[:, :, 1:-1] * 2 + x[:, :, 2:]
    along = x[:, :-2] + x[:, 1:-1] * 2 + x[:, 2:]
    return stack([across[:, 2:] - across[:, :-2], along[:, :, 2:] - along[:, :, :-2]], axis=-1, name=name)


def _pair(a: Any, b: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return two images in one floating dtype of at least four bytes, and the largest value as they have it."""
    x = image_tensor(a)
    y = image_tensor(convert_to_tensor(b, x.dtype))
    if as_symbolic(max_val):
        largest = cast(max_val, x.dtype)
    else:
        largest = convert_to_tensor(max_val if x.dtype.is_integer else float(max_val), x.dtype)
    x, y, largest = (widened(as_fractions(each)) for each in (x, y, largest))
    return x, y, largest


def _dtype_of(a: Any) -> DType:
    """Return the dtype of a measure of images: their own if it is floating, else float32."""
    given = convert_to_tensor(a).dtype
    return given if given.is_floating else float32


@public
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Peak signal-to-noise ratio of images, in decibels.

    Parameters
    ----------
    a, b : Tensor of one integer or floating dtype, of shape [..., height, width, channels]
    max_val : int, float or scalar Tensor
        Difference between the largest and the smallest value that there may be.

    Returns
    -------
    Tensor
        Of the floating dtype, or float32, of shape ``a.shape[:-3]``: infinite for equal images. Values of two bytes are
        computed in float32.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.psnr(np.zeros([2, 2, 1]), np.full([2, 2, 1], 0.1), 1.0)).sync()
    array(20.)
    """
    x, y, largest = _pair(a, b, max_val)
    error = reduce_mean(apply("SquaredDifference", x, y), _PIXELS)
    return as_before(log(square(largest) / error) * (10 / math.log(10)), _dtype_of(a), name)


def _means(images: Tensor, size: int, sigma: float) -> Tensor:
    """Return Gaussian means of the windows of images that lie inside them."""
    offsets = np.arange(size) - (size - 1) / 2
    weights = np.exp(-(offsets**2) / (2 * sigma**2))
    weights /= weights.sum()
    for cut in (lambda part: (..., part, slice(None), slice(None)), lambda part: (..., part, slice(None))):
        parts = [images[cut(slice(i, i - size + 1 or None))] * float(w) for i, w in enumerate(weights)]
        images = apply("AddN", parts)
    return images


def _with_windows(images: Tensor, size: int) -> Tensor:
    """Return images that windows of a size fit into; a step checks that where it is not known."""
    sizes = (None, None) if images.rank is None else images.shape[-3:-1]
    if any(known is not None and known < size for known in sizes):
        raise ShapeError(
            "the images are smaller than the windows that are compared",
            wanted=f"a height and a width of at least {size}",
            got=images.shape,
            operation=images.op,
            hint="make filter_size smaller",
        )
    if None not in sizes:
        return images
    height_and_width = shape_of(images)[-3:-1]
    fits = apply("GreaterEqual", height_and_width, size)
    return behind(images, [Assert(fits, [height_and_width], message=f"ssim compares windows of {size} pixels")])


@public
def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    name: str | None = None,
) -> Tensor:
    """Structural similarity of images (Wang et al., 2004).

    Parameters
    ----------
    img1, img2 : Tensor of one integer or floating dtype, of shape [..., height, width, channels]
        At least as high and wide as the windows.
    max_val : int, float or scalar Tensor
        Difference between the largest and the smallest value that there may be.
    filter_size, filter_sigma : int and float
        Size of the windows that are compared, and deviation of the Gaussian that their pixels are weighted by.
    k1, k2 : float
        Parts of `max_val` that keep divisors away from 0.

    Returns
    -------
    Tensor
        Of the floating dtype, or float32, of shape ``img1.shape[:-3]``: 1 for equal images. The mean over windows and
        channels. Values of two bytes are computed in float32.

    Raises
    ------
    GraphError
        If the filter is of no size.
    ShapeError
        If the images are known to be smaller than the windows; else an OpError when a step runs it.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.linspace(0.0, 1.0, 144).reshape(12, 12, 1)
    >>> tg.function(lambda: tg.ssim(image, image, 1.0)).sync()
    array(1.)
    """
    size = static_int(filter_size, "filter_size")
    if size < 1:
        raise GraphError("a filter has at least one element", wanted="1 or more", got=size, hint="leave it out")
    x, y, largest = _pair(img1, img2, max_val)
    x, y = _with_windows(x, size), _with_windows(y, size)
    c1, c2 = square(largest * k1), square(largest * k2)
    parts = _means(stack([x, y, x * y, square(x) + square(y)]), size, filter_sigma)
    mean_x, mean_y, products, squares = unstack(parts, 4)
    both, each = mean_x * mean_y * 2, square(mean_x) + square(mean_y)
    luminance = (both + c1) / (each + c1)
    structure = (products * 2 - both + c2) / (squares - each + c2)
    return as_before(reduce_mean(luminance * structure, _PIXELS), _dtype_of(img1), name)

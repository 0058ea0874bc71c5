"""Differences within images, and measures of similarity between images."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from ..control.weights import tensor_after_checks
from ..math.casting import as_before, cast, widen_halves
from ..math.cumulative import reduce_prod
from ..math.elementwise import abs, log, square
from ..math.reductions import reduce_mean, reduce_sum
from ..nn.activations import relu
from ..nn.pooling import avg_pool
from ..support.arguments import static_int
from ..support.common import scalar_like, shape_of, zeros_like
from .color import as_fractions
from .transforms import image_tensor

_IMAGE_AXES = (-3, -2, -1)  # height, width and channels


@public
def image_gradients(image: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Differences of neighbouring pixels: the lower, or the right, minus the pixel itself.

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
    # Zeros keep the size: the last row and column have no neighbour.
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
    return apply("Add", reduce_sum(down, _IMAGE_AXES), reduce_sum(right, _IMAGE_AXES), name=name)


@public
def sobel_edges(image: Any, name: str | None = None) -> Tensor:
    """Derivatives along height and width, smoothed across (Sobel and Feldman, 1968).

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
        At least two rows and columns; the border is mirrored.

    Returns
    -------
    Tensor
        Same dtype, of shape [batch, height, width, channels, 2]: the derivative along the height, and along the width.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[0.0], [1.0], [5.0]], [[0.0], [1.0], [5.0]]]]
    >>> tg.function(lambda: tg.sobel_edges(image)).sync()[0, 0, :, 0]
    array([[ 0.,  0.],
           [ 0., 20.],
           [ 0.,  0.]], dtype=float32)
    """
    # Mirrored without the border pixel itself, so that the derivative across a border is 0.
    x = pad(image_tensor(image, 4), [[0, 0], [1, 1], [1, 1], [0, 0]], "reflect")
    # The kernel is separable: weights 1, 2, 1 along one axis, and the difference along the other.
    smooth_rows = x[:, :, :-2] + x[:, :, 1:-1] * 2 + x[:, :, 2:]
    smooth_columns = x[:, :-2] + x[:, 1:-1] * 2 + x[:, 2:]
    dy = smooth_rows[:, 2:] - smooth_rows[:, :-2]
    dx = smooth_columns[:, :, 2:] - smooth_columns[:, :, :-2]
    return stack([dy, dx], axis=-1, name=name)


def _read_image_pair(a: Any, b: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return two images and `max_val` in the same scale and floating dtype, of at least four bytes."""
    x = image_tensor(a)
    y = image_tensor(convert_to_tensor(b, x.dtype))
    # `as_fractions` divides integers by the largest value of their dtype, so `max_val` gets the images' dtype before.
    if as_symbolic(max_val):
        largest = cast(max_val, x.dtype)
    else:
        largest = convert_to_tensor(max_val if x.dtype.is_integer else float(max_val), x.dtype)
    x, y, largest = (widen_halves(as_fractions(each)) for each in (x, y, largest))
    return x, y, largest


def _measure_dtype(a: Any) -> DType:
    """Return the dtype of a measure: the dtype of the images if floating, otherwise float32."""
    dtype = convert_to_tensor(a).dtype
    return dtype if dtype.is_floating else float32


@public
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Peak signal-to-noise ratio of images, in decibels.

    Parameters
    ----------
    a, b : Tensor of the same integer or floating dtype, of shape [..., height, width, channels]
    max_val : int, float or scalar Tensor
        Difference between the largest and the smallest possible value.

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
    x, y, largest = _read_image_pair(a, b, max_val)
    error = reduce_mean(apply("SquaredDifference", x, y), _IMAGE_AXES)
    return as_before(log(square(largest) / error) * (10 / math.log(10)), _measure_dtype(a), name)


def _gaussian_means(images: Tensor, size: int, sigma: float) -> Tensor:
    """Return the Gaussian means of all windows inside of images, of shape [..., height, width, channels].

    Height and width shrink by ``size - 1``; `sigma` is in pixels.
    """
    offsets = np.arange(size) - (size - 1) / 2
    weights = np.exp(-(offsets**2) / (2 * sigma**2))
    weights /= weights.sum()
    # The Gaussian is separable: means along the height, then along the width. Each term is the image shifted by i
    # pixels and cut at the end, except for the last shift, whose stop would be 0.
    shifts = [slice(i, i - size + 1 or None) for i in range(size)]
    for later_axes in ((slice(None), slice(None)), (slice(None),)):
        terms = [images[(..., shift, *later_axes)] * float(w) for shift, w in zip(shifts, weights, strict=True)]
        images = apply("AddN", terms)
    return images


def _require_windows(images: Tensor, size: int) -> Tensor:
    """Return images at least as large as a window; ShapeError if smaller, or a check in the step for unknown sizes."""
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
    return tensor_after_checks(
        images, [Assert(fits, [height_and_width], message=f"ssim compares windows of {size} pixels")]
    )


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
    img1, img2 : Tensor of the same integer or floating dtype, of shape [..., height, width, channels]
        At least as high and wide as the windows.
    max_val : int, float or scalar Tensor
        Difference between the largest and the smallest possible value.
    filter_size, filter_sigma : int and float
        Size of the compared windows, and standard deviation of the Gaussian that weighs their pixels.
    k1, k2 : float
        Fractions of `max_val` that keep divisors away from 0.

    Returns
    -------
    Tensor
        Of the floating dtype, or float32, of shape ``img1.shape[:-3]``: 1 for equal images. The mean over windows and
        channels. Values of two bytes are computed in float32.

    Raises
    ------
    GraphError
        If the filter has no size.
    ShapeError
        If the images are known to be smaller than the windows; otherwise the step raises OpError.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.linspace(0.0, 1.0, 144).reshape(12, 12, 1)
    >>> tg.function(lambda: tg.ssim(image, image, 1.0)).sync()
    array(1.)
    """
    size = _check_window_size(filter_size)
    x, y, largest = _read_image_pair(img1, img2, max_val)
    x, y = _require_windows(x, size), _require_windows(y, size)
    luminance, structure = _window_similarities(x, y, size, filter_sigma, (largest * k1, largest * k2))
    return as_before(reduce_mean(luminance * structure, _IMAGE_AXES), _measure_dtype(img1), name)


def _check_window_size(value: Any) -> int:
    """Return `filter_size` as an integer; GraphError if not positive."""
    size = static_int(value, "filter_size")
    if size < 1:
        raise GraphError("a filter has at least one element", wanted="1 or more", got=size, hint="leave it out")
    return size


def _window_similarities(
    x: Tensor, y: Tensor, size: int, sigma: float, guards: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the similarities of windows in luminance, and in contrast and structure (Wang et al., 2004, eq. 13).

    Parameters
    ----------
    x, y : Tensor of shape [..., height, width, channels]
    size, sigma : int and float
        Size and standard deviation of the Gaussian windows, in pixels.
    guards : pair of scalar Tensor
        Square roots of the constants C1 and C2, which keep divisors away from 0.
    """
    c1, c2 = map(square, guards)
    # Stacked, the four moments are averaged by a single filter.
    moments = _gaussian_means(stack([x, y, x * y, square(x) + square(y)]), size, sigma)
    mean_x, mean_y, mean_xy, mean_squares = unstack(moments, 4)
    product_of_means, squares_of_means = mean_x * mean_y * 2, square(mean_x) + square(mean_y)
    covariance = mean_xy * 2 - product_of_means  # twice the covariance, as the product is doubled too
    variances = mean_squares - squares_of_means  # the sum of both variances
    luminance = (product_of_means + c1) / (squares_of_means + c1)
    return luminance, (covariance + c2) / (variances + c2)


@public
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    name: str | None = None,
) -> Tensor:
    """Structural similarity of images in several sizes, each half of the previous size (Wang et al., 2003).

    Parameters
    ----------
    img1, img2 : Tensor of the same integer or floating dtype, of shape [batch, height, width, channels]
        In the smallest size at least as high and wide as the windows.
    max_val : int, float or scalar Tensor
        Difference between the largest and the smallest possible value.
    power_factors : sequence of float
        The weight of each size in the product, beginning with the full size.
    filter_size, filter_sigma, k1, k2
        As of `ssim`.

    Returns
    -------
    Tensor
        Of the floating dtype, or float32, of shape [batch]: 1 for equal images. Contrast and structure of all sizes and
        the luminance of the last, multiplied and then averaged over the channels; negative factors count as 0.

    Raises
    ------
    GraphError
        If the filter has no size, or there are no weights.
    ShapeError
        If the images are known to be smaller than the windows in some size; otherwise the step raises OpError.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.linspace(0.0, 1.0, 32 * 32).reshape(1, 32, 32, 1)
    >>> tg.function(lambda: tg.ssim_multiscale(image, image, 1.0, [0.5, 0.5])).sync()
    array([1.])
    """
    size = _check_window_size(filter_size)
    powers = [float(power) for power in power_factors]
    if not powers:
        raise GraphError("images are compared in sizes", wanted="a weight for each", got="none", hint="leave it out")
    x, y, largest = _read_image_pair(img1, img2, max_val)
    factors = []
    for number, power in enumerate(powers):
        if number:
            x, y = _halve_images(x), _halve_images(y)
        x, y = _require_windows(x, size), _require_windows(y, size)
        luminance, structure = _window_similarities(x, y, size, filter_sigma, (largest * k1, largest * k2))
        # Luminance counts in the smallest size only (Wang et al., 2003).
        is_smallest = number == len(powers) - 1
        # The mean over height and width: the mean over channels follows in the end, after the product of sizes.
        similarity = reduce_mean(luminance * structure if is_smallest else structure, _IMAGE_AXES[:2])
        # A negative similarity has no fractional power.
        factors.append(apply("Pow", relu(similarity), scalar_like(power, similarity)))
    return as_before(reduce_mean(reduce_prod(stack(factors), 0), -1), _measure_dtype(img1), name)


def _halve_images(images: Tensor) -> Tensor:
    """Return images of shape [batch, height, width, channels] at half the size; a last odd row or column is doubled."""
    sizes = [shape_of(images)[axis] if images.shape[axis] is None else images.shape[axis] for axis in (1, 2)]
    extra_row, extra_column = (size % 2 for size in sizes)
    even = pad(images, [[0, 0], [0, extra_row], [0, extra_column], [0, 0]], "symmetric")
    return avg_pool(even, 2, 2, "VALID")

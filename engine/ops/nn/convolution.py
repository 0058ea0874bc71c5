"""Convolutions of sequences, images and volumes."""

from __future__ import annotations

from typing import Any

from ...base.errors import ShapeError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.window_texts import of_convolution
from ..support.windows import Sliding, channels_first_again, channels_last
from . import convolution_operations  # noqa: F401  it declares the operations


def apply_convolution(images: Any, filters: Any, sliding: Sliding, name: str | None) -> Tensor:
    """Convolve `images` with `filters`; `sliding` places the windows."""
    first, attrs = sliding.is_channels_first, sliding.convolution_attrs()
    images = convert_to_tensor(images)
    last = channels_last(images, sliding.rank, first)
    # The last operation gets the name: the transposition, where channels are first.
    result = apply("Conv", last, convert_to_tensor(filters, images.dtype), name=None if first else name, **attrs)
    return channels_first_again(result, sliding.rank, name) if first else result


@public
@of_convolution(2).complete
def conv2d(
    input: Any,
    filter: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve images with filters, not flipped: sum the products of elements and weights over each window.

    Parameters
    ----------
    input : floating Tensor of shape [batch, height, width, channels]
        In the order of `data_format`.
    filter : Tensor of the same dtype, of shape [height, width, input channels, output channels]
        Fewer input channels, a divisor of the channels of the images, make a convolution in groups, each with its
        share of the output channels (Krizhevsky et al., 2012).

    Returns
    -------
    Tensor
        Of the same dtype, with as many channels as `filter` has output channels. Values of two bytes are added up in
        float32.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> edges = tg.function(lambda: tg.conv2d(image, [[[[-1.0]], [[1.0]]]], padding="SAME"))
    >>> edges.sync()[0, :, :, 0]
    array([[ 1.,  1., -2.],
           [ 1.,  1., -5.],
           [ 1.,  1., -8.]])
    """
    return apply_convolution(input, filter, Sliding(2, strides, padding, dilations, data_format), name)


@public
@of_convolution(1).complete
def conv1d(
    value: Any,
    filters: Any,
    stride: Any = 1,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve sequences with filters.

    Parameters
    ----------
    value : floating Tensor of shape [batch, length, channels]
    filters : Tensor of the same dtype, of shape [length, input channels, output channels]

    Returns
    -------
    Tensor
        Of the same dtype and shape [batch, windows, output channels].

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.conv1d([[[1.0], [2.0], [4.0]]], [[[1.0]], [[1.0]]])).sync()
    array([[[3.],
            [6.]]], dtype=float32)
    """
    return apply_convolution(value, filters, Sliding(1, stride, padding, dilations, data_format), name)


@public
@of_convolution(3).complete
def conv3d(
    input: Any,
    filter: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    data_format: str = "NDHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve volumes with filters.

    Parameters
    ----------
    input : floating Tensor of shape [batch, depth, height, width, channels]
    filter : Tensor of the same dtype, of shape [depth, height, width, input channels, output channels]

    Returns
    -------
    Tensor
        Of the same dtype, with as many channels as `filter` has output channels.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.conv3d(tg.ones([1, 3, 3, 3, 1]), tg.ones([2, 2, 2, 1, 1]), strides=2)).sync().ravel()
    array([8.], dtype=float32)
    """
    return apply_convolution(input, filter, Sliding(3, strides, padding, dilations, data_format), name)


@public
@of_convolution().complete
def convolution(
    input: Any,
    filter: Any,
    padding: Any = "VALID",
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Convolve sequences, images or volumes, by the rank of the filter.

    Parameters
    ----------
    input : floating Tensor of rank 3, 4 or 5
    filter : Tensor of the same dtype and rank, which has to be known
        Its shape is [*window, input channels, output channels].

    Returns
    -------
    Tensor
        Of the same dtype and rank.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.convolution(tg.ones([1, 4, 1]), tg.ones([2, 1, 1]), dilation_rate=2)).sync().shape
    (1, 2, 1)
    """
    filter = convert_to_tensor(filter)
    if filter.rank not in (3, 4, 5):
        raise ShapeError(
            "the rank of the filter says what is convolved",
            wanted="rank 3, 4 or 5",
            got=filter.shape,
            hint="set its shape, or take conv1d, conv2d or conv3d",
        )
    sliding = Sliding(filter.rank - 2, strides, padding, dilation_rate, data_format)
    return apply_convolution(input, filter, sliding, name)


@public
@of_convolution(2).complete
def atrous_conv2d(value: Any, filters: Any, rate: Any, padding: Any, name: str | None = None) -> Tensor:
    """Convolve images with filters whose elements are `rate` apart: `conv2d` with dilations.

    Parameters
    ----------
    value : floating Tensor of shape [batch, height, width, channels]
    filters : Tensor of the same dtype, of shape [height, width, input channels, output channels]

    Returns
    -------
    Tensor
        Of the same dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.atrous_conv2d(tg.ones([1, 5, 5, 1]), tg.ones([3, 3, 1, 1]), 2, "VALID")).sync().ravel()
    array([9.], dtype=float32)
    """
    return apply_convolution(value, filters, Sliding(2, 1, padding, rate, "NHWC"), name)

"""Convolutions of sequences, images and volumes."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.bits import ensure_shape
from ..array.shapes import reshape
from ..support.windows import channels_first_again, channels_last, is_channels_first
from .convolution_operations import sliding_attrs


def _convolve(
    rank: int, images: Any, filters: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, name: str | None
) -> Tensor:
    first = is_channels_first(data_format, rank)
    attrs = sliding_attrs(rank, strides, padding, dilations, first)
    images = convert_to_tensor(images)
    last = channels_last(images, rank, first)
    result = apply("Conv", last, convert_to_tensor(filters, images.dtype), name=name, **attrs)
    return channels_first_again(result, rank, first)


@public
def conv2d(
    input: Any,
    filter: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve images with filters: the sum over a window of elements times those of the filter, which is not flipped.

    Parameters
    ----------
    input : floating Tensor of shape [batch, height, width, channels]
        Or of that shape by `data_format`.
    filter : Tensor of the same dtype, of shape [height, width, input channels, output channels]
        With input channels that divide those of the images the convolution is in groups, each with its share of the
        output channels (Krizhevsky et al., 2012).
    strides : int or sequence of int
        From one window to the next; one for both dimensions, two, or four with 1 for the batch and the channels.
    padding : {'VALID', 'SAME'} or sequence of pairs
        VALID has only windows that lie inside. SAME pads with zeros so that there are ``ceil(size / stride)`` windows.
        Pairs are zeros in front and behind: two, or four with (0, 0) for the batch and the channels.
    data_format : {'NHWC', 'NCHW'}
        Where the channels are. NCHW is transposed before and after.
    dilations : int or sequence of int
        How far apart the elements are that a window sees, as `strides`.

    Returns
    -------
    Tensor
        Of the same dtype, with as many channels as `filter` has output channels. Values of two bytes are added up in
        float32.

    Raises
    ------
    ShapeError
        If ranks or channels do not fit, or no window fits into the images.
    GraphError
        If strides, padding, dilations or data format are none.

    Examples
    --------
    >>> import numpy as np, tagflow as tg
    >>> image = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> edges = tg.function(lambda: tg.conv2d(image, [[[[-1.0]], [[1.0]]]], padding="SAME"))
    >>> edges.sync()[0, :, :, 0]
    array([[ 1.,  1., -2.],
           [ 1.,  1., -5.],
           [ 1.,  1., -8.]])
    """
    return _convolve(2, input, filter, strides, padding, data_format, dilations, name)


@public
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
    stride, padding, dilations
        As `strides`, `padding` and `dilations` of `conv2d`.
    data_format : {None, 'NWC', 'NCW'}
        NWC when None.

    Returns
    -------
    Tensor
        Of the same dtype and shape [batch, windows, output channels].

    Examples
    --------
    >>> import tagflow as tg
    >>> tg.function(lambda: tg.conv1d([[[1.0], [2.0], [4.0]]], [[[1.0]], [[1.0]]])).sync()
    array([[[3.],
            [6.]]], dtype=float32)
    """
    return _convolve(1, value, filters, stride, padding, data_format, dilations, name)


@public
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
    strides, padding, dilations
        As for `conv2d`, with three dimensions.
    data_format : {'NDHWC', 'NCDHW'}

    Returns
    -------
    Tensor
        Of the same dtype, with as many channels as `filter` has output channels.

    Examples
    --------
    >>> import tagflow as tg
    >>> tg.function(lambda: tg.conv3d(tg.ones([1, 3, 3, 3, 1]), tg.ones([2, 2, 2, 1, 1]), strides=2)).sync().ravel()
    array([8.], dtype=float32)
    """
    return _convolve(3, input, filter, strides, padding, data_format, dilations, name)


@public
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
    filter : Tensor of the same dtype and rank
        Its shape is that of the window, then input and output channels.
    padding, strides, dilation_rate
        As `padding`, `strides` and `dilations` of `conv2d`; 1 when None.
    data_format : str, optional
        As for `conv1d`, `conv2d` and `conv3d`.

    Returns
    -------
    Tensor
        Of the same dtype and rank.

    Raises
    ------
    ShapeError
        If the rank is not known, or another.

    Examples
    --------
    >>> import tagflow as tg
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
    return _convolve(filter.rank - 2, input, filter, strides, padding, data_format, dilation_rate, name)


@public
def atrous_conv2d(value: Any, filters: Any, rate: Any, padding: Any, name: str | None = None) -> Tensor:
    """Convolve images with filters whose elements are `rate` apart: `conv2d` with dilations.

    Parameters
    ----------
    value : floating Tensor of shape [batch, height, width, channels]
    filters : Tensor of the same dtype, of shape [height, width, input channels, output channels]
    rate : int
    padding
        As for `conv2d`.

    Returns
    -------
    Tensor
        Of the same dtype.

    Examples
    --------
    >>> import tagflow as tg
    >>> tg.function(lambda: tg.atrous_conv2d(tg.ones([1, 5, 5, 1]), tg.ones([3, 3, 1, 1]), 2, "VALID")).sync().ravel()
    array([9.], dtype=float32)
    """
    return _convolve(2, value, filters, 1, padding, "NHWC", rate, name)


@public
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Convolve each channel of images for itself.

    Parameters
    ----------
    input : floating Tensor of shape [batch, height, width, channels]
    filter : Tensor of the same dtype, of shape [height, width, channels, multiplier]
    strides, padding, data_format
        As for `conv2d`.
    rate, dilations : int or sequence of int, optional
        Either of them, as `dilations` of `conv2d`.

    Returns
    -------
    Tensor
        With `multiplier` results for each channel, side by side.

    Raises
    ------
    ShapeError
        If the number of channels of the filter is not known, or another than that of the images; where that is not
        known, an OpError when a step runs it.
    GraphError
        If both `rate` and `dilations` are given, or an argument of `conv2d` is none.

    Examples
    --------
    >>> import tagflow as tg
    >>> tg.function(lambda: tg.depthwise_conv2d([[[[1.0, 10.0]]]], [[[[1.0, 2.0], [3.0, 4.0]]]])).sync().ravel()
    array([ 1.,  2., 30., 40.], dtype=float32)
    """
    images = convert_to_tensor(input)
    filter = convert_to_tensor(filter, images.dtype)
    if rate is not None and dilations is not None:
        raise GraphError(
            "'rate' and 'dilations' are two names of one argument",
            wanted="one of them",
            got=f"rate={rate}, dilations={dilations}",
            hint="leave rate out",
        )
    known = filter.shape.dims if filter.rank == 4 else None
    if known is None or known[2] is None or known[3] is None:
        raise ShapeError(
            "depthwise_conv2d needs to know the channels of its filter",
            wanted="[height, width, channels, multiplier]",
            got=filter.shape,
            hint="set the shape of the filter",
        )
    window = [-1 if d is None else d for d in known[:2]]
    if -1 in window:
        window = [apply("Shape", filter)[0], apply("Shape", filter)[1]]
    flat = reshape(filter, [*window, 1, known[2] * known[3]])
    images = _with_channels(images, known[2], is_channels_first(data_format, 2))
    dilations = rate if dilations is None else dilations
    return _convolve(2, images, flat, strides, padding, data_format, dilations, name)


def _with_channels(images: Tensor, channels: int, first: bool) -> Tensor:
    """Return images that have so many channels; a step checks that where it is not known."""
    wanted = Shape([None, channels, None, None] if first else [None, None, None, channels])
    if not images.shape.is_compatible_with(wanted):
        raise ShapeError(
            "the filter of depthwise_conv2d has other channels than the images",
            wanted=wanted,
            got=images.shape,
            operation=images.op,
            hint="a filter has the shape [height, width, channels, multiplier]",
        )
    is_known = images.rank is not None and images.shape[1 if first else 3] is not None
    return images if is_known else ensure_shape(images, wanted)


@public
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Convolve each channel for itself, then mix the channels of each pixel (Chollet, 2016).

    Parameters
    ----------
    input : floating Tensor of shape [batch, height, width, channels]
    depthwise_filter : Tensor of the same dtype, of shape [height, width, channels, multiplier]
    pointwise_filter : Tensor of the same dtype, of shape [1, 1, channels * multiplier, output channels]
    strides, padding, rate, data_format, dilations
        As for `depthwise_conv2d`.

    Returns
    -------
    Tensor
        Of the same dtype, with the output channels of `pointwise_filter`.

    Examples
    --------
    >>> import tagflow as tg
    >>> x, each = [[[[1.0, 10.0]]]], [[[[2.0], [3.0]]]]
    >>> tg.function(lambda: tg.separable_conv2d(x, each, [[[[1.0], [1.0]]]])).sync().ravel()
    array([32.], dtype=float32)
    """
    deep = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, None, data_format, dilations)
    return _convolve(2, deep, pointwise_filter, 1, "VALID", data_format, 1, name)

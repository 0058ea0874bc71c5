"""Depthwise and separable convolutions of images."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.bits import ensure_shape
from ..array.shapes import reshape
from ..support.window_texts import of_convolution
from ..support.windows import Sliding, is_channels_first
from .convolution import apply_convolution


@public
@of_convolution(2).complete
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
    """Convolve each channel of images separately.

    The arguments `rate` and `dilations` are two names of one argument.

    Parameters
    ----------
    input : floating Tensor of shape [batch, height, width, channels]
    filter : Tensor of the same dtype, of shape [height, width, channels, multiplier]

    Returns
    -------
    Tensor
        With `multiplier` results for each channel, side by side.

    Raises
    ------
    ShapeError
        If the channels or the multiplier of the filter are unknown, or its channels differ from the channels of the
        images; an OpError in a step where the latter are unknown.
    GraphError
        If both `rate` and `dilations` are given, or strides, padding, dilations or data format are invalid.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.depthwise_conv2d([[[[1.0, 10.0]]]], [[[[1.0, 2.0], [3.0, 4.0]]]])).sync().ravel()
    array([ 1.,  2., 30., 40.], dtype=float32)
    """
    images = convert_to_tensor(input)
    filter = convert_to_tensor(filter, images.dtype)
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
    # A grouped convolution of an input channel per group. Other images would only be taken for other groups, so their
    # channels are checked.
    flat = reshape(filter, [*window, 1, known[2] * known[3]])
    images = _with_channels(images, known[2], is_channels_first(data_format, 2))
    dilations = _one_of(rate, dilations)
    return apply_convolution(images, flat, Sliding(2, strides, padding, dilations, data_format), name)


def _one_of(rate: Any, dilations: Any) -> Any:
    """Return the argument under either name; GraphError if both are passed."""
    if rate is not None and dilations is not None:
        raise GraphError(
            "'rate' and 'dilations' are two names of one argument",
            wanted="one of them",
            got=f"rate={rate}, dilations={dilations}",
            hint="leave rate out",
        )
    return rate if dilations is None else dilations


def _with_channels(images: Tensor, channels: int, first: bool) -> Tensor:
    """Return images, checked to have `channels` channels, in a step where the number is unknown."""
    wanted = Shape([None, channels, None, None] if first else [None, None, None, channels])
    if not images.shape.is_compatible_with(wanted):
        raise ShapeError(
            "the filter of depthwise_conv2d has other channels than the images",
            wanted=wanted,
            got=images.shape,
            operation=images.op,
            hint="a filter has the shape [height, width, channels, multiplier]",
        )
    # Otherwise only the step knows the number of channels.
    is_known = images.rank is not None and images.shape[1 if first else 3] is not None
    return images if is_known else ensure_shape(images, wanted)


@public
@of_convolution(2).complete
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
    """Convolve each channel separately, then mix the channels of each pixel (Chollet, 2016).

    The arguments `rate` and `dilations` are two names of one argument.

    Parameters
    ----------
    input : floating Tensor of shape [batch, height, width, channels]
    depthwise_filter : Tensor of the same dtype, of shape [height, width, channels, multiplier]
    pointwise_filter : Tensor of the same dtype, of shape [1, 1, channels * multiplier, output channels]

    Returns
    -------
    Tensor
        Of the same dtype, with the output channels of `pointwise_filter`.

    Examples
    --------
    >>> import tagloom as tg
    >>> x, each = [[[[1.0, 10.0]]]], [[[[2.0], [3.0]]]]
    >>> tg.function(lambda: tg.separable_conv2d(x, each, [[[[1.0], [1.0]]]])).sync().ravel()
    array([32.], dtype=float32)
    """
    images = convert_to_tensor(input)
    each, mix = (convert_to_tensor(filter, images.dtype) for filter in (depthwise_filter, pointwise_filter))
    known = each.shape.dims if each.rank == 4 else [None] * 4
    # The depthwise result has known[3] channels for each channel of the images.
    channels = None if known[2] is None or known[3] is None else known[2] * known[3]
    if not mix.shape.is_compatible_with(Shape([1, 1, channels, None])):
        raise ShapeError(
            "the pointwise filter mixes what the depthwise one gives",
            wanted=Shape([1, 1, channels, None]),
            got=mix.shape,
            operation=mix.op,
            hint="a pointwise filter has the shape [1, 1, channels * multiplier, output channels]",
        )
    deep = depthwise_conv2d(images, each, strides, padding, rate, None, data_format, dilations)
    return apply_convolution(deep, pointwise_filter, Sliding(2, 1, "VALID", 1, data_format), name)

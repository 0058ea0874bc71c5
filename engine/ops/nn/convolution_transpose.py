"""Transposed convolutions, and the gradients of `conv2d` by its images and filters."""

from __future__ import annotations

from typing import Any

from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor
from ..support.window_texts import of_transposed
from ..support.windows import Sliding, channels_first_again, channels_last
from . import convolution_operations  # noqa: F401  it declares the operations


def _apply_transposed(g: Any, filters: Any, shape: Any, sliding: Sliding, name: str | None) -> Tensor:
    """Apply a transposed convolution to `g`; the arguments are in the order of the data format."""
    rank, first, attrs = sliding.rank, sliding.is_channels_first, sliding.convolution_attrs()
    g, sizes = convert_to_tensor(g), index_tensor(shape)
    if first:
        # The shape moves its channels to the end, like the images.
        sizes = apply("Gather", sizes, index_tensor([0, *range(2, rank + 2), 1]))
    last = channels_last(g, rank, first)
    filters = convert_to_tensor(filters, g.dtype)
    result = apply("ConvInputGrad", sizes, filters, last, name=None if first else name, **attrs)
    return channels_first_again(result, rank, name) if first else result


@public
@of_transposed(2).complete
def conv2d_transpose(
    value: Any,
    filter: Any,
    output_shape: Any,
    strides: Any = 1,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution, from the result of `conv2d` back to images (Zeiler et al., 2010).

    This is the gradient of `conv2d` with respect to its images.

    Parameters
    ----------
    value : floating Tensor of shape [batch, height, width, channels]
    filter : Tensor of the same dtype, of shape [height, width, output channels, channels]
    output_shape : int32 or int64 vector
        Shape of the result; `conv2d` of such images has to return the shape of `value`.

    Returns
    -------
    Tensor
        Of the same dtype, of shape `output_shape`.

    Examples
    --------
    >>> import tagloom as tg
    >>> larger = tg.function(lambda: tg.conv2d_transpose(tg.ones([1, 2, 1, 1]), tg.ones([2, 1, 1, 1]), [1, 4, 1, 1], 2))
    >>> larger.sync().ravel()
    array([1., 1., 1., 1.], dtype=float32)
    """
    return _apply_transposed(value, filter, output_shape, Sliding(2, strides, padding, dilations, data_format), name)


@public
@of_transposed(1).complete
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any = 1,
    padding: Any = "SAME",
    data_format: str = "NWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution, from the result of `conv1d` back to sequences.

    Parameters
    ----------
    input : floating Tensor of shape [batch, length, channels]
    filters : Tensor of the same dtype, of shape [length, output channels, channels]
    output_shape : int32 or int64 vector
        Shape of the result; `conv1d` of such sequences has to return the shape of `input`.

    Returns
    -------
    Tensor
        Of the same dtype, of shape `output_shape`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.conv1d_transpose([[[1.0], [2.0]]], [[[1.0]], [[3.0]]], [1, 4, 1], 2)).sync().ravel()
    array([1., 3., 2., 6.], dtype=float32)
    """
    return _apply_transposed(input, filters, output_shape, Sliding(1, strides, padding, dilations, data_format), name)


@public
@of_transposed(3).complete
def conv3d_transpose(
    value: Any,
    filter: Any,
    output_shape: Any,
    strides: Any = 1,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution, from the result of `conv3d` back to volumes.

    Parameters
    ----------
    value : floating Tensor of shape [batch, depth, height, width, channels]
    filter : Tensor of the same dtype, of shape [depth, height, width, output channels, channels]
    output_shape : int32 or int64 vector
        Shape of the result; `conv3d` of such volumes has to return the shape of `value`.

    Returns
    -------
    Tensor
        Of the same dtype, of shape `output_shape`.

    Examples
    --------
    >>> import tagloom as tg
    >>> point = [[[[[3.0]]]]]
    >>> tg.function(lambda: tg.conv3d_transpose(point, tg.ones([1, 1, 2, 1, 1]), [1, 1, 1, 2, 1], 2)).sync().ravel()
    array([3., 3.], dtype=float32)
    """
    return _apply_transposed(value, filter, output_shape, Sliding(3, strides, padding, dilations, data_format), name)


@public
@of_transposed(2).complete
def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `conv2d` with respect to its images.

    Parameters
    ----------
    input_sizes : int32 or int64 vector
        Shape of the images.
    filter : floating Tensor
        As for `conv2d`.
    out_backprop : Tensor of the same dtype
        Gradient of the result.

    Returns
    -------
    Tensor
        Of the same dtype, of shape `input_sizes`.

    Examples
    --------
    >>> import tagloom as tg
    >>> g = tg.function(lambda: tg.conv2d_backprop_input([1, 3, 1, 1], tg.ones([2, 1, 1, 1]), tg.ones([1, 2, 1, 1])))
    >>> g.sync().ravel()
    array([1., 2., 1.], dtype=float32)
    """
    sliding = Sliding(2, strides, padding, dilations, data_format)
    return _apply_transposed(out_backprop, filter, input_sizes, sliding, name)


@public
@of_transposed(2).complete
def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `conv2d` with respect to its filters.

    Parameters
    ----------
    input : floating Tensor
        As for `conv2d`.
    filter_sizes : int32 or int64 vector
        Shape of the filters.
    out_backprop : Tensor of the same dtype
        Gradient of the result.

    Returns
    -------
    Tensor
        Of the same dtype, of shape `filter_sizes`.

    Examples
    --------
    >>> import tagloom as tg
    >>> x, g = [[[[1.0]], [[2.0]], [[4.0]]]], [[[[1.0]], [[1.0]]]]
    >>> tg.function(lambda: tg.conv2d_backprop_filter(x, [2, 1, 1, 1], g)).sync().ravel()
    array([3., 6.], dtype=float32)
    """
    sliding = Sliding(2, strides, padding, dilations, data_format)
    images, first = convert_to_tensor(input), sliding.is_channels_first
    last, g = (channels_last(convert_to_tensor(t, images.dtype), 2, first) for t in (images, out_backprop))
    # The result is not transposed: filters have the same order in all data formats.
    return apply("ConvFilterGrad", last, index_tensor(filter_sizes), g, name=name, **sliding.convolution_attrs())

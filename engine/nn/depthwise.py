"""Depthwise and separable convolution layers."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..frontend.state.variables import Variable
from ..ir.tensor import Tensor
from ..ops.array.shapes import expand_dims, squeeze
from ..ops.nn.depthwise import depthwise_conv2d, separable_conv2d
from ..ops.support.windows import LAYOUTS
from .convolution import WindowLayer
from .module import module_of_fields


@module_of_fields
class DepthwiseConv2D(WindowLayer):
    """Depthwise convolution of images, each channel on its own: see `depthwise_conv2d`.

    Parameters
    ----------
    kernel_size, strides, padding
        As for `Conv2D`.
    depth_multiplier : int
        Number of results per channel, side by side.
    data_format, dilation_rate, activation, use_bias
        As for `Conv2D`.
    depthwise_initializer, bias_initializer : callable, str or array-like, optional
        As `initializer` of `get_variable`. By default the variable scope's for kernels, else
        ``"glorot_uniform"``; ``"zeros"`` for biases.
    input_size, dtype, name
        As for `Conv2D`.

    Attributes
    ----------
    depthwise_kernel : Variable of shape [height, width, channels, multiplier]
    bias : Variable of shape [channels * multiplier], or None

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.DepthwiseConv2D(3, depth_multiplier=2)(tg.ones([1, 7, 7, 16]))
    >>> y.shape
    Shape(1, 5, 5, 32)
    """

    kernel_size: Any
    strides: Any = 1
    padding: Any = "VALID"
    depth_multiplier: int = 1
    data_format: InitVar[str | None] = None
    dilation_rate: Any = 1
    activation: Any = None
    use_bias: bool = True
    depthwise_initializer: Any = None
    bias_initializer: Any = "zeros"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def build(self, size: int) -> None:
        self.filters = size * self.depth_multiplier
        shape = [*self.kernel_size, size, self.depth_multiplier]
        self.depthwise_kernel: Variable = self.variable("depthwise_kernel", shape, self.depthwise_initializer)
        self.add_bias(self.filters)

    def forward(self, inputs: Any) -> Tensor:
        """Return the convolution of `inputs` with its bias and activation."""
        x = self.ready(inputs)
        y = depthwise_conv2d(
            x, self.depthwise_kernel, self.strides, self.padding, self.dilation_rate, data_format=self.data_format
        )
        return self.finish(y)


@module_of_fields
class SeparableConvolution(WindowLayer):
    """Base of separable convolution layers: a depthwise convolution, then a mixture of the channels."""

    filters: int
    kernel_size: Any
    strides: Any = 1
    padding: Any = "VALID"
    data_format: InitVar[str | None] = None
    dilation_rate: Any = 1
    depth_multiplier: int = 1
    activation: Any = None
    use_bias: bool = True
    depthwise_initializer: Any = None
    pointwise_initializer: Any = None
    bias_initializer: Any = "zeros"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def build(self, size: int) -> None:
        deep = size * self.depth_multiplier
        shape = [*self.kernel_size, size, self.depth_multiplier]
        # In the layout of `depthwise_conv2d`: each input channel has `depth_multiplier` kernels of its own.
        self.depthwise_kernel: Variable = self.variable("depthwise_kernel", shape, self.depthwise_initializer)
        self.pointwise_kernel = self.variable(
            "pointwise_kernel", [*[1] * self.rank, deep, self.filters], self.pointwise_initializer
        )
        self.add_bias(self.filters)


class SeparableConv1D(SeparableConvolution):
    """Separable convolution of sequences: depthwise, then a mixture of the channels of each place.

    Arguments as for `SeparableConv2D`; the kernels lack the height.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     layer = tg.nn.SeparableConv1D(8, 3, padding="SAME")
    ...     y = layer(tg.ones([2, 7, 16]))
    >>> y.shape, layer.depthwise_kernel.shape, layer.pointwise_kernel.shape
    (Shape(2, 7, 8), Shape(3, 16, 1), Shape(1, 16, 8))
    """

    rank = 1

    def forward(self, inputs: Any) -> Tensor:
        """Return the convolution of `inputs` with its bias and activation."""
        x = self.ready(inputs)
        line = 2 if self.channels_first else 1  # axis of the height: a sequence is an image of height 1
        each, mix = (expand_dims(kernel, 0) for kernel in (self.depthwise_kernel, self.pointwise_kernel))
        padding = self.padding if isinstance(self.padding, str) else [(0, 0), *self.padding]
        strides, dilations = [1, *self.strides], [1, *self.dilation_rate]
        formats = LAYOUTS[2][self.channels_first]
        y = separable_conv2d(
            expand_dims(x, line), each, mix, strides, padding, data_format=formats, dilations=dilations
        )
        return self.finish(squeeze(y, line))


class SeparableConv2D(SeparableConvolution):
    """Separable convolution of images: depthwise, then a mixture of the channels of each pixel (Chollet, 2016).

    Parameters
    ----------
    filters : int
        Channels of the result.
    kernel_size, strides, padding, data_format, dilation_rate
        As for `Conv2D`.
    depth_multiplier : int
        Number of depthwise results per channel, before the mixture.
    activation, use_bias
        As for `Conv2D`.
    depthwise_initializer, pointwise_initializer, bias_initializer : callable, str or array-like, optional
        As `initializer` of `get_variable`. By default the variable scope's for kernels, else
        ``"glorot_uniform"``; ``"zeros"`` for biases.
    input_size, dtype, name
        As for `Conv2D`.

    Attributes
    ----------
    depthwise_kernel : Variable of shape [height, width, channels, multiplier]
    pointwise_kernel : Variable of shape [1, 1, channels * multiplier, filters]
    bias : Variable of shape [filters], or None

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     layer = tg.nn.SeparableConv2D(8, 3)
    ...     y = layer(tg.ones([1, 7, 7, 16]))
    >>> y.shape, layer
    (Shape(1, 5, 5, 8), <SeparableConv2D separableconv2d: 3 variables, 280 elements>)
    """

    rank = 2

    def forward(self, inputs: Any) -> Tensor:
        """Return the convolution of `inputs` with its bias and activation."""
        x = self.ready(inputs)
        y = separable_conv2d(
            x,
            self.depthwise_kernel,
            self.pointwise_kernel,
            self.strides,
            self.padding,
            self.dilation_rate,
            data_format=self.data_format,
        )
        return self.finish(y)

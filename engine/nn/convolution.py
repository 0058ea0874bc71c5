"""Convolution layers for sequences, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar
from typing import Any

from ..base.errors import ShapeError
from ..base.shapes import Shape
from ..frontend.state.variables import Variable
from ..ir.tensor import Tensor
from ..ops.array.shapes import reshape
from ..ops.array.shapes import shape as shape_of
from ..ops.nn.convolution import convolution
from ..ops.nn.convolution_transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose
from ..ops.support.windows import LAYOUTS, check_padding, is_channels_first, padding_of, spatial_numbers
from .building import Lazy
from .by_name import as_activation
from .module import module_of_fields

_TRANSPOSED = {1: conv1d_transpose, 2: conv2d_transpose, 3: conv3d_transpose}


class WindowLayer(Lazy):
    """Base of layers with a kernel for the windows of a sequence, image or volume: options, bias and activation.

    The fields of a subclass are its options, in the order of its constructor's parameters.
    """

    # number of spatial dimensions
    rank = 2

    filters: int
    kernel_size: Any
    strides: Any
    padding: Any
    data_format: str
    dilation_rate: Any
    activation: Any
    use_bias: bool
    bias_initializer: Any

    def __post_init__(self, data_format: str | None, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__init__(name, input_size, dtype)
        self.channels_first: bool = is_channels_first(data_format, self.rank)
        self.data_format = LAYOUTS[self.rank][self.channels_first]
        self.kernel_size = self._spatial_sizes(self.kernel_size, "kernel_size")
        self.strides = self._spatial_sizes(self.strides, "strides")
        self.dilation_rate = self._spatial_sizes(self.dilation_rate, "dilation_rate")
        self.padding = padding_of(self.padding, self.rank, self.channels_first)
        # Explicit padding is checked here, where the user's line is, not at the first call.
        if self.padding not in ("SAME", "VALID"):
            check_padding(self.padding, self.rank)
        self.activation = as_activation(self.activation)
        # Before `prepare`, which makes the bias if the input size is known.
        self.bias: Any = None
        self.prepare()

    def _spatial_sizes(self, value: Any, what: str) -> tuple[int, ...]:
        return spatial_numbers(value, self.rank, what, self.channels_first)

    def input_axes(self) -> Sequence[int]:
        return (1,) if self.channels_first else (-1,)

    def add_bias(self, size: int) -> None:
        """Make the bias for `size` output channels."""
        if self.use_bias:
            self.bias = self.variable("bias", [size], self.bias_initializer)

    def finish(self, y: Tensor) -> Tensor:
        """Return the result of a convolution with its bias and activation."""
        if self.bias is not None:
            # Channels first: one bias per channel, broadcast over the pixels that follow.
            y = y + (reshape(self.bias, [-1, *[1] * self.rank]) if self.channels_first else self.bias)
        activated: Tensor = self.activation(y)
        return activated


@module_of_fields
class Convolution(WindowLayer):
    """Base of convolution layers: windows, groups of channels, bias and activation."""

    filters: int
    kernel_size: Any
    strides: Any = 1
    padding: Any = "VALID"
    data_format: InitVar[str | None] = None
    dilation_rate: Any = 1
    activation: Any = None
    use_bias: bool = True
    kernel_initializer: Any = None
    bias_initializer: Any = "zeros"
    groups: int = 1
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def build(self, size: int) -> None:
        if self.groups < 1 or size % self.groups or self.filters % self.groups:
            raise ShapeError(
                "the groups do not divide the channels",
                wanted=f"a divisor of {size} input channels and {self.filters} filters",
                got=self.groups,
                hint="groups=1 has every output see all channels",
            )
        shape = [*self.kernel_size, *self.channels(size)]
        self.kernel: Variable = self.variable("kernel", shape, self.kernel_initializer)
        self.add_bias(self.filters)

    def channels(self, size: int) -> list[int]:
        """Return the last two dimensions of the kernel, for `size` input channels."""
        return [size // self.groups, self.filters]

    def forward(self, inputs: Any) -> Tensor:
        """Return the convolution of `inputs` with its bias and activation."""
        x = self.ready(inputs)
        y = convolution(x, self.kernel, self.padding, self.strides, self.dilation_rate, data_format=self.data_format)
        return self.finish(y)


class Conv1D(Convolution):
    """Convolution of sequences [batch, length, channels]: see `Conv2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     layer = tg.nn.Conv1D(1, 2, kernel_initializer="ones")
    ...     y = layer([[[1.0], [2.0], [4.0]]])
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y).ravel()
    array([3., 6.], dtype=float32)
    """

    rank = 1


class Conv2D(Convolution):
    """Convolution of images [batch, height, width, channels], then a bias and an activation.

    Parameters
    ----------
    filters : int
        Channels of the result.
    kernel_size, strides, dilation_rate : int or sequence of int
        A number for both dimensions, or a number for each.
    padding : {'VALID', 'SAME'} or sequence of pairs
        As for `conv2d`.
    data_format : str, optional
        As for `conv2d`.
    activation : callable or str, optional
        As for `Dense`.
    use_bias : bool
    kernel_initializer, bias_initializer : callable, str or array-like, optional
        As `initializer` of `get_variable`. By default the variable scope's for kernels, else
        ``"glorot_uniform"``; ``"zeros"`` for biases.
    groups : int
        Number of groups of channels; each group of filters sees its group of input channels.
    input_size : int, optional
        Channels of the inputs; by default the first input's.
    dtype : dtype-like, optional
        Dtype of the parameters.
    name : str, optional

    Attributes
    ----------
    kernel : Variable of shape [height, width, channels / groups, filters]
    bias : Variable of shape [filters], or None

    Raises
    ------
    ShapeError
        When the variables are made, if the groups do not divide channels and filters or the channels are unknown;
        on a call with another number of channels.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     layer = tg.nn.Conv2D(16, 3, strides=2, padding="SAME", activation="relu")
    ...     y = layer(tg.placeholder("float32", [None, 28, 28, 3]))
    >>> y.shape, layer.kernel
    (Shape(None, 14, 14, 16), <Variable conv2d/kernel float32[3,3,3,16]>)
    """

    rank = 2


class Conv3D(Convolution):
    """Convolution of volumes [batch, depth, height, width, channels]: see `Conv2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.Conv3D(4, [1, 3, 3])(tg.ones([2, 5, 7, 7, 3]))
    >>> y.shape
    Shape(2, 5, 5, 5, 4)
    """

    rank = 3


class TransposedConvolution(Convolution):
    """Base of transposed convolution layers."""

    def channels(self, size: int) -> list[int]:
        """Return the last two dimensions of the kernel, for `size` input channels, as of the transposed convolution."""
        # The kernel is that of the convolution whose gradient this is: outputs before inputs.
        return [self.filters // self.groups, size]

    def forward(self, inputs: Any) -> Tensor:
        """Return the transposed convolution of `inputs` with its bias and activation."""
        x = self.ready(inputs)
        known = x.shape.merge(Shape([None] * (self.rank + 2)))
        dims = [shape_of(x)[i] if d is None else d for i, d in enumerate(known)]
        first = 2 if self.channels_first else 1
        larger = [self._compute_result_size(dims[first + i], i) for i in range(self.rank)]
        shape = [dims[0], self.filters, *larger] if self.channels_first else [dims[0], *larger, self.filters]
        transpose = _TRANSPOSED[self.rank]
        y = transpose(x, self.kernel, shape, self.strides, self.padding, self.data_format, self.dilation_rate)
        # The output shape is partly a tensor, from which no static shape is inferred.
        y.set_shape([d if isinstance(d, int) else None for d in shape])
        return self.finish(y)

    def _compute_result_size(self, size: Any, i: int) -> Any:
        """Return the size of the result along the spatial dimension `i`."""
        # Pixels that a kernel spans, with the gaps of the dilation.
        stride, length = self.strides[i], (self.kernel_size[i] - 1) * self.dilation_rate[i] + 1
        if self.padding == "SAME":
            return size * stride
        # The least size whose windows reach as far, and no less than `size * stride`.
        padded = 0 if self.padding == "VALID" else sum(self.padding[i])
        return size * stride + max(length - stride, 0) - padded


class Conv1DTranspose(TransposedConvolution):
    """Transposed convolution of sequences: see `Conv2DTranspose`, `conv1d_transpose`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.Conv1DTranspose(8, 3, strides=2, padding="SAME")(tg.ones([1, 7, 16]))
    >>> y.shape
    Shape(1, 14, 8)
    """

    rank = 1


class Conv2DTranspose(TransposedConvolution):
    """Transposed convolution of images, to larger images: see `conv2d_transpose`.

    Parameters
    ----------
    filters : int
        Channels of the result.
    kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
    bias_initializer
        As for `Conv2D`. The result has ``size * strides`` pixels along a dimension with SAME, and with VALID as many
        as its windows reach, ``size * strides`` at least.
    groups, input_size, dtype, name
        As for `Conv2D`.

    Attributes
    ----------
    kernel : Variable of shape [height, width, filters / groups, channels]
    bias : Variable of shape [filters], or None

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.Conv2DTranspose(8, 3, strides=2, padding="SAME")(tg.ones([1, 7, 7, 16]))
    >>> y.shape
    Shape(1, 14, 14, 8)
    """

    rank = 2


class Conv3DTranspose(TransposedConvolution):
    """Transposed convolution of volumes: see `Conv2DTranspose`, `conv3d_transpose`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.Conv3DTranspose(8, 3, strides=[1, 2, 2])(tg.ones([1, 5, 7, 7, 16]))
    >>> y.shape
    Shape(1, 7, 15, 15, 8)
    """

    rank = 3

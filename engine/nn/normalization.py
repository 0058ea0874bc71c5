"""Normalization layers whose moments are computed per example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar
from typing import Any

from ..base.dtypes import DType, accumulator_dtype
from ..base.errors import ShapeError
from ..ir.tensor import Tensor
from ..ops.array.layout import transpose
from ..ops.array.shapes import reshape
from ..ops.math.casting import cast
from ..ops.math.elementwise import rsqrt, square
from ..ops.math.reductions import reduce_mean
from ..ops.nn.normalization import moments
from ..ops.support.arguments import axis_within, static_int, static_ints
from .building import Lazy, reshape_sizes
from .module import module_of_fields


def cast_to_wide(x: Tensor) -> Tensor:
    """Return two-byte floating values as float32, in which moments are computed; other values unchanged."""
    return cast(x, accumulator_dtype(x.dtype))


def rank_of(x: Tensor, layer: Lazy) -> int:
    """Return the static rank of a layer's input; raise ShapeError if unknown."""
    if x.rank is None:
        raise ShapeError(
            f"{type(layer).__name__} '{layer.name}' has to know the rank of its inputs",
            wanted="an input of known rank",
            got=x.shape,
            operation=x.op,
            hint="say it with x.set_shape([None, None, 8])",
        )
    return x.rank


class Normalization(Lazy):
    """Base of normalization layers: parameters `gamma` and `beta` along axes; see `LayerNorm` for the arguments.

    The fields of a subclass are its options, in the order of its constructor's parameters.
    """

    axis: tuple[int, ...]  # of the parameters, perhaps negative
    epsilon: float
    center: bool
    scale: bool
    beta_initializer: Any
    gamma_initializer: Any

    def __post_init__(self, axis: Any, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__init__(name, input_size, dtype)
        self.axis = static_ints(axis)
        # Before `prepare`, which sets both if the input size is known.
        self.gamma: Any = None
        self.beta: Any = None
        self.prepare()

    def dtype_for(self, dtype: DType) -> DType:
        # Parameters of half-precision inputs are float32: small updates would be lost in two bytes.
        return accumulator_dtype(dtype)

    def build(self, size: Any) -> None:
        shape = [size] if isinstance(size, int) else list(size)
        self.gamma = self.variable("gamma", shape, self.gamma_initializer) if self.scale else None
        self.beta = self.variable("beta", shape, self.beta_initializer) if self.center else None

    def input_axes(self) -> Sequence[int]:
        return self.axis

    def axes(self, x: Tensor) -> list[int]:
        """Return the axes of the parameters as nonnegative numbers; ShapeError for an unknown rank."""
        rank = rank_of(x, self)
        return [axis_within(axis, rank) for axis in self.axis]

    def scaled(self, y: Tensor, x: Tensor) -> Tensor:
        """Return normalized values times gamma plus beta, in the dtype of the inputs `x`."""
        axes = self.axes(x)
        if self.gamma is not None:
            y = y * broadcast_along(self.gamma, axes, y)
        if self.beta is not None:
            y = y + broadcast_along(self.beta, axes, y)
        return cast(y, x.dtype)


def broadcast_along(parameter: Any, axes: Sequence[int], x: Tensor) -> Any:
    """Return a parameter reshaped to broadcast to `x`, of known rank, with dimension i along ``axes[i]``."""
    rank = len(x.shape)
    # A parameter along the last axes broadcasts without a reshape.
    if list(axes) == list(range(rank - len(axes), rank)):
        return parameter
    dims = [1] * rank
    for axis, size in zip(axes, parameter.shape, strict=True):
        dims[axis] = size
    # A reshape keeps the order of elements, so parameters of axes that do not ascend are transposed before.
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    is_ascending = order == list(range(len(axes)))
    return reshape(parameter if is_ascending else transpose(parameter, order), dims)


def normalize_over(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Return values normalized to mean 0 and variance 1 over axes."""
    mean, variance = moments(x, list(axes), keepdims=True)
    return (x - mean) * rsqrt(variance + epsilon)


@module_of_fields
class LayerNorm(Normalization):
    """Normalize each example over its last dimensions, then scale and shift (Ba et al., 2016).

    For inputs of two-byte dtypes, moments are computed in float32, and the parameters are float32.

    Parameters
    ----------
    axis : int or sequence of int
        Axes of the moments and of the parameters.
    epsilon : float
        Added to the variance.
    center, scale : bool
        If True, the layer has `beta`, or `gamma`.
    beta_initializer, gamma_initializer : callable, str or array-like
        As `initializer` of `get_variable`.
    input_size : int or sequence of int, optional
        Sizes of the axes; by default the first input's.
    dtype : dtype-like, optional
        Dtype of the parameters.
    name : str, optional

    Attributes
    ----------
    gamma, beta : Variable with the sizes of the axes, or None

    Raises
    ------
    ShapeError
        When called with inputs of unknown rank.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.nn.LayerNorm(epsilon=0.0)([[1.0, 3.0], [10.0, 30.0]])
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y)
    array([[-1.,  1.],
           [-1.,  1.]], dtype=float32)
    """

    axis: InitVar[Any] = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    beta_initializer: Any = "zeros"
    gamma_initializer: Any = "ones"
    input_size: InitVar[Any] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def forward(self, inputs: Any) -> Tensor:
        """Return the `inputs` normalized: the same dtype and shape."""
        x = self.ready(inputs)
        return self.scaled(normalize_over(cast_to_wide(x), self.axes(x), self.epsilon), x)


@module_of_fields
class RMSNorm(Normalization):
    """Divide each example by the root of its mean square, then scale (Zhang and Sennrich, 2019).

    Parameters
    ----------
    axis, epsilon, scale, gamma_initializer, input_size, dtype, name
        As for `LayerNorm`.

    Attributes
    ----------
    gamma : Variable with the sizes of the axes, or None

    Raises
    ------
    ShapeError
        When called with inputs of unknown rank.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.nn.RMSNorm(epsilon=0.0)([[3.0, 3.0, -3.0]])
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y)
    array([[ 1.,  1., -1.]], dtype=float32)
    """

    axis: InitVar[Any] = -1
    epsilon: float = 1e-5
    scale: bool = True
    gamma_initializer: Any = "ones"
    input_size: InitVar[Any] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    # No options: nothing is subtracted, so there is no `beta`.
    center = False
    beta_initializer = "zeros"

    def forward(self, inputs: Any) -> Tensor:
        """Return the `inputs` normalized: the same dtype and shape."""
        x = self.ready(inputs)
        values = cast_to_wide(x)
        mean = reduce_mean(square(values), self.axes(x), keepdims=True)
        return self.scaled(values * rsqrt(mean + self.epsilon), x)


@module_of_fields
class GroupNorm(Normalization):
    """Normalize groups of channels of each example, over all its pixels, then scale and shift (Wu and He, 2018).

    Parameters
    ----------
    groups : int
        Divides the number of channels.
    axis : int
        Axis of the channels.
    epsilon, center, scale, beta_initializer, gamma_initializer, input_size, dtype, name
        As for `LayerNorm`.

    Attributes
    ----------
    gamma, beta : Variable of shape [channels], or None

    Raises
    ------
    ShapeError
        If `groups` does not divide the number of channels.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.nn.GroupNorm(2, epsilon=0.0)([[1.0, 3.0, 10.0, 30.0]])
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y)
    array([[-1.,  1., -1.,  1.]], dtype=float32)
    """

    groups: int = 32
    axis: InitVar[int] = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    beta_initializer: Any = "zeros"
    gamma_initializer: Any = "ones"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def __post_init__(self, axis: int, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__post_init__(static_int(axis), input_size, dtype, name)

    def build(self, size: int) -> None:
        if self.groups < 1 or size % self.groups:
            raise ShapeError(
                "the groups do not divide the channels",
                wanted=f"a divisor of {size}",
                got=self.groups,
                hint="GroupNorm(groups=1) has all channels in one group",
            )
        super().build(size)

    def forward(self, inputs: Any) -> Tensor:
        """Return the `inputs` normalized: the same dtype and shape."""
        x = self.ready(inputs)
        (axis,) = self.axes(x)
        dims = reshape_sizes(x)
        # The channel axis becomes two: groups, at the same number, and channels of a group. Moments are over all axes
        # except the batch and the groups.
        grouped_dims = [*dims[:axis], self.groups, self.input_size // self.groups, *dims[axis + 1 :]]
        moment_axes = [i for i in range(1, len(grouped_dims)) if i != axis]
        grouped = reshape(cast_to_wide(x), grouped_dims)
        # `gamma` and `beta` are per channel, so they apply after the groups are merged again.
        y = reshape(normalize_over(grouped, moment_axes, self.epsilon), dims)
        y.set_shape(x.shape)
        return self.scaled(y, x)


@module_of_fields
class InstanceNorm(Normalization):
    """Normalize each channel of each example over its pixels, then scale and shift (Ulyanov et al., 2016).

    Parameters
    ----------
    axis : int
        Axis of the channels.
    epsilon, center, scale, beta_initializer, gamma_initializer, input_size, dtype, name
        As for `LayerNorm`.

    Attributes
    ----------
    gamma, beta : Variable of shape [channels], or None

    Raises
    ------
    ShapeError
        If examples have no dimension except the channels.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.nn.InstanceNorm(epsilon=0.0)([[[1.0, 10.0], [3.0, 30.0]]])
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y)
    array([[[-1., -1.],
            [ 1.,  1.]]], dtype=float32)
    """

    axis: InitVar[int] = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    beta_initializer: Any = "zeros"
    gamma_initializer: Any = "ones"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def __post_init__(self, axis: int, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__post_init__(static_int(axis), input_size, dtype, name)

    def forward(self, inputs: Any) -> Tensor:
        """Return the `inputs` normalized: the same dtype and shape."""
        x = self.ready(inputs)
        rank = rank_of(x, self)
        if rank < 3:
            raise ShapeError(
                "these inputs have no pixels to normalize over",
                wanted="rank 3 or more",
                got=x.shape,
                operation=x.op,
                hint="use LayerNorm for vectors",
            )
        # Over the pixels: neither the batch nor the channels.
        pixel_axes = [i for i in range(1, rank) if i not in self.axes(x)]
        return self.scaled(normalize_over(cast_to_wide(x), pixel_axes, self.epsilon), x)

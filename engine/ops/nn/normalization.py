"""Biases, moments and normalization: small compositions."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..math.casting import as_before, widen_halves
from ..math.reductions import reduce_mean, reduce_sum
from ..support.arguments import static_ints
from ..support.common import one_for_each
from ..support.literals import i32

_CHANNELS_FIRST = ("NCW", "NCHW", "NCDHW")
_CHANNELS_LAST = (None, "NWC", "NHWC", "NDHWC")


def is_channels_first(data_format: str | None) -> bool:
    """Return True if channels are the second dimension of a data format; GraphError for an unknown format."""
    if not isinstance(data_format, str | None) or data_format not in (*_CHANNELS_LAST, *_CHANNELS_FIRST):
        raise GraphError(
            "no such data format",
            wanted="'NHWC' or 'NCHW', or those of one or three dimensions",
            got=repr(data_format),
            hint="leave it out where channels are the last dimension",
        )
    return data_format in _CHANNELS_FIRST


def along_channels(vector: Tensor, value: Tensor, is_first: bool) -> Tensor:
    """Return a vector over channels in a shape that broadcasts with `value`.

    Parameters
    ----------
    vector : Tensor of shape [channels]
    value : Tensor of rank 2 or more
    is_first : bool
        True if channels are the second dimension of `value`, first after the batch; False if the last.

    Raises
    ------
    ShapeError
        If channels are second and the rank of `value` is unknown.
    """
    if not is_first:
        return vector
    # The vector gets a dimension of size 1 for each dimension after the channels.
    if value.rank is None:
        raise ShapeError(
            "the rank has to be known where channels are not the last dimension",
            wanted="a known rank",
            got=value.shape,
            operation=value.op,
            hint="set_shape says what is known of a tensor",
        )
    return apply("Reshape", vector, constant(i32([-1, *[1] * (value.rank - 2)])))


@public
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a vector along the channels.

    Parameters
    ----------
    value : Tensor of any numeric dtype, of rank at least 1, or 2 where channels are the second dimension
    bias : Tensor of the same dtype, of rank 1
        An element for each channel.
    data_format : {None, 'NHWC', 'NCHW'}, optional
        Channels are the last dimension, or the second; formats of one or three dimensions ("NCW") work as well.

    Returns
    -------
    Tensor
        Of the dtype and shape of `value`.

    Raises
    ------
    ShapeError
        If `bias` is known to be no vector, or to have another length.
    OpError
        In a step, if `bias` has another length.
    GraphError
        If the data format is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.bias_add(tg.zeros([2, 3]), [1.0, 2.0, 3.0])).sync()
    array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """
    is_first = is_channels_first(data_format)
    value = convert_to_tensor(value)
    bias = convert_to_tensor(bias, value.dtype)
    least_rank = 2 if is_first else 1
    if value.rank is not None and value.rank < least_rank:
        raise ShapeError(
            "there are no channels to add a bias to",
            wanted=f"rank {least_rank} or more",
            got=value.shape,
            operation=value.op,
            hint="use + to add other shapes",
        )
    axis = 1 if is_first else -1
    channels = value.shape[axis] if value.rank else None  # None for an unknown rank
    if not bias.shape.is_compatible_with(Shape([channels])):
        raise ShapeError(
            "the bias does not fit",
            wanted=f"a vector as long as the {'second' if is_first else 'last'} dimension",
            operation=bias.op,
            got=f"{bias.shape} for {value.shape}",
            hint="use + to add other shapes",
        )
    # Addition alone would broadcast a vector of length 1.
    bias = one_for_each(bias, value, axis)
    return apply("Add", value, along_channels(bias, value, is_first), name=name)


@public
def moments(x: Any, axes: Any, name: str | None = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes.

    Parameters
    ----------
    x : Tensor of a floating dtype
    axes, keepdims
        As `axis` and `keepdims` of `reduce_sum`.

    Returns
    -------
    mean, variance : Tensor
        Same dtype; the reduced axes have size 1 with `keepdims`, otherwise they are dropped. Values of two bytes are
        computed in float32.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.moments([[1.0, 3.0], [2.0, 6.0]], axes=1)).sync()
    (array([2., 4.], dtype=float32), array([1., 4.], dtype=float32))
    """
    axes = None if axes is None else static_ints(axes)
    given = convert_to_tensor(x)
    x = widen_halves(given)
    mean = reduce_mean(x, axes, keepdims=True)
    # In two passes: the mean of squares less the square of the mean would cancel.
    variance = reduce_mean(apply("SquaredDifference", x, mean), axes, keepdims)
    # The difference needed a mean with all axes, to broadcast; the result is reduced again if axes are dropped.
    mean = mean if keepdims else reduce_mean(x, axes)
    return as_before(mean, given.dtype), as_before(variance, given.dtype, name)


@public
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """Divide by the Euclidean norm along axes.

    Parameters
    ----------
    x : Tensor of a floating dtype
    axis : int or sequence of int, optional
        Axes of the vectors; all when None.
    epsilon : float
        Lower bound of the sum of squares whose root is the divisor: vectors of zeros stay zeros.

    Returns
    -------
    Tensor
        Same dtype and shape. Values of two bytes are computed in float32.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.l2_normalize(np.array([[3.0, 4.0], [0.0, 0.0]]), axis=1)).sync()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    given = convert_to_tensor(x)
    x = widen_halves(given)
    total = reduce_sum(apply("Square", x), axis, keepdims=True)
    # A maximum, unlike adding epsilon, leaves the norms of all but tiny vectors exact.
    return as_before(apply("Mul", x, apply("Rsqrt", apply("Maximum", total, epsilon))), given.dtype, name)

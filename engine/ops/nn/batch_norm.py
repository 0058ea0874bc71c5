"""Batch normalization, weighted moments and sufficient statistics, composed of other operations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.broadcasting import broadcast_to
from ..control.placeholders import stop_gradient
from ..math.arithmetic import squared_difference
from ..math.casting import as_before, cast, widen_halves
from ..math.cumulative import reduce_prod
from ..math.elementwise import rsqrt, square
from ..math.reductions import reduce_mean, reduce_sum, reduced_axes
from ..support.arguments import static_ints
from ..support.common import one_for_each, scalar_like, shape_of
from .normalization import along_channels, is_channels_first


def _static_axes(x: Tensor, axes: Any) -> tuple[int, ...] | None:
    return None if axes is None else static_ints(axes, "axes")


def _count_reduced(x: Tensor, axes: tuple[int, ...] | None) -> Tensor:
    """Return the number of reduced elements, in the dtype of `x`."""
    if x.rank is None:
        if axes is not None:
            raise ShapeError(
                "the rank has to be known to count along axes",
                wanted="a known rank",
                got=x.shape,
                operation=x.op,
                hint="set_shape says what is known of a tensor",
            )
        return cast(apply("Size", x), x.dtype)
    along = reduced_axes(axes, x.rank)
    known = [x.shape[i] for i in along]
    if None not in known:
        return scalar_like(math.prod(known), x)
    sizes = shape_of(x)
    return cast(reduce_prod(apply("Stack", [sizes[i] for i in along])), x.dtype)


@public
def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Count, sum and sum of squares over axes, from which `normalize_moments` computes mean and variance.

    The statistics of several batches with the same shift add up.

    Parameters
    ----------
    x : Tensor of a floating dtype
    axes, keepdims
        As `axis` and `keepdims` of `reduce_sum`.
    shift : Tensor of the same dtype, optional
        Subtracted from `x` first: a value near the mean saves digits from cancellation.

    Returns
    -------
    count : Tensor
        A scalar of the same dtype.
    mean_ss, variance_ss : Tensor
        Same dtype, without the reduced axes.
    shift : Tensor or None
        The argument, as a tensor.

    Examples
    --------
    >>> import tagloom as tg
    >>> count, total, squares, _ = tg.function(lambda: tg.sufficient_statistics([1.0, 2.0, 6.0], [0])).sync()
    >>> float(count), float(total), float(squares)
    (3.0, 9.0, 41.0)
    """
    x = convert_to_tensor(x)
    along = _static_axes(x, axes)
    moved, offset = x, None
    # A shift near the mean keeps the difference in `normalize_moments` from canceling.
    if shift is not None:
        offset = convert_to_tensor(shift, x.dtype)
        moved = x - offset
    total = reduce_sum(moved, along, keepdims, name)
    return _count_reduced(x, along), total, reduce_sum(square(moved), along, keepdims), offset


@public
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance from the results of `sufficient_statistics`.

    Parameters
    ----------
    counts, mean_ss, variance_ss : Tensor of a floating dtype
    shift : Tensor or None

    Returns
    -------
    mean, variance : Tensor
        Same dtype and shape as `mean_ss`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.normalize_moments(*tg.sufficient_statistics([1.0, 2.0, 6.0], [0], 2.0))).sync()
    (array(3., dtype=float32), array(4.666667, dtype=float32))
    """
    total = convert_to_tensor(mean_ss)
    share = apply("Reciprocal", convert_to_tensor(counts, total.dtype))
    moved = total * share
    mean = moved if shift is None else moved + shift
    # The variance of shifted values is the variance of the values: only the mean needs the shift back.
    return mean, apply("Sub", variance_ss * share, square(moved), name=name)


@public
def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Weighted mean and variance over axes.

    Parameters
    ----------
    x : Tensor of a floating dtype
    axes, keepdims
        As `axis` and `keepdims` of `reduce_sum`.
    frequency_weights : Tensor of the same dtype
        Not negative; broadcasts with `x`.

    Returns
    -------
    mean, variance : Tensor
        Same dtype, without the reduced axes. Values of two bytes are computed in float32.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.weighted_moments([1.0, 3.0, 9.0], [0], [1.0, 1.0, 0.0])).sync()
    (array(2., dtype=float32), array(1., dtype=float32))
    """
    given = convert_to_tensor(x)
    x, weights = widen_halves(given), widen_halves(convert_to_tensor(frequency_weights, given.dtype))
    along = _static_axes(x, axes)
    weighted = x * weights
    # The sum of weights has to count a weight once for each element of x under this weight.
    is_as_large = weights.shape.is_fully_known and weights.shape == weighted.shape
    weights = weights if is_as_large else broadcast_to(weights, shape_of(weighted))
    # Kept dimensions, so that the mean broadcasts with x.
    total = reduce_sum(weights, along, keepdims=True)
    mean = reduce_sum(weighted, along, keepdims=True) / total
    spread = reduce_sum(weights * squared_difference(x, mean), along, keepdims=True) / total
    # Sums over axes of size 1, which only drop the axes.
    if not keepdims:
        mean, spread = reduce_sum(mean, along), reduce_sum(spread, along)
    return as_before(mean, given.dtype), as_before(spread, given.dtype, name)


@public
def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    """Normalize elements by a mean and a variance, then scale and shift the result (Ioffe and Szegedy, 2015).

    In Python: ``scale * (x - mean) / sqrt(variance + variance_epsilon) + offset``.

    Parameters
    ----------
    x : Tensor of a floating dtype
    mean, variance : Tensor of the same dtype
        Broadcast with `x`, such as the results of `moments` with ``keepdims=True``.
    offset, scale : Tensor of the same dtype, or None
        None stands for an offset of 0, a scale of 1.
    variance_epsilon : float
        Keeps the divisor away from 0.

    Returns
    -------
    Tensor
        Of the same dtype, and the broadcast shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.batch_normalization([1.0, 5.0], 3.0, 4.0, 10.0, 2.0, 0.0)).sync()
    array([ 8., 12.], dtype=float32)
    """
    x = convert_to_tensor(x)
    factor = rsqrt(convert_to_tensor(variance, x.dtype) + float(variance_epsilon))
    if scale is not None:
        factor = factor * scale
    # Scale and shift are computed in the size of the moments: x takes a single multiplication and addition.
    start = -(factor * mean) if offset is None else convert_to_tensor(offset, x.dtype) - factor * mean
    return apply("Add", x * factor, start, name=name)


@public
def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str | None = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalization over all dimensions except the channels, with the moments to keep (Ioffe and Szegedy, 2015).

    As in TensorFlow, no gradients flow through the returned moments, or to the moments among the arguments.

    Parameters
    ----------
    x : Tensor of a floating dtype, of known rank 2 or more
    scale, offset : Tensor of the same dtype, of shape [channels]
        Of float32 where elements of `x` have two bytes.
    mean, variance : Tensor of the dtype of `scale`, of shape [channels], optional
        Moments of all data so far: used outside of training, and in training averaged with the moments of the batch.
    epsilon : float
        Added to the variance.
    data_format : {'NHWC', 'NCHW'}
        Channels are the last dimension, or the second; formats of one or three dimensions ("NCDHW") work as well.
    is_training : bool
        Normalize by the moments of the batch.
    exponential_avg_factor : float
        In training, the weight of the batch in the returned moments.

    Returns
    -------
    y : Tensor
        Of the dtype and shape of `x`.
    mean, variance : Tensor
        In training the moments of the batch, averaged with the arguments; the variance is divided by the number of
        elements less 1 (Bessel's correction). Otherwise the arguments.

    Raises
    ------
    GraphError
        If moments are needed and missing.
    ShapeError
        If the rank of `x` is less than 2 or unknown in training, or unknown where channels are second; or if a scale,
        offset or moment is known to be no vector over the channels.

    Examples
    --------
    >>> import tagloom as tg
    >>> y, mean, variance = tg.function(
    ...     lambda: tg.fused_batch_norm([[1.0], [3.0]], [1.0], [0.0], epsilon=0.0)
    ... ).sync()
    >>> y.ravel().tolist(), mean.tolist(), variance.tolist()
    ([-1.0, 1.0], [2.0], [2.0])
    """
    x, is_first = convert_to_tensor(x), is_channels_first(data_format)
    scale, offset = convert_to_tensor(scale), convert_to_tensor(offset)
    is_averaged = exponential_avg_factor != 1.0
    if (mean is None or variance is None) and (is_averaged or not is_training):
        raise GraphError(
            "the moments of all data so far are missing",
            wanted="mean and variance",
            got="none",
            hint="is_training=True with exponential_avg_factor=1.0 needs none",
        )
    mean, variance = (None if each is None else convert_to_tensor(each, scale.dtype) for each in (mean, variance))
    scale, offset, mean, variance = (
        each if each is None else _checked_channels(x, each, is_first) for each in (scale, offset, mean, variance)
    )
    # Moments are computed in the dtype of the scale: float32 for images in float16.
    wide, affine = cast(x, scale.dtype), _Affine(scale, offset, epsilon, is_first)
    if not is_training:
        center, whole = stop_gradient(mean), stop_gradient(variance)
        return affine.normalize(x, wide, center, whole, name), center, whole
    along = _all_but_channels(x, is_first)
    center = reduce_mean(wide, along)
    # In a second pass, because the mean of squares minus the squared mean cancels for large means.
    spread = reduce_mean(squared_difference(wide, along_channels(center, x, is_first)), along)
    y = affine.normalize(x, wide, center, spread, name)
    count = _count_reduced(wide, along)
    # Bessel's correction; a single element is divided by 1, not by 0.
    whole = spread * (count / apply("Maximum", count - 1, 1))
    if is_averaged:
        part = float(exponential_avg_factor)
        center, whole = center * part + mean * (1 - part), whole * part + variance * (1 - part)
    return y, stop_gradient(center), stop_gradient(whole)


def _checked_channels(x: Tensor, values: Tensor, is_first: bool) -> Tensor:
    """Return `values`, checked to be a vector over the channels, in a step where shapes are unknown."""
    # Broadcasting would accept, and hide, a wrong shape.
    axis = 1 if is_first else -1
    channels = None if x.rank is None or x.rank < 2 else x.shape[axis]
    if not values.shape.is_compatible_with(Shape([channels])):
        raise ShapeError(
            "batch normalization has a scale, an offset and moments for each channel",
            wanted=Shape([channels]),
            got=values.shape,
            operation=x.op,
            hint="batch_normalization takes any that broadcast",
        )
    return values if x.rank is None or x.rank < 2 else one_for_each(values, x, axis)


def _all_but_channels(x: Tensor, is_first: bool) -> tuple[int, ...]:
    """Return all axes of `x` except the channels."""
    if x.rank is None or x.rank < 2:
        raise ShapeError(
            "batch normalization goes along all dimensions but the channels",
            wanted="a known rank of 2 or more",
            got=x.shape,
            operation=x.op,
            hint="set_shape says what is known of a tensor",
        )
    channels = 1 if is_first else x.rank - 1
    return tuple(i for i in range(x.rank) if i != channels)


@dataclass(frozen=True, slots=True)
class _Affine:
    """A scale and an offset of normalized values, vectors over the channels.

    Attributes
    ----------
    scale, offset : Tensor
    epsilon : float
        Added to the variance.
    is_first : bool
        True if the channels are the second dimension.
    """

    scale: Tensor
    offset: Tensor
    epsilon: float
    is_first: bool

    def normalize(self, x: Tensor, wide: Tensor, mean: Tensor, variance: Tensor, name: str | None) -> Tensor:
        """Normalize `wide`, in the dtype of the moments; return the result in the dtype of `x`."""
        factor = along_channels(rsqrt(variance + float(self.epsilon)) * self.scale, x, self.is_first)
        # Centered first: a product of x and the factor, less that of the mean, would cancel for large means.
        centred = wide - along_channels(mean, x, self.is_first)
        shifted = apply("Add", centred * factor, along_channels(self.offset, x, self.is_first))
        return as_before(shifted, x.dtype, name)

"""Pooling: the largest element, or the mean, of each window of an image."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import index_dtype, static_ints
from ..support.common import shape_of
from ..support.window_texts import of_pooling
from ..support.windows import Sliding, is_channels_first, window_attrs
from . import pooling_kernels, window_maxima  # noqa: F401  they declare the operations


def _apply_pool(type: str, value: Any, window: Any, sliding: Sliding, name: str | None) -> Tensor:
    return apply(type, convert_to_tensor(value), name=name, **sliding.window_attrs(window))


@public
@of_pooling(2).complete
def max_pool(
    value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """Largest element of each window of images.

    Padding never counts, and NaN is larger than anything. The gradient goes to the first of equal largest elements.

    Parameters
    ----------
    value : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]

    Returns
    -------
    Tensor
        Same dtype and layout: a row and column for each window.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[3.0], [1.0], [4.0]], [[1.0], [5.0], [9.0]]]]
    >>> tg.function(lambda: tg.max_pool(image, 2, 1, "VALID")).sync().ravel()
    array([5., 9.], dtype=float32)
    >>> tg.function(lambda: tg.max_pool(image, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")).sync().ravel()
    array([5., 9.], dtype=float32)
    """
    return _apply_pool("MaxPool", value, ksize, Sliding(2, strides, padding, 1, data_format), name)


@public
@of_pooling(2).complete
def avg_pool(
    value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """Mean of each window of images; padding does not count.

    Parameters
    ----------
    value : Tensor of a floating dtype, of shape [batch, height, width, channels]

    Returns
    -------
    Tensor
        Same dtype and layout: a row and column for each window.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[3.0], [1.0], [4.0]], [[1.0], [5.0], [9.0]]]]
    >>> tg.function(lambda: tg.avg_pool(image, 2, 2, "SAME")).sync().ravel()
    array([2.5, 6.5], dtype=float32)
    """
    return _apply_pool("AvgPool", value, ksize, Sliding(2, strides, padding, 1, data_format), name)


@public
@of_pooling(1).complete
def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NWC", name: str | None = None
) -> Tensor:
    """Largest element of each window of sequences.

    Parameters
    ----------
    input : Tensor of an integer or floating dtype, of shape [batch, width, channels]

    Returns
    -------
    Tensor
        Same dtype and layout: a column for each window.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.max_pool1d([[[1], [5], [2], [4]]], 2, 2, "VALID")).sync().ravel()
    array([5, 4], dtype=int32)
    """
    return _apply_pool("MaxPool", input, ksize, Sliding(1, strides, padding, 1, data_format), name)


@public
@of_pooling(1).complete
def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NWC", name: str | None = None
) -> Tensor:
    """Mean of each window of sequences; padding does not count.

    Parameters
    ----------
    input : Tensor of a floating dtype, of shape [batch, width, channels]

    Returns
    -------
    Tensor
        Same dtype and layout: a column for each window.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.avg_pool1d([[[1.0], [5.0], [2.0]]], 2, 2, "SAME")).sync().ravel()
    array([3., 2.], dtype=float32)
    """
    return _apply_pool("AvgPool", input, ksize, Sliding(1, strides, padding, 1, data_format), name)


@public
@of_pooling(3).complete
def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NDHWC", name: str | None = None
) -> Tensor:
    """Largest element of each window of volumes.

    Parameters
    ----------
    input : Tensor of an integer or floating dtype, of shape [batch, depth, height, width, channels]

    Returns
    -------
    Tensor
        Same dtype and layout: an element for each window.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> volume = np.arange(8, dtype=np.int32).reshape(1, 2, 2, 2, 1)
    >>> tg.function(lambda: tg.max_pool3d(volume, [1, 2, 2], 1, "VALID")).sync().ravel()
    array([3, 7], dtype=int32)
    """
    return _apply_pool("MaxPool", input, ksize, Sliding(3, strides, padding, 1, data_format), name)


@public
@of_pooling(3).complete
def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NDHWC", name: str | None = None
) -> Tensor:
    """Mean of each window of volumes; padding does not count.

    Parameters
    ----------
    input : Tensor of a floating dtype, of shape [batch, depth, height, width, channels]

    Returns
    -------
    Tensor
        Same dtype and layout: an element for each window.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> volume = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2, 1)
    >>> tg.function(lambda: tg.avg_pool3d(volume, 2, 2, "VALID")).sync().ravel()
    array([3.5], dtype=float32)
    """
    return _apply_pool("AvgPool", input, ksize, Sliding(3, strides, padding, 1, data_format), name)


@public
@of_pooling(2).complete
def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    output_dtype: Any = "int64",
    name: str | None = None,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """Largest element of each window of images, and its index.

    Parameters
    ----------
    input : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
    output_dtype : dtype-like
        int32 or int64.
    include_batch_in_index : bool
        Count from the start of the batch instead of each image.

    Returns
    -------
    output : Tensor
        As of `max_pool`.
    argmax : Tensor of `output_dtype`
        Of the same shape: the index of the first largest element in the flattened image.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[3.0], [1.0], [4.0]], [[1.0], [5.0], [9.0]]]]
    >>> largest, places = tg.function(lambda: tg.max_pool_with_argmax(image, 2, 1, "VALID")).sync()
    >>> largest.ravel().tolist(), places.ravel().tolist()
    ([5.0, 9.0], [4, 5])
    """
    attrs = Sliding(2, strides, padding, 1, data_format).window_attrs(ksize)
    x, wanted = convert_to_tensor(input), index_dtype(output_dtype, "output_dtype")
    largest = apply("MaxPool", x, name=name, **attrs)
    found = apply("MaxPoolPlace", x, **attrs)
    flat = apply("FlatPlaces", found, shape_of(x), include_batch=bool(include_batch_in_index), dtype=wanted, **attrs)
    return largest, flat


@public
@of_pooling().complete
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: Any,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Pool windows over one to three dimensions, with or without gaps in them.

    Padding never counts, while TensorFlow counts padding as zeros where windows have gaps.

    Parameters
    ----------
    input : Tensor of a floating dtype, of shape [batch, ..., channels]
        For ``'MAX'`` also of an integer dtype.
    window_shape : int or sequence of int
        Size of the windows: a number for each spatial dimension.
    pooling_type : {'MAX', 'AVG'}
    dilation_rate : int or sequence of int, optional
        Distance between elements of a window; 1 without gaps.
    strides : int or sequence of int, optional
        Distance between windows, 1 by default.

    Returns
    -------
    Tensor
        Same dtype and layout: an element for each window.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = [[[1.0], [5.0], [2.0], [4.0]]]
    >>> tg.function(lambda: tg.pool(x, [2], "MAX", "VALID", dilation_rate=2)).sync().ravel()
    array([2., 5.], dtype=float32)
    """
    types = {"MAX": "MaxPool", "AVG": "AvgPool"}
    if pooling_type not in types:
        raise GraphError("no such pooling", wanted="'MAX' or 'AVG'", got=repr(pooling_type), hint="use max_pool")
    window = static_ints(window_shape, "window_shape")
    if not 1 <= len(window) <= 3:
        raise GraphError("pool has one to three dimensions", wanted="1 to 3", got=window, hint="use reduce_max")
    first = is_channels_first(data_format, len(window))
    rates, steps = (1 if value is None else value for value in (dilation_rate, strides))
    attrs = window_attrs(window, steps, rates, padding, len(window), first)
    return apply(types[pooling_type], convert_to_tensor(input), name=name, **attrs)

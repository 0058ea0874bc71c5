"""Reductions built from sums and means: variances, standard deviations, norms, counts of nonzero values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import as_dtype
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from .casting import cast
from .complex import conj, real
from .reductions import reduce_mean, reduce_sum


@public
def count_nonzero(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Count nonzero numbers, true values or nonempty strings over axes.

    Parameters
    ----------
    input_tensor : Tensor of any dtype
    axis : int or sequence of int, optional
        Axes to reduce; all when None.
    keepdims : bool
        Keep the reduced axes, with size 1.
    dtype : dtype-like
        Any numeric dtype.

    Returns
    -------
    Tensor
        Of dtype `dtype`, without the reduced axes.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.count_nonzero([[0.0, 1.5], [2.0, -3.0]], axis=1)).sync()
    array([1, 2])
    """
    x = convert_to_tensor(input_tensor)
    some = x if x.dtype is dtypes.bool_ else apply("NotEqual", x, constant(np.zeros((), x.dtype.numpy)))
    return reduce_sum(cast(some, as_dtype(dtype)), axis, keepdims, name)


@public
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean squared distance from the mean, over axes; NaN over nothing.

    Parameters
    ----------
    input_tensor : Tensor of a floating or complex dtype
    axis : int or sequence of int, optional
        Axes to reduce; all when None.
    keepdims : bool
        Keep the reduced axes, with size 1.

    Returns
    -------
    Tensor
        Of the real dtype, without the reduced axes.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reduce_variance([[1.0, 3.0], [5.0, 11.0]], axis=1)).sync()
    array([1., 9.], dtype=float32)
    """
    x = convert_to_tensor(input_tensor)
    # Two passes: the mean of squares less the squared mean would cancel digits.
    distance = x - reduce_mean(x, axis, keepdims=True)
    return reduce_mean(_squared_magnitudes(distance), axis, keepdims, name)


def _squared_magnitudes(x: Tensor) -> Tensor:
    return real(x * conj(x)) if x.dtype.is_complex else apply("Square", x)


@public
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Root of the mean squared distance from the mean, over axes: the root of `reduce_variance`.

    Parameters
    ----------
    input_tensor : Tensor of a floating or complex dtype
    axis, keepdims
        As in `reduce_variance`.

    Returns
    -------
    Tensor
        Of the real dtype, without the reduced axes.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reduce_std([[1.0, 3.0], [5.0, 11.0]], axis=1)).sync()
    array([1., 3.], dtype=float32)
    """
    return apply("Sqrt", reduce_variance(input_tensor, axis, keepdims), name=name)


@public
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Root of the sum of squared sizes, over axes; as `norm`, but of the dtype of the values.

    Parameters
    ----------
    input_tensor : Tensor of any numeric dtype
    axis : int or sequence of int, optional
        Axes to reduce; all when None.
    keepdims : bool
        Keep the reduced axes, with size 1.

    Returns
    -------
    Tensor
        Same dtype, integers rounded towards 0; without the reduced axes.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reduce_euclidean_norm([[3.0, 4.0], [6.0, 8.0]], axis=1)).sync()
    array([ 5., 10.], dtype=float32)
    """
    x = convert_to_tensor(input_tensor)
    # Squares of integers may overflow their dtype.
    wide = cast(x, dtypes.float64) if x.dtype.is_integer else x
    return cast(apply("Sqrt", reduce_sum(_squared_magnitudes(wide), axis, keepdims)), x.dtype, name)

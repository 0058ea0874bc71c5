"""Activation functions composed of others, and the share of zeros among activations."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.concat import concat
from ..math.casting import cast
from ..math.elementwise import clip_by_value
from ..math.reductions import reduce_mean
from ..support.common import scalar_like
from .activations import relu, sigmoid


@public
def swish(features: Any, name: str | None = None) -> Tensor:
    """``x * sigmoid(x)``, elementwise (Ramachandran et al., 2017).

    Parameters
    ----------
    features : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.swish(np.array([-1.0, 0.0, 2.0]))).sync()
    array([-0.26894142,  0.        ,  1.76159416])
    """
    x = convert_to_tensor(features)
    return apply("Mul", x, sigmoid(x), name=name)


@public
def hard_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """``min(max(0.2 * x + 0.5, 0), 1)``, elementwise (Courbariaux et al., 2015).

    Parameters
    ----------
    x : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.hard_sigmoid([-4.0, 0.0, 1.0])).sync()
    array([0. , 0.5, 0.7], dtype=float32)
    """
    return clip_by_value(convert_to_tensor(x) * 0.2 + 0.5, 0.0, 1.0, name)


@public
def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Concatenate ``relu(x)`` and ``relu(-x)`` along an axis (Shang et al., 2016).

    Parameters
    ----------
    features : Tensor of an integer or floating dtype, of rank at least 1
    axis : int
        Dimension that doubles.

    Returns
    -------
    Tensor
        Same dtype; the shape of `features`, except that the size along `axis` doubles.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.crelu([1.0, -2.0])).sync()
    array([1., 0., 0., 2.], dtype=float32)
    """
    x = convert_to_tensor(features)
    return relu(concat([x, -x], axis), name)


@public
def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """Share of elements equal to 0; NaN for an empty tensor.

    Parameters
    ----------
    value : Tensor of any numeric dtype

    Returns
    -------
    Tensor
        A float32 scalar.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.zero_fraction([0, 3, 0, 0])).sync()
    array(0.75, dtype=float32)
    """
    x = convert_to_tensor(value)
    return reduce_mean(cast(apply("Equal", x, scalar_like(0, x)), dtypes.float32), name=name)

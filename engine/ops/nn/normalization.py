"""Biases, moments and normalization: small compositions."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..math.reductions import reduce_mean, reduce_sum
from ..support.arguments import static_ints


@public
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a vector along the last dimension.

    Parameters
    ----------
    value : Tensor of any numeric dtype, of rank at least 2
    bias : Tensor of the same dtype, of rank 1
        As long as the last dimension of `value`.
    data_format : {None, 'NHWC'}
        Channels are the last dimension.

    Returns
    -------
    Tensor
        Of the dtype and shape of `value`.

    Raises
    ------
    ShapeError
        If `bias` is no vector or has another length.

    Examples
    --------
    >>> import tagflow as tg
    >>> tg.function(lambda: tg.bias_add(tg.zeros([2, 3]), [1.0, 2.0, 3.0])).sync()
    array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """
    if data_format not in (None, "NHWC"):
        raise GraphError("no such data format", wanted="'NHWC'", got=repr(data_format), hint="transpose the value")
    value = convert_to_tensor(value)
    bias = convert_to_tensor(bias, value.dtype)
    if not bias.shape.is_compatible_with(Shape([value.shape[-1] if value.rank else None])):
        raise ShapeError(
            "the bias does not fit",
            wanted="a vector as long as the last dimension",
            operation=bias.op,
            got=f"{bias.shape} for {value.shape}",
            hint="use + to add other shapes",
        )
    return apply("Add", value, bias, name=name)  # type: ignore[no-any-return]


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
        Same dtype, without the reduced axes.

    Examples
    --------
    >>> import tagflow as tg
    >>> tg.function(lambda: tg.moments([[1.0, 3.0], [2.0, 6.0]], axes=1)).sync()
    (array([2., 4.], dtype=float32), array([1., 4.], dtype=float32))
    """
    axes = None if axes is None else static_ints(axes)
    x = convert_to_tensor(x)
    mean = reduce_mean(x, axes, keepdims=True)
    variance = reduce_mean(apply("SquaredDifference", x, mean), axes, keepdims, name)
    return (mean if keepdims else reduce_mean(x, axes)), variance


@public
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """Divide by the Euclidean norm along axes.

    Parameters
    ----------
    x : Tensor of a floating dtype
    axis : int or sequence of int, optional
        Axes of the vectors; all when None.
    epsilon : float
        Least sum of squares to divide by.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagflow as tg
    >>> tg.function(lambda: tg.l2_normalize(np.array([[3.0, 4.0], [0.0, 0.0]]), axis=1)).sync()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    x = convert_to_tensor(x)
    total = reduce_sum(apply("Square", x), axis, keepdims=True)
    return apply("Mul", x, apply("Rsqrt", apply("Maximum", total, epsilon)), name=name)  # type: ignore[no-any-return]

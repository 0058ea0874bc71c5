"""Local response normalization, by the channels near each channel."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..control.weights import of_rank
from ..math.casting import as_before, widen_halves
from ..support.arguments import static_int
from ..support.common import shape_of, size_along, with_static_shape
from . import pooling_kernels  # noqa: F401  it declares the operation


@public
def lrn(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Divide by a power of the sum of squares over neighbouring channels (Krizhevsky et al., 2012, section 3.3).

    In Python, with r for `depth_radius`: ``x[c] / (bias + alpha * sum(x[c - r : c + r + 1] ** 2)) ** beta``.

    Parameters
    ----------
    input : Tensor of a floating dtype, of rank at least 1
        Channels are the last dimension.
    depth_radius : int
        Number of neighbours on each side.
    bias, alpha, beta : float

    Returns
    -------
    Tensor
        Same dtype and shape. Values of two bytes are computed in float32.

    Raises
    ------
    GraphError
        If `depth_radius` is negative.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.lrn([[3.0, 4.0, 0.0]], depth_radius=1, bias=0.0)).sync()
    array([[0.6, 0.8, 0. ]], dtype=float32)
    """
    x = of_rank(convert_to_tensor(input), 1, "channels are the last dimension", "expand_dims(x, 0) for one channel")
    radius = static_int(depth_radius, "depth_radius")
    if radius < 0:
        raise GraphError("a radius cannot be negative", wanted="0 or more", got=radius, hint="0 is the channel alone")
    wide = widen_halves(x)
    # Sum pooling along the channels, which become the spatial dimension of rows [-1, channels, 1].
    rows = apply("Reshape", apply("Square", wide), apply("Stack", [-1, size_along(x, -1), 1]))
    attrs: dict[str, Any] = {
        "window": (2 * radius + 1,),
        "strides": (1,),
        "rates": (1,),
        "padding": "SAME",
        "mean": False,
    }
    sums = with_static_shape(apply("Reshape", apply("AvgPool", rows, **attrs), shape_of(x)), x)
    return as_before(apply("Mul", wide, apply("Pow", sums * alpha + bias, -beta)), x.dtype, name)

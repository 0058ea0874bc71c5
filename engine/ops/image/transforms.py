"""Flips and rotations of images, and scaling to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.errors import ShapeError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.layout import reverse, transpose
from ..control.weights import of_rank
from ..math.arithmetic import maximum
from ..math.casting import as_before, cast, widen_halves
from ..math.cumulative import reduce_prod
from ..math.elementwise import rsqrt
from ..math.reductions import reduce_mean
from ..support.arguments import static_int
from ..support.common import shape_of


def image_tensor(image: Any, least: int = 3) -> Tensor:
    """Return images as a tensor of rank `least` or more; an unknown rank is checked when a step runs."""
    what = "an image has a height, a width and channels"
    return of_rank(convert_to_tensor(image), least, what, "add the missing dimensions with expand_dims")


@public
def flip_left_right(image: Any, name: str | None = None) -> Tensor:
    """Turn images around, left to right.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels]

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.flip_left_right([[[1], [2], [3]]])).sync().ravel()
    array([3, 2, 1], dtype=int32)
    """
    return reverse(image_tensor(image), -2, name)


@public
def flip_up_down(image: Any, name: str | None = None) -> Tensor:
    """Turn images around, upside down.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels]

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.flip_up_down([[[1]], [[2]], [[3]]])).sync().ravel()
    array([3, 2, 1], dtype=int32)
    """
    return reverse(image_tensor(image), -3, name)


@public
def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Turn images by quarters, counterclockwise.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels] and known rank
    k : int
        Number of quarters; negative numbers turn clockwise.

    Returns
    -------
    Tensor
        Same dtype; height and width change places if `k` is odd.

    Raises
    ------
    ShapeError
        If the rank is not known, or less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.rot90([[[1], [2]], [[3], [4]]])).sync()[:, :, 0]
    array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x, quarters = image_tensor(image), static_int(k, "k") % 4
    if x.rank is None:
        raise ShapeError(
            "the rank of an image to turn has to be known",
            wanted="a known rank",
            got=x.shape,
            operation=x.op,
            hint="set_shape says what is known of a tensor",
        )
    if quarters % 2 == 0:
        return reverse(x, [-3, -2] if quarters else [], name)
    # A quarter turn is a flip and a transpose.
    # Three quarters counterclockwise are one clockwise, which flips the other axis.
    flipped = reverse(x, -2) if quarters == 1 else reverse(x, -3)
    return transpose(flipped, [*range(x.rank - 3), -2, -3, -1], name)


@public
def per_image_standardization(image: Any, name: str | None = None) -> Tensor:
    """Scale each image to mean 0 and variance 1.

    The divisor is the standard deviation, but at least ``1 / sqrt(n)`` for n elements of an image, so that an image of
    equal pixels becomes 0.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., height, width, channels]

    Returns
    -------
    Tensor
        Same shape; float32 for integers, else the same dtype. Values of two bytes are computed in float32.

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.per_image_standardization([[[1.0], [3.0]]])).sync().ravel()
    array([-1.,  1.], dtype=float32)
    """
    given = image_tensor(image)
    x = cast(given, dtypes.float32) if given.dtype.is_integer else widen_halves(given)
    axes = (-3, -2, -1)
    centred = x - reduce_mean(x, axes, keepdims=True)
    variance = reduce_mean(apply("Square", centred), axes, keepdims=True)
    least = apply("Reciprocal", cast(reduce_prod(shape_of(x)[-3:]), x.dtype))
    scaled = centred * rsqrt(maximum(variance, least))  # the root of 0 would have an infinite derivative
    return as_before(scaled, x.dtype if given.dtype.is_integer else given.dtype, name)

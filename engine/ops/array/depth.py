"""Blocks of an image moved into the channels and back, by reshapes and transposes."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...ir.apply import convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from ..support.partial_shapes import divide_size, leading_sizes, rearrange_dimensions


def _read_block_arguments(input: Any, block_size: Any, data_format: str, function: str) -> tuple[Tensor, int, bool]:
    """Return the image, the size of a block, and True if the channels come last; refuse other arguments."""
    x, size = convert_to_tensor(input), static_int(block_size, "block_size")
    if data_format not in ("NHWC", "NCHW"):
        raise GraphError(
            f"{function} does not know this order of dimensions",
            wanted="'NHWC' or 'NCHW'",
            got=repr(data_format),
            operation=x.op,
            hint="leave data_format out for channels that come last",
        )
    if x.rank not in (4, None) or size < 1:
        raise ShapeError(
            f"{function} takes images and blocks of at least one pixel",
            wanted="a tensor of rank 4, block_size of 1 or more",
            got=f"{x.shape}, block_size={size}",
            operation=x.op,
            hint="give a batch of images, of four dimensions",
        )
    return x, size, data_format == "NHWC"


@public
def space_to_depth(input: Any, block_size: Any, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Move the pixels of each square block into the channels of a single pixel.

    Parameters
    ----------
    input : Tensor of any dtype, of shape [batch, height, width, channels]
        Or [batch, channels, height, width], as `data_format` says.
    block_size : int
        Divides height and width.
    data_format : {'NHWC', 'NCHW'}

    Returns
    -------
    Tensor
        Same dtype; height and width are divided by `block_size`, the channels multiplied by its square.

    Raises
    ------
    ShapeError
        If the rank is not 4, or blocks do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.space_to_depth([[[[1], [2]], [[3], [4]]]], 2)).sync()
    array([[[[1, 2, 3, 4]]]], dtype=int32)
    """
    x, b, last = _read_block_arguments(input, block_size, data_format, "space_to_depth")
    n, *dims = leading_sizes(x, 4)
    height, width, depth = dims if last else (dims[1], dims[2], dims[0])
    rows, columns = divide_size(height, b, x, "height"), divide_size(width, b, x, "width")
    deep = depth * (b * b)
    # in both formats the position within a block varies slower than the channel, as in TensorFlow
    if last:
        return rearrange_dimensions(
            x, [n, rows, b, columns, b, depth], (0, 1, 3, 2, 4, 5), [n, rows, columns, deep], name
        )
    return rearrange_dimensions(x, [n, depth, rows, b, columns, b], (0, 3, 5, 1, 2, 4), [n, deep, rows, columns], name)


@public
def depth_to_space(input: Any, block_size: Any, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Spread the channels of each pixel over a square block of pixels: the inverse of `space_to_depth`.

    Parameters
    ----------
    input : Tensor of any dtype, of shape [batch, height, width, channels]
        Or [batch, channels, height, width], as `data_format` says.
    block_size : int
        The number of channels is a multiple of its square.
    data_format : {'NHWC', 'NCHW'}

    Returns
    -------
    Tensor
        Same dtype; height and width are multiplied by `block_size`, the channels divided by its square.

    Raises
    ------
    ShapeError
        If the rank is not 4, or blocks do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.depth_to_space([[[[1, 2, 3, 4]]]], 2)).sync().tolist()
    [[[[1], [2]], [[3], [4]]]]
    """
    x, b, last = _read_block_arguments(input, block_size, data_format, "depth_to_space")
    n, *dims = leading_sizes(x, 4)
    rows, columns, deep = dims if last else (dims[1], dims[2], dims[0])
    depth = divide_size(deep, b * b, x, "channels")
    height, width = rows * b, columns * b
    # in both formats the position within a block varies slower than the channel, as in TensorFlow
    if last:
        return rearrange_dimensions(
            x, [n, rows, columns, b, b, depth], (0, 1, 3, 2, 4, 5), [n, height, width, depth], name
        )
    return rearrange_dimensions(x, [n, b, b, depth, rows, columns], (0, 3, 4, 1, 5, 2), [n, depth, height, width], name)

"""Crops of images, and images with borders, at offsets or around the middle; `random_crop` crops at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import int32
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...base.source_lines import user_source
from ...ir import scopes
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.padding import pad
from ..control.effects import Assert
from ..math.arithmetic import maximum
from ..support.arguments import index_tensor, known_rank
from ..support.common import dimension_of
from .transforms import image_tensor

_AXES = {"height": -3, "width": -2}
Size = int | Tensor


def size_of(value: Any, what: str) -> Size:
    """Return a number of pixels, as a Python integer if known.

    Raise ShapeError, which names the argument `what`, for a negative number, or a value that is no scalar.
    """
    tensor = index_tensor(value)
    if tensor.rank not in (0, None):
        raise ShapeError(
            f"'{what}' is a number of pixels", wanted="a scalar", got=tensor.shape, hint="take one element"
        )
    known = static_value(tensor)
    if known is None:
        return apply("Cast", tensor, dtype=int32)
    if known < 0:
        raise _size_error(f"'{what}' is a number of pixels", "0 or more", int(known))
    return int(known)


def _size_error(happened: str, wanted: str, got: Any) -> ShapeError:
    return ShapeError(
        happened, wanted=wanted, got=got, source=user_source(), hint="resize_image_with_crop_or_pad takes any size"
    )


def _image_of_known_rank(image: Any, what: str) -> Tensor:
    """Return images of known rank, any dimensions before the last three being a batch."""
    x = image_tensor(image)
    known_rank(x, what)
    return x


def _image_sizes(image: Tensor) -> tuple[Size, Size]:
    """Return height and width of images, as Python integers where they are known."""
    assert image.rank is not None
    height, width = (dimension_of(image, image.rank + axis) for axis in _AXES.values())
    return height, width


def _check_fits(image: Tensor, low: tuple[Size, Size], sizes: tuple[Size, Size], whole: tuple[Size, Size]) -> Tensor:
    """Refuse a box that goes beyond `whole`; the step checks sizes and offsets that are unknown before."""
    checks = []
    for axis, first, count, total in zip(_AXES, low, sizes, whole, strict=True):
        end = first + count
        if isinstance(end, int) and isinstance(total, int):
            if end > total:
                raise _size_error(f"the box goes beyond the {axis}", f"offset + size of at most {total}", end)
        else:
            numbers = [convert_to_tensor(each, int32) for each in (end, total)]
            text = f"the box goes beyond the {axis}: offset + size and the {axis} are"
            checks.append(Assert(apply("LessEqual", *numbers), numbers, message=text))
        # `size_of` has checked known offsets.
        if isinstance(first, Tensor):
            checks.append(Assert(first >= 0, [first], message=f"the offset of the {axis} is negative"))
    if not checks:
        return image
    # Whatever uses this Identity waits for the checks.
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *checks)):
        return apply("Identity", image)


def _with_sizes(image: Tensor, sizes: tuple[Size, Size]) -> Tensor:
    """Add the known sizes to the static shape of images."""
    known = [size if isinstance(size, int) else None for size in sizes]
    assert image.rank is not None
    image.set_shape(Shape([*[None] * (image.rank - 3), *known, None]))
    return image


def _crop_image(image: Tensor, low: tuple[Size, Size], sizes: tuple[Size, Size], name: str | None) -> Tensor:
    rows, columns = (slice(first, first + count) for first, count in zip(low, sizes, strict=True))
    return _with_sizes(apply("Identity", image[..., rows, columns, :], name=name), sizes)


def _pad_image(image: Tensor, low: tuple[Size, Size], sizes: tuple[Size, Size], name: str | None) -> Tensor:
    """Return images padded with zeros to `sizes`, with `low` zeros above and on the left."""
    assert image.rank is not None
    pairs = [[first, size - first - own] for first, size, own in zip(low, sizes, _image_sizes(image), strict=True)]
    nothing = [[0, 0]]
    return _with_sizes(pad(image, nothing * (image.rank - 3) + pairs + nothing, name=name), sizes)


@public
def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any, name: str | None = None
) -> Tensor:
    """Cut a box out of images.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels]
    offset_height, offset_width : int32 scalar
        Row and column of the box's upper left pixel.
    target_height, target_width : int32 scalar
        Sizes of the box.

    Returns
    -------
    Tensor
        Same dtype, of shape [..., target_height, target_width, channels]. Gradients pass to the pixels of the box.

    Raises
    ------
    ShapeError
        If the box is known to go beyond the image, or the rank is unknown or less than 3.
    OpError
        When a step runs it, if the box goes beyond the image.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.arange(12).reshape(3, 4, 1)
    >>> tg.function(lambda: tg.crop_to_bounding_box(image, 1, 2, 2, 2)).sync()[:, :, 0]
    array([[ 6,  7],
           [10, 11]])
    """
    x = _image_of_known_rank(image, "crop_to_bounding_box")
    low = size_of(offset_height, "offset_height"), size_of(offset_width, "offset_width")
    sizes = size_of(target_height, "target_height"), size_of(target_width, "target_width")
    return _crop_image(_check_fits(x, low, sizes, _image_sizes(x)), low, sizes, name)


@public
def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any, name: str | None = None
) -> Tensor:
    """Put images into larger ones, whose other pixels are 0.

    Parameters
    ----------
    image : Tensor of any numeric dtype, of shape [..., height, width, channels]
    offset_height, offset_width : int32 scalar
        Rows above and columns on the left of the image.
    target_height, target_width : int32 scalar
        Sizes of the result.

    Returns
    -------
    Tensor
        Same dtype, of shape [..., target_height, target_width, channels].

    Raises
    ------
    ShapeError
        If the image is known not to fit, or its rank is unknown or less than 3.
    OpError
        When a step runs it, if the image does not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.pad_to_bounding_box([[[7]]], 0, 1, 2, 3)).sync()[:, :, 0]
    array([[0, 7, 0],
           [0, 0, 0]], dtype=int32)
    """
    x = _image_of_known_rank(image, "pad_to_bounding_box")
    low = size_of(offset_height, "offset_height"), size_of(offset_width, "offset_width")
    sizes = size_of(target_height, "target_height"), size_of(target_width, "target_width")
    return _pad_image(_check_fits(x, low, _image_sizes(x), sizes), low, sizes, name)


@public
def central_crop(image: Any, central_fraction: float, name: str | None = None) -> Tensor:
    """Cut out the middle of images.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels]
    central_fraction : float
        Fraction of each side to keep, above 0 and at most 1. The same number of pixels is cut off on both sides,
        rounded down.

    Returns
    -------
    Tensor
        Same dtype. Gradients pass to the pixels of the box.

    Raises
    ------
    GraphError
        If `central_fraction` is not in range.
    ShapeError
        If the rank is unknown or less than 3.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.arange(16).reshape(4, 4, 1)
    >>> tg.function(lambda: tg.central_crop(image, 0.5)).sync()[:, :, 0]
    array([[ 5,  6],
           [ 9, 10]])
    """
    if not isinstance(central_fraction, (int, float, np.number)) or not 0 < central_fraction <= 1:
        raise GraphError(
            "no such part of an image can be kept",
            wanted="a number above 0 and at most 1",
            got=central_fraction,
            hint="as central_fraction=0.5",
        )
    x = _image_of_known_rank(image, "central_crop")
    low, sizes = [], []
    for size in _image_sizes(x):
        if isinstance(size, int):
            # Truncated like the Cast of unknown sizes, so that static and late sizes agree.
            first: Size = int((size - size * float(central_fraction)) / 2)
        else:
            length = apply("Cast", size, dtype="float64")
            first = apply("Cast", (length - length * float(central_fraction)) / 2, dtype=int32)
        low.append(first)
        sizes.append(size - 2 * first)
    return _crop_image(x, (low[0], low[1]), (sizes[0], sizes[1]), name)


@public
def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any, name: str | None = None) -> Tensor:
    """Crop images, or pad them with zeros, around their middle, to a size.

    Parameters
    ----------
    image : Tensor of any numeric dtype, of shape [..., height, width, channels]
    target_height, target_width : int32 scalar

    Returns
    -------
    Tensor
        Same dtype, of shape [..., target_height, target_width, channels]. Of an odd number of rows or columns, the
        smaller half is cut off or added above and on the left.

    Raises
    ------
    ShapeError
        If a size is known to be negative, or the rank is unknown or less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[1], [2], [3]]]
    >>> tg.function(lambda: tg.resize_image_with_crop_or_pad(image, 2, 1)).sync()[:, :, 0]
    array([[2],
           [0]], dtype=int32)
    """
    x = _image_of_known_rank(image, "resize_image_with_crop_or_pad")
    sizes = size_of(target_height, "target_height"), size_of(target_width, "target_width")
    # Each axis is either cropped or padded: the other amount is 0.
    cut, kept, added = [], [], []
    for own, size in zip(_image_sizes(x), sizes, strict=True):
        cut.append(_at_least_zero(own - size) // 2)
        kept.append(own - _at_least_zero(own - size))
        added.append(_at_least_zero(size - own) // 2)
    inner = _crop_image(x, (cut[0], cut[1]), (kept[0], kept[1]), None)
    return _pad_image(inner, (added[0], added[1]), sizes, name)


def _at_least_zero(size: Size) -> Size:
    return max(size, 0) if isinstance(size, int) else maximum(size, 0)

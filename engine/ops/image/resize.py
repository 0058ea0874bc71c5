"""Resizing of images.

Resizing is a weighted sum of pixels along the height, then along the width; the gradient is the sum with transposed
weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.arguments import as_sizes, check_rank, shape_vector
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.literals import Array, f64, i32, i64
from ..support.vectorizing.families import merged
from .interpolation import METHODS, Taps, taps

_X = f64([[1, 2], [3, 5]]).reshape(1, 2, 2, 1)
_ATTRS = {"method": REQUIRED, "align_corners": False, "half_pixel_centers": False}


def _infer_resized_shape(op: Operation) -> Shape:
    """Infer the shape of resized images; ShapeError unless the size is a pair, GraphError for an unknown method."""
    size = static_shape(op.inputs[1])
    images = op.inputs[0].shape.with_rank(4)
    if not size.is_compatible_with(Shape([None, None])):
        raise ShapeError(
            "images are resized to a height and a width",
            wanted="two numbers",
            got=size,
            hint="give size=[height, width]",
        )
    _check_resize_method(op.attrs["method"], op.attrs["align_corners"], op.attrs["half_pixel_centers"])
    height, width = size if size.rank is not None else (None, None)
    return Shape([images[0], height, width, images[3]])


def _check_resize_method(method: str, align_corners: bool, half_pixel_centers: bool) -> None:
    """Raise GraphError for an unknown method, or options that exclude each other."""
    # Both options move the positions, in different ways; averages of areas have no centers.
    if method not in METHODS or (align_corners and half_pixel_centers) or (method == "area" and half_pixel_centers):
        raise GraphError(
            "images cannot be resized so",
            wanted=f"one of {', '.join(METHODS)}; align_corners or half_pixel_centers, and not this for 'area'",
            got=f"{method!r}, align_corners={align_corners}, half_pixel_centers={half_pixel_centers}",
            hint="half_pixel_centers=True keeps the borders of the image where they are",
        )


def _weighted_sums(xp: Any, x: Any, axis: int, axis_taps: Taps) -> Any:
    """Return for each place the sum of its taps, elements along an axis times weights."""
    total = None
    # One tap of every place at a time: all taps at once would multiply the memory by their number.
    for indices, weights in zip(axis_taps.indices.T, axis_taps.weights.T, strict=True):
        term = xp.take(x, xp.asarray(indices), axis=axis)
        # Weights that are all 1, as of the nearest pixels, need no product.
        if not (weights == 1).all():
            term = term * xp.asarray(weights.astype(x.dtype).reshape(-1, *[1] * (x.ndim - axis - 1)))
        total = term if total is None else total + term
    return total


def _check_sizes(x: Any, size: Any) -> list[tuple[int, int]]:
    """Return heights and widths before and after resizing, as two pairs; ValueError for empty images."""
    after = as_sizes(size)
    check_rank(x, 4, 4, "images are resized as [batch, height, width, channels]")
    if len(after) != 2 or min(after) < 1 or min(x.shape[1:3]) < 1:
        raise ValueError(f"images are resized from and to at least one row and column, not {x.shape[1:3]} to {after}")
    return list(zip(x.shape[1:3], after, strict=True))


@keep_dtype
def _compute_resize(xp: Any, x: Any, size: Any, **attrs: Any) -> Any:
    for axis, (before, after) in enumerate(_check_sizes(x, size), 1):
        x = _weighted_sums(xp, x, axis, taps(before, after, **attrs))
    return x


@keep_dtype
def _resize_grad(xp: Any, g: Any, size: Any, **attrs: Any) -> Any:
    # The cotangent has the size after resizing, and `size` is the size before.
    for axis, (after, before) in enumerate(_check_sizes(g, size), 1):
        g = _weighted_sums(xp, g, axis, taps(before, after, **attrs).transpose_taps(before))
    return g


def _count_elements(x: Any, size: Any, **_: Any) -> int:
    """Return about how many elements are computed: as many as the result has, along the height and along the width."""
    return int(x.shape[0] * x.shape[3] * math.prod(size.tolist()) * 2)


def _gradient_by(type: str) -> Any:
    """Return the gradient function that applies the transposed operation, to the height and width of the input."""
    return lambda op, g: [apply(type, g, shape_of(op.inputs[0])[1:3], **op.own_attrs), None]


def _linear_by_hand(x: Array, size: Array) -> Array:
    """Resize one image of two rows and two columns, corners aligned."""
    down, right = np.linspace(0, 1, size[0])[:, None], np.linspace(0, 1, size[1])
    (a, b), (c, d) = x[0, :, :, 0]
    image: Array = (1 - down) * ((1 - right) * a + right * b) + down * ((1 - right) * c + right * d)
    return image[None, ..., None]


define(
    "Resize",
    "images: T, size: host I -> resized: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    attrs=_ATTRS,
    shape=_infer_resized_shape,
    rules=[Vectorize(merged(0)), Elements(_count_elements)],
    kernel=_compute_resize,
    gradient=_gradient_by("ResizeGrad"),
    samples=[
        Sample([_X, i32([3, 5])], _linear_by_hand, {"method": "bilinear", "align_corners": True}),
        Sample(
            [_X, i32([2, 4])],
            f64([[1, 1.5, 2, 2], [3, 4, 5, 5]]).reshape(1, 2, 4, 1),
            {"method": "bilinear"},
        ),
        Sample(
            [_X, i64([2, 4])],
            f64([[1, 1.25, 1.75, 2], [3, 3.5, 4.5, 5]]).reshape(1, 2, 4, 1),
            {"method": "bilinear", "half_pixel_centers": True},
        ),
        Sample([i32(_X), i32([2, 4])], i32([[1, 1, 2, 2], [3, 3, 5, 5]]).reshape(1, 2, 4, 1), {"method": "nearest"}),
        Sample(
            [np.arange(5.0).reshape(1, 1, 5, 1), i32([1, 2])],
            f64([1, 3]).reshape(1, 1, 2, 1),
            {"method": "nearest", "half_pixel_centers": True},
        ),
        Sample(
            [np.arange(4.0).reshape(1, 1, 4, 1), i32([1, 3])],
            f64([0, 2, 3]).reshape(1, 1, 3, 1),
            {"method": "nearest", "align_corners": True},
        ),
        Sample(
            [f64([1, 2, 6]).reshape(1, 1, 3, 1), i32([1, 2])],
            f64([4 / 3, 14 / 3]).reshape(1, 1, 2, 1),
            {"method": "area"},
        ),
        Sample(
            [f64([1, 2, 4, 8]).reshape(1, 1, 4, 1), i32([1, 2])],
            f64([1, 4]).reshape(1, 1, 2, 1),
            {"method": "bicubic"},
        ),
        Sample(
            [f64([1, 2, 4, 8, 9, 3]).reshape(1, 1, 6, 1), i32([1, 3])],
            lambda x, size: np.asarray(
                [
                    [1, 2, 4] @ f64([9, 9, -1]) / 17,
                    [2, 4, 8, 9] @ f64([-1, 9, 9, -1]) / 16,
                    [8, 9, 3] @ f64([-1, 9, 9]) / 17,
                ]
            ).reshape(1, 1, 3, 1),
            {"method": "bicubic", "half_pixel_centers": True},
        ),
    ],
)

define(
    "ResizeGrad",
    "g: T, size: host I -> dx: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    attrs=_ATTRS,
    shape=_infer_resized_shape,
    rules=[Vectorize(merged(0)), Elements(_count_elements)],
    kernel=_resize_grad,
    gradient=_gradient_by("Resize"),
    samples=[
        Sample(
            [f64([1, 2, 3, 4]).reshape(1, 1, 4, 1), i32([1, 2])],
            f64([2, 8]).reshape(1, 1, 2, 1),
            {"method": "bilinear"},
        ),
        Sample(
            [f64([1, 2]).reshape(1, 1, 2, 1), i32([1, 5])],
            f64([0, 1, 0, 2, 0]).reshape(1, 1, 5, 1),
            {"method": "nearest", "half_pixel_centers": True},
        ),
    ],
)


def _apply_resize(
    method: str, images: Any, size: Any, align_corners: bool, half_pixel_centers: bool, name: str | None
) -> Tensor:
    """Resize images by a method; all methods except 'nearest' compute in float32, or float64 for float64 images."""
    x = convert_to_tensor(images)
    if method != "nearest" and x.dtype not in (dtypes.float32, dtypes.float64):
        x = cast(x, dtypes.float32)
    options = {"align_corners": bool(align_corners), "half_pixel_centers": bool(half_pixel_centers)}
    return apply("Resize", x, shape_vector(size), name=name, method=method, **options)


@public
def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False, name: str | None = None
) -> Tensor:
    """Resize images by taking the nearest pixels.

    Parameters
    ----------
    images : Tensor of any numeric dtype, of shape [batch, height, width, channels]
    size : int32 or int64 Tensor of shape [2]
        The new height and width.
    align_corners : bool
        Keep the centres of the corner pixels in place.
    half_pixel_centers : bool
        Keep the borders of the image in place: pixels have their centres at 0.5, 1.5 and so on. Without both options
        the first row and column stay in place.

    Returns
    -------
    Tensor
        Same dtype, of shape [batch, size[0], size[1], channels].

    Raises
    ------
    GraphError
        If both `align_corners` and `half_pixel_centers` are true.
    ShapeError
        If `images` has another rank, or `size` is not a height and a width.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.resize_nearest_neighbor([[[[1], [2]]]], [1, 4])).sync().ravel()
    array([1, 1, 2, 2], dtype=int32)
    """
    return _apply_resize("nearest", images, size, align_corners, half_pixel_centers, name)


@public
def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False, name: str | None = None
) -> Tensor:
    """Resize images by interpolation between the four surrounding pixels.

    Parameters
    ----------
    images : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
    size, align_corners, half_pixel_centers
        As of `resize_nearest_neighbor`.

    Returns
    -------
    Tensor
        Of dtype float64 if `images` are, else float32; of shape [batch, size[0], size[1], channels].

    Raises
    ------
    GraphError, ShapeError
        As in `resize_nearest_neighbor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[1.0], [2.0]]]]
    >>> tg.function(lambda: tg.resize_bilinear(image, [1, 4])).sync().ravel()
    array([1. , 1.5, 2. , 2. ], dtype=float32)
    >>> tg.function(lambda: tg.resize_bilinear(image, [1, 4], half_pixel_centers=True)).sync().ravel()
    array([1.  , 1.25, 1.75, 2.  ], dtype=float32)
    """
    return _apply_resize("bilinear", images, size, align_corners, half_pixel_centers, name)


@public
def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False, name: str | None = None
) -> Tensor:
    """Resize images by cubic interpolation between the sixteen surrounding pixels (Keys, 1981).

    Positions are rounded to 1/1024 of a pixel, as in TensorFlow. With half-pixel centres the cubics have a = -0.5 and
    leave out pixels outside of the image; otherwise they have a = -0.75, and pixels of the border are repeated.

    Parameters
    ----------
    images : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
    size, align_corners, half_pixel_centers
        As of `resize_nearest_neighbor`.

    Returns
    -------
    Tensor
        Of dtype float64 if `images` are, else float32; of shape [batch, size[0], size[1], channels].

    Raises
    ------
    GraphError, ShapeError
        As in `resize_nearest_neighbor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[0.0], [0.0], [16.0], [16.0], [0.0], [0.0]]]]
    >>> tg.function(lambda: tg.resize_bicubic(image, [1, 3], half_pixel_centers=True)).sync()[0, 0, 1]
    array([18.], dtype=float32)
    """
    return _apply_resize("bicubic", images, size, align_corners, half_pixel_centers, name)


@public
def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Resize images by averaging the pixels that each new pixel covers.

    Parameters
    ----------
    images : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
    size, align_corners
        As of `resize_nearest_neighbor`.

    Returns
    -------
    Tensor
        Of dtype float64 if `images` are, else float32; of shape [batch, size[0], size[1], channels].

    Raises
    ------
    ShapeError
        As in `resize_nearest_neighbor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.resize_area([[[[1.0], [2.0], [6.0], [8.0]]]], [1, 2])).sync().ravel()
    array([1.5, 7. ], dtype=float32)
    """
    return _apply_resize("area", images, size, align_corners, False, name)

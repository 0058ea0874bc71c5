"""Patches of images and volumes: the elements of each window, side by side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, shape_in
from ..support.common import shape_of
from ..support.literals import f64, i32
from ..support.vectorizing.families import merged
from ..support.window_texts import of_convolution, padding_alone
from ..support.windows import (
    WINDOWS,
    check_fits,
    iterate_places,
    patch_size,
    window_attrs,
    windows_of,
    windows_shape,
)

# An image, and attributes of windows, for the samples.
_X = np.arange(9.0).reshape(1, 3, 3, 1)
_SQUARES = {"window": (2, 2), "strides": (1, 1), "rates": (1, 1), "padding": "VALID"}
_PADDED = {"window": (3,), "strides": (2,), "rates": (1,), "padding": "SAME"}
_DILATED = {"window": (2, 1), "strides": (1, 1), "rates": (2, 1), "padding": "VALID"}


def _infer_patches_shape(op: Operation) -> Shape:
    shape = windows_shape(op.inputs[0].shape, op.attrs)
    channels = shape[-1]
    return Shape([*shape[:-1], None if channels is None else channels * patch_size(op.attrs)])


def _extract_patches(xp: Any, x: Any, **attrs: Any) -> Any:
    """Copy the elements at each place of a window, for all windows at once; padding stays 0."""
    windows, size = windows_of(x.shape, attrs), patch_size(attrs)
    counts = [axis_windows.count for axis_windows in windows]
    out = xp.zeros((x.shape[0], *counts, size, x.shape[-1]), dtype=x.dtype)
    for place, window_index, pixel_index in iterate_places(windows, attrs):
        out[*window_index, place] = x[pixel_index]
    return out.reshape(x.shape[0], *counts, size * x.shape[-1])


def _sum_patches(xp: Any, g: Any, shape: Any, **attrs: Any) -> Any:
    """Add the cotangents of patches to the cotangents of their pixels."""
    sizes, size = as_sizes(shape), patch_size(attrs)
    windows = windows_of(sizes, attrs)
    check_fits((*g.shape[:-1], g.shape[-1] // size), sizes, windows, attrs)
    parts, dx = g.reshape(*g.shape[:-1], size, sizes[-1]), xp.zeros(sizes, dtype=g.dtype)
    for place, window_index, pixel_index in iterate_places(windows, attrs):
        # Windows share pixels only at different places: within a place no pixel occurs twice, and slices can be added.
        view = dx[pixel_index]
        view += parts[*window_index, place]
    return dx


# Elements: each pixel is in as many patches as a window has elements, divided by the strides.
define(
    "ExtractPatches",
    "images: T -> patches: T",
    where={"T": (*dtypes.NUMERIC, dtypes.bool_)},
    attrs=WINDOWS,
    shape=_infer_patches_shape,
    rules=[
        Vectorize(merged(0)),
        Elements(lambda x, **attrs: x.size * patch_size(attrs) // math.prod(attrs["strides"])),
    ],
    kernel=_extract_patches,
    gradient=lambda op, g: [apply("ExtractPatchesGrad", g, shape_of(op.inputs[0]), **op.own_attrs)],
    samples=[
        Sample([_X], f64([[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]).reshape(1, 2, 2, 4), _SQUARES),
        Sample([f64([[[1, 10], [2, 20], [3, 30]]])], f64([[[0, 0, 1, 10, 2, 20], [2, 20, 3, 30, 0, 0]]]), _PADDED),
        Sample([_X], f64([[0, 6], [1, 7], [2, 8]]).reshape(1, 1, 3, 2), _DILATED),
        Sample(
            [i32([[[4], [5]]])], i32([[[4], [5]]]), {"window": (1,), "strides": (1,), "rates": (1,), "padding": "VALID"}
        ),
        Sample([np.zeros((0, 3, 3, 2))], np.zeros((0, 2, 2, 8)), _SQUARES),
    ],
)

define(
    "ExtractPatchesGrad",
    "g: T, shape: host J -> dx: T",
    where={"T": dtypes.NUMERIC, "J": dtypes.INDEX},
    attrs=WINDOWS,
    shape=lambda op: static_shape(op.inputs[1]),
    rules=[Vectorize(merged(0, sizes=(1,))), Elements(shape_in(1))],
    kernel=_sum_patches,
    gradient=lambda op, g: [apply("ExtractPatches", g, **op.own_attrs), None],
    samples=[
        Sample(
            [np.ones((1, 2, 2, 4)), i32([1, 3, 3, 1])], f64([1, 2, 1, 2, 4, 2, 1, 2, 1]).reshape(1, 3, 3, 1), _SQUARES
        ),
        Sample([f64([[[1, 2, 3], [4, 5, 6]]]), i32([1, 3, 1])], f64([[[2], [3 + 4], [5]]]), _PADDED),
    ],
)


@public
@padding_alone(of_convolution(2)).complete
def extract_image_patches(
    images: Any, ksizes: Any, strides: Any, rates: Any, padding: Any, name: str | None = None
) -> Tensor:
    """Put the pixels of each window of images side by side, as channels.

    Parameters
    ----------
    images : Tensor of any numeric dtype, or bool, of shape [batch, height, width, channels]
    ksizes, strides, rates : int, or sequence of 2 or 4
        Size of the windows, distance between windows, and distance between the pixels of a window.

    Returns
    -------
    Tensor
        Same dtype, with a row and a column for each window, and ``ksizes[0] * ksizes[1] * channels`` channels.

    Raises
    ------
    ShapeError
        If a window is larger than the image.
    GraphError
        If an argument has another form.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[1], [2], [3]], [[4], [5], [6]]]]
    >>> tg.function(lambda: tg.extract_image_patches(image, 2, 1, 1, "VALID")).sync()[0, 0]
    array([[1, 2, 4, 5],
           [2, 3, 5, 6]], dtype=int32)
    """
    attrs = window_attrs(ksizes, strides, rates, padding, 2)
    return apply("ExtractPatches", convert_to_tensor(images), name=name, **attrs)


@public
@padding_alone(of_convolution(3)).complete
def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: Any, name: str | None = None) -> Tensor:
    """Put the elements of each window of volumes side by side, as channels.

    Parameters
    ----------
    input : Tensor of any numeric dtype, or bool, of shape [batch, depth, height, width, channels]
    ksizes, strides : int, or sequence of 3 or 5
        Size of the windows, and distance between windows.

    Returns
    -------
    Tensor
        Same dtype, with an element for each window, whose channels are all channels of the elements of the window.

    Raises
    ------
    ShapeError
        If a window is larger than the volume.
    GraphError
        If an argument has another form.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> volume = np.arange(8).reshape(1, 2, 2, 2, 1)
    >>> tg.function(lambda: tg.extract_volume_patches(volume, [1, 2, 2], 1, "VALID")).sync()[0, :, 0, 0]
    array([[0, 1, 2, 3],
           [4, 5, 6, 7]])
    """
    attrs = window_attrs(ksizes, strides, 1, padding, 3)
    return apply("ExtractPatches", convert_to_tensor(input), name=name, **attrs)

"""Frames around boxes, drawn into images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..array.gather import unsorted_segment_sum
from ..math.casting import cast
from ..support.common import size_along, zeros_like
from ..support.literals import f32
from ..support.vectorizing.families import merged_or_one_by_one
from .transforms import image_tensor

# Red, green, blue and opacity of the boxes in turn, if users give no colours.
_PALETTE = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ]
)


def _draw_frames(xp: Any, images: Any, boxes: Any, colors: Any) -> Any:
    """Draw frames into a copy of the images; colours repeat, and channels beyond those of the images are ignored."""
    _check_shapes(images.shape, boxes.shape, colors.shape)
    drawn = images.copy()
    paint = xp.asarray(colors[:, : images.shape[3]])
    height, width = images.shape[1:3]
    # Boxes are in fractions of the image: 1 is the last row or column.
    scaled = boxes * np.array([height - 1, width - 1] * 2, boxes.dtype)
    for image, corners in zip(drawn, scaled.astype(np.int64), strict=True):  # whole pixels, truncated
        for number, (top, left, bottom, right) in enumerate(corners.tolist()):
            is_outside = top >= height or bottom < 0 or left >= width or right < 0
            if top > bottom or left > right or is_outside:
                continue
            _draw_frame(image, top, left, bottom, right, paint[number % len(paint)])
    return drawn


def _check_shapes(images: tuple[int, ...], boxes: tuple[int, ...], colors: tuple[int, ...]) -> None:
    """Raise ValueError if the shapes of arrays, known only when a step runs, do not fit."""
    is_box = len(boxes) == 3 and boxes[2] == 4
    is_color = len(colors) == 2 and colors[0] > 0
    if len(images) != 4 or not is_box or not is_color or boxes[0] != images[0] or colors[1] < images[3]:
        raise ValueError(
            f"draw_bounding_boxes: images [batch, height, width, channels] need boxes [batch, n, 4] and colours with as"
            f" many channels, got images {images}, boxes {boxes} and colours {colors}"
        )


def _draw_frame(image: Any, top: int, left: int, bottom: int, right: int, color: Any) -> None:
    """Colour the edges of a box in place, as far as they lie inside of the image."""
    # A negative start would count from the end; slices cut off what lies beyond the image.
    rows, columns = slice(max(top, 0), bottom + 1), slice(max(left, 0), right + 1)
    for row in (top, bottom):
        if 0 <= row < image.shape[0]:
            image[row, columns] = color
    for column in (left, right):
        if 0 <= column < image.shape[1]:
            image[rows, column] = color


def _drawing_shape(op: Operation) -> Shape:
    """Return the shape of the images; refuse boxes and colours that do not fit."""
    images, boxes, colors = (t.shape for t in op.inputs)
    fits = images.merge(Shape([None] * 4))
    boxes.merge(Shape([fits[0], None, 4]))
    if colors.rank not in (2, None) or (colors.rank == 2 and _is_less(colors[1], fits[3])):
        raise ShapeError(
            "each colour has a number for each channel of the images",
            wanted=Shape([None, fits[3]]),
            got=colors,
            operation=op,
            hint="give a matrix with a row for each colour",
        )
    return fits


def _is_less(size: int | None, other: int | None) -> bool:
    return size is not None and other is not None and size < other


def _pull_back_drawing(op: Operation, g: Tensor) -> list[Any]:
    """Return the cotangent of uncovered pixels, and for each colour the sum over its covered pixels."""
    images, boxes, colors = op.inputs
    black = zeros_like(colors)
    count = size_along(colors, 0)
    # Drawn in place of colours, the numbers 1, 2, ... mark which colour each pixel shows, 0 where it shows none.
    # They are float32, because integers other than uint8 cannot be drawn.
    numbers = apply("Reshape", cast(apply("Range", 1, count + 1, 1), dtypes.float32), [-1, 1])
    nothing = cast(zeros_like(images[..., :1]), dtypes.float32)
    which = cast(apply("DrawBoundingBoxes", nothing, boxes, numbers), dtypes.int32)
    channels = size_along(images, 3)
    rows = apply("Reshape", g, apply("Stack", [-1, channels], axis=0))
    sums = unsorted_segment_sum(rows, apply("Reshape", which, [-1]), count + 1)[1:]
    # Further channels of the colors are not drawn.
    surplus = zeros_like(colors[:, channels:])
    return [
        apply("DrawBoundingBoxes", g, boxes, black),
        None,
        apply("Concat", [cast(sums, colors.dtype), surplus], axis=1),
    ]


def _drawing_sample() -> Sample:
    image = np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5, 1)
    boxes = f32([[[0, 0, 1, 1], [0.4, 0.5, 0.4, 3]], [[-1, 0.3, 0.4, 0.8], [2, 0, 3, 1]]])
    wanted = image.copy()
    wanted[0, [0, 3]] = wanted[0, :, [0, 4]] = -1  # all around
    wanted[0, 1, 2:] = -2  # a line, as far as the image goes
    wanted[1, 0:2, [1, 3]] = wanted[1, 1, 1:4] = -1  # open above
    return Sample([image, boxes, f32([[-1, 9], [-2, 9]])], wanted)


define(
    "DrawBoundingBoxes",
    "images: T, boxes: host F, colors: host T -> drawn: T",
    where={"T": (*dtypes.FLOATING, dtypes.uint8), "F": (dtypes.float32, dtypes.float64)},
    shape=_drawing_shape,
    rules=[Vectorize(merged_or_one_by_one(0, 1)), ReadsValues()],
    kernel=_draw_frames,
    gradient=_pull_back_drawing,
    samples=[_drawing_sample()],
)


@public
def draw_bounding_boxes(images: Any, boxes: Any, colors: Any = None, name: str | None = None) -> Tensor:
    """Draw frames of one pixel around boxes.

    Parameters
    ----------
    images : Tensor of a floating dtype or uint8, of shape [batch, height, width, channels]
    boxes : float32 or float64 Tensor of shape [batch, n, 4]
        The corners ``y1, x1, y2, x2``, as parts of the image's height and width: 0 is the first pixel and 1 the last.
        Parts outside of the image are not drawn, nor boxes whose first corner is below or right of the second.
    colors : Tensor of the dtype of `images`, of shape [m, channels], optional
        Colours of the boxes in turn, repeated for more boxes; by default ten colours, from 0 to 1, or to 255 for uint8.

    Returns
    -------
    Tensor
        Same dtype and shape; later boxes are drawn over earlier ones. Gradients reach images and colours.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit; otherwise the step raises OpError.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> boxes = [[[0.0, 0.0, 0.7, 1.0]]]
    >>> tg.function(lambda: tg.draw_bounding_boxes(np.zeros([1, 4, 3, 1]), boxes)).sync()[0, :, :, 0]
    array([[1., 1., 1.],
           [1., 0., 1.],
           [1., 1., 1.],
           [0., 0., 0.]])
    """
    x = image_tensor(images, 4)
    given = _default_colors(x) if colors is None else colors
    return apply("DrawBoundingBoxes", x, boxes, convert_to_tensor(given, x.dtype), name=name)


def _default_colors(images: Tensor) -> Any:
    """Return the palette in the dtype and scale of the images; raise ShapeError for more than 4 channels."""
    palette = _PALETTE * (255 if images.dtype.is_integer else 1)
    channels = images.shape[-1] if images.rank == 4 else None
    if channels == 1:
        palette[:, 0] = palette.max()  # of gray images all frames are white
    if channels is not None and channels > palette.shape[1]:
        raise ShapeError(
            "there are colours of our own for at most 4 channels",
            wanted="images with 1 to 4 channels",
            got=images.shape,
            operation=images.op,
            hint="give colors",
        )
    return palette.astype(images.dtype.numpy)

"""Boxes in images: crops of boxes, and non-maximum suppression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.concat import stack
from ..array.gather import gather
from ..array.padding import pad
from ..array.shapes import expand_dims
from ..math.casting import cast
from ..math.elementwise import ceil, floor
from ..support.arguments import index_tensor, only_scalars, static_ints
from ..support.common import ensure_sizes, one_for_each, scalar_like, size_along
from ..support.literals import Array, f32, f64, i32
from ..support.vectorizing.families import one_by_one

_SQUARES = f32([[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 7, 7], [2, 2, 0, 0.1], [5, 6, 7, 8], [9, 9, 9, 9]])
_SCORES = f32([0.5, 0.9, 0.3, 0.7, 0.3, 0.1])


def _sample_positions(low: Tensor, high: Tensor, size: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return `count` positions, evenly spaced from `low` to `high`, and whether each is inside of the image."""
    # Boxes are in fractions of the image: 1 is the last row or column, not the edge after it.
    last = cast(size - 1, low.dtype)
    if count == 1:
        found = expand_dims((low + high) * last * 0.5, 1)  # the middle, as in TensorFlow
    else:
        # Both ends are sampled, so that `count` positions are count - 1 steps apart.
        step = expand_dims((high - low) * last / (count - 1), 1)
        found = expand_dims(low * last, 1) + step * np.arange(count, dtype=low.dtype.numpy)
    inside = (found >= 0) & (found <= last)
    # Positions outside become 0, which is safe to gather from; the caller replaces these pixels.
    return apply("Where", inside, found, 0), inside


def _fetch_pixels(image: Tensor, starts: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels at whole rows and columns of images whose first row in the batch is `starts`."""
    width, channels = size_along(image, 2), size_along(image, 3)
    pixels = apply("Reshape", image, apply("Stack", [-1, channels]))
    # Number of each pixel in the whole batch, row-major; it has the shape [boxes, rows, columns].
    at = expand_dims(starts + cast(rows, dtypes.int32), 2) * width + expand_dims(cast(columns, dtypes.int32), 1)
    return gather(pixels, at)


def _interpolate_bilinear(image: Tensor, starts: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Interpolate bilinearly between the four pixels around fractional rows and columns."""
    top, left = floor(rows), floor(columns)
    down, right = expand_dims(expand_dims(rows - top, 2), 3), expand_dims(expand_dims(columns - left, 1), 3)
    lines = []
    # For a whole position floor and ceil coincide, so that no pixel outside of the image is read.
    for row in (top, ceil(rows)):
        start = _fetch_pixels(image, starts, row, left)
        lines.append(start + (_fetch_pixels(image, starts, row, ceil(columns)) - start) * right)
    return lines[0] + (lines[1] - lines[0]) * down


@public
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cut boxes out of images and resize each to the same size.

    Gradients reach the images and, by bilinear interpolation, the boxes.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [batch, height, width, channels]
    boxes : Tensor of a floating dtype, of shape [n, 4]
        The corners ``y1, x1, y2, x2``, as parts of the image's height and width: 0 is the centre of the first pixel and
        1 of the last. With ``y1 > y2`` the crop is turned upside down.
    box_ind : int32 vector of length n
        Index of the image of each box.
    crop_size : sequence of 2 int
        Height and width of the crops.
    method : {'bilinear', 'nearest'}
        Interpolate between pixels, or take the nearest pixels.
    extrapolation_value : float
        Value of pixels outside of the image.

    Returns
    -------
    Tensor
        Of the dtype of `boxes`, of shape [n, crop_size[0], crop_size[1], channels].

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.
    GraphError
        If `method` is unknown, or `crop_size` is not two positive numbers.
    OpError
        When a step runs it, if `box_ind` is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[[1.0], [2.0]], [[3.0], [4.0]]]]
    >>> tg.function(lambda: tg.crop_and_resize(image, [[0.0, 0.0, 1.0, 1.0]], [0], [3, 3])).sync()[0, :, :, 0]
    array([[1. , 1.5, 2. ],
           [2. , 2.5, 3. ],
           [3. , 3.5, 4. ]], dtype=float32)
    """
    if not isinstance(method, str) or method not in ("bilinear", "nearest"):
        raise GraphError("no such method", wanted="'bilinear' or 'nearest'", got=repr(method), hint="leave it out")
    corners = convert_to_tensor(boxes)
    corners = ensure_sizes(corners, None, 4)
    which = one_for_each(cast(index_tensor(box_ind), dtypes.int32), corners, 0)
    height, width = _crop_size(crop_size)
    images = ensure_sizes(convert_to_tensor(image), None, None, None, None)
    y1, x1, y2, x2 = (corners[:, i] for i in range(4))
    rows, is_row = _sample_positions(y1, y2, size_along(images, 1), height)
    columns, is_column = _sample_positions(x1, x2, size_along(images, 2), width)
    # Index of the first row of each image, among the rows of the whole batch.
    starts = expand_dims(which * size_along(images, 1), 1)
    if method == "nearest":
        # Halves round up, as in TensorFlow; NumPy's `round` would take the even neighbor.
        crops = _fetch_pixels(cast(images, corners.dtype), starts, floor(rows + 0.5), floor(columns + 0.5))
    else:
        crops = _interpolate_bilinear(cast(images, corners.dtype), starts, rows, columns)
    inside = expand_dims(expand_dims(is_row, 2) & expand_dims(is_column, 1), 3)
    return apply("Where", inside, crops, scalar_like(extrapolation_value, crops), name=name)


def _crop_size(value: Any) -> tuple[int, int]:
    sizes = static_ints(value, "crop_size")
    if len(sizes) != 2 or min(sizes) < 1:
        raise GraphError("crops have a height and a width", wanted="two positive numbers", got=value, hint="give both")
    return sizes[0], sizes[1]


def _intersection_over_union(box: Array, others: Array) -> Array:
    """Return the intersection over union of a box with each of the others; 0 for boxes without area."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    # Boxes apart from each other have a negative side.
    shared = np.maximum(high - low, 0).prod(1)
    areas, area = (others[:, 2:] - others[:, :2]).prod(1), (box[2:] - box[:2]).prod()
    whole = areas + area - shared
    is_area = (areas > 0) & (area > 0)
    return np.where(is_area, shared / np.where(is_area, whole, 1), 0)


def _compute_suppression(xp: Any, boxes: Array, scores: Array, most: Array, iou: Array, least: Array) -> Array:
    """Choose boxes in order of scores, and drop the others that overlap a chosen box by more than `iou`."""
    if boxes.shape != (*scores.shape, 4) or scores.ndim != 1:
        raise ValueError(f"non_max_suppression: boxes {boxes.shape} and scores {scores.shape} are not [n, 4] and [n]")
    # A box may name any two opposite corners.
    corners = np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1)
    left = np.argsort(-scores, kind="stable")  # of equal scores, the first
    left = left[scores[left] > least]
    kept: list[Any] = []
    while left.size and len(kept) < most:
        kept.append(left[0])
        left = left[1:][_intersection_over_union(corners[left[0]], corners[left[1:]]) <= iou]
    return np.asarray(kept, np.int32)


def _selected_shape(op: Operation) -> Shape:
    """Return a vector of unknown length; refuse boxes and scores whose shapes do not fit."""
    boxes, scores = (t.shape for t in op.inputs[:2])
    if not boxes.is_compatible_with(scores + Shape([4])) or scores.rank not in (1, None):
        raise ShapeError(
            "each box has a score",
            wanted="boxes [n, 4] and scores [n]",
            got=f"{boxes} and {scores}",
            hint="one class only",
        )
    # The largest number of boxes, and both thresholds.
    only_scalars(op, 2, 3, 4)
    return Shape([None])


define(
    "NonMaxSuppression",
    "boxes: host T, scores: host T, most: host int32, iou: host T, least: host T -> selected: host int32",
    where={"T": dtypes.FLOATING},
    shape=_selected_shape,
    rules=[
        Vectorize(one_by_one),
        ReadsValues(),
        Elements(lambda boxes, scores, most, *_: boxes.size * min(int(most), len(scores))),
    ],
    kernel=_compute_suppression,
    gradient=NotDifferentiable("its result is an index"),
    samples=[
        Sample([_SQUARES, _SCORES, np.int32(9), np.float32(0.5), np.float32(0)], i32([1, 2, 4, 5])),
        Sample([_SQUARES, _SCORES, np.int32(2), np.float32(0.5), np.float32(0)], i32([1, 2])),
        Sample([_SQUARES, _SCORES, np.int32(9), np.float32(0.3), np.float32(0.2)], i32([1, 2])),
        Sample([_SQUARES, _SCORES, np.int32(9), np.float32(1), np.float32(0.4)], i32([1, 3, 0])),
        Sample([f64(np.zeros((0, 4))), f64([]), np.int32(9), np.float64(0.5), np.float64(0)], i32([])),
    ],
)


@public
def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Choose boxes by their scores, except boxes that overlap much with a better box.

    Parameters
    ----------
    boxes : Tensor of a floating dtype, of shape [n, 4]
        Two opposite corners, ``y1, x1, y2, x2``.
    scores : Tensor of the same dtype, of shape [n]
    max_output_size : int32 scalar
        Largest number of boxes to choose.
    iou_threshold : scalar of the same dtype
        Largest intersection over union of chosen boxes: boxes that overlap a better box by more are dropped.
    score_threshold : scalar of the same dtype
        Boxes whose score is not larger are dropped.

    Returns
    -------
    Tensor
        int32 indices of the chosen boxes, the best first; of equal scores, the first.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 7.0, 7.0]]
    >>> tg.function(lambda: tg.non_max_suppression(boxes, [0.5, 0.9, 0.3], 2)).sync()
    array([1, 2], dtype=int32)
    """
    return apply("NonMaxSuppression", boxes, scores, max_output_size, iou_threshold, score_threshold, name=name)


class _Limits(NamedTuple):
    """Scalar inputs of SoftNonMaxSuppression: number of boxes, both thresholds, and scale of the overlap."""

    most: Array
    iou: Array
    least: Array
    sigma: Array


def _suppress_softly(boxes: Array, scores: Array, limits: _Limits) -> tuple[Array, Array]:
    """Choose the best box again and again, and lower the scores of boxes that overlap with a chosen box."""
    if boxes.shape != (*scores.shape, 4) or scores.ndim != 1:
        raise ValueError(f"non_max_suppression: boxes {boxes.shape} and scores {scores.shape} are not [n, 4] and [n]")
    corners = np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1)
    left, current = np.arange(len(scores)), np.array(scores)
    most, iou, least, sigma = limits
    kept: list[Any] = []
    kept_scores: list[Any] = []
    # Each choice changes scores: the best is searched anew, not sorted once as in `_compute_suppression`.
    while len(kept) < most:
        left = left[current[left] > least]
        if not left.size:
            break
        best = left[np.argmax(current[left])]  # of equal scores, the first
        kept.append(best)
        kept_scores.append(current[best])
        left = left[left != best]
        overlap = _intersection_over_union(corners[best], corners[left])
        # A Gaussian of the overlap with TensorFlow's scale: the paper's exponent has no factor 1/2.
        factors = np.exp(-(overlap**2) / (2 * sigma)) if sigma > 0 else np.ones_like(overlap)
        # Beyond `iou` a box is suppressed as a whole, as in `_compute_suppression`.
        current[left] *= np.where(overlap <= iou, factors, 0)
        left = left[overlap <= iou]
    return np.asarray(kept, np.int32), np.asarray(kept_scores, scores.dtype)


def _softly_selected_shapes(op: Operation) -> list[Shape]:
    only_scalars(op, 5)
    return [_selected_shape(op), Shape([None])]


_PAIR = f32([[0, 0, 1, 1], [0, 0, 1, 0.5], [3, 3, 4, 4]])
define(
    "SoftNonMaxSuppression",
    "boxes: host T, scores: host T, most: host int32, iou: host T, least: host T, sigma: host T"
    " -> selected: host int32, kept_scores: host T",
    where={"T": dtypes.FLOATING},
    shape=_softly_selected_shapes,
    rules=[
        Vectorize(one_by_one),
        ReadsValues(),
        Elements(lambda boxes, scores, most, *_: boxes.size * min(int(most), len(scores))),
    ],
    kernel=lambda xp, boxes, scores, *limits: _suppress_softly(boxes, scores, _Limits(*limits)),
    gradient=NotDifferentiable("it chooses boxes"),
    samples=[
        Sample(
            [_PAIR, f32([0.9, 0.8, 0.5]), np.int32(9), np.float32(1), np.float32(0), np.float32(0.5)],
            (i32([0, 1, 2]), f32([0.9, 0.8 * np.exp(-0.25), 0.5])),
        ),
        Sample(
            [_PAIR, f32([0.9, 0.8, 0.5]), np.int32(9), np.float32(0.4), np.float32(0), np.float32(0)],
            (i32([0, 2]), f32([0.9, 0.5])),
        ),
    ],
)


@public
def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose boxes by scores that decay with the overlap with better boxes (Bodla et al., 2017).

    Parameters
    ----------
    boxes, scores, max_output_size, iou_threshold, score_threshold
        As for `non_max_suppression`; an `iou_threshold` of 1 drops no box for its overlap, and only decays scores.
    soft_nms_sigma : scalar of the dtype of `scores`
        Each chosen box multiplies the scores of the others by ``exp(-iou**2 / (2 * sigma))``; 0 leaves scores alone.

    Returns
    -------
    selected_indices : int32 Tensor
        Indices of the chosen boxes, the best first.
    selected_scores : Tensor
        Scores of the boxes at the time of their choice.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.0], [5.0, 5.0, 7.0, 7.0]]
    >>> chosen, scores = tg.function(
    ...     lambda: tg.non_max_suppression_with_scores(boxes, [0.9, 0.8, 0.7], 3, 1.0, soft_nms_sigma=0.5)
    ... ).sync()
    >>> chosen.tolist(), scores.round(3).tolist()
    ([0, 2, 1], [0.8999999761581421, 0.699999988079071, 0.6230000257492065])
    """
    given = (boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma)
    selected, kept = apply("SoftNonMaxSuppression", *given, name=name)
    return selected, kept


@public
def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose boxes as `non_max_suppression` does, and count them; padding fixes the length of the result.

    Parameters
    ----------
    boxes, scores, max_output_size, iou_threshold, score_threshold
        As for `non_max_suppression`.
    pad_to_max_output_size : bool
        Add zeros up to `max_output_size`.

    Returns
    -------
    selected_indices : int32 Tensor
        Indices of the chosen boxes, the best first, then zeros with padding.
    valid_outputs : int32 scalar Tensor
        Number of chosen boxes.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 7.0, 7.0]]
    >>> padded = tg.function(lambda: tg.non_max_suppression_padded(boxes, [0.5, 0.9, 0.3], 4, 0.5, 0.0, True))
    >>> padded.sync()
    (array([1, 2, 0, 0], dtype=int32), array(2, dtype=int32))
    """
    selected = non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold, name)
    count = size_along(selected, 0)
    if pad_to_max_output_size:
        most = convert_to_tensor(max_output_size, dtypes.int32)
        selected = pad(selected, stack([stack([0, most - count])]))
        # The static shape of the padding is unknown, but with it the length is always `most`.
        known = static_value(most)
        selected.set_shape([None if known is None else int(known)])
    return selected, count

"""Pixels and weights of resized images, along an axis.

Pixels belong to the image before resizing, places to the image after resizing.

Positions are computed in float32, as TensorFlow computes them: rounding decides which pixel is
nearest to a position halfway between two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.literals import Array

_STEPS = 1024  # cubic weights use positions rounded to this fraction of a pixel, as in TensorFlow


@dataclass(frozen=True, slots=True)
class Taps:
    """Pixels, and their weights, whose sum is the value of each place.

    Attributes
    ----------
    indices : int array of shape [places, n]
        Indices of pixels.
    weights : float array of the same shape
    """

    indices: Array
    weights: Array

    def transpose_taps(self, size: int) -> Taps:
        """Return the transpose: for each of `size` pixels the places that include the pixel, and the weights."""
        # Weight 0 marks surplus columns, and pixels outside of the image.
        used = self.weights != 0
        pixels, weights = self.indices[used], self.weights[used]
        places = np.broadcast_to(np.arange(len(used))[:, None], used.shape)[used]
        order = np.argsort(pixels, kind="stable")
        counts = np.bincount(pixels, minlength=size)
        # In the order of pixels, column n holds the n-th place of a pixel; surplus columns keep weight 0.
        columns = np.arange(pixels.size) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (size, max(1, counts.max(initial=0)))
        result = Taps(np.zeros(shape, np.intp), np.zeros(shape))
        result.indices[pixels[order], columns] = places[order]
        result.weights[pixels[order], columns] = weights[order]
        return result


@dataclass(frozen=True, slots=True)
class _Axis:
    """Correspondence of the pixels of an image and of the places of the resized image, along an axis."""

    before: int
    after: int
    align_corners: bool
    half_pixel_centers: bool

    @property
    def scale(self) -> Any:
        """Distance of neighbouring places, in pixels."""
        if self.align_corners and self.after > 1:
            return np.float32(self.before - 1) / np.float32(self.after - 1)
        return np.float32(self.before) / np.float32(self.after)

    def places(self, half: float) -> Array:
        """Return the indices of the places, shifted by `half` if pixels have half-pixel centres."""
        return np.arange(self.after, dtype=np.float32) + np.float32(half if self.half_pixel_centers else 0)

    def positions(self) -> Array:
        """Return the positions of the places, in pixels."""
        shift = np.float32(0.5 if self.half_pixel_centers else 0)
        found: Array = self.places(0.5) * self.scale - shift
        return found

    def bound(self, indices: Array) -> Array:
        """Return the indices, clipped to the pixels of the image."""
        return np.clip(indices, 0, self.before - 1).astype(np.intp)


def _nearest_taps(axis: _Axis) -> Taps:
    positions = axis.places(0.5) * axis.scale
    indices = np.floor(positions + np.float32(0.5) if axis.align_corners else positions)
    return Taps(axis.bound(indices)[:, None], np.ones((axis.after, 1)))


def _linear_taps(axis: _Axis) -> Taps:
    positions = axis.positions()
    low = np.floor(positions)
    part = positions - low
    # A position outside of the image has the border as both pixels, so that the border's value is repeated.
    indices = np.stack([axis.bound(low), axis.bound(np.ceil(positions))], 1)
    return Taps(indices, np.stack([1 - part, part], 1).astype(np.float64))


def _cubic_taps(axis: _Axis) -> Taps:
    """Weigh four pixels by Keys's cubic (Keys, 1981): a = -0.5 with half-pixel centres, else a = -0.75."""
    positions = axis.positions()
    low = np.floor(positions)
    part = np.rint((positions - low) * np.float32(_STEPS)).astype(np.float64)[:, None] / _STEPS
    a = -0.5 if axis.half_pixel_centers else -0.75
    # Distances of the position to the two adjacent pixels, and to the two after these.
    near, far = np.concatenate([part, 1 - part], 1), np.concatenate([1 + part, 2 - part], 1)
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    # Pixels low - 1, low, low + 1 and low + 2.
    weights = np.stack([outer[:, 0], inner[:, 0], inner[:, 1], outer[:, 1]], 1)
    wanted = low[:, None] + np.arange(-1, 3)
    indices = axis.bound(wanted)
    # As in TensorFlow: half-pixel centres leave out pixels outside of the image, otherwise the border is repeated.
    if axis.half_pixel_centers:
        weights = np.where(indices == wanted, weights, 0)
        weights /= weights.sum(1, keepdims=True)
    return Taps(indices, weights)


def _area_taps(axis: _Axis) -> Taps:
    """Average the pixels under each place, weighted by their covered fractions."""
    scale = axis.scale
    if not scale:  # with corners aligned to the only pixel, which TensorFlow makes NaN
        return _nearest_taps(axis)
    start, stop = axis.places(0) * scale, (axis.places(0) + np.float32(1)) * scale
    first = np.floor(start)
    count = int((np.ceil(stop) - first).max(initial=0))
    pixels = first[:, None] + np.arange(count, dtype=np.float32)
    # Negative for pixels beyond the end of a place: `count` fits the place with the most pixels.
    covered = np.minimum(pixels + 1, stop[:, None]) - np.maximum(pixels, start[:, None])
    return Taps(axis.bound(pixels), np.maximum(covered, 0).astype(np.float64) / np.float64(scale))


_METHODS: dict[str, Callable[[_Axis], Taps]] = {
    "nearest": _nearest_taps,
    "bilinear": _linear_taps,
    "bicubic": _cubic_taps,
    "area": _area_taps,
}
METHODS = tuple(_METHODS)


def taps(before: int, after: int, method: str, align_corners: bool, half_pixel_centers: bool) -> Taps:
    """Return the pixels and weights of the places of an image resized along an axis.

    Parameters
    ----------
    before, after : int
        Number of pixels of the image, and of the resized image.
    method : str
        A name of `METHODS`.
    align_corners : bool
        Align the centres of the first and of the last pixels of both images.
    half_pixel_centers : bool
        Centre pixels at 0.5, 1.5, ..., which aligns the borders of both images.
    """
    return _METHODS[method](_Axis(before, after, align_corners, half_pixel_centers))

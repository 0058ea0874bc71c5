"""Which pixels an enlarged or reduced image is made of, along one axis, and with what weights.

Positions are computed in float32, as TensorFlow computes them: where a position is halfway between pixels, rounding
decides which is nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.literals import Array

_STEPS = 1024  # cubic weights are those of positions rounded to so many to a pixel, as in TensorFlow


@dataclass(frozen=True, slots=True)
class Taps:
    """What each place is a weighted sum of.

    Attributes
    ----------
    indices : int array of shape [places, n]
        The pixels.
    weights : float array of the same shape
    """

    indices: Array
    weights: Array

    def transposed(self, size: int) -> Taps:
        """Return, for each of so many pixels, of which places it is part, and with what weights."""
        used = self.weights != 0
        pixels, weights = self.indices[used], self.weights[used]
        places = np.broadcast_to(np.arange(len(used))[:, None], used.shape)[used]
        order = np.argsort(pixels, kind="stable")
        counts = np.bincount(pixels, minlength=size)
        columns = np.arange(pixels.size) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (size, max(1, counts.max(initial=0)))
        result = Taps(np.zeros(shape, np.intp), np.zeros(shape))
        result.indices[pixels[order], columns] = places[order]
        result.weights[pixels[order], columns] = weights[order]
        return result


@dataclass(frozen=True, slots=True)
class _Axis:
    """How pixels of two images correspond along an axis."""

    before: int
    after: int
    align_corners: bool
    half_pixel_centers: bool

    @property
    def scale(self) -> Any:
        """Pixels from one place to the next."""
        if self.align_corners and self.after > 1:
            return np.float32(self.before - 1) / np.float32(self.after - 1)
        return np.float32(self.before) / np.float32(self.after)

    def places(self, half: float) -> Array:
        """Return the numbers of the places; `half` is added where pixels have their centres."""
        return np.arange(self.after, dtype=np.float32) + np.float32(half if self.half_pixel_centers else 0)

    def positions(self) -> Array:
        """Return where the places are, in pixels."""
        shift = np.float32(0.5 if self.half_pixel_centers else 0)
        found: Array = self.places(0.5) * self.scale - shift
        return found

    def bound(self, indices: Array) -> Array:
        """Return the nearest pixels that there are."""
        return np.clip(indices, 0, self.before - 1).astype(np.intp)


def _nearest(axis: _Axis) -> Taps:
    positions = axis.places(0.5) * axis.scale
    indices = np.floor(positions + np.float32(0.5) if axis.align_corners else positions)
    return Taps(axis.bound(indices)[:, None], np.ones((axis.after, 1)))


def _linear(axis: _Axis) -> Taps:
    positions = axis.positions()
    low = np.floor(positions)
    part = positions - low
    indices = np.stack([axis.bound(low), axis.bound(np.ceil(positions))], 1)
    return Taps(indices, np.stack([1 - part, part], 1).astype(np.float64))


def _cubic(axis: _Axis) -> Taps:
    """Keys's kernel (Keys, 1981); with pixel centres that of a = -0.5, of pixels that there are, else of a = -0.75."""
    positions = axis.positions()
    low = np.floor(positions)
    part = np.rint((positions - low) * np.float32(_STEPS)).astype(np.float64)[:, None] / _STEPS
    a = -0.5 if axis.half_pixel_centers else -0.75
    near, far = np.concatenate([part, 1 - part], 1), np.concatenate([1 + part, 2 - part], 1)
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    weights = np.stack([outer[:, 0], inner[:, 0], inner[:, 1], outer[:, 1]], 1)
    wanted = low[:, None] + np.arange(-1, 3)
    indices = axis.bound(wanted)
    if axis.half_pixel_centers:
        weights = np.where(indices == wanted, weights, 0)
        weights /= weights.sum(1, keepdims=True)
    return Taps(indices, weights)


def _area(axis: _Axis) -> Taps:
    """Each place is the mean of the pixels under it, by how much of them is."""
    scale = axis.scale
    if not scale:  # with corners aligned to the only pixel, which TensorFlow makes NaN
        return _nearest(axis)
    start, stop = axis.places(0) * scale, (axis.places(0) + np.float32(1)) * scale
    first = np.floor(start)
    count = int((np.ceil(stop) - first).max(initial=0))
    pixels = first[:, None] + np.arange(count, dtype=np.float32)
    covered = np.minimum(pixels + 1, stop[:, None]) - np.maximum(pixels, start[:, None])
    return Taps(axis.bound(pixels), np.maximum(covered, 0).astype(np.float64) / np.float64(scale))


_METHODS: dict[str, Callable[[_Axis], Taps]] = {
    "nearest": _nearest,
    "bilinear": _linear,
    "bicubic": _cubic,
    "area": _area,
}
METHODS = tuple(_METHODS)


def taps(before: int, after: int, method: str, align_corners: bool, half_pixel_centers: bool) -> Taps:
    """Return what the places of an image resized along an axis are made of.

    Parameters
    ----------
    before, after : int
        Pixels of the image, and of the resized one.
    method : str
        One of `METHODS`.
    align_corners : bool
        The centres of the first and of the last pixels are the same in both.
    half_pixel_centers : bool
        Pixels have their centres at 0.5, 1.5, ..., so that the borders of the images are the same.
    """
    return _METHODS[method](_Axis(before, after, align_corners, half_pixel_centers))

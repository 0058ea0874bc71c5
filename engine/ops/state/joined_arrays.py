"""Several arrays made one, each copied once: straight from where it is, though that may not be the device's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ...kernels.memory.swappable import SwappableArray

Array = np.ndarray[Any, Any]


def stacked(xp: Any, values: list[Any]) -> Array:
    """Do what `numpy.stack` does, without a view of each value."""
    if any(isinstance(value, SwappableArray) for value in values):
        count = len(values)
        return _gathered(xp, values, (count, *values[0].shape), lambda result: [result[k, ...] for k in range(count)])
    if values[0].size == 0 or values[0].ndim == 0:
        return xp.stack(values)  # type: ignore[no-any-return]
    return xp.concatenate(values).reshape(len(values), *values[0].shape)  # type: ignore[no-any-return]


def concatenated(xp: Any, values: list[Any]) -> Array:
    """Do what `numpy.concatenate` does, with values that may be elsewhere."""
    if not any(isinstance(value, SwappableArray) for value in values):
        return xp.concatenate(values)  # type: ignore[no-any-return]
    bounds = [0, *accumulate(value.shape[0] for value in values)]
    shape = (bounds[-1], *values[0].shape[1:])
    return _gathered(xp, values, shape, lambda result: [result[a:b] for a, b in pairwise(bounds)])


def _gathered(xp: Any, values: list[Any], shape: tuple[int, ...], pieces: Callable[[Array], Iterable[Array]]) -> Array:
    """Return an array whose pieces are the values, each copied straight from where it is."""
    result: Array = xp.empty(shape, values[0].dtype)
    for piece, value in zip(pieces(result), values, strict=True):
        if isinstance(value, SwappableArray):
            value.copy_to(piece)
        else:
            piece[...] = value
    return result

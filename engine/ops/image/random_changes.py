"""Random changes of brightness, contrast, hue and saturation, and random flips of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...ir.apply import apply
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.broadcasting import broadcast_to
from ..array.concat import concat
from ..math.random import random_uniform
from ..support.arguments import known_rank
from ..support.common import shape_of
from .adjusting import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation
from .transforms import flip_left_right, flip_up_down, image_tensor


def _check_random_range(low: Any, high: Any, what: str, least: float = 0.0) -> None:
    """Refuse bounds of a random amount that are no numbers, too small, or in the wrong order."""
    if not all(isinstance(each, (int, float, np.number)) for each in (low, high)) or not least <= low < high:
        raise GraphError(
            f"{what} is drawn from a range",
            wanted=f"two numbers of at least {least:g}, the smaller first",
            got=f"{low} and {high}",
            hint="as 0.5, 1.5",
        )


def _read_max_delta(max_delta: Any, limit: float) -> float:
    if not isinstance(max_delta, (int, float, np.number)) or not 0 <= max_delta <= limit:
        raise GraphError(
            "'max_delta' is the largest change", wanted=f"a number from 0 to {limit:g}", got=max_delta, hint="as 0.1"
        )
    return float(max_delta)


@public
def random_brightness(image: Any, max_delta: float, seed: int | None = None, name: str | None = None) -> Tensor:
    """Add the same random number to all pixels: `adjust_brightness` from ``-max_delta`` to `max_delta`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype
    max_delta : float
        At least 0.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If `max_delta` is negative.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> found = tg.function(lambda: tg.random_brightness(np.zeros(3), 0.5)).sync()
    >>> bool(abs(found[0]) <= 0.5), bool(found[0] == found[2])
    (True, True)
    """
    most = _read_max_delta(max_delta, float("inf"))
    return adjust_brightness(image, random_uniform([], -most, most, seed=seed), name=name)


@public
def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None, name: str | None = None) -> Tensor:
    """Stretch the contrast of images by a random factor: `adjust_contrast` from `lower` to `upper`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., height, width, channels]
    lower, upper : float
        At least 0.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If the bounds are negative, or in the wrong order.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_contrast([[[1.0], [3.0]]], 0.0, 1.0)).sync().ravel()
    >>> bool(1 <= found[0] <= found[1] <= 3)
    True
    """
    _check_random_range(lower, upper, "a contrast")
    return adjust_contrast(image, random_uniform([], float(lower), float(upper), seed=seed), name=name)


@public
def random_hue(image: Any, max_delta: float, seed: int | None = None, name: str | None = None) -> Tensor:
    """Turn the hue of all pixels by the same random angle: `adjust_hue` from ``-max_delta`` to `max_delta`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
    max_delta : float
        From 0 to 0.5.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If `max_delta` is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.random_hue([[0.5, 0.5, 0.5]], 0.5)).sync()  # grey has no hue
    array([[0.5, 0.5, 0.5]], dtype=float32)
    """
    # Half a turn in both directions reaches every hue.
    most = _read_max_delta(max_delta, 0.5)
    return adjust_hue(image, random_uniform([], -most, most, seed=seed), name=name)


@public
def random_saturation(
    image: Any, lower: float, upper: float, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Multiply the saturation of all pixels by a random factor: `adjust_saturation` from `lower` to `upper`.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [..., 3]
    lower, upper : float
        At least 0.
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If the bounds are negative, or in the wrong order.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_saturation([[0.8, 0.4, 0.4]], 0.0, 1.0)).sync()[0]
    >>> round(float(found[0]), 3), bool(0.4 <= found[1] <= 0.8)
    (0.8, True)
    """
    _check_random_range(lower, upper, "a saturation")
    return adjust_saturation(image, random_uniform([], float(lower), float(upper), seed=seed), name=name)


def _change_half(image: Any, change: Callable[[Any], Tensor], seed: int | None, name: str | None) -> Tensor:
    """Return each image changed with a probability of a half, otherwise unchanged."""
    x = image_tensor(image)
    rank = known_rank(x, "a random flip")
    # A draw for each image: the last three dimensions are 1 and broadcast.
    draws = random_uniform(concat([shape_of(x)[: rank - 3], [1, 1, 1]], 0), seed=seed)
    chosen = broadcast_to(apply("Less", draws, 0.5), shape_of(x))
    return apply("Where", chosen, change(x), x, name=name)


@public
def random_flip_left_right(image: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Turn each image around, left to right, with a probability of a half.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels] and known rank
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape; each image of a batch has a draw of its own.

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_flip_left_right([[[1], [2]]])).sync().ravel().tolist()
    >>> found in ([1, 2], [2, 1])
    True
    """
    return _change_half(image, flip_left_right, seed, name)


@public
def random_flip_up_down(image: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Turn each image upside down with a probability of a half.

    Parameters
    ----------
    image : Tensor of any dtype, of shape [..., height, width, channels] and known rank
    seed : int, optional
        As for :func:`random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape; each image of a batch has a draw of its own.

    Raises
    ------
    ShapeError
        If the rank is less than 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> found = tg.function(lambda: tg.random_flip_up_down([[[1]], [[2]]])).sync().ravel().tolist()
    >>> found in ([1, 2], [2, 1])
    True
    """
    return _change_half(image, flip_up_down, seed, name)

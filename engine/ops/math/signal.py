"""Signals: shifted spectra, windows, frames, and sums of overlapping frames."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DtypeError, ShapeError
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import axis_within, index_tensor, known_rank, static_int, static_ints
from ..support.common import dimension_of
from .spectra import fit_sizes


def _roll_by_half(x: Any, axes: Any, forward: bool, name: str | None) -> Tensor:
    """Roll dimensions forward by half their size, rounded down, or back."""
    tensor = convert_to_tensor(x)
    rank = known_rank(tensor, "fftshift")
    for axis in range(rank) if axes is None else static_ints(axes, "axes"):
        size = dimension_of(tensor, at := axis_within(axis, rank, "axes"))
        # Rolled forward by size // 2, the first element is the one at size - size // 2.
        middle = size - size // 2 if forward else size // 2
        before = (slice(None),) * at
        halves = [tensor[(*before, slice(middle, None))], tensor[(*before, slice(None, middle))]]
        tensor = apply("Concat", halves, axis=at)
    return apply("Identity", tensor, name=name)


@public
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Move frequency 0 from the start to the middle.

    Parameters
    ----------
    x : Tensor of any dtype and known rank
    axes : int or sequence of int, optional
        Dimensions to shift; all when None.

    Returns
    -------
    Tensor
        Of the same dtype and shape.

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.fftshift([0, 1, 2, -2, -1])).sync()
    array([-2, -1,  0,  1,  2], dtype=int32)
    """
    return _roll_by_half(x, axes, True, name)


@public
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Undo `fftshift`: move the middle to the start.

    Parameters
    ----------
    x : Tensor of any dtype and known rank
    axes : int or sequence of int, optional
        Dimensions to shift; all when None.

    Returns
    -------
    Tensor
        Of the same dtype and shape.

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.ifftshift([-2, -1, 0, 1, 2])).sync()
    array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    return _roll_by_half(x, axes, False, name)


def _cosine_window(length: Any, periodic: bool, dtype: Any, mean: float, name: str | None) -> Tensor:
    """Return ``mean - (1 - mean) * cos(...)`` over a period; odd lengths are symmetric even if `periodic`."""
    size, kind = static_int(length, "window_length"), dtypes.as_dtype(dtype)
    if not kind.is_floating:
        raise DtypeError("a window is of a floating dtype", wanted="float32, say", got=kind, hint="cast it")
    if size < 1:
        raise ShapeError("a window has to have a length", wanted="1 or more", got=size, hint="see window_length")
    period = size if periodic and size % 2 == 0 else size - 1
    angles = 2 * np.pi * np.arange(size) / max(period, 1)
    values = mean - (1 - mean) * np.cos(angles) if size > 1 else np.ones(1)
    return constant(values.astype(kind.numpy), name=name)


@public
def hann_window(window_length: int, periodic: bool = True, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """Hann window, a raised cosine from 0.

    Parameters
    ----------
    window_length : int
    periodic : bool
        Leave out the last point, which is the first of the next period. Odd lengths are symmetric in any case, as in
        TensorFlow.
    dtype : dtype-like
        A floating dtype.

    Returns
    -------
    Tensor
        Of `dtype` and shape [window_length].

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.hann_window(4)).sync()
    array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _cosine_window(window_length, periodic, dtype, 0.5, name)


@public
def hamming_window(
    window_length: int, periodic: bool = True, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Hamming window, a raised cosine from 0.08.

    Parameters
    ----------
    window_length, periodic, dtype
        As for `hann_window`.

    Returns
    -------
    Tensor
        Of `dtype` and shape [window_length].

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.hamming_window(4)).sync()
    array([0.08, 0.54, 1.  , 0.54], dtype=float32)
    """
    return _cosine_window(window_length, periodic, dtype, 0.54, name)


def positive_int(value: Any, what: str) -> int:
    """Return a static integer of 1 or more; raise ShapeError, which calls the argument `what`, for others."""
    number = static_int(value, what)
    if number < 1:
        raise ShapeError(f"{what} has to be positive", wanted="1 or more", got=number, hint="give a count of samples")
    return number


@public
def frame(
    signal: Any,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Cut a dimension into frames, which overlap if their step is less than their length.

    Parameters
    ----------
    signal : Tensor of any numeric dtype and known rank
    frame_length, frame_step : int
        Samples per frame, and between the starts of consecutive frames.
    pad_end : bool
        Pad the last frames with `pad_value`, so that frames begin at every step of the signal; otherwise samples after
        the last whole frame are left out.
    pad_value : scalar
    axis : int

    Returns
    -------
    Tensor
        Of the same dtype, with the dimension replaced by two, [frames, frame_length].

    Raises
    ------
    ShapeError
        If there is no such axis, or a length or step is not positive.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.frame([1, 2, 3, 4, 5], frame_length=3, frame_step=2)).sync()
    array([[1, 2, 3],
           [3, 4, 5]], dtype=int32)
    """
    x, length = convert_to_tensor(signal), positive_int(frame_length, "frame_length")
    step = positive_int(frame_step, "frame_step")
    rank = known_rank(x, "frame")
    at = axis_within(static_int(axis), rank)
    size = dimension_of(x, at)
    if pad_end:
        # A frame begins at each step within the signal; padding completes the last ones.
        count = -(-size // step)
        missing = _at_least_0(length + step * (count - 1) - size)
        x = apply("Pad", x, index_tensor([[0, missing if i == at else 0] for i in range(rank)]), pad_value)
    else:
        count = _at_least_0((size - length + step) // step)
    return _gather_frames(x, at, count, length, step, name)


def _at_least_0(number: Any) -> Any:
    return max(0, number) if isinstance(number, int) else apply("Maximum", number, 0)


def _gather_frames(x: Tensor, axis: int, count: Any, length: int, step: int, name: str | None) -> Tensor:
    """Gather frames in pieces of the common divisor of length and step: fewer indices than single samples."""
    piece = math.gcd(length, step)
    # Frames begin and end at whole pieces, so that no frame has the remaining samples.
    used = dimension_of(x, axis) // piece
    before = (slice(None),) * axis
    rows = x[(*before, slice(None, used * piece))]
    dims = [dimension_of(x, i) for i in range(len(x.shape))]
    rows = apply("Reshape", rows, index_tensor([*dims[:axis], used, piece, *dims[axis + 1 :]]))
    # In pieces: frames begin step // piece pieces apart.
    starts = apply("Range", constant(np.int32(0)), _as_int32(count), constant(np.int32(1))) * (step // piece)
    places = apply("ExpandDims", starts, axis=-1) + constant(np.arange(length // piece, dtype=np.int32))
    frames = apply("Gather", rows, places, axis=axis)
    return apply("Reshape", frames, index_tensor([*dims[:axis], count, length, *dims[axis + 1 :]]), name=name)


def _as_int32(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else constant(np.int32(value))


@public
def overlap_and_add(signal: Any, frame_step: int, name: str | None = None) -> Tensor:
    """Place the starts of consecutive frames `frame_step` apart, and add overlapping samples.

    Parameters
    ----------
    signal : Tensor of any numeric dtype, of shape [..., frames, frame_length], known except the number of frames
    frame_step : int

    Returns
    -------
    Tensor
        Of the same dtype and shape [..., (frames - 1) * frame_step + frame_length].

    Raises
    ------
    ShapeError
        If there is no dimension of frames, or the step is not positive.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.overlap_and_add([[1, 2, 3], [10, 20, 30]], frame_step=2)).sync()
    array([ 1,  2, 13, 20, 30], dtype=int32)
    """
    x, step = convert_to_tensor(signal), positive_int(frame_step, "frame_step")
    rank = known_rank(x, "overlap_and_add")
    if rank < 2:
        raise ShapeError("there have to be frames", wanted="rank 2 or more", got=x.shape, hint="see `frame`")
    *dims, frames, length = (dimension_of(x, i) for i in range(rank))
    parts = -(-length // step)
    rows = frames + parts - 1
    # Part k of each frame goes k steps further: its rows, one more than there are places, begin k places later.
    x = fit_sizes(x, [frames + parts, parts * step])
    x = apply("Reshape", x, index_tensor([*dims, frames + parts, parts, step]))
    x = apply("Transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2, rank))
    x = apply("Reshape", x, index_tensor([*dims, parts * (frames + parts), step]))
    x = fit_sizes(x, [parts * rows, step])
    x = apply("Sum", apply("Reshape", x, index_tensor([*dims, parts, rows, step])), axis=(-3,))
    x = apply("Reshape", x, index_tensor([*dims, rows * step]))
    return apply("Identity", fit_sizes(x, [(frames - 1) * step + length]), name=name)

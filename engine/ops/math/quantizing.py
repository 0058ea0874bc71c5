"""Quantization of floats to integers of few bits and back, and products of quantized matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import DtypeError
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import axis_within, index_tensor, known_rank, one_of, static_int
from .elementwise import abs, floor, sign
from .linear import matmul

MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
ROUNDINGS = ("HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN")
QUANTIZED = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32)


class Quantized(NamedTuple):
    """Integers that represent real numbers.

    Attributes
    ----------
    output : Tensor of an integer dtype
    output_min, output_max : Tensor of dtype float32
        Numbers represented by the smallest and the largest integer.

    Examples
    --------
    >>> import tagloom as tg
    >>> result = tg.function(lambda: tg.quantize([0.0, 0.5, 1.0], 0.0, 1.0, "uint8")).sync()
    >>> result.output, result.output_max
    (array([  0, 128, 255], dtype=uint8), array(1., dtype=float32))
    """

    output: Any
    output_min: Any
    output_max: Any


def _quantized_dtype(dtype: Any) -> DType:
    """Return a dtype of quantized integers; raise DtypeError for others."""
    wanted = dtypes.as_dtype(dtype)
    if wanted not in QUANTIZED:
        raise DtypeError(
            "no dtype to quantize to",
            wanted=" or ".join(d.name for d in QUANTIZED),
            got=wanted,
            hint="TensorFlow's quint8 is uint8 here, qint32 int32",
        )
    return wanted


def _bits_of_dtype(dtype: DType) -> int:
    return np.dtype(dtype.numpy).itemsize * 8


def _round_away(x: Tensor) -> Tensor:
    """Round to the nearest whole number, halves away from zero."""
    size = abs(x)
    # `floor(size + 0.5)` would round 0.49999997 up, because this sum is 1 in float32
    whole = floor(size)
    return sign(x) * (whole + apply("Cast", size - whole >= 0.5, dtype=x.dtype))


def _range_ends(min_range: Any, max_range: Any, x: Tensor, axis: int | None, wide: DType) -> tuple[Tensor, Tensor]:
    """Return the ends of the range in dtype `wide`, shaped to broadcast with slices along `axis`."""
    low, high = (apply("Cast", convert_to_tensor(r, None), dtype=wide) for r in (min_range, max_range))
    if axis is None:
        return low, high
    rank = known_rank(x, "a range for each slice")
    # dimensions of size 1 after the axis let the ends broadcast with the slices
    after = [1] * (rank - 1 - axis_within(axis, rank))
    shape = index_tensor([-1, *after])
    return apply("Reshape", low, shape), apply("Reshape", high, shape)


def _slice_axis(axis: Any) -> int | None:
    return None if axis is None or static_int(axis) == -1 else static_int(axis)


def _scaled_range(low: Tensor, high: Tensor, least: int, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scale of SCALED, which maps 0 to 0, and the resulting ends of the range."""
    # An end without numbers of its sign limits no scale: the largest number stands for infinity.
    largest = float(np.finfo(low.dtype.numpy).max)
    from_low = apply("Where", low * least > 0, least / apply("Where", low * least > 0, low, 1), largest)
    from_high = apply("Where", high * most > 0, most / apply("Where", high * most > 0, high, 1), largest)
    scale = apply("Minimum", from_low, from_high)
    return scale, least / scale, most / scale


def _first_range(low: Tensor, high: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return the steps per unit of a MIN_FIRST range, and its smallest number in whole steps."""
    steps = float(1 << bits)
    # equal to (steps - 1) / (high - low) except in the last digit, where TensorFlow's order of operations decides
    scale = steps / ((high - low) * (steps / (steps - 1)))
    return scale, _round_away(low * scale)


@public
def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Quantized:
    """Quantize floats in a range to integers.

    Parameters
    ----------
    input : float32 Tensor
    min_range, max_range : float32 scalars, or vectors with one for each slice along `axis`
        The range, widened to include 0 and to have the least width. Numbers outside are clipped.
    T : dtype-like
        int8, uint8, int16, uint16 or int32.
    mode : {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'}
        The first two map the least number to the smallest integer; MIN_FIRST moves the range so that an integer
        represents 0. SCALED maps 0 to 0, so that ranges of signed dtypes are symmetric.
    round_mode : {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'}
        'HALF_TO_EVEN' is only for SCALED.
    narrow_range : bool
        Leave the smallest integer out; for SCALED.
    axis : int, optional
        Axis of slices with separate ranges, counted from the front; -1 is None, as in TensorFlow.
    ensure_minimum_range : float
        Least width of the range, relative to the largest of 1 and the magnitudes of its ends.

    Returns
    -------
    Quantized
        ``output, output_min, output_max``.

    Raises
    ------
    DtypeError
        If `T` is none of these dtypes.
    GraphError
        If there is no such mode or rounding, or only SCALED supports the rounding.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.quantize([-1.0, 0.0, 0.3], -1.0, 0.5, "int8", mode="SCALED").output).sync()
    array([-128,    0,   38], dtype=int8)
    """
    target = _quantized_dtype(T)
    one_of(mode, MODES, "mode")
    one_of(round_mode, ROUNDINGS if mode == "SCALED" else ROUNDINGS[:1], f"round_mode of {mode}")
    # float32 does not represent all int32.
    wide = dtypes.float64 if target is dtypes.int32 else dtypes.float32
    x = convert_to_tensor(input, dtypes.float32)
    low, high = _range_ends(min_range, max_range, x, _slice_axis(axis), wide)
    # a least width, relative to the ends: a range of width 0 would divide by 0
    given = apply("Maximum", apply("Maximum", abs(low), abs(high)), 1) * ensure_minimum_range
    # the range always contains 0, as in TensorFlow
    low = apply("Minimum", low, 0)
    high = apply("Maximum", apply("Maximum", high, low + given), 0)
    value = apply("Cast", x, dtype=wide)
    least, most = int(target.min), int(target.max)
    if mode == "SCALED":
        scale, low, high = _scaled_range(low, high, least + bool(narrow_range), most)
        places = apply("Maximum", apply("Minimum", value, high), low) * scale
        places = apply("Rint", places) if round_mode == "HALF_TO_EVEN" else _round_away(places)
    elif mode == "MIN_FIRST":
        scale, start = _first_range(low, high, _bits_of_dtype(target))
        # counted from a rounded start, so that 0 is a whole number of steps
        places = _round_away(value * scale) - (start - least)
    else:
        scale = (most - least) / (high - low)
        inside = apply("Maximum", apply("Minimum", value, high), low) - low
        places = _round_away(inside * scale + least) if least else floor(inside * scale + 0.5)
    return _as_integers(places, target, (low, high), name)


def _as_integers(places: Tensor, target: DType, ends: tuple[Tensor, Tensor], name: str | None) -> Quantized:
    """Clip whole numbers to an integer dtype; return the integers with the ends of the range."""
    # the largest number first, for `Minimum`; then the smallest, for `Maximum`
    bounds = (constant(np.asarray(v).astype(places.dtype.numpy)) for v in (target.max, target.min))
    cut = apply("Maximum", apply("Minimum", places, next(bounds)), next(bounds))
    low, high = (apply("Reshape", apply("Cast", end, dtype=dtypes.float32), _end_shape(end)) for end in ends)
    return Quantized(apply("Cast", cut, name=name, dtype=target), low, high)


def _end_shape(end: Tensor) -> Tensor:
    """Return the shape of an end of a range in results: a vector of all slices, or a scalar."""
    return index_tensor([] if end.rank == 0 else [-1])


@public
def dequantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: Any = "float32",
) -> Tensor:
    """Convert integers from `quantize` back to floats in a range.

    Parameters
    ----------
    input : Tensor of dtype int8, uint8, int16, uint16 or int32
    min_range, max_range : float32 scalars, or vectors with one for each slice along `axis`
        Numbers represented by the smallest and the largest integer. Gradients reach both.
    mode : {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'}
        As for `quantize`.
    axis : int, optional
        Axis of slices with separate ranges, counted from the front; -1 is None.
    narrow_range : bool
        True if the smallest integer was left out; for SCALED.
    dtype : dtype-like
        float32 or bfloat16.

    Returns
    -------
    Tensor
        Of `dtype` and the shape of `input`.

    Raises
    ------
    DtypeError
        If `input` is of another dtype.
    GraphError
        If there is no such mode.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.dequantize(np.array([0, 51, 255], np.uint8), 0.0, 5.0)).sync()
    array([0., 1., 5.], dtype=float32)
    """
    one_of(mode, MODES, "mode")
    x = convert_to_tensor(input)
    target, wanted = _quantized_dtype(x.dtype), dtypes.as_dtype(dtype)
    one_of(wanted, (dtypes.float32, dtypes.bfloat16), "dtype")
    wide = dtypes.float64 if target is dtypes.int32 else dtypes.float32
    low, high = _range_ends(min_range, max_range, x, _slice_axis(axis), wide)
    value = apply("Cast", x, dtype=wide)
    least, most = int(target.min), int(target.max)
    if mode == "SCALED":
        scale = high / most
        if least:
            # the end that needs larger steps decides, as in `_scaled_range`
            scale = apply("Maximum", low / (least + bool(narrow_range)), scale)
        found = value * scale
    else:
        scale = (high - low) / (most - least)
        start = low
        if mode == "MIN_FIRST":
            # a range of width 0 has a scale of 0
            flat = apply("Equal", high, low)
            start = apply("Where", flat, low, _round_away(low / apply("Where", flat, 1, scale)) * scale)
        found = (value - least) * scale + start
    return apply("Cast", found, name=name, dtype=wanted)


def _one_level(low: Any, high: Any, dtype: DType) -> Tensor:
    """Return the difference between the numbers of adjacent integers, in float32."""
    width = convert_to_tensor(high, dtypes.float32) - convert_to_tensor(low, dtypes.float32)
    return width / float(int(dtype.max) - int(dtype.min))


def _zero_offset(low: Any, high: Any, dtype: DType) -> Tensor:
    """Return the integer that represents 0 by MIN_FIRST, the mode of matrix products."""
    low, high = (convert_to_tensor(v, dtypes.float32) for v in (low, high))
    _, start = _first_range(low, high, _bits_of_dtype(dtype))
    return int(dtype.min) - apply("Cast", start, dtype=dtypes.float64)


@public
def quantized_matmul(
    a: Any,
    b: Any,
    min_a: Any,
    max_a: Any,
    min_b: Any,
    max_b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Quantized:
    """Multiply matrices of quantized numbers with exact sums.

    A product takes about three times as long as in float32: quantization saves memory here, not time.

    Parameters
    ----------
    a, b : Tensor of dtype int8 or uint8, of rank 2 or more
        The dtypes may differ.
    min_a, max_a, min_b, max_b : float32 scalar
        Numbers represented by the smallest and the largest integers of `a` and `b`.
    transpose_a, transpose_b : bool
        As for `matmul`.

    Returns
    -------
    Quantized
        ``output, output_min, output_max``: int32, and the range represented by all int32. Larger sums are clipped to
        int32.

    Raises
    ------
    DtypeError
        If an operand has another dtype.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> a, b = np.array([[10, 20]], np.uint8), np.array([[3], [4]], np.uint8)
    >>> tg.function(lambda: tg.quantized_matmul(a, b, 0.0, 255.0, 0.0, 255.0).output).sync()
    array([[110]], dtype=int32)
    """
    x, y = convert_to_tensor(a), convert_to_tensor(b)
    for operand in (x, y):
        if operand.dtype not in (dtypes.int8, dtypes.uint8):
            raise DtypeError("bytes are multiplied", wanted="int8 or uint8", got=operand.dtype, hint="see `matmul`")
    # float64 has fast products in BLAS, and holds whole numbers up to 2 ** 53 exactly.
    left = apply("Cast", x, dtype=dtypes.float64) - _zero_offset(min_a, max_a, x.dtype)
    right = apply("Cast", y, dtype=dtypes.float64) - _zero_offset(min_b, max_b, y.dtype)
    sums = matmul(left, right, transpose_a, transpose_b)
    level = _one_level(min_a, max_a, x.dtype) * _one_level(min_b, max_b, y.dtype)
    kind = dtypes.int32
    return _as_integers(sums, kind, (level * float(kind.min), level * float(kind.max)), name)

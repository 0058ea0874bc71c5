"""Fake quantization for training: floats rounded to numbers represented by integers of few bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from ..support.common import sum_to
from ..support.families import keep_dtype
from ..support.literals import f64
from ..support.vectorizing.families import pointwise
from ..support.vectorizing.indexing import any_shared
from .elementwise import floor

_TWO_BYTES = (dtypes.float16, dtypes.bfloat16)


def _quantized_limits(num_bits: int, narrow_range: bool) -> tuple[int, int]:
    return int(narrow_range), (1 << num_bits) - 1


def _round_half_up(xp: Any, x: Any) -> Any:
    return xp.floor(x + 0.5)


def _nudge_range(xp: Any, low: Any, high: Any, num_bits: int, narrow_range: bool) -> tuple[Any, Any, Any]:
    """Return the step between representable numbers, and the ends of the range moved to make 0 representable."""
    least, most = _quantized_limits(num_bits, narrow_range)
    scale = (high - low) / (most - least)
    # An empty range would divide by 0; a step of 1 keeps its zero point finite.
    step = xp.where(scale == 0, xp.ones((), scale.dtype), scale)
    # A range without 0 is moved until its nearer end is 0.
    zero = _round_half_up(xp, xp.clip(least - low / step, least, most))
    return step, (least - zero) * step, (most - zero) * step


@keep_dtype
def _fake_quant(xp: Any, x: Any, low: Any, high: Any, num_bits: int, narrow_range: bool) -> Any:
    if x.dtype.itemsize == 2:  # the steps of 16 bits are finer than a 16-bit float resolves
        x, low, high = (t.astype(xp.float32) for t in (x, low, high))
    step, first, last = _nudge_range(xp, low, high, num_bits, narrow_range)
    inside = xp.maximum(xp.minimum(x, last), first) - first
    zero = _round_half_up(xp, -first / step)
    found = (_round_half_up(xp, inside / step) - zero) * step
    return xp.where((low == 0) & (high == 0), xp.zeros((), x.dtype), found)


def _nudged_ends(low: Tensor, high: Tensor, num_bits: int, narrow_range: bool) -> tuple[Tensor, Tensor]:
    """Return the ends of the moved range as tensors; infinite where both are 0, which cuts nothing off."""
    least, most = _quantized_limits(num_bits, narrow_range)
    scale = (high - low) / (most - least)
    step = apply("Where", apply("Equal", scale, 0), 1, scale)
    # Computed like `_nudge_range` does, so that gradients are cut off where the kernel cuts off.
    zero = floor(apply("Maximum", apply("Minimum", least - low / step, most), least) + 0.5)
    nothing = apply("LogicalAnd", apply("Equal", low, 0), apply("Equal", high, 0))
    first, last = (least - zero) * step, (most - zero) * step
    return apply("Where", nothing, -math.inf, first), apply("Where", nothing, math.inf, last)


def _fake_quant_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Pass cotangents straight through inside the range; outside it to the end that cut the number off."""
    x, *given = op.inputs
    wide = [apply("Cast", t, dtype=dtypes.float32) if t.dtype in _TWO_BYTES else t for t in (x, *given)]
    first, last = _nudged_ends(wide[1], wide[2], op.attrs["num_bits"], op.attrs["narrow_range"])
    # Compared in float32 like in the kernel: two-byte floats would round the ends.
    below, above = wide[0] < first, wide[0] > last
    by_x = apply("Where", apply("LogicalOr", below, above), 0, g)
    ends = zip(given, (below, above), strict=True)
    return [by_x, *(sum_to(apply("Where", outside, g, 0), end) for end, outside in ends)]


def _fake_quant_shape(op: Operation) -> Shape:
    """Return the shape of `x`; raise ShapeError if the ends of the range do not broadcast to it."""
    x = op.inputs[0].shape
    for end in op.inputs[1:]:
        if not x.is_compatible_with(x.broadcast(end.shape)):
            raise ShapeError(
                "a range does not fit what is quantized",
                wanted=f"a scalar, or one number for each of the last dimension of {x}",
                got=end.shape,
                operation=op,
                hint="transpose first, so that the channels are last",
            )
    return x


_X = f64([-2, -0.4, 0.1, 0.26, 3])

define(
    "FakeQuant",
    "x: T, low: T, high: T -> y: T",
    where={"T": dtypes.FLOATING},
    attrs={"num_bits": 8, "narrow_range": False},
    shape=_fake_quant_shape,
    rules=[Vectorize(any_shared((1, 2), pointwise))],
    kernel=_fake_quant,
    gradient=_fake_quant_gradient,
    samples=[  # the gradient is that of the line through the steps: see tests/ops/test_quantizing.py
        Sample([_X, f64(-0.5), f64(1)], f64([-0.5, -0.5, 0, 0.5, 1]), {"num_bits": 2}, False),
        Sample([_X, f64(0), f64(0)], np.zeros(5), {}, False),
        Sample([_X, f64(-1), f64(1)], f64([-1, 0, 0, 0, 1]), {"num_bits": 2, "narrow_range": True}, False),
        Sample([f64([[1, 1], [0.2, 9]]), f64([0, 0]), f64([3, 6])], f64([[1, 2], [0, 6]]), {"num_bits": 2}, False),
        Sample([np.zeros((0, 2)), f64(0), f64(1)], np.zeros((0, 2))),
    ],
)


def _apply_fake_quant(x: Any, low: Any, high: Any, num_bits: int, narrow_range: bool, name: str | None) -> Tensor:
    bits = static_int(num_bits, "num_bits")
    if not 2 <= bits <= 16:
        raise GraphError("this is no number of bits to quantize to", wanted="2 to 16", got=bits, hint="8 is common")
    return apply("FakeQuant", x, low, high, name=name, num_bits=bits, narrow_range=bool(narrow_range))


@public
def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6.0,
    max: float = 6.0,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Round to numbers represented by integers of few bits, with a fixed range.

    Parameters
    ----------
    inputs : Tensor of a floating dtype
        Gradients pass inside the range as through the identity (Jacob et al. 2018, arXiv:1712.05877).
    min, max : float
        The range, moved a little to make 0 representable.
    num_bits : int
        From 2 to 16.
    narrow_range : bool
        Leave the smallest integer out.

    Returns
    -------
    Tensor
        Of the same dtype and shape.

    Raises
    ------
    GraphError
        If `min` is not less than `max`, or there are too few or too many bits.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.fake_quant_with_min_max_args([-1.0, 0.4, 9.0], 0.0, 3.0, num_bits=2)).sync()
    array([0., 0., 3.], dtype=float32)
    """
    if not min < max:
        raise GraphError("a range has two ends", wanted="min < max", got=f"{min}, {max}", hint="exchange them")
    return _apply_fake_quant(inputs, min, max, num_bits, narrow_range, name)


def _check_rank(end: Tensor, rank: int, hint: str) -> Tensor:
    if end.rank not in (rank, None):
        raise ShapeError("the ends of a range have another rank", wanted=f"rank {rank}", got=end.shape, hint=hint)
    return end


@public
def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round to numbers represented by integers of few bits, with a learnable range.

    Parameters
    ----------
    inputs : Tensor of a floating dtype
        Gradients pass inside the range as through the identity.
    min, max : scalar of the same dtype
        The range; each end receives the gradients of all numbers beyond.
    num_bits : int
        From 2 to 16.
    narrow_range : bool
        Leave the smallest integer out.

    Returns
    -------
    Tensor
        Of the same dtype and shape.

    Raises
    ------
    GraphError
        If there are too few or too many bits.
    ShapeError
        If an end is no scalar.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.fake_quant_with_min_max_vars([-1.0, 0.6, 9.0], -1.0, 2.0, num_bits=2)).sync()
    array([-1.,  1.,  2.], dtype=float32)
    """
    x = convert_to_tensor(inputs)
    low, high = (
        _check_rank(convert_to_tensor(v, x.dtype), 0, "one for each channel: _per_channel") for v in (min, max)
    )
    return _apply_fake_quant(x, low, high, num_bits, narrow_range, name)


@public
def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round to numbers represented by integers of few bits, with a range for each channel.

    Parameters
    ----------
    inputs : Tensor of a floating dtype, shape [..., channels]
    min, max : Tensor of the same dtype, shape [channels]
    num_bits, narrow_range
        As for `fake_quant_with_min_max_vars`.

    Returns
    -------
    Tensor
        Of the same dtype and shape.

    Raises
    ------
    GraphError
        If there are too few or too many bits.
    ShapeError
        If an end is no vector, or not of the last dimension.

    Examples
    --------
    >>> import tagloom as tg
    >>> rounded = lambda x, low, high: tg.fake_quant_with_min_max_vars_per_channel(x, low, high, num_bits=2)
    >>> tg.function(lambda: rounded([[0.9, 0.9]], [0.0, 0.0], [3.0, 6.0])).sync()
    array([[1., 0.]], dtype=float32)
    """
    x = convert_to_tensor(inputs)
    low, high = (_check_rank(convert_to_tensor(v, x.dtype), 1, "one for all: without _per_channel") for v in (min, max))
    return _apply_fake_quant(x, low, high, num_bits, narrow_range, name)

"""Bits under another dtype, checked shapes, and saturating casts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType, as_dtype
from ...base.errors import DtypeError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import KeepsSize
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.literals import c128, f32, f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import leading
from ..support.vectorizing.shapes import ensure_shape_examples


def _element_sizes(op: Operation) -> tuple[int, int]:
    """Return the bytes of an element before and after; DtypeError for a target without bits to view."""
    target = as_dtype(op.attrs["dtype"])
    if target not in dtypes.NUMERIC:
        raise DtypeError(
            "bitcast cannot make this dtype",
            wanted="any numeric dtype",
            got=target,
            operation=op,
            hint="use cast(x, 'bool') for truth values",
        )
    return op.inputs[0].dtype.numpy.itemsize, target.numpy.itemsize  # type: ignore[union-attr]


def _bitcast_shape(op: Operation) -> Shape:
    """Infer the shape: smaller elements add a last dimension, larger elements drop the last dimension."""
    shape, (old, new) = op.inputs[0].shape, _element_sizes(op)
    if shape.rank is None or old == new:
        return shape
    if old > new:
        return shape + Shape([old // new])
    if not shape.rank or shape[-1] not in (new // old, None):
        raise ShapeError(
            f"bitcast makes one element of dtype {op.attrs['dtype']} of several",
            wanted=f"a last dimension of size {new // old}",
            got=shape,
            operation=op,
            hint="reshape the tensor first",
        )
    return Shape(shape[:-1])


def _compute_bitcast(xp: Any, x: Any, dtype: Any) -> Any:
    """View the bits as another dtype; ValueError if the last dimension does not fill whole elements."""
    target = as_dtype(dtype).numpy
    assert target is not None
    old, new = x.dtype.itemsize, target.itemsize
    shape = x.shape + (old // new,) if old > new else x.shape[:-1] if old < new else x.shape
    if old < new and (not x.ndim or x.shape[-1] != new // old):
        raise ValueError(f"bitcast to {target} needs a last dimension of size {new // old}, got shape {x.shape}")
    # flat, because view() refuses arrays of rank 0
    return xp.ascontiguousarray(x).reshape(-1).view(target).reshape(shape)


define(
    "Bitcast",
    "input: T -> output: @dtype",
    where={"T": dtypes.NUMERIC},
    attrs={"dtype": REQUIRED},
    shape=_bitcast_shape,
    rules=[Vectorize(leading), KeepsSize()],
    kernel=_compute_bitcast,
    gradient=NotDifferentiable("its result is bits, which do not change gradually"),
    samples=[
        Sample([f32([1, -2])], i32([0x3F800000, -0x40000000]), {"dtype": dtypes.int32}),
        Sample([i64([[1], [2**32]])], i32([[[1, 0]], [[0, 1]]]), {"dtype": dtypes.int32}),
        Sample([np.array([[0, 0, 128, 63]], np.uint8)], f32([1]), {"dtype": dtypes.float32}),
        Sample([c128(1 + 2j)], f64([1, 2]), {"dtype": dtypes.float64}),
        Sample([np.zeros((0, 4), np.float16)], np.zeros(0, np.int64), {"dtype": dtypes.int64}),
    ],
)


@public
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Take the bits of elements as another dtype; the lowest come first.

    Parameters
    ----------
    input : Tensor of any numeric dtype
    type : dtype-like
        Any numeric dtype.

    Returns
    -------
    Tensor
        Of dtype `type`. A larger element becomes several along a new last dimension; a last dimension of the right
        size becomes a larger element.

    Raises
    ------
    DtypeError
        If a dtype is not numeric.
    ShapeError
        If the last dimension does not fill whole elements.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.bitcast([1.0, -2.0], "uint32")).sync()
    array([1065353216, 3221225472], dtype=uint32)
    >>> tg.function(lambda: tg.bitcast([1, 258], "uint8")).sync()
    array([[1, 0, 0, 0],
           [2, 1, 0, 0]], dtype=uint8)
    """
    return apply("Bitcast", input, name=name, dtype=as_dtype(type))


def _ensured_shape(op: Operation) -> Shape:
    """Merge the static and the requested shape; ShapeError if they are known to differ."""
    wanted = Shape(op.attrs["shape"])
    if not wanted.is_compatible_with(op.inputs[0].shape):
        raise ShapeError(
            "ensure_shape: the tensor has another shape",
            wanted=wanted,
            got=op.inputs[0].shape,
            operation=op,
            hint="None leaves a dimension open; reshape gives a tensor another shape",
        )
    return wanted.merge(op.inputs[0].shape)


def _check_ensured_shape(xp: Any, x: Any, shape: Any) -> Any:
    if not Shape(shape).includes(Shape(x.shape)):
        raise ValueError(f"ensure_shape: wanted shape {Shape(shape)}, got {Shape(x.shape)}")
    return x


define(
    "EnsureShape",
    "x: T -> output: T",
    attrs={"shape": REQUIRED},
    shape=_ensured_shape,
    rules=[Vectorize(ensure_shape_examples), LINEAR_IN_FIRST, KeepsSize()],
    kernel=_check_ensured_shape,
    gradient=lambda op, g: [g],
    samples=[
        Sample([f64([[1, 2]])], f64([[1, 2]]), {"shape": Shape([None, 2])}),
        Sample([f64([[1, 2]])], f64([[1, 2]]), {"shape": Shape(None)}),
    ],
)


@public
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Check the shape of a tensor when a step runs; from here on the static shape is known.

    Parameters
    ----------
    x : Tensor of any dtype
    shape : sequence of int or None, Shape, or None
        None leaves a dimension open, or the whole shape.

    Returns
    -------
    Tensor
        The same value.

    Raises
    ------
    ShapeError
        If the static shape differs.
    OpError
        When the step runs, if the shape differs.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     tg.ensure_shape(tg.placeholder("float32"), [None, 3])
    <Tensor EnsureShape:0 float32[?,3]>
    """
    return apply("EnsureShape", x, name=name, shape=Shape(shape))


@public
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Convert to another dtype; numbers out of range become the smallest or largest of the dtype.

    Parameters
    ----------
    value : Tensor of any numeric dtype
    dtype : dtype-like
        Any numeric dtype. Where a float cannot hold the limit of an integer dtype, the nearest float in range replaces
        the limit.

    Returns
    -------
    Tensor
        Of dtype `dtype`.

    Raises
    ------
    DtypeError
        If a dtype is not numeric.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.saturate_cast([-7.9, 3.7, 999.0], "uint8")).sync()
    array([  0,   3, 255], dtype=uint8)
    """
    x, target = convert_to_tensor(value), as_dtype(dtype)
    if not (x.dtype.is_numeric and target.is_numeric):
        raise DtypeError(
            "saturate_cast converts numbers",
            wanted="numeric dtypes",
            got=f"{x.dtype} to {target}",
            operation=x.op,
            hint="use cast for truth values",
        )
    if x.dtype.is_complex:
        parts = [_clip_to_range(apply(part, x), target.real) for part in ("Real", "Imag")]
        # a real target drops the imaginary part, as cast does
        x = apply("Complex", *parts, dtype=x.dtype) if target.is_complex else parts[0]
    else:
        x = _clip_to_range(x, target.real)
    return cast(x, target, name)


def _clip_to_range(x: Tensor, target: DType) -> Tensor:
    """Clip numbers to the values of their own dtype within the range of `target`."""
    low, high = (_limit_in_source_dtype(x.dtype, target, which) for which in ("min", "max"))
    if high is not None:
        x = apply("Minimum", x, constant(high))
    return x if low is None else apply("Maximum", x, constant(low))


def _limit_in_source_dtype(source: DType, target: DType, which: str) -> Any:
    """Return the limit of `target` as a `source` value, rounded towards 0; None if `source` lies within the limit."""
    own, wanted = getattr(source, which), getattr(target, which)
    if (own >= wanted) if which == "min" else (own <= wanted):
        return None
    kind: Any = source.numpy
    if source.is_integer:
        return np.asarray(math.trunc(wanted), kind)
    limit = np.asarray(float(wanted), kind)
    # rounding to nearest may leave the range: as float32, 2**31 - 1 becomes 2**31
    if abs(float(limit)) > abs(wanted):
        limit = np.nextafter(limit, np.zeros((), kind))
    return np.asarray(limit, kind)

"""Tensors made from a shape or a few numbers."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DtypeError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape, static_value
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, index_tensor, only_scalars, shape_in, shape_vector
from ..support.common import scalar_like, shape_of, sum_to
from ..support.literals import f32, f64, i32
from ..support.tangents import linear
from ..support.vectorizing.families import one_by_one
from ..support.vectorizing.shapes import fill_examples


def _fill_shape(op: Operation) -> Shape:
    """Infer the shape from `dims`; ShapeError for negative sizes."""
    only_scalars(op, 1)
    sizes = static_value(op.inputs[0])
    if sizes is not None and (sizes < 0).any():
        raise ShapeError(
            "a tensor cannot have negative sizes",
            wanted="0 or more",
            got=sizes.tolist(),
            hint="take sizes that only a step knows from shape(t)",
        )
    return static_shape(op.inputs[0])


define(
    "Fill",
    "dims: host I, value: T -> output: T",
    where={"I": dtypes.INDEX},
    shape=_fill_shape,
    rules=[Vectorize(fill_examples), linear(1), Elements(shape_in(0))],
    kernel=lambda xp, dims, value: xp.full(as_sizes(dims), value, dtype=value.dtype),
    gradient=lambda op, g: [None, sum_to(g, op.inputs[1])],
    samples=[
        Sample([i32([2, 3]), np.float64(7)], lambda d, v: np.array([[7.0] * 3] * 2)),
        Sample([np.zeros(0, np.int64), np.int8(1)], np.int8(1)),
    ],
)


@public
def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """Make a tensor filled with a scalar value.

    Parameters
    ----------
    dims : int32 or int64 vector, or list of integers and scalar tensors
        The shape.
    value : scalar of any dtype

    Returns
    -------
    Tensor
        Of shape `dims` and the dtype of `value`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.fill([2], 7)).sync()
    array([7, 7], dtype=int32)
    """
    return apply("Fill", shape_vector(dims), value, name=name)


def _fill_with_number(shape: Any, number: int, dtype: Any, name: str | None) -> Tensor:
    """Fill a shape with 0 or 1 of `dtype`; DtypeError for a dtype without elements."""
    kind = dtypes.as_dtype(dtype).numpy
    if kind is None:
        raise DtypeError(
            "this dtype has no elements to fill with",
            got=dtype,
            wanted="a dtype of values",
            hint="resources and series are made by the operations that use them",
        )
    # np.zeros has an empty value for strings too, np.full with 0 would write the text "0"
    return fill(shape, constant(np.full((), number, kind) if number else np.zeros((), kind)), name)


@public
def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Make a tensor of zeros (false, empty strings).

    Parameters
    ----------
    shape : int32 or int64 vector, or list of integers and scalar tensors
    dtype : dtype-like

    Returns
    -------
    Tensor
        Of shape `shape` and dtype `dtype`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.zeros([2])).sync()
    array([0., 0.], dtype=float32)
    >>> tg.function(lambda: tg.zeros([2], "string")).sync()
    array(['', ''], dtype=StringDType())
    """
    return _fill_with_number(shape, 0, dtype, name)


@public
def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Make a tensor of ones (true).

    Parameters
    ----------
    shape : int32 or int64 vector, or list of integers and scalar tensors
    dtype : dtype-like
        Bool or any numeric dtype.

    Returns
    -------
    Tensor
        Of shape `shape` and dtype `dtype`.

    Raises
    ------
    DtypeError
        If the dtype has no value 1.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.ones([2], "int32")).sync()
    array([1, 1], dtype=int32)
    """
    if dtypes.as_dtype(dtype) is dtypes.string:
        raise DtypeError("strings have no one", got=dtype, hint="use fill")
    return _fill_with_number(shape, 1, dtype, name)


@public
def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Make zeros of the shape of a tensor.

    Parameters
    ----------
    tensor : Tensor of any dtype and shape
        Only its shape is used.
    dtype : dtype-like, optional
        Defaults to the dtype of `tensor`.

    Returns
    -------
    Tensor
        Of the shape of `tensor`.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> f = tg.function(lambda x: tg.zeros_like(x, "int32"), input_signature=[tg.TensorSpec([None])])
    >>> f.sync([0.5, 1.5, 2.5])
    array([0, 0, 0], dtype=int32)
    """
    like = convert_to_tensor(tensor)
    return zeros(shape_of(like), like.dtype if dtype is None else dtype, name)


@public
def ones_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Make ones of the shape of a tensor.

    Parameters
    ----------
    tensor : Tensor of any dtype and shape
        Only its shape is used.
    dtype : dtype-like, optional
        Defaults to the dtype of `tensor`.

    Returns
    -------
    Tensor
        Of the shape of `tensor`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.ones_like([0.5, 1.5, 2.5])).sync()
    array([1., 1., 1.], dtype=float32)
    """
    like = convert_to_tensor(tensor)
    return ones(shape_of(like), like.dtype if dtype is None else dtype, name)


def _range_length(start: Any, limit: Any, delta: Any) -> int:
    """Return the length of a range; ValueError for a step of 0."""
    if delta == 0:
        raise ValueError("range: delta is zero")
    if isinstance(start, int):  # exact; a quotient of floats would round integers beyond 2**53
        return len(builtins.range(start, limit, delta))
    return int(max(0, math.ceil((limit - start) / delta)))


def _range_shape(op: Operation) -> Shape:
    """Infer the length where all three numbers are known; ShapeError if the step is 0."""
    only_scalars(op, 0, 1, 2)
    known = [static_value(t) for t in op.inputs]
    if any(v is None for v in known):
        return Shape([None])
    # Python's numbers, which neither overflow nor round
    numbers = [v.item() for v in known if v is not None]
    if numbers[2] == 0:
        raise ShapeError("a range needs a step", wanted="delta != 0", got=0, hint="use fill for equal numbers")
    return Shape([_range_length(*numbers)])


def _compute_range(xp: Any, start: Any, limit: Any, delta: Any) -> Any:
    first, step = start.item(), delta.item()
    # floats count in float64, whatever the dtype of the result, and are rounded once
    counter = xp.arange(_range_length(first, limit.item(), step), dtype=None if start.dtype.kind in "iu" else float)
    # a product for each number, since a running sum would add up rounding errors
    return (first + counter * step).astype(start.dtype)


define(
    "Range",
    "start: host T, limit: host T, delta: host T -> output: T",
    where={"T": dtypes.REAL},
    shape=_range_shape,
    rules=[
        Vectorize(one_by_one),
        Elements(lambda start, limit, delta: _range_length(start.item(), limit.item(), delta.item())),
    ],
    kernel=_compute_range,
    gradient=NotDifferentiable("its length moves in jumps"),
    samples=[
        Sample([np.int32(3), np.int32(9), np.int32(2)], i32([3, 5, 7])),
        Sample([np.float32(1), np.float32(0), np.float32(-0.25)], f32([1, 0.75, 0.5, 0.25])),
        Sample([np.int64(3), np.int64(1), np.int64(1)], np.zeros(0, np.int64)),
    ],
)


@public
def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    """Count from `start` up to, not including, `limit`; a single number is the limit, with start 0.

    Parameters
    ----------
    start, limit, delta : scalars of the same real dtype
    dtype : dtype-like, optional
        Dtype of literals.

    Returns
    -------
    Tensor
        Vector of length ``max(0, ceil((limit - start) / delta))``; not differentiable.

    Raises
    ------
    ShapeError
        If `delta` is known to be zero.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.range(5)).sync()
    array([0, 1, 2, 3, 4], dtype=int32)
    >>> tg.function(lambda: tg.range(0, 1, 0.25)).sync()
    array([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    """
    bounds = [0, start, delta] if limit is None else [start, limit, delta]
    if dtype is not None:
        bounds = [convert_to_tensor(b, dtype) for b in bounds]
    return apply("Range", *_promote_literals(bounds), name=name)


def _promote_literals(numbers: list[Any]) -> list[Any]:
    """Make literals of mixed kinds float: ``range(0, 1, 0.5)``."""
    if any(isinstance(n, float) for n in numbers):
        return [float(n) if isinstance(n, int) else n for n in numbers]
    return numbers


def _linspace_shape(op: Operation) -> Shape:
    """Infer the length from `num`; ShapeError if `num` is known to be less than 1."""
    only_scalars(op, 0, 1, 2)
    num = static_value(op.inputs[2])
    if num is not None and num < 1:
        raise ShapeError(
            "linspace makes at least one number",
            got=int(num),
            wanted="num of 1 or more",
            hint="use zeros([0]) for none",
        )
    return Shape([None if num is None else int(num)])


def _compute_linspace(xp: Any, start: Any, stop: Any, num: Any) -> Any:
    if int(num) < 1:
        raise ValueError(f"linspace: num has to be at least 1, got {int(num)}")
    return xp.linspace(start.item(), stop.item(), int(num)).astype(start.dtype)


def _linspace_gradient(op: Operation, g: Tensor) -> list[Any]:
    start, stop, num = op.inputs
    # share of `stop` in each number, from 0 to 1
    share = apply("LinSpace", scalar_like(0, g), scalar_like(1, g), num)
    return [sum_to(g * (1 - share), start), sum_to(g * share, stop), None]


define(
    "LinSpace",
    "start: host T, stop: host T, num: host I -> output: T",
    where={"T": dtypes.FLOATING, "I": dtypes.INDEX},
    shape=_linspace_shape,
    rules=[Vectorize(one_by_one), Elements(shape_in(2))],
    kernel=_compute_linspace,
    gradient=_linspace_gradient,
    samples=[
        Sample([np.float64(1), np.float64(2), np.int32(5)], f64([1, 1.25, 1.5, 1.75, 2])),
        Sample([np.float64(1), np.float64(2), np.int64(1)], f64([1])),
    ],
)


@public
def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """Make evenly spaced numbers, both ends included.

    Parameters
    ----------
    start, stop : scalars of the same floating dtype
    num : int32 or int64 scalar, at least 1

    Returns
    -------
    Tensor
        Vector of length `num`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.linspace(0, 1, 5)).sync()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    # integers would be refused: the operation takes floats only
    ends = _promote_literals([float(v) if isinstance(v, int) else v for v in (start, stop)])
    return apply("LinSpace", *ends, index_tensor(num), name=name)

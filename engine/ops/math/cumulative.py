"""Running sums, and total and running products along an axis, with gradients exact to any order at zero factors.

The derivative of a product by a factor is the product of the others (`ProdOthers`). The derivative of `ProdOthers` is
taken row by row of a matrix with the factors of each result; so no gradient divides.
"""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Kernel, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import axis_within, same_with_axis, static_int, static_ints
from ..support.common import ones_like, shape_of
from ..support.families import keep_dtype
from ..support.late_axes import along_last, late_axes, late_axis, reduce_late_axes
from ..support.literals import c128, f64, i32
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import along
from .complex import conj
from .reductions import reduced_axes, reduced_shape, unreduce

_X = f64([[2, 0, -3], [0.5, 4, 1.5]])
_RUNNING = {"axis": 0, "exclusive": False, "reverse": False}


def _scan_along_axis(xp: Any, scan: str, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Run ``cumsum`` or ``cumprod`` along an axis, excluding each element itself or from the end if asked."""
    lead = (slice(None),) * axis_within(axis, x.ndim)
    turn = (*lead, slice(None, None, -1))
    y = getattr(xp, scan)(x[turn] if reverse else x, axis, dtype=x.dtype)
    if exclusive:
        # True and False are the neutral elements 1 and 0.
        shifted = xp.full_like(y, scan == "cumprod")
        shifted[*lead, 1:] = y[*lead, :-1]
        y = shifted
    return xp.ascontiguousarray(y[turn]) if reverse else y


def _scan_kernel(scan: str) -> Kernel:
    return keep_dtype(lambda xp, x, axis, exclusive, reverse: _scan_along_axis(xp, scan, x, axis, exclusive, reverse))


def _cumsum_gradient(op: Operation, g: Tensor) -> list[Any]:
    # Element i enters all sums from i on: the adjoint sums from the other end.
    return [apply("Cumsum", g, **{**op.own_attrs, "reverse": not op.attrs["reverse"]})]


define(
    "Cumsum",
    "x: T -> y: T",
    where={"T": dtypes.NUMERIC},
    attrs=_RUNNING,
    shape=same_with_axis,
    kernel=_scan_kernel("cumsum"),
    rules=[Vectorize(along()), LINEAR_IN_FIRST],
    gradient=_cumsum_gradient,
    samples=[
        Sample([_X], f64([[2, 0, -3], [2.5, 4, -1.5]])),
        Sample([_X], f64([[0, 2, 2], [0, 0.5, 4.5]]), {"axis": 1, "exclusive": True}),
        Sample([_X], f64([[-1, -3, -3], [6, 5.5, 1.5]]), {"axis": -1, "reverse": True}),
        Sample([_X], f64([[-3, -3, 0], [5.5, 1.5, 0]]), {"axis": 1, "reverse": True, "exclusive": True}),
    ],
)


@public
def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sum along an axis.

    Parameters
    ----------
    x : Tensor of any numeric dtype, of rank at least 1
    axis : int, or int32 or int64 scalar
        Axis to run along.
    exclusive : bool
        Leave each element out of its own sum: ``[a, b, c]`` gives ``[0, a, a + b]``.
    reverse : bool
        Run from the end.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.cumsum([1, 2, 3])).sync()
    array([1, 3, 6], dtype=int32)
    >>> tg.function(lambda: tg.cumsum([1, 2, 3], exclusive=True)).sync()
    array([0, 1, 3], dtype=int32)
    >>> tg.function(lambda: tg.cumsum([1, 2, 3], reverse=True)).sync()
    array([6, 5, 3], dtype=int32)
    """
    return apply_scan("Cumsum", x, axis, exclusive, reverse, name)


def apply_scan(type: str, x: Any, axis: Any, exclusive: bool, reverse: bool, name: str | None) -> Tensor:
    """Apply a running operation along an axis, static or computed by the step."""
    how = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
    late = late_axis(axis)
    if late is not None:
        return along_last(type, x, late, name, **how)
    return apply(type, x, name=name, axis=static_int(axis), **how)


def _factors_gradient(x: Tensor, g: Tensor, axis: int, comparison: str) -> Tensor:
    """Return the cotangent of `x`; `g` belongs to ``y[i] = product of x[j] where comparison(j, i)`` along `axis`."""
    # A matrix replaces the axis: a row for each result, a column for each factor.
    rows, columns = (axis, axis + 1) if axis >= 0 else (axis - 1, axis)
    # Positions count from 1; only their order matters.
    position = apply("Cumsum", apply("Fill", shape_of(x), i32(1)), axis=axis)
    row, column = apply("ExpandDims", position, axis=columns), apply("ExpandDims", position, axis=rows)
    included = apply(comparison, column, row)
    factors = apply("Where", included, apply("ExpandDims", x, axis=rows), 1)
    others = apply("ProdOthers", factors, axis=columns)
    cotangent = apply("ExpandDims", g, axis=columns) * conj(others)
    return apply("Sum", apply("Where", included, cotangent, 0), axis=(rows,))


@keep_dtype
def _compute_prod_others(xp: Any, x: Any, axis: int) -> Any:
    # Factors before times factors after: dividing the whole product by each factor would fail at zeros.
    return _scan_along_axis(xp, "cumprod", x, axis, True, False) * _scan_along_axis(xp, "cumprod", x, axis, True, True)


define(
    "ProdOthers",
    "x: T -> y: T",
    where={"T": dtypes.NUMERIC},
    attrs={"axis": REQUIRED},
    shape=same_with_axis,
    rules=[Vectorize(along())],
    kernel=_compute_prod_others,
    gradient=lambda op, g: [_factors_gradient(op.inputs[0], g, op.attrs["axis"], "NotEqual")],
    samples=[
        Sample([_X], f64([[0, -6, 0], [6, 0.75, 2]]), {"axis": 1}),
        Sample([_X], f64([[0.5, 4, 1.5], [2, 0, -3]]), {"axis": -2}),
    ],
)


def _product_gradient(op: Operation, g: Tensor) -> list[Any]:
    return [unreduce(g, op) * conj(apply("ProdOthers", op.inputs[0], axis=op.attrs["axis"][0]))]


define(
    "Prod",
    "x: T -> y: T",
    where={"T": dtypes.NUMERIC},
    attrs={"axis": REQUIRED, "keepdims": False},
    shape=lambda op: reduced_shape(op.inputs[0].shape, op.attrs["axis"], op.attrs["keepdims"]),
    rules=[Vectorize(along())],
    kernel=keep_dtype(lambda xp, x, axis, keepdims: xp.prod(x, axis, x.dtype, keepdims=keepdims)),
    gradient=_product_gradient,
    samples=[
        Sample([_X], f64([0, 3]), {"axis": (1,)}),
        Sample([_X], f64([[1, 0, -4.5]]), {"axis": (-2,), "keepdims": True}),
        Sample([c128([1j, 2 + 1j, -1])], c128(1 - 2j), {"axis": (0,)}),
    ],
)


@public
def reduce_prod(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Product over axes, with an exact gradient at zero factors.

    Parameters
    ----------
    input_tensor : Tensor of any numeric dtype
    axis : int or sequence of int, or int32 or int64 Tensor, optional
        Axes to reduce; all when None.
    keepdims : bool
        Keep the reduced axes, with size 1.

    Returns
    -------
    Tensor
        Same dtype, without the reduced axes.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.reduce_prod([[2, 3], [4, 5]], axis=1)).sync()
    array([ 6, 20], dtype=int32)
    >>> tg.grad(lambda x: tg.reduce_prod(x)).sync(np.array([2.0, 0.0, 3.0]))
    array([0., 6., 0.])
    """
    x = convert_to_tensor(input_tensor)
    if axis is None:
        return _full_product(x, keepdims, name)
    late = late_axes(axis)
    if late is not None:
        return reduce_late_axes("Prod", x, late, bool(keepdims), name)
    axes = static_ints(axis)
    if x.rank is not None:
        reduced_axes(axes, x.rank)
    if len(axes) == 1:
        return apply("Prod", x, name=name, axis=axes, keepdims=bool(keepdims))
    # One axis at a time, because `ProdOthers` in the gradient runs along a single axis.
    for a in axes:
        x = apply("Prod", x, axis=(a,), keepdims=True)
    return x if keepdims or not axes else apply("Squeeze", x, name=name, axis=axes)


def _full_product(x: Tensor, keepdims: bool, name: str | None) -> Tensor:
    product: Tensor = apply("Prod", apply("Reshape", x, i32([-1])), name=name, axis=(0,))
    if not keepdims:
        return product
    ones = ones_like(shape_of(x)) if x.rank is None else i32([1] * x.rank)
    return apply("Reshape", product, ones)


def _cumprod_gradient(op: Operation, g: Tensor) -> list[Any]:
    comparison = "Greater" if op.attrs["reverse"] else "Less"
    comparison += "" if op.attrs["exclusive"] else "Equal"
    return [_factors_gradient(op.inputs[0], g, op.attrs["axis"], comparison)]


define(
    "Cumprod",
    "x: T -> y: T",
    where={"T": dtypes.NUMERIC},
    attrs=_RUNNING,
    shape=same_with_axis,
    rules=[Vectorize(along())],
    kernel=_scan_kernel("cumprod"),
    gradient=_cumprod_gradient,
    samples=[
        Sample([_X], f64([[2, 0, -3], [1, 0, -4.5]])),
        Sample([_X], f64([[1, 2, 0], [1, 0.5, 2]]), {"axis": 1, "exclusive": True}),
        Sample([_X], f64([[0, 0, -3], [3, 6, 1.5]]), {"axis": -1, "reverse": True}),
        Sample([_X], f64([[0, -3, 1], [6, 1.5, 1]]), {"axis": 1, "reverse": True, "exclusive": True}),
    ],
)


@public
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running product along an axis; see `cumsum`. Gradients take memory quadratic in its length.

    Parameters
    ----------
    x : Tensor of any numeric dtype, of rank at least 1
    axis, exclusive, reverse
        As in `cumsum`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.cumprod([2, 3, 4])).sync()
    array([ 2,  6, 24], dtype=int32)
    >>> tg.function(lambda: tg.cumprod([2, 3, 4], exclusive=True)).sync()
    array([1, 2, 6], dtype=int32)
    """
    return apply_scan("Cumprod", x, axis, exclusive, reverse, name)

"""Sorting along an axis, and elements taken from or added to positions along an axis.

NaN counts as the largest value, as in NumPy; equal values keep their order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, axis_within, shape_in, static_int
from ..support.array_library import add_at, cast_to_accumulator
from ..support.batching import batch_along
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.literals import f32, f64, i32, i64
from ..support.vectorizing.families import along
from ..support.vectorizing.indexing import add_along_axis_examples

_X = f64([[3, -1, 2, 0.5], [1, 4, -2, 2.5]])
_NAN = f32([2, np.nan, 1, np.inf])
_POSITIONS = NotDifferentiable("its results are positions")


def _along_axis(op: Operation) -> Shape:
    shape = op.inputs[0].shape
    if shape.rank is not None:
        axis_within(op.attrs["axis"], shape.rank)
    return shape


def sorting_order(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """Return the positions that sort `x`, an `xp` array, along `axis`; equals keep their order, if `descending` too."""
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable")
    # reversing an ascending result alone would reverse equals, and negated values fail for unsigned integers
    turned = xp.flip(xp.argsort(xp.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - turned


def _compute_sort(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    y = xp.sort(x, axis=axis)
    return xp.ascontiguousarray(xp.flip(y, axis)) if descending else y


def _sort_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Add each cotangent at the original position of its value."""
    x = op.inputs[0]
    axis = op.attrs["axis"]
    places = apply("ArgSort", x, axis=axis, descending=op.attrs["descending"])
    return [apply("AddAlongAxis", g, places, shape_of(x), axis=axis)]


define(
    "ArgSort",
    "values: T -> indices: int32",
    rules=[Vectorize(along()), Batch(batch_along())],
    where={"T": dtypes.REAL},
    attrs={"axis": -1, "descending": False},
    shape=_along_axis,
    kernel=lambda xp, x, axis, descending: sorting_order(xp, x, axis, descending).astype(xp.int32),
    gradient=_POSITIONS,
    samples=[
        Sample([_X], i32([[1, 3, 2, 0], [2, 0, 3, 1]])),
        Sample([_X], i32([[0, 1, 0, 1], [1, 0, 1, 0]]), {"axis": 0, "descending": True}),
        Sample([i32([2, 1, 2, 1])], i32([0, 2, 1, 3]), {"descending": True}),
        Sample([_NAN], i32([1, 3, 0, 2]), {"descending": True}),
        Sample([np.zeros((2, 0))], np.zeros((2, 0), np.int32)),
    ],
)

define(
    "Sort",
    "values: T -> sorted: T",
    rules=[Vectorize(along()), Batch(batch_along())],
    where={"T": dtypes.REAL},
    attrs={"axis": -1, "descending": False},
    shape=_along_axis,
    kernel=_compute_sort,
    gradient=_sort_gradient,
    samples=[
        Sample([_X], f64([[-1, 0.5, 2, 3], [-2, 1, 2.5, 4]])),
        Sample([_X], f64([[3, 4, 2, 2.5], [1, -1, -2, 0.5]]), {"axis": -2, "descending": True}),
        Sample([i32([2, 1, 2])], i32([2, 2, 1]), {"descending": True}),
        Sample([_NAN], f32([1, 2, np.inf, np.nan])),
    ],
)

define(
    "TakeAlongAxis",
    "x: T, indices: I -> y: T",
    where={"I": dtypes.INDEX},
    attrs={"axis": REQUIRED},
    shape=lambda op: op.inputs[1].shape,
    rules=[Vectorize(along())],
    kernel=keep_dtype(lambda xp, x, indices, axis: xp.take_along_axis(x, indices.astype(xp.int64), axis)),
    gradient=lambda op, g: [
        apply("AddAlongAxis", g, op.inputs[1], shape_of(op.inputs[0]), axis=op.attrs["axis"]),
        None,
    ],
    samples=[
        Sample([_X, i32([[1, 1], [3, 0]])], f64([[-1, -1], [2.5, 1]]), {"axis": 1}),
        Sample([_X, i64([[1, 0, 0, 1]])], f64([[1, -1, 2, 2.5]]), {"axis": -2}),
    ],
)


def _add_along(xp: Any, updates: Any, indices: Any, shape: Any, axis: int) -> Any:
    """Add the updates to an array of zeros, at `indices` along an axis; repeated indices add up."""
    sizes = as_sizes(shape)
    axis %= len(sizes)
    outer, inner = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
    # rows of the array seen as [outer * axis, inner]; reshape cannot infer -1 for an empty array
    rows = xp.arange(outer).reshape(-1, 1, 1) * sizes[axis] + indices.reshape(outer, -1 if indices.size else 0, inner)
    added = cast_to_accumulator(xp, updates)
    out = xp.zeros(math.prod(sizes), dtype=added.dtype)
    add_at(xp, out, (rows * inner + xp.arange(inner)).reshape(-1), added.reshape(-1))
    return out.reshape(sizes).astype(updates.dtype, copy=False)


define(
    "AddAlongAxis",
    "updates: T, indices: I, shape: host J -> output: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    attrs={"axis": REQUIRED},
    shape=lambda op: static_shape(op.inputs[2]),
    rules=[Vectorize(add_along_axis_examples), Elements(shape_in(2))],
    kernel=_add_along,
    gradient=lambda op, g: [apply("TakeAlongAxis", g, op.inputs[1], axis=op.attrs["axis"]), None, None],
    samples=[
        Sample(
            [f64([[1, 2], [3, 4]]), i32([[1, 1], [3, 0]]), i32([2, 4])],
            f64([[0, 3, 0, 0], [4, 0, 0, 3]]),
            {"axis": -1},
        ),
        Sample([f64([[1, 2]]), i64([[1, 0]]), i64([2, 2])], f64([[0, 2], [1, 0]]), {"axis": 0}),
        Sample([np.zeros((2, 0)), np.zeros((2, 0), np.int32), i32([2, 3])], np.zeros((2, 3)), {"axis": 1}),
    ],
)


def _is_descending(direction: str) -> bool:
    """Return True for 'DESCENDING', False for 'ASCENDING'; GraphError for other values."""
    if not isinstance(direction, str) or direction not in ("ASCENDING", "DESCENDING"):
        raise GraphError(
            "no such direction to sort in",
            wanted="'ASCENDING' or 'DESCENDING'",
            got=repr(direction),
            hint="leave direction out for the smallest first",
        )
    return direction == "DESCENDING"


@public
def sort(values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sort along an axis; gradients go back to the original positions.

    Parameters
    ----------
    values : Tensor of an integer or floating dtype, of rank at least 1
    axis : int
    direction : {'ASCENDING', 'DESCENDING'}
        NaN counts as the largest value.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If the direction is unknown.
    ShapeError
        If the axis does not exist.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sort([[3, 1, 2], [9, 7, 8]], direction="DESCENDING")).sync()
    array([[3, 2, 1],
           [9, 8, 7]], dtype=int32)
    """
    axis = static_int(axis)
    return apply("Sort", values, name=name, axis=axis, descending=_is_descending(direction))


@public
def argsort(
    values: Any, axis: Any = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Return the positions of the sorted values along an axis.

    Parameters
    ----------
    values : Tensor of an integer or floating dtype, of rank at least 1
    axis : int
    direction : {'ASCENDING', 'DESCENDING'}
        NaN counts as the largest value.
    stable : bool
        Has no meaning, kept for TensorFlow's argument order: equal values always keep their order.

    Returns
    -------
    Tensor
        int32, of the shape of `values`.

    Raises
    ------
    GraphError
        If the direction is unknown.
    ShapeError
        If the axis does not exist.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.argsort([3, 1, 3, 2], direction="DESCENDING")).sync()
    array([0, 2, 3, 1], dtype=int32)
    """
    axis = static_int(axis)
    return apply("ArgSort", values, name=name, axis=axis, descending=_is_descending(direction))

"""Positions of the largest and smallest values along an axis."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...base.dtypes import as_dtype
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.reductions import reduced_shape
from ..support.arguments import index_dtype, static_int
from ..support.late_axes import axis_to_end, late_axis
from ..support.literals import f64, i32, i64
from ..support.vectorizing.families import along

_X = f64([[3, 9, 9], [4, -1, 0]])


def _position_shape(op: Operation) -> Shape:
    return reduced_shape(op.inputs[0].shape, (op.attrs["axis"],), keepdims=False)


def _define_position_search(type: str, function: str, samples: list[Sample]) -> None:
    """Define the operation `type`, which finds positions with `function` of the array library."""

    def find_positions(xp: Any, x: Any, axis: int, output_type: Any) -> Any:
        return xp.asarray(getattr(xp, function)(x, axis), as_dtype(output_type).numpy)

    define(
        type,
        "input: T -> output: @output_type",
        where={"T": (*dtypes.REAL, dtypes.bool_)},
        attrs={"axis": REQUIRED, "output_type": dtypes.int64},
        shape=_position_shape,
        rules=[Vectorize(along())],
        kernel=find_positions,
        gradient=NotDifferentiable("its result is an index"),
        samples=samples,
    )


_define_position_search(
    "ArgMax",
    "argmax",
    [
        Sample([_X], i64([1, 0]), {"axis": 1}),
        Sample([_X], i32([1, 0, 0]), {"axis": -2, "output_type": dtypes.int32}),
    ],
)
_define_position_search("ArgMin", "argmin", [Sample([_X], i64([0, 1]), {"axis": -1})])


@public
def argmax(input: Any, axis: Any = None, name: str | None = None, output_type: Any = dtypes.int64) -> Tensor:
    """Find the index of the largest value along an axis; of equals, the first.

    Parameters
    ----------
    input : Tensor of an integer, floating or bool dtype, of rank at least 1
    axis : int, or int32 or int64 scalar, optional
        0 when None.
    output_type : dtype-like
        int32 or int64.

    Returns
    -------
    Tensor
        Of dtype `output_type`, without the axis.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.argmax([[3, 9, 9], [4, -1, 0]], axis=1)).sync()
    array([1, 0])
    >>> tg.function(lambda: tg.argmax([[3, 9, 9], [4, -1, 0]])).sync()
    array([1, 0, 0])
    """
    return _apply_position_search("ArgMax", input, axis, name, output_type)


@public
def argmin(input: Any, axis: Any = None, name: str | None = None, output_type: Any = dtypes.int64) -> Tensor:
    """Find the index of the smallest value along an axis; of equals, the first.

    Parameters
    ----------
    input, axis, output_type
        As in `argmax`.

    Returns
    -------
    Tensor
        Of dtype `output_type`, without the axis.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.argmin([[3, 9, 9], [4, -1, 0]], axis=1, output_type="int32")).sync()
    array([0, 1], dtype=int32)
    """
    return _apply_position_search("ArgMin", input, axis, name, output_type)


def _apply_position_search(type: str, input: Any, axis: Any, name: str | None, output_type: Any) -> Tensor:
    """Apply the operation to a static axis, or move a computed axis to the end and search there."""
    dtype = index_dtype(output_type, "output_type")
    late = late_axis(axis)
    if late is None:
        return apply(type, input, name=name, axis=0 if axis is None else static_int(axis), output_type=dtype)
    moved, _ = axis_to_end(convert_to_tensor(input), late)
    return apply(type, moved, name=name, axis=-1, output_type=dtype)

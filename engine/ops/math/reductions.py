"""Reductions over axes. Kernels take static axes; see `support/late_axes.py` for axes computed by a step."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import numpy as np

from ...base import dtypes
from ...base.docstrings import Family, name_function, show_calls
from ...base.dtypes import DType
from ...base.errors import ShapeError
from ...base.shapes import SCALAR, Shape
from ...ir import entry
from ...ir.apply import apply
from ...ir.definition import Kernel, NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ...kernels.elementary.functions import elementary_function
from ..support.arguments import as_sizes, axis_within, shape_in, static_ints
from ..support.array_library import cast_to_accumulator
from ..support.batching import batch_along
from ..support.common import scalar_like, shape_of
from ..support.families import describe_dtypes, keep_dtype
from ..support.fusing import fuse_broadcast, fuse_reduction, reduces_last
from ..support.late_axes import late_axes, reduce_late_axes
from ..support.literals import c128, f64, flags, i32
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import along
from ..support.vectorizing.shapes import unreduce_examples
from .zero_products import multiply_unless_zero

_X = f64([[[1, 2, -1], [0.5, 4, 1.5]], [[3, -2, 7], [2.5, 6, 0.25]]])
_BOOLS = np.array([[True, False], [True, True]])
AXES = {"axis": None, "keepdims": False}


def reduced_shape(shape: Shape, axis: tuple[int, ...] | None, keepdims: bool) -> Shape:
    """Return the static shape of a reduction."""
    if shape.rank is None:
        _check_integers(axis)
        return SCALAR if axis is None and not keepdims else Shape(None)
    gone = reduced_axes(axis, shape.rank)
    if keepdims:
        return Shape([1 if i in gone else d for i, d in enumerate(shape)])
    return Shape([d for i, d in enumerate(shape) if i not in gone])


def reduced_axes(axis: tuple[int, ...] | None, rank: int) -> list[int]:
    """Return the axes of a reduction counted from 0; raise ShapeError for a missing or repeated axis."""
    if axis is None:
        return list(range(rank))
    _check_integers(axis)
    axes = [axis_within(a, rank) for a in axis]
    # Compared after counting from 0: -1 and 1 may be one axis.
    if len(set(axes)) < len(axes):
        raise ShapeError("an axis is given twice", got=axis, hint="name each axis once")
    return axes


def _check_integers(axis: tuple[int, ...] | None) -> None:
    """Raise TypeError for axes other than integers, which graphs read from text may contain."""
    for each in () if axis is None else axis:
        operator.index(each)


def unreduce(y: Tensor, op: Operation) -> Tensor:
    """Broadcast the result of a reduction, or its cotangent, over the reduced axes.

    Parameters
    ----------
    y : Tensor of any numeric dtype
        The result of the reduction, or its cotangent.
    op : Operation
        The reduction.

    Returns
    -------
    Tensor
        Of the dtype of `y` and the shape of the operand of `op`.
    """
    x = op.inputs[0]
    result: Tensor = apply("Unreduce", y, shape_of(x), axis=op.attrs["axis"], keepdims=op.attrs["keepdims"])
    result.set_shape(x.shape)
    return result


def _reduction_shape(op: Operation) -> Shape:
    return reduced_shape(op.inputs[0].shape, op.attrs["axis"], op.attrs["keepdims"])


def _unreduced_shape(op: Operation) -> Shape:
    shape = static_shape(op.inputs[1])
    reduced_shape(shape, op.attrs["axis"], op.attrs["keepdims"])  # refuses missing axes
    return shape


def _unreduce_kernel(xp: Any, y: Any, shape: Any, axis: Any, keepdims: bool) -> Any:
    sizes = as_sizes(shape)
    gone = reduced_axes(axis, len(sizes))
    kept = y.reshape([1 if i in gone else d for i, d in enumerate(sizes)])
    # A copy: the view is read-only, and equal elements share memory.
    return xp.broadcast_to(kept, sizes).copy()


define(
    "Unreduce",
    "y: T, shape: host I -> x: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    attrs=AXES,
    shape=_unreduced_shape,
    rules=[Vectorize(unreduce_examples), LINEAR_IN_FIRST, Elements(shape_in(1)), fuse_broadcast(reduces_last)],
    kernel=_unreduce_kernel,
    gradient=lambda op, g: [apply("Sum", g, **op.own_attrs), None],
    samples=[
        Sample([f64([5, 7]), i32([2, 3])], f64([[5, 5, 5], [7, 7, 7]]), {"axis": (1,)}),
        Sample([f64(2), i32([2, 2])], f64([[2, 2], [2, 2]])),
    ],
)


class Reduction(Protocol):
    """Public function of a reduction over axes."""

    def __call__(
        self, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor: ...


_PARAMETERS = {
    "axis": """int or sequence of int, or int32 or int64 Tensor, optional
    Axes to reduce; all when None. Axes that only a step knows leave the rank of the result open.""",
    "keepdims": "bool\n    Keep the reduced axes, with size 1.",
    "name": "str, optional\n    Name of the operation.",
}
_RESULT = "Tensor\n    Same dtype, without the reduced axes."
_RAISES = {"ShapeError": "If there is no such axis, or one is given twice."}


@dataclass(frozen=True)
class _ReductionType:
    """Declaration of a reduction.

    Attributes
    ----------
    type, function, summary : str
        The operation type, the name of its public function, and the first line of the function's docstring.
    where : tuple of DType
        Dtypes of the operand.
    kernel, samples, rules
        As in `define`.
    gradient : callable or NotDifferentiable
        ``gradient(op, g)`` returns the cotangent of the operand.
    examples : mapping of str to str
        For the docstring: arguments, as a call is written, and Python's output of the result.
    """

    type: str
    function: str
    summary: str
    _: KW_ONLY
    where: tuple[DType, ...]
    kernel: Kernel
    gradient: Callable[[Operation, Tensor], Tensor] | NotDifferentiable
    samples: list[Sample]
    examples: Mapping[str, str]
    rules: Sequence[object] = ()

    def declare_type(self) -> Reduction:
        """Declare the type, and return its public function."""
        type, gradient = self.type, self.gradient
        define(
            type,
            "x: T -> y: T",
            where={"T": self.where},
            attrs=AXES,
            shape=_reduction_shape,
            rules=[Batch(batch_along()), Vectorize(along()), *self.rules],
            kernel=keep_dtype(self.kernel),
            gradient=gradient if isinstance(gradient, NotDifferentiable) else lambda op, g: [gradient(op, g)],
            samples=self.samples,
        )

        def public(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
            late = late_axes(axis)
            if late is not None:
                return reduce_late_axes(type, input_tensor, late, bool(keepdims), name)
            axes = None if axis is None else static_ints(axis)
            return apply(type, input_tensor, name=name, axis=axes, keepdims=bool(keepdims))

        family = Family({"input_tensor": f"Tensor of {describe_dtypes(self.where)}", **_PARAMETERS}, _RESULT, _RAISES)
        shown = show_calls(self.function, self.examples)
        return entry.public(family.complete(name_function(public, self.function, self.summary), shown))


def _accumulator_dtype(xp: Any, x: Any) -> Any:
    """Return the dtype to add up in: a bfloat16 sum of ones would stop at 256."""
    return xp.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype


reduce_sum: Reduction = _ReductionType(
    "Sum",
    "reduce_sum",
    "Sum over axes.",
    where=dtypes.NUMERIC,
    kernel=lambda xp, x, axis, keepdims: xp.sum(x, axis, _accumulator_dtype(xp, x), keepdims=keepdims),
    rules=[LINEAR_IN_FIRST, fuse_reduction("sum")],
    gradient=lambda op, g: unreduce(g, op),
    samples=[
        Sample([_X], f64(24.75)),
        Sample([_X], f64([[1.5, 6, 0.5], [5.5, 4, 7.25]]), {"axis": (1,)}),
        Sample([_X], f64([[[2], [6]], [[8], [8.75]]]), {"axis": (-1,), "keepdims": True}),
        Sample([c128([1 + 2j, 3 - 1j])], c128(4 + 1j)),
    ],
    examples={
        "[[1, 2], [3, 4]], axis=0": "array([4, 6], dtype=int32)",
        "[[1, 2], [3, 4]], keepdims=True": "array([[10]], dtype=int32)",
    },
).declare_type()


def _count_reduced(op: Operation) -> Tensor:
    """Return the number of elements in each mean, in the dtype of the mean."""
    x, y = op.inputs[0], op.outputs[0]
    if x.rank is not None:
        gone = [x.shape[i] for i in reduced_axes(op.attrs["axis"], x.rank)]
        if None not in gone:
            return scalar_like(math.prod(gone), x)
    # Without results the quotient is unused; the maximum only keeps it from dividing by 0.
    size: Tensor = apply("Size", x) // apply("Maximum", apply("Size", y), 1)
    return apply("Cast", size, dtype=x.dtype)


def _compute_mean(xp: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    if x.size:
        return xp.mean(x, axis, _accumulator_dtype(xp, x), keepdims=keepdims)
    return (
        xp.sum(x, axis, _accumulator_dtype(xp, x), keepdims=keepdims) * math.nan
    )  # NumPy's empty mean is NaN with a warning


reduce_mean: Reduction = _ReductionType(
    "Mean",
    "reduce_mean",
    "Mean over axes; NaN over nothing.",
    where=dtypes.DIFFERENTIABLE,
    kernel=_compute_mean,
    rules=[LINEAR_IN_FIRST, fuse_reduction("mean")],
    gradient=lambda op, g: unreduce(g / _count_reduced(op), op),
    samples=[
        Sample([_X], f64(24.75 / 12)),
        Sample([_X], f64([8 / 6, 16.75 / 6]), {"axis": (1, 2)}),
        Sample([np.zeros((2, 0))], f64([np.nan, np.nan]), {"axis": (1,)}, differentiable=False),
        Sample([np.zeros((0, 2))], np.zeros(0), {"axis": (1,)}, differentiable=False),
    ],
    examples={"[[1.0, 2.0], [3.0, 6.0]], axis=1": "array([1.5, 4.5], dtype=float32)"},
).declare_type()


def _extreme_gradient(op: Operation, g: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    mask = apply("Equal", x, unreduce(y, op))
    ties = apply("Sum", apply("Cast", mask, dtype=x.dtype), axis=op.attrs["axis"], keepdims=op.attrs["keepdims"])
    return apply("Where", mask, unreduce(g / ties, op), 0)


reduce_max: Reduction = _ReductionType(
    "Max",
    "reduce_max",
    "Largest value over axes; equal largest values share the gradient.",
    where=dtypes.REAL,
    kernel=lambda xp, x, axis, keepdims: xp.max(x, axis, keepdims=keepdims),
    rules=[fuse_reduction("max")],
    gradient=_extreme_gradient,
    samples=[
        Sample([_X], f64(7)),
        Sample([_X], f64([[2, 4], [7, 6]]), {"axis": (2,)}),
        Sample([i32([[3, 8], [9, -1]])], i32([[9, 8]]), {"axis": (0,), "keepdims": True}),
    ],
    examples={"[[1, 7], [8, 3]], axis=1": "array([7, 8], dtype=int32)"},
).declare_type()


reduce_min: Reduction = _ReductionType(
    "Min",
    "reduce_min",
    "Smallest value over axes; equal smallest values share the gradient.",
    where=dtypes.REAL,
    kernel=lambda xp, x, axis, keepdims: xp.min(x, axis, keepdims=keepdims),
    rules=[fuse_reduction("min")],
    gradient=_extreme_gradient,
    samples=[
        Sample([_X], f64(-2)),
        Sample([_X], f64([[-1, 0.5], [-2, 0.25]]), {"axis": (2,)}),
    ],
    examples={"[[1, 7], [8, 3]], axis=1": "array([1, 3], dtype=int32)"},
).declare_type()


reduce_any: Reduction = _ReductionType(
    "Any",
    "reduce_any",
    "Whether at least one value over axes is true.",
    where=(dtypes.bool_,),
    kernel=lambda xp, x, axis, keepdims: xp.any(x, axis, keepdims=keepdims),
    gradient=NotDifferentiable("its result is bool"),
    samples=[Sample([_BOOLS], np.bool_(True)), Sample([~_BOOLS], flags([False, True]), {"axis": (0,)})],
    examples={"[[True, False], [False, False]], axis=1": "array([ True, False])"},
).declare_type()


reduce_all: Reduction = _ReductionType(
    "All",
    "reduce_all",
    "Whether every value over axes is true.",
    where=(dtypes.bool_,),
    kernel=lambda xp, x, axis, keepdims: xp.all(x, axis, keepdims=keepdims),
    gradient=NotDifferentiable("its result is bool"),
    samples=[Sample([_BOOLS], np.bool_(False)), Sample([_BOOLS], flags([True, False]), {"axis": (0,)})],
    examples={"[[True, True], [False, True]], axis=1": "array([ True, False])", 'tg.zeros([0], "bool")': "array(True)"},
).declare_type()


def log_sum_exp(xp: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Compute ``log(sum(exp(x)))`` without overflow, also where all of `x` is infinite."""
    x = cast_to_accumulator(xp, x)
    top = xp.max(x, axis, keepdims=True)
    # Subtracting an infinite maximum would make NaN; without it, exponentials are 0 or infinite, as the result needs.
    top = xp.where(xp.isfinite(top), top, xp.zeros((), x.dtype))
    total = xp.log(xp.sum(elementary_function(xp, "exp")(x - top), axis, keepdims=True)) + top
    return total if keepdims else xp.squeeze(total, axis)


def _log_sum_exp_gradient(op: Operation, g: Tensor) -> Tensor:
    # The softmax: x - y is at most 0, so that the exponential does not overflow.
    slope = apply("Exp", op.inputs[0] - unreduce(op.outputs[0], op))
    return multiply_unless_zero(unreduce(g, op), slope)


reduce_logsumexp: Reduction = _ReductionType(
    "LogSumExp",
    "reduce_logsumexp",
    "``log(sum(exp(x)))`` over axes, without overflow.",
    where=dtypes.FLOATING,
    kernel=log_sum_exp,
    gradient=_log_sum_exp_gradient,
    samples=[
        Sample([_X], lambda x: np.log(np.exp(x).sum())),
        Sample([_X], lambda x: np.log(np.exp(x).sum((0, 2))), {"axis": (0, 2)}),
        Sample([f64([1000, 1000])], f64(1000 + np.log(2))),
    ],
    examples={"np.array([1000.0, 1000.0])": "array(1000.69314718)"},
).declare_type()

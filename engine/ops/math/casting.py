"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DtypeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.fusing import StepWriter
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.batching import batch_pointwise
from ..support.fusing import fuse_masked, write_comparison
from ..support.literals import c128, f64, flags, i32
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import pointwise

_CASTABLE = (dtypes.bool_, *dtypes.NUMERIC)


def _cast_shape(op: Operation) -> Shape:
    """Return the shape of the operand; raise DtypeError if the target is no dtype of casts."""
    dtype = dtypes.as_dtype(op.attrs["dtype"])
    if dtype not in _CASTABLE:
        raise DtypeError(
            "cast cannot make this dtype",
            wanted="bool or a number",
            got=dtype,
            hint="use py_function for conversions of strings",
        )
    return op.inputs[0].shape


def _compute_cast(xp: Any, x: Any, dtype: Any) -> Any:
    target = dtypes.as_dtype(dtype).numpy
    # A cast to bool looks at imaginary parts too; others drop them, without the warning of NumPy.
    if x.dtype.kind == "c" and target is not None and target.kind not in "cb":
        x = x.real
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and numbers out of range become unspecified integers
        return x.astype(target)


def _cast_gradient(op: Operation, g: Tensor) -> list[Any]:
    source, target = op.inputs[0].dtype, op.outputs[0].dtype
    if not (source.is_differentiable and target.is_differentiable):
        return [None]
    return [apply("Cast", g, dtype=source)]


def _cast_steps(op: Operation, writer: StepWriter) -> None:
    writer.add("where", [write_comparison(op, writer), writer.number(op, 1), writer.number(op, 0)], op.outputs[0])


define(
    "Cast",
    "x: T -> y: @dtype",
    rules=[Vectorize(pointwise), LINEAR_IN_FIRST, Batch(batch_pointwise), fuse_masked(_cast_steps)],
    where={"T": _CASTABLE},
    attrs={"dtype": REQUIRED},
    shape=_cast_shape,
    kernel=_compute_cast,
    gradient=_cast_gradient,
    samples=[
        Sample([f64([1.7, -1.7])], i32([1, -1]), {"dtype": dtypes.int32}, differentiable=False),
        Sample([f64([1.5, -2.0])], c128([1.5, -2.0]), {"dtype": dtypes.complex128}),
        Sample([c128([1 + 2j])], f64([1]), {"dtype": dtypes.float64}),
        Sample([f64([0.0, 0.5])], flags([False, True]), {"dtype": dtypes.bool_}, differentiable=False),
    ],
)


@public
def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Convert to another dtype.

    Parameters
    ----------
    x : Tensor of bool or any numeric dtype, any shape
    dtype : dtype-like
        Bool or any numeric dtype. Floats are truncated toward zero to integers, complex numbers lose their
        imaginary part to reals, everything except zero is true.

    Returns
    -------
    Tensor
        Of dtype `dtype` and the shape of `x`; `x` itself if its dtype is `dtype` already. Gradients flow between
        floating and complex dtypes and are cut by all others.

    Raises
    ------
    DtypeError
        If either dtype is string, resource or series.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.cast([1.7, -1.7, 0.0], "int32")).sync()
    array([ 1, -1,  0], dtype=int32)
    >>> tg.function(lambda: tg.cast([1.7, -1.7, 0.0], "bool")).sync()
    array([ True,  True, False])
    """
    tensor, wanted = convert_to_tensor(x), dtypes.as_dtype(dtype)
    if tensor.dtype is wanted:
        return tensor
    return apply("Cast", tensor, name=name, dtype=wanted)


def as_before(y: Tensor, dtype: dtypes.DType, name: str | None = None) -> Tensor:
    """Cast `y`, computed from a `widen_halves` tensor, back to `dtype`, under a name."""
    if y.dtype is not dtype:
        return cast(y, dtype, name)
    return y if name is None else apply("Identity", y, name=name)


def widen_halves(x: Tensor) -> Tensor:
    """Return `x` in float32, where sums and squares fit, if it is float16 or bfloat16; other tensors unchanged."""
    is_wide = x.dtype not in (dtypes.float16, dtypes.bfloat16)
    return x if is_wide else cast(x, dtypes.float32)

"""Elements chosen by a condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_inputs
from ...ir.definition import NotDifferentiable, Sample, define, definition_of
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.fusing import StepWriter
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.batching import batch_pointwise
from ..support.common import broadcast_all, same_as, scalar_like, sum_to
from ..support.fusing import fuse_masked, write_comparison
from ..support.literals import f32, f64, flags, i32, i64
from ..support.tangents import linear
from ..support.vectorizing.families import one_by_one, pointwise

_C = flags([[True, False], [False, True]])


def _select_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Route the cotangent to `x` where the condition is true, otherwise to `y`."""
    condition, x, y = op.inputs
    # a choice and not a product with the mask, because 0 times an infinite cotangent is NaN
    zero = scalar_like(0, g)
    return [
        None,
        sum_to(apply("Where", condition, g, zero), x),
        sum_to(apply("Where", condition, zero, g), y),
    ]


def _where_steps(op: Operation, writer: StepWriter) -> None:
    writer.add("where", [write_comparison(op, writer), *op.inputs[1:]], op.outputs[0])


define(
    "Where",
    "condition: bool, x: T, y: T -> output: T",
    rules=[Vectorize(pointwise), linear(1, 2), Batch(batch_pointwise), fuse_masked(_where_steps)],
    shape=broadcast_all,
    kernel=lambda xp, condition, x, y: xp.where(condition, x, y),
    gradient=_select_gradient,
    samples=[
        Sample([_C, f64([[1, 2], [3, 4]]), f64([10, 20])], f64([[1, 20], [10, 4]])),
        Sample([np.bool_(False), np.int32(1), i32([2, 3])], i32([2, 3])),
    ],
)


def _require_clear(condition: int, *values: int) -> None:
    """Refuse a vector as condition of matrices: in TensorFlow 1 it chose rows, in NumPy's broadcasting columns."""
    rank = max(values)
    if condition == 1 and rank > 1:
        more = ["None"] * (rank - 1)
        raise ShapeError(
            "a vector as condition does not say whether it chooses rows or columns",
            wanted=f"a condition of rank {rank}, as x or y has, or a scalar",
            got="rank 1",
            hint=f"cond[{', '.join([':', *more])}] chooses rows, cond[{', '.join([*more, ':'])}] columns",
        )


def _check_condition_ranks(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    _require_clear(condition.ndim, x.ndim, y.ndim)
    return condition


define(
    "CheckedCondition",  # for ranks unknown while the graph is built
    "condition: bool, x: T, y: T -> output: bool",
    shape=same_as(0),
    rules=[Vectorize(one_by_one)],
    kernel=_check_condition_ranks,
    gradient=NotDifferentiable("its result is bool"),
    samples=[Sample([_C, f64([[1, 2], [3, 4]]), f64([10, 20])], _C), Sample([_C[0], f64(1), f64([2, 3])], _C[0])],
)

define(
    "NonZero",
    "condition: T -> indices: int64",
    where={"T": (dtypes.bool_, *dtypes.NUMERIC)},
    shape=lambda op: Shape([None, op.inputs[0].rank]),
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=lambda xp, condition: xp.argwhere(condition).astype(xp.int64, copy=False),
    gradient=NotDifferentiable("indices are integers"),
    samples=[
        Sample([_C], i64([[0, 0], [1, 1]])),
        Sample([f32([0, 2, 0])], i64([[1]])),
    ],
)


@public
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Choose elements by a condition; with the condition alone, find the true elements.

    Parameters
    ----------
    condition : bool Tensor (bool or numeric without `x` and `y`)
    x, y : Tensor of equal dtypes, optional
        Values for a true and for a false condition. All three broadcast as in NumPy, except a condition of rank 1 with
        an `x` or `y` of higher rank, which is refused: TensorFlow 1 chose rows by a vector.

    Returns
    -------
    Tensor
        Of the dtype of `x` and the broadcast shape; or int64 of shape [number of true elements, rank].
        A gradient flows to the chosen elements only, the others get zero.

    Raises
    ------
    GraphError
        If only `x` or only `y` is given.
    ShapeError
        If a vector is the condition of matrices; in a running step, as the cause of an OpError, if a rank is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.where([True, False, True], [1, 2, 3], 0)).sync()
    array([1, 0, 3], dtype=int32)
    >>> tg.function(lambda: tg.where([0, 7, 7])).sync()
    array([[1],
           [2]])

    A mask of rows needs the rank of `x` and `y`:

    >>> with tg.Graph().as_default():
    ...     done, state = tg.placeholder("bool", [None]), tg.placeholder("float32", [None, 8])
    ...     kept = tg.where(done[:, None], 0.0, state)
    """
    if x is None and y is None:
        return apply("NonZero", condition, name=name)
    if x is None or y is None:
        raise GraphError(
            "where takes both x and y, or neither",
            got=f"x={x!r}, y={y!r}",
            wanted="both or neither",
            hint="the condition alone gives the indices of what is true",
        )
    condition, x, y = convert_inputs(definition_of("Where"), (condition, x, y), name or "Where")
    ranks = [t.rank for t in (condition, x, y)]
    # refuse now where the known ranks suffice, otherwise let the step check
    if None not in ranks or (ranks[0] == 1 and max(filter(None, ranks)) > 1):
        # 0 for an unknown rank, because the known ranks alone have decided
        _require_clear(*(rank or 0 for rank in ranks))
    # a condition of another known rank cannot be such a vector
    elif ranks[0] in (1, None):
        condition = apply("CheckedCondition", condition, x, y)
    return apply("Where", condition, x, y, name=name)

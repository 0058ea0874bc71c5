"""Building blocks of sparse operations: the order of places, groups of equal places, checks of equal sizes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.shapes import ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..array.distinct import PLACES, order_of_rows
from ..support.arguments import check_rank
from ..support.common import scalar_like
from ..support.literals import f64, i32, i64
from ..support.vectorizing.families import one_by_one

INDICES = NotDifferentiable("it gives indices, which are integers")


define(
    "SparseOrder",
    "indices: int64 -> order: int64",
    shape=lambda op: Shape([None if op.inputs[0].rank is None else op.inputs[0].shape[0]]),
    rules=[Vectorize(one_by_one)],
    kernel=lambda xp, indices: order_of_rows(xp, indices).astype(xp.int64, copy=False),
    gradient=INDICES,
    samples=[
        Sample([PLACES], i64([3, 1, 0, 2])),
        Sample([i64([[2], [1], [2], [0]])], i64([3, 1, 0, 2])),
        Sample([i64([[2**62, -(2**62)], [5, 2**62], [5, -1]])], i64([2, 1, 0])),
        Sample([np.zeros((3, 0), np.int64)], i64([0, 1, 2])),
        Sample([np.zeros((0, 2), np.int64)], np.zeros(0, np.int64)),
    ],
)


def sum_of_groups(values: Tensor, numbers: Tensor, count: Tensor, name: str | None = None) -> Tensor:
    """Return the sum of `values` in each of `count` groups; `numbers` has the group of each value."""
    return apply("UnsortedSegmentSum", values, numbers, count, name=name)


def _group_max(xp: Any, values: Any, numbers: Any, count: Any) -> Any:
    """Return the largest value of each group; ValueError if a group is empty."""
    # Two stable sorts order by group, then by value: the last of a group is its largest, NaN above all numbers.
    order = xp.argsort(values, kind="stable")
    order = order[xp.argsort(numbers[order], kind="stable")]
    groups = numbers[order]
    last = xp.ones(groups.shape[0], dtype=xp.bool_)
    last[:-1] = groups[1:] != groups[:-1]
    largest = values[order][last]
    # An empty group would have no value, and shift the groups after it.
    if largest.shape[0] != int(count):
        raise ValueError(f"each of {int(count)} groups needs a value, {largest.shape[0]} have one")
    return largest


def _group_max_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Share the cotangent of a group's largest value equally among the values equal to it."""
    values, numbers, count = op.inputs
    mask = apply("Equal", values, apply("Gather", op.outputs[0], numbers))
    ties = sum_of_groups(apply("Cast", mask, dtype=values.dtype), numbers, count)
    return [apply("Where", mask, apply("Gather", g / ties, numbers), scalar_like(0, g)), None, None]


define(
    "GroupMax",
    "values: T, numbers: int64, count: host I -> largest: T",
    where={"T": dtypes.REAL, "I": dtypes.INDEX},
    shape=lambda op: Shape([None]),
    rules=[Vectorize(one_by_one), ReadsValues()],
    kernel=_group_max,
    gradient=_group_max_gradient,
    samples=[
        Sample([f64([3, -1, 7, -4, 5]), i64([1, 0, 1, 0, 2]), np.int32(3)], f64([-1, 7, 5])),
        Sample([i32([4, 4]), i64([0, 0]), np.int64(1)], i32([4])),
        Sample([f64([1, np.nan, 2]), i64([0, 0, 1]), np.int32(2)], f64([np.nan, 2]), differentiable=False),
        Sample([f64([]), np.zeros(0, np.int64), np.int32(0)], f64([])),
    ],
)


def largest_of_groups(values: Tensor, numbers: Tensor, count: Tensor, name: str | None = None) -> Tensor:
    """Return the largest of `values` in each of `count` groups, none empty; `numbers` has the group of each value."""
    return apply("GroupMax", values, numbers, count, name=name)


def _same_sizes_shape(op: Operation) -> Shape:
    a, b = op.inputs
    _known_sizes(op)
    return a.shape.merge(b.shape)


def _known_sizes(op: Operation) -> Shape:
    """Return the common static shape of two sparse tensors; ShapeError if the shapes are known to differ."""
    a, b = map(static_shape, op.inputs)
    if not a.is_compatible_with(b):
        raise ShapeError(
            f"{op.attrs['what']}: the sparse tensors have to have one shape",
            wanted=a,
            got=b,
            hint="sparse_reshape, sparse_slice and sparse_expand_dims give another",
        )
    return a.merge(b)


def _same_sizes(xp: Any, a: Any, b: Any, what: str) -> Any:
    check_rank(a, 1, 1, f"{what}: the shape of a sparse tensor is a vector")
    check_rank(b, 1, 1, f"{what}: the shape of a sparse tensor is a vector")
    if a.shape != b.shape or (a != b).any():
        raise ValueError(f"{what}: the sparse tensors have to have one shape, got {a} and {b}")
    return a


define(
    "SameSizes",
    "a: host int64, b: host int64 -> sizes: host int64",
    attrs={"what": "sparse"},
    shape=_same_sizes_shape,
    rules=[Vectorize(one_by_one), ShapeVector(_known_sizes, is_checked=True), ReadsValues()],
    kernel=_same_sizes,
    gradient=INDICES,
    samples=[Sample([i64([2, 3]), i64([2, 3])], i64([2, 3])), Sample([i64([]), i64([])], i64([]))],
)


def same_sizes(a: Tensor, b: Tensor, what: str) -> Tensor:
    """Return the common shape of two sparse tensors, of shapes `a` and `b`; `what` names the operation in errors."""
    return apply("SameSizes", a, b, what=what)


def after_checks(checks: Sequence[Tensor]) -> AbstractContextManager[Any]:
    """Return a scope whose operations wait for checks of sizes, except checks of constant sizes."""
    # Constant sizes were compared while building; waiting for their check would only cost steps time.
    waits = [t.op for t in checks if not all(x.op.is_constant for x in t.op.inputs)]
    return scopes.within(control_inputs=(*scopes.current().control_inputs, *waits))  # type: ignore[no-any-return]

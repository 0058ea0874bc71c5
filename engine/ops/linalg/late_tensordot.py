"""``tensordot`` with ranks or axes known only when a step runs, as a product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import GraphError, ShapeError
from ...ir import scopes
from ...ir.apply import apply
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..control.effects import Assert
from ..support.arguments import index_tensor
from ..support.common import shape_of
from ..support.late_axes import from_zero, join_vectors, mark_axes, number_range, permute_dimensions, rank_of


def late_tensordot(a: Tensor, b: Tensor, axes: Any, name: str | None) -> Tensor:
    """Return ``tensordot(a, b, axes)``, whose dimensions are computed when a step runs."""
    ours, theirs = _summed_dimensions(axes, rank_of(a), rank_of(b))
    left_free, right_free = _free_dimensions(a, ours), _free_dimensions(b, theirs)
    # Checked before the reshapes, which would fail with errors about sizes that users never wrote.
    with scopes.within(control_inputs=(*scopes.current().control_inputs, _check_sizes(a, b, ours, theirs))):
        left = _reshape_to_matrix(a, left_free, ours, first=True)
        right = _reshape_to_matrix(b, right_free, theirs, first=False)
    product = apply("MatMul", left, right, transpose_a=False, transpose_b=False)
    return apply("Reshape", product, join_vectors(_sizes_along(a, left_free), _sizes_along(b, right_free)), name=name)


def _summed_dimensions(axes: Any, rank_a: Tensor, rank_b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the summed dimensions of a and of b as int32 vectors, counted from 0."""
    if isinstance(axes, (list, tuple)) and len(axes) == 2:
        parts = [index_tensor(each) for each in axes]
    else:
        tensor = index_tensor(axes)
        if tensor.rank is None:
            raise ShapeError(
                "axes of tensordot have a known rank",
                wanted="a scalar, or two vectors",
                got=tensor.shape,
                operation=tensor.op,
                hint="set_shape says it",
            )
        if tensor.rank == 0:
            count = apply("Cast", tensor, dtype="int32")
            # A number means so many last dimensions of a, and first dimensions of b.
            return number_range(rank_a - count, rank_a), number_range(0, count)
        if tensor.rank > 2 or tensor.shape[0] not in (2, None):
            raise GraphError(
                "axes of tensordot are pairs of dimensions",
                wanted="a number, or as many different dimensions of a as of b: [[...], [...]]",
                got=tensor.shape,
                hint="axes=1 is the product of matrices",
            )
        parts = [apply("Gather", tensor, index_tensor(row), axis=0, batch_dims=0) for row in (0, 1)]
    vectors = [apply("Reshape", apply("Cast", each, dtype="int32"), np.array([-1], np.int32)) for each in parts]
    return from_zero(vectors[0], rank_a), from_zero(vectors[1], rank_b)


def _free_dimensions(x: Tensor, axes: Tensor) -> Tensor:
    """Return the dimensions that are not among the axes."""
    rank = rank_of(x)
    return apply("BooleanMask", number_range(0, rank), apply("LogicalNot", mark_axes(axes, rank)))


def _sizes_along(x: Tensor, axes: Tensor) -> Tensor:
    return apply("Gather", shape_of(x), axes, axis=0, batch_dims=0)


def _check_sizes(a: Tensor, b: Tensor, ours: Tensor, theirs: Tensor) -> Operation:
    """Return an Assert of equally many summed dimensions of a and b, of the same sizes."""
    shown = [_sizes_along(a, ours), _sizes_along(b, theirs)]
    enough = Assert(
        apply("Equal", apply("Size", ours), apply("Size", theirs)),
        shown,
        message="tensordot sums over as many dimensions of a as of b; their sizes are",
    )
    # Vectors of different lengths cannot be compared: the second check runs after the first.
    with scopes.within(control_inputs=(*scopes.current().control_inputs, enough)):
        left = apply("Identity", shown[0])
    return Assert(
        apply("Equal", left, shown[1]), shown, message="tensordot sums over dimensions of one size; their sizes are"
    )


def _reshape_to_matrix(x: Tensor, free: Tensor, summed: Tensor, first: bool) -> Tensor:
    """Return a tensor as a matrix, the summed dimensions as columns, or as rows unless `first`."""
    order = (free, summed) if first else (summed, free)
    # The product over no dimensions is 1: outer products and scalars need no cases of their own.
    sizes = [apply("Prod", _sizes_along(x, each), axis=(0,), keepdims=False) for each in order]
    return apply("Reshape", permute_dimensions(x, join_vectors(*order)), apply("Stack", sizes, axis=0))

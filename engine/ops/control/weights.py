"""Weights of elements, and checks of equal shapes, for losses and metrics."""

from __future__ import annotations

from typing import Any

from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, as_symbolic, convert_to_tensor
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..array.shapes import squeeze
from ..math.arithmetic import multiply
from ..math.reductions import reduce_all, reduce_sum
from ..support.common import ensure_sizes, ones_like, scalar_like, shape_of, size_along
from .assertions import assert_equal
from .effects import Assert
from .shape_assertions import assert_rank_at_least


def in_dtype(value: Any, dtype: Any) -> Tensor:
    """Return `value` as a tensor of `dtype`, cast if necessary; floating literals do not go through float32."""
    tensor = convert_to_tensor(value)
    if tensor.dtype.is_floating and dtype.is_floating and not hasattr(value, "dtype") and not as_symbolic(value):
        return convert_to_tensor(value, dtype)
    return tensor if tensor.dtype is dtype else apply("Cast", tensor, dtype=dtype)


def tensor_after_checks(tensor: Tensor, checks: list[Operation]) -> Tensor:
    """Return the same tensor, available only after the checks have held."""
    if not checks:
        return tensor
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *checks)):
        return apply("Identity", tensor)


def of_one_shape(labels: Tensor, predictions: Tensor, names: str = "labels and predictions") -> Tensor:
    """Return the predictions, whose shape must equal the labels' shape: broadcasting would hide a mistake.

    Parameters
    ----------
    labels, predictions : Tensor
    names : str
        Label of both in error messages.

    Raises
    ------
    ShapeError
        If the static shapes differ; unknown shapes are checked by the step, with an OpError.
    """
    a, b = labels.shape, predictions.shape
    if not a.is_compatible_with(b):
        raise ShapeError(
            f"{names} differ in shape",
            wanted=b,
            got=a,
            operation=labels.op,
            hint="reshape one of them; there is no broadcasting here",
        )
    # Known shapes have been compared above.
    if labels is predictions or (a.is_fully_known and b.is_fully_known):
        return predictions
    sizes = shape_of(predictions)
    if a.rank is None or b.rank is None:
        ranks = assert_equal(apply("Rank", labels), apply("Rank", predictions), f"ranks of {names}")
        sizes = tensor_after_checks(sizes, [ranks])  # shape vectors of different lengths cannot be compared
    checked = tensor_after_checks(predictions, [assert_equal(shape_of(labels), sizes, f"shapes of {names}")])
    checked.set_shape(a.merge(b))
    return checked


def with_last(x: Tensor, size: int, names: str) -> Tensor:
    """Return a tensor whose last dimension is `size`; a step checks an unknown dimension."""
    if x.rank == 0 or (x.rank is not None and x.shape[-1] not in (size, None)):
        raise ShapeError(
            names, wanted=f"a last dimension of {size}", got=x.shape, operation=x.op, hint="slice the last dimension"
        )
    if x.rank is not None:
        return ensure_sizes(x, *[None] * (x.rank - 1), size)
    return tensor_after_checks(x, [assert_equal(size_along(x, -1), size, names)])


def of_rank(x: Tensor, least: int, names: str, hint: str) -> Tensor:
    """Return a tensor of rank `least` or more; a step checks an unknown rank."""
    if x.rank is None:
        return tensor_after_checks(x, [assert_rank_at_least(x, least, names)])
    if x.rank < least:
        raise ShapeError(names, wanted=f"rank {least} or more", got=x.shape, operation=x.op, hint=hint)
    return x


def without_last(x: Tensor, rank: int | None) -> Tensor:
    """Return the tensor squeezed to `rank` if its last dimension is 1 and its rank one more; else unchanged."""
    if x.rank is None or rank is None or x.rank != rank + 1 or x.shape[-1] != 1:
        return x
    return squeeze(x, -1)


def fitting_weights(weights: Any, values: Tensor) -> Tensor:
    """Return weights in the dtype of the values: a scalar, or of the values' rank with dimensions which are equal or 1.

    Raises
    ------
    ShapeError
        If the static shapes do not fit; unknown shapes are checked by the step, with an OpError.
    """
    weights = in_dtype(weights, values.dtype)
    return tensor_after_checks(weights, check_weights(weights, values))


def check_weights(weights: Tensor, values: Tensor) -> list[Operation]:
    """Return the checks, by a step, of weights against values; none if the static shapes fit.

    Raises
    ------
    ShapeError
        If the static shapes do not fit.
    """
    known = _shapes_fit(weights.shape, values.shape)
    if known is False:
        raise ShapeError(
            "weights do not fit",
            wanted=f"[], or {values.shape} with 1 in the place of some dimensions",
            got=weights.shape,
            operation=weights.op,
            hint="expand_dims makes a column of one weight for each row",
        )
    return [] if known else [_check_shapes_in_step(weights, values)]


def _shapes_fit(weights: Shape, values: Shape) -> bool | None:
    """Return True if the static shapes fit, False if they do not, None if they leave it open."""
    if weights.rank == 0:
        return True
    if weights.rank is None or values.rank is None:
        return None
    if weights.rank != values.rank:
        return False
    found = [
        True if w == 1 else None if w is None or v is None else w == v for w, v in zip(weights, values, strict=True)
    ]
    return False if False in found else None if None in found else True


def _check_shapes_in_step(weights: Tensor, values: Tensor) -> Operation:
    """Compare shapes in a step; also ranks, if unknown."""
    ours, theirs = shape_of(weights), shape_of(values)
    if weights.rank is not None and values.rank is not None:
        fits = _all_fit(ours, theirs)
    else:
        rank, wanted = apply("Rank", weights), apply("Rank", values)
        # The shape vector of a scalar is empty: the values' own sizes follow it, which makes the comparison hold.
        filled = apply("Slice", apply("Concat", [ours, theirs], axis=0), [0], apply("Reshape", wanted, [1]))
        same = apply("LogicalOr", apply("Equal", rank, 0), apply("Equal", rank, wanted))
        fits = apply("LogicalAnd", same, _all_fit(filled, theirs))
    return Assert(fits, [ours, theirs], message="weights are a scalar, or of dimensions that fit or are 1")


def _all_fit(ours: Tensor, theirs: Tensor) -> Tensor:
    return reduce_all(apply("LogicalOr", apply("Equal", ours, 1), apply("Equal", ours, theirs)))


def spread_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Return the weights broadcast to the shape of the values."""
    return multiply(weights, ones_like(values))


def num_present(weights: Tensor, values: Tensor) -> Tensor:
    """Return the number of `values` with nonzero `weights`, in the dtype of the weights."""
    return reduce_sum(spread_weights(nonzero_indicator(weights), values))


def nonzero_indicator(weights: Tensor) -> Tensor:
    """Return 1 where `weights` are not 0, else 0; without a gradient."""
    return apply("Where", apply("Equal", weights, 0), scalar_like(0, weights), scalar_like(1, weights))

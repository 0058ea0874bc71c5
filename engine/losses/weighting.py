"""Weighting and reduction of elementwise losses."""

from __future__ import annotations

from ..base.dtypes import accumulator_dtype
from ..base.errors import DtypeError, GraphError
from ..frontend.control.scopes import name_scope
from ..ir.apply import apply, convert_to_tensor
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.control.weights import fitting_weights, in_dtype, num_present, of_one_shape, spread_weights
from ..ops.math.arithmetic import div_no_nan
from ..ops.math.reductions import reduce_sum
from .collected import LOSSES, add_loss
from .family import loss_function


class Reduction:
    """Reductions of weighted elementwise losses, for the argument `reduction` of losses.

    Attributes
    ----------
    NONE : str
        No reduction.
    SUM : str
        Sum of the weighted losses.
    SUM_OVER_BATCH_SIZE : str
        Sum divided by the number of elements.
    SUM_OVER_NONZERO_WEIGHTS, SUM_BY_NONZERO_WEIGHTS : str
        Sum divided by the number of elements with nonzero weights.
    MEAN : str
        Sum divided by the sum of the weights.

    Examples
    --------
    >>> import tagloom as tg
    >>> def loss(reduction):
    ...     return tg.losses.compute_weighted_loss([1.0, 2.0, 9.0], [4.0, 2.0, 0.0], reduction=reduction)
    >>> tg.function(lambda: loss(tg.losses.Reduction.NONE)).sync().tolist()
    [4.0, 4.0, 0.0]
    >>> [float(tg.function(lambda: loss(r)).sync()) for r in ("weighted_sum", "weighted_sum_by_nonzero_weights")]
    [8.0, 4.0]
    """

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    # TensorFlow 1 has both names.
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS


_ALL = ("none", "weighted_sum", "weighted_sum_over_batch_size", "weighted_mean", "weighted_sum_by_nonzero_weights")


@loss_function
def compute_weighted_loss(
    losses: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Multiply elementwise losses by weights, and reduce them.

    Parameters
    ----------
    losses : Tensor of a floating dtype

    Examples
    --------
    >>> import tagloom as tg
    >>> weighted = tg.function(lambda: tg.losses.compute_weighted_loss([1.0, 2.0, 9.0], [4.0, 2.0, 0.0]))
    >>> float(weighted.sync())  # (4 + 4) over the number of weights that are not 0
    4.0
    """
    if not isinstance(reduction, str) or reduction not in _ALL:
        raise GraphError(
            "no such reduction", wanted=", ".join(_ALL), got=reduction, hint="take one of tagloom.losses.Reduction"
        )
    with name_scope(scope, "weighted_loss"):
        losses = convert_to_tensor(losses)
        if not losses.dtype.is_floating:
            raise DtypeError(
                "losses are floating numbers", wanted="float", got=losses.dtype, operation=losses.op, hint="cast them"
            )
        # Sums of float16 or bfloat16 would lose digits or overflow.
        wide = in_dtype(losses, accumulator_dtype(losses.dtype))
        weights = fitting_weights(weights, wide)
        loss = in_dtype(_reduce_losses(wide * weights, weights, reduction), losses.dtype)
        # Unreduced losses are no scalars, which get_total_loss would refuse.
        add_loss(loss, None if reduction == Reduction.NONE else loss_collection)
        return loss


def _reduce_losses(weighted: Tensor, weights: Tensor, reduction: str) -> Tensor:
    """Return the reduction of weighted losses; a divisor of 0 makes the result 0."""
    if reduction == Reduction.NONE:
        return weighted
    total = reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        # A weight that is broadcast counts once for each loss that it weights.
        return div_no_nan(total, reduce_sum(spread_weights(weights, weighted)))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        # The number of losses, whatever their weights.
        return div_no_nan(total, in_dtype(apply("Size", weighted), weighted.dtype))
    if reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        return div_no_nan(total, num_present(weights, weighted))
    return total


def floating_pair(labels: ArrayLike, predictions: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return labels and predictions of the same shape, in the dtype of the predictions."""
    predictions = convert_to_tensor(predictions)
    if not predictions.dtype.is_floating:
        raise DtypeError(
            "predictions are floating numbers",
            wanted="float",
            got=predictions.dtype,
            operation=predictions.op,
            hint="cast them",
        )
    labels = in_dtype(labels, predictions.dtype)
    return labels, of_one_shape(labels, predictions)

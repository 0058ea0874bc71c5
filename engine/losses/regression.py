"""Losses of predicted numbers: distances between predictions and labels."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import accumulator_dtype
from ..base.errors import ShapeError
from ..frontend.control.scopes import name_scope
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.control.weights import fitting_weights, in_dtype, nonzero_indicator
from ..ops.math.arithmetic import div_no_nan, maximum, minimum, squared_difference
from ..ops.math.elementwise import abs as absolute
from ..ops.math.elementwise import square
from ..ops.math.reductions import reduce_sum
from ..ops.support.arguments import static_int
from ..ops.support.common import ones_like
from .collected import LOSSES, add_loss
from .family import loss_function
from .weighting import Reduction, compute_weighted_loss, floating_pair


@loss_function
def absolute_difference(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Absolute differences, weighted and reduced.

    Examples
    --------
    >>> import tagloom as tg
    >>> float(tg.function(lambda: tg.losses.absolute_difference([1.0, 5.0], [2.0, 2.0])).sync())
    2.0
    """
    with name_scope(scope, "absolute_difference") as inner:
        labels, predictions = floating_pair(labels, predictions)
        return compute_weighted_loss(absolute(predictions - labels), weights, inner, loss_collection, reduction)


@loss_function
def mean_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Squares of differences, weighted and reduced.

    Examples
    --------
    >>> import tagloom as tg
    >>> float(tg.function(lambda: tg.losses.mean_squared_error([1.0, 5.0], [2.0, 2.0])).sync())
    5.0
    """
    with name_scope(scope, "mean_squared_error") as inner:
        labels, predictions = floating_pair(labels, predictions)
        losses = squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@loss_function
def huber_loss(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = 1.0,
    delta: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Half of the squared differences up to `delta`, and linear beyond (Huber, 1964).

    Parameters
    ----------
    delta : float or floating scalar Tensor

    Examples
    --------
    >>> import tagloom as tg
    >>> huber = tg.function(lambda x: tg.losses.huber_loss([0.0], x, delta=2.0))
    >>> [float(huber.sync([x])) for x in (1.0, 2.0, 3.0, 4.0)]
    [0.5, 2.0, 4.0, 6.0]
    """
    with name_scope(scope, "huber_loss") as inner:
        labels, predictions = floating_pair(labels, predictions)
        delta = in_dtype(delta, predictions.dtype)
        error = absolute(predictions - labels)
        # Quadratic in the error up to delta, linear in the excess: without a where(), hence with finite gradients.
        curved = minimum(error, delta)
        losses = 0.5 * square(curved) + delta * (error - curved)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@loss_function
def cosine_distance(
    labels: ArrayLike,
    predictions: ArrayLike,
    axis: Any = None,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Inner products along an axis, subtracted from 1: for unit vectors, the cosine distance.

    Parameters
    ----------
    labels, predictions : Tensor
        Of the same shape, and already normalized, as by `l2_normalize`; predictions of a floating dtype, to which
        labels of other dtypes are cast.
    axis : int
        The axis of the vectors.
    weights : Tensor of any real dtype
        A scalar, or a weight for each vector: of size 1 along the vectors' axis.

    Raises
    ------
    ShapeError
        If the shapes differ, or `axis` is missing.

    Examples
    --------
    >>> import tagloom as tg
    >>> distance = tg.function(lambda: tg.losses.cosine_distance([[1.0, 0.0]], [[0.6, 0.8]], axis=1))
    >>> round(float(distance.sync()), 4)
    0.4
    """
    if axis is None:
        raise ShapeError(
            "cosine_distance needs the axis of the vectors", wanted="an integer", got=None, hint="give axis=-1"
        )
    with name_scope(scope, "cosine_distance") as inner:
        labels, predictions = floating_pair(labels, predictions)
        # The axis stays, with size 1, so that weights may have the rank of the labels.
        losses = 1 - reduce_sum(labels * predictions, static_int(axis), keepdims=True)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@loss_function
def mean_pairwise_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
) -> Tensor:
    """Squared error of the differences between an example's elements, over all pairs.

    In Python, for each example: the mean of ``((p[i] - p[j]) - (y[i] - y[j])) ** 2`` over all pairs ``i < j``. The
    result is the weighted sum of the means over all examples.

    Parameters
    ----------
    labels, predictions : Tensor of shape [batch, ...]
        Predictions of a floating dtype, to which labels of other dtypes are cast.
    weights : Tensor of any real dtype
        A scalar, or of shape [batch, 1, ...], a weight for each example.

    Returns
    -------
    Tensor
        A scalar of the dtype of `predictions`; 0 for examples with a single element.

    Raises
    ------
    ShapeError
        If the shapes differ, the rank is unknown or less than 2, or the weights do not fit the examples.

    Examples
    --------
    >>> import tagloom as tg
    >>> loss = tg.function(lambda x: tg.losses.mean_pairwise_squared_error([[1.0, 2.0, 4.0]], x))
    >>> [float(loss.sync([x])) for x in ([1.0, 2.0, 4.0], [6.0, 7.0, 9.0], [1.0, 2.0, 7.0])]
    [0.0, 0.0, 6.0]
    """
    with name_scope(scope, "mean_pairwise_squared_error"):
        labels, predictions = floating_pair(labels, predictions)
        differences = predictions - labels
        if differences.rank is None or differences.rank < 2:
            raise ShapeError(
                "pairs are of elements of one example",
                wanted="[batch, ...]",
                got=differences.shape,
                operation=differences.op,
                hint="expand_dims(x, 0) makes one example of a vector",
            )
        per_example = _of_pairs(in_dtype(differences, accumulator_dtype(differences.dtype)))
        weights = fitting_weights(weights, per_example)
        loss = in_dtype(reduce_sum(per_example * nonzero_indicator(weights) * weights), differences.dtype)
        add_loss(loss, loss_collection)
        return loss


def _of_pairs(differences: Tensor) -> Tensor:
    """Return twice the variance within each example, equal to the mean over its pairs; 0 for a single element."""
    # Summing over pairs would take quadratic time; the variance takes linear time.
    axes = list(range(1, differences.rank or 0))
    count = reduce_sum(ones_like(differences), axes, keepdims=True)
    centred = differences - div_no_nan(reduce_sum(differences, axes, keepdims=True), count)
    # The mean of (d[i] - d[j])**2 over all pairs is twice the variance with divisor n - 1.
    return 2 * div_no_nan(reduce_sum(square(centred), axes, keepdims=True), maximum(count - 1, 0))

"""Losses of predictions of classes."""

from __future__ import annotations

from typing import Any

from ..frontend.control.scopes import name_scope
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.control.placeholders import stop_gradient
from ..ops.control.weights import in_dtype, without_last
from ..ops.math.elementwise import log
from ..ops.nn.activations import relu
from ..ops.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from ..ops.support.arguments import static_fraction
from ..ops.support.common import size_along
from .collected import LOSSES
from .family import loss_function
from .weighting import Reduction, compute_weighted_loss, floating_pair


@loss_function
def hinge_loss(
    labels: ArrayLike,
    logits: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Hinge loss: the amount by which logits fall short of a margin of 1 on the side of their labels.

    Parameters
    ----------
    labels : Tensor
        Zeros and ones, of the shape of `logits`.
    logits : Tensor of a floating dtype

    Examples
    --------
    >>> import tagloom as tg
    >>> hinge = tg.function(lambda: tg.losses.hinge_loss([1, 0, 0], [0.25, 0.25, -3.0], reduction="none"))
    >>> hinge.sync().tolist()
    [0.75, 1.25, 0.0]
    """
    with name_scope(scope, "hinge_loss") as inner:
        labels, logits = floating_pair(labels, logits)
        # Labels 0 and 1 become -1 and 1.
        losses = relu(1 - (2 * labels - 1) * logits)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@loss_function
def log_loss(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = 1.0,
    epsilon: Any = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Elementwise cross-entropy of predicted probabilities, in nats.

    For logits, `sigmoid_cross_entropy` is exact.

    Parameters
    ----------
    labels, predictions : Tensor
        Probabilities, of the same shape; predictions of a floating dtype, to which labels of other dtypes are cast.
    epsilon : float or floating scalar Tensor
        Added to the argument of each logarithm.

    Examples
    --------
    >>> import tagloom as tg
    >>> loss = tg.function(lambda: tg.losses.log_loss([1.0, 0.0], [0.5, 0.75], reduction="none"))
    >>> [round(value, 4) for value in loss.sync().tolist()]
    [0.6931, 1.3863]
    """
    with name_scope(scope, "log_loss") as inner:
        labels, predictions = floating_pair(labels, predictions)
        epsilon = in_dtype(epsilon, predictions.dtype)
        # In both logarithms, because predictions may be 0 or 1.
        losses = -labels * log(predictions + epsilon) - (1 - labels) * log(1 - predictions + epsilon)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@loss_function
def sigmoid_cross_entropy(
    multi_class_labels: ArrayLike,
    logits: ArrayLike,
    weights: ArrayLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Cross-entropy of independent classes, of which any may hold, with ``sigmoid(logits)``, in nats.

    Parameters
    ----------
    multi_class_labels : Tensor
        Probabilities, of the shape of `logits`.
    logits : Tensor of a floating dtype
    label_smoothing : float
        Fraction of the way from labels to 1/2, in [0, 1].

    Raises
    ------
    GraphError
        If the reduction is unknown, or `label_smoothing` is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> loss = tg.function(lambda: tg.losses.sigmoid_cross_entropy([1, 0], [0.0, 100.0], reduction="none"))
    >>> loss.sync()
    array([  0.6931472, 100.       ], dtype=float32)
    """
    with name_scope(scope, "sigmoid_cross_entropy_loss") as inner:
        labels, logits = floating_pair(multi_class_labels, logits)
        # Towards 1/2: the classes are independent, and each is smoothed between holding and not holding.
        labels = _smooth_labels(labels, label_smoothing, 0.5)
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def _smooth_labels(labels: Tensor, smoothing: Any, towards: Any) -> Tensor:
    smoothing = static_fraction(smoothing, "label_smoothing")
    # Known while the graph is built: without smoothing there are no operations.
    return labels * (1 - smoothing) + towards * smoothing if smoothing else labels


@loss_function
def softmax_cross_entropy(
    onehot_labels: ArrayLike,
    logits: ArrayLike,
    weights: ArrayLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Cross-entropy of given probabilities with the softmax of `logits`, in nats; no gradient flows to the labels.

    Parameters
    ----------
    onehot_labels : Tensor
        Probabilities, of the shape of `logits`.
    logits : Tensor of a floating dtype
        Classes along the last axis.
    weights : Tensor of any real dtype
        A scalar, or of the shape without the last axis, with the same dimensions or 1 in their place.
    label_smoothing : float
        Fraction of the way from labels to equal probabilities, in [0, 1].

    Raises
    ------
    GraphError
        If the reduction is unknown, or `label_smoothing` is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> loss = tg.function(lambda: tg.losses.softmax_cross_entropy([[0, 1]], [[0.0, 0.0]], label_smoothing=0.1))
    >>> loss.sync()
    array(0.6931472, dtype=float32)
    """
    with name_scope(scope, "softmax_cross_entropy_loss") as inner:
        labels, logits = floating_pair(onehot_labels, logits)
        classes = in_dtype(size_along(logits, -1), logits.dtype)
        # Towards the uniform distribution over the classes.
        labels = _smooth_labels(stop_gradient(labels), label_smoothing, 1 / classes)
        losses = softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


@loss_function
def sparse_softmax_cross_entropy(
    labels: ArrayLike,
    logits: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Cross-entropy of class numbers with the softmax of `logits`, in nats.

    Parameters
    ----------
    labels : Tensor of int32 or int64
        Class numbers, of the shape of `logits` without the last axis, or with a last axis of size 1.
    logits : Tensor of a floating dtype
        Classes along the last axis.
    weights : Tensor of any real dtype
        A scalar, or of the shape of the labels, with the same dimensions or 1 in their place.

    Examples
    --------
    >>> import tagloom as tg
    >>> loss = tg.function(lambda: tg.losses.sparse_softmax_cross_entropy([1, 0], [[0.0, 0.0], [9.0, 0.0]]))
    >>> round(float(loss.sync()), 4)
    0.3466
    """
    with name_scope(scope, "sparse_softmax_cross_entropy_loss") as inner:
        labels, logits, weights = map(convert_to_tensor, (labels, logits, weights))
        # A last dimension of 1 is removed, as in TensorFlow 1.
        labels = without_last(labels, None if logits.rank is None else logits.rank - 1)
        weights = without_last(weights, labels.rank)
        losses = sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)

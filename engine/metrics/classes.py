"""Metrics of class numbers: means over the classes."""

from __future__ import annotations

from ..base.dtypes import float32, float64, int64
from ..base.errors import GraphError
from ..frontend.control.scopes import name_scope
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.concat import stack
from ..ops.array.creation import ones_like
from ..ops.array.index_vectors import scatter_nd
from ..ops.array.shapes import expand_dims, reshape
from ..ops.control.weights import in_dtype, of_one_shape
from ..ops.math.arithmetic import div_no_nan
from ..ops.math.comparison import equal, not_equal
from ..ops.math.reductions import reduce_mean, reduce_sum
from ..ops.support.arguments import static_int
from .family import metric
from .streaming import Collections, Metric, apply_weights, same_ranks, stream_metric


def _flatten_classes(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels and predictions as int64 vectors, with a weight for each."""
    labels, predictions = same_ranks(labels, predictions)
    labels = in_dtype(labels, int64)
    predictions = of_one_shape(labels, in_dtype(predictions, int64))
    _, factors = apply_weights(ones_like(labels, float32), weights)
    return reshape(labels, [-1]), reshape(predictions, [-1]), reshape(factors, [-1])


def _check_num_classes(num_classes: object) -> int:
    """Return the number of classes as an integer; GraphError if not positive."""
    count = static_int(num_classes, "num_classes")
    if count < 1:
        raise GraphError("there is a class at least", wanted="1 or more", got=count, hint="give num_classes=10")
    return count


@metric(
    "[0, 0, 1, 1], [0, 1, 1, 1], num_classes=3",
    "([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], 0.5833)",
    line="session.run(update).tolist(), round(float(session.run(value)), 4)  # the mean of 1/2 and 2/3",
)
def mean_iou(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean over the classes of intersection over union: true positives over all labels or predictions of the class.

    Classes neither labelled nor predicted so far do not count.

    Parameters
    ----------
    labels, predictions : Tensor of int32 or int64
        Class numbers from 0 up to below `num_classes`; of the same shape, except for a last dimension of 1.
    num_classes : int

    Returns
    -------
    value : Tensor
        A float32 scalar; 0 before the first step.
    update_op : Tensor
        Adds this step; the float64 confusion matrix of shape [num_classes, num_classes], with a row for each label
        and a column for each prediction.

    Raises
    ------
    OpError
        When a step runs the operation, if a class number is out of range.
    """
    count = _check_num_classes(num_classes)

    def compute_mean_iou(matrix: Tensor) -> Tensor:
        # In the flattened matrix the diagonal is every (count + 1)-th element.
        intersection = reshape(matrix, [-1])[:: count + 1]
        # Row sums count labels and column sums predictions; the diagonal is in both.
        union = reduce_sum(matrix, 0) + reduce_sum(matrix, 1) - intersection
        # Classes that are neither labels nor predictions do not count.
        classes_seen = reduce_sum(in_dtype(not_equal(union, 0), matrix.dtype))
        return div_no_nan(reduce_sum(div_no_nan(intersection, union)), classes_seen)

    with name_scope(name, "mean_iou"):
        true, predicted, factors = _flatten_classes(labels, predictions, weights)
        # scatter_nd adds up the updates of repeated indices, and so counts the pairs of label and prediction.
        matrix = scatter_nd(stack([true, predicted], 1), in_dtype(factors, float64), [count, count])
        return stream_metric(
            lambda total: in_dtype(compute_mean_iou(total), float32),
            {"total_confusion_matrix": matrix},
            None,  # the update is the float64 matrix, and the value is cast above
            metrics_collections,
            updates_collections,
            updated=lambda total: total,
        )


@metric(
    "[0, 0, 1, 1], [0, 1, 1, 1], num_classes=2",
    "([0.5, 1.0], 0.75)",
    line="session.run(update).tolist(), float(session.run(value))",
)
def mean_per_class_accuracy(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean over the classes of the fraction of their labels predicted correctly; 0 for classes without labels.

    Parameters
    ----------
    labels : Tensor of int32 or int64
        Class numbers from 0 up to below `num_classes`.
    predictions : Tensor
        Cast to int64; of the shape of the labels, except for a last dimension of 1.
    num_classes : int

    Returns
    -------
    value : Tensor
        A float32 scalar; 0 before the first step.
    update_op : Tensor
        Adds this step; the fraction for each class, of shape [num_classes].

    Raises
    ------
    OpError
        When a step runs the operation, if a label is out of range.
    """
    count = _check_num_classes(num_classes)
    with name_scope(name, "mean_accuracy"):
        true, predicted, factors = _flatten_classes(labels, predictions, weights)
        indices = expand_dims(true, 1)
        hits = factors * in_dtype(equal(true, predicted), float32)
        # For each class: the weight of all labels, and of those predicted correctly. The keys name the variables, with
        # TensorFlow's names.
        sums = {"total": scatter_nd(indices, factors, [count]), "count": scatter_nd(indices, hits, [count])}
        return stream_metric(
            lambda total, correct: reduce_mean(div_no_nan(correct, total)),
            sums,
            float32,
            metrics_collections,
            updates_collections,
            updated=lambda total, correct: div_no_nan(correct, total),
        )

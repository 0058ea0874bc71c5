"""Means over all steps: of values, and of errors of predictions."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import float32
from ..frontend.control.scopes import name_scope
from ..ir.apply import apply, convert_to_tensor
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.where import where
from ..ops.control.weights import in_dtype, of_one_shape
from ..ops.math.arithmetic import div_no_nan, squared_difference
from ..ops.math.elementwise import abs as absolute
from ..ops.math.elementwise import sqrt
from ..ops.math.reductions import reduce_sum
from ..ops.support.arguments import static_int
from .family import AS_VALUES, metric
from .streaming import Collections, Metric, apply_weights, result_dtype, same_ranks, stream_metric


def _stream_mean(
    values: Tensor,
    weights: ArrayLike | None,
    metrics: Collections,
    updates: Collections,
    finish: Any = lambda mean: mean,
) -> Metric:
    """Return the metric of the weighted mean of values over all steps, as `finish` converts it."""
    dtype = result_dtype(values)
    # sums and weights of all steps are kept apart: a mean of the means of steps would overrate small batches
    products, factors = apply_weights(in_dtype(values, dtype), weights)
    sums = {"total": reduce_sum(products), "count": reduce_sum(factors)}
    return stream_metric(lambda total, count: finish(div_no_nan(total, count)), sums, dtype, metrics, updates)


def _to_floating(labels: ArrayLike, predictions: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return labels and predictions in the same shape and floating dtype."""
    dtype = result_dtype(convert_to_tensor(labels), convert_to_tensor(predictions))
    labels, predictions = same_ranks(in_dtype(labels, dtype), in_dtype(predictions, dtype))
    return labels, of_one_shape(labels, predictions)


@metric(result=AS_VALUES)
def mean(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean of the values of all steps.

    Parameters
    ----------
    values : Tensor of any real dtype

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [None])
    ...     mean, update = tg.metrics.mean(x)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     [float(session.run(update, {x: batch})) for batch in ([1.0, 2.0], [6.0])], float(session.run(mean))
    ([1.5, 3.0], 3.0)
    """
    with name_scope(name, "mean"):
        return _stream_mean(convert_to_tensor(values), weights, metrics_collections, updates_collections)


@metric(result="Of the shape of the values; float64 for float64 values, else float32")
def mean_tensor(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean of the values of all steps, element by element.

    Parameters
    ----------
    values : Tensor of any real dtype and of a known shape

    Raises
    ------
    ShapeError
        If the shape is unknown, or the weights do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [2])
    ...     mean, update = tg.metrics.mean_tensor(x)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     [session.run(update, {x: values}).tolist() for values in ([1.0, 2.0], [3.0, 8.0])]
    [[1.0, 2.0], [2.0, 5.0]]
    """
    with name_scope(name, "mean"):
        values = convert_to_tensor(values)
        dtype = result_dtype(values)
        products, factors = apply_weights(in_dtype(values, dtype), weights)
        sums = {"total_tensor": products, "count_tensor": factors}
        return stream_metric(div_no_nan, sums, dtype, metrics_collections, updates_collections)


@metric("[1, 2, 3, 4], [1, 2, 3, 0]", "0.75")
def accuracy(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Fraction of the predictions of all steps equal to their labels.

    Parameters
    ----------
    labels, predictions : Tensor
        Of the same shape, except for a last dimension of 1; predictions are cast to the dtype of the labels.
    """
    with name_scope(name, "accuracy"):
        labels, predictions = same_ranks(labels, predictions)
        predictions = of_one_shape(labels, in_dtype(predictions, labels.dtype))
        correct = in_dtype(apply("Equal", predictions, labels), float32)
        return _stream_mean(correct, weights, metrics_collections, updates_collections)


@metric("[1.0, 2.0], [3.0, 2.0]", "2.0", result=AS_VALUES)
def mean_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean of the squared differences of all steps."""
    with name_scope(name, "mean_squared_error"):
        labels, predictions = _to_floating(labels, predictions)
        return _stream_mean(squared_difference(labels, predictions), weights, metrics_collections, updates_collections)


@metric("[1.0, 2.0], [4.0, 5.0]", "3.0", result=AS_VALUES)
def root_mean_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Root of the mean of the squared differences of all steps."""
    with name_scope(name, "root_mean_squared_error"):
        labels, predictions = _to_floating(labels, predictions)
        squares = squared_difference(labels, predictions)
        return _stream_mean(squares, weights, metrics_collections, updates_collections, sqrt)


@metric("[1.0, 2.0], [3.0, 2.0], weights=[3.0, 1.0]", "1.5", result=AS_VALUES)
def mean_absolute_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean of the absolute differences of all steps."""
    with name_scope(name, "mean_absolute_error"):
        labels, predictions = _to_floating(labels, predictions)
        return _stream_mean(absolute(labels - predictions), weights, metrics_collections, updates_collections)


@metric("[1.0, 4.0], [3.0, 2.0], normalizer=[1.0, 4.0]", "1.25", result=AS_VALUES)
def mean_relative_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    normalizer: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean of the absolute differences of all steps, divided by a normalizer; 0 where the normalizer is 0.

    Parameters
    ----------
    normalizer : Tensor
        Of the shape of the labels, often the labels themselves.
    """
    with name_scope(name, "mean_relative_error"):
        labels, predictions = _to_floating(labels, predictions)
        _, normalizer = _to_floating(labels, in_dtype(normalizer, labels.dtype))
        is_zero = apply("Equal", normalizer, 0)
        # The inner where keeps the unselected quotient finite, so that its gradient is not NaN.
        errors = where(is_zero, 0, absolute(labels - predictions) / where(is_zero, 1, normalizer))
        return _stream_mean(errors, weights, metrics_collections, updates_collections)


@metric("[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], dim=1", "0.5")
def mean_cosine_distance(
    labels: ArrayLike,
    predictions: ArrayLike,
    dim: Any,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean of the inner products of all steps along an axis, subtracted from 1: for unit vectors, the cosine distance.

    Parameters
    ----------
    dim : int
        The axis of the vectors.
    weights : Tensor of any real dtype, optional
        A scalar, or a weight for each vector: of size 1 along the vectors' axis, or without the axis if last.

    Returns
    -------
    value : Tensor
        A scalar, float64 if any of the values is float64, else float32, of all steps so far; 1 before the first step.
        In a step that also runs the update, the value after the update.
    update_op : Tensor
        Adds this step; the value after the update.
    """
    with name_scope(name, "mean_cosine_distance"):
        labels, predictions = _to_floating(labels, predictions)
        products = reduce_sum(labels * predictions, static_int(dim, "dim"), keepdims=True)
        # Subtracted once: the mean of 1 - p is 1 minus the mean of p. So the value before the first step, whose mean
        # is 0, is 1, as in TensorFlow: without vectors there is no similarity.
        return _stream_mean(products, weights, metrics_collections, updates_collections, lambda found: 1 - found)


@metric("[1.0, 2.0, 3.0, 4.0], 2.0", "0.25")
def percentage_below(
    values: ArrayLike,
    threshold: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Fraction of the values of all steps less than a threshold.

    Parameters
    ----------
    values : Tensor of any real dtype
    threshold : scalar of that dtype

    Raises
    ------
    ShapeError
        If the weights do not fit.
    """
    with name_scope(name, "percentage_below_threshold"):
        below = in_dtype(apply("Less", values, threshold), float32)
        return _stream_mean(below, weights, metrics_collections, updates_collections)

"""Counts, precision and recall of predictions compared with thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..base.docstrings import name_function
from ..base.dtypes import bool_, float32
from ..base.errors import GraphError
from ..frontend.control.scopes import name_scope
from ..ir.apply import apply, constant
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.concat import stack
from ..ops.array.shapes import reshape
from ..ops.control.assertions import assert_greater_equal, assert_less_equal
from ..ops.control.weights import in_dtype, of_one_shape, tensor_after_checks
from ..ops.math.linear import matmul
from ..ops.math.reductions import reduce_sum
from .family import SCORES, metric
from .outcomes import SUMMARIES
from .streaming import Collections, Metric, apply_weights, same_ranks, stream_metric

EPSILON = 1e-7  # added to divisors, to keep quotients finite; TensorFlow adds the same number


def counts_at(
    thresholds: object, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None
) -> dict[str, Tensor]:
    """Return the total weight of the outcomes of each kind at each threshold.

    Parameters
    ----------
    thresholds : array-like of shape [n]
        A prediction above a threshold is positive.
    labels, predictions, weights
        As of the metrics.

    Returns
    -------
    dict of str to float32 Tensor of shape [n]
        By kind: "true_positives", "false_positives", "false_negatives", "true_negatives".
    """
    labels, predictions = same_ranks(labels, predictions)
    labels = in_dtype(labels, bool_)
    scores = of_one_shape(labels, in_dtype(predictions, float32))
    range_checks = [assert_greater_equal(scores, 0.0, "predictions"), assert_less_equal(scores, 1.0, "predictions")]
    # As control inputs: the values of predictions are known only in a step.
    scores = tensor_after_checks(scores, range_checks)
    positive, factors = apply_weights(in_dtype(labels, float32), weights)
    # A matrix product adds up the positive and the negative weights above all thresholds at once: a row for each
    # prediction, whose columns are its weight if the label is true, and if false.
    label_weights = stack([reshape(positive, [-1]), reshape(factors - positive, [-1])], 1)
    # float32, as the scores: in float64 a limit such as 0.1 would be below the score 0.1.
    limits = constant(np.asarray(thresholds, np.float32).reshape(-1, 1))
    is_above = in_dtype(apply("Greater", reshape(scores, [1, -1]), limits), float32)
    # `above` has a row for each threshold; `total` is the sum over all predictions.
    above, total = matmul(is_above, label_weights), reduce_sum(label_weights, 0)
    return {
        "true_positives": above[:, 0],
        "false_positives": above[:, 1],
        "false_negatives": total[0] - above[:, 0],
        "true_negatives": total[1] - above[:, 1],
    }


def checked_thresholds(thresholds: Sequence[float]) -> list[float]:
    """Return thresholds as a list of numbers; GraphError for an empty list, or other elements."""
    numbers = list(thresholds) if isinstance(thresholds, (list, tuple, range, np.ndarray)) else []
    if not numbers or not all(isinstance(t, (int, float, np.number)) for t in numbers):
        raise GraphError("thresholds are numbers", wanted="a list of 1 or more", got=thresholds, hint="as [0.25, 0.5]")
    return numbers


class Metrics(Protocol):
    """A metric for each of several thresholds."""

    def __call__(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        thresholds: Sequence[float],
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric: ...


_AT_THRESHOLDS = replace(
    SCORES,
    parameters={**SCORES.parameters, "thresholds": "sequence of float"},
    raises={**SCORES.raises, "GraphError": "If thresholds are not numbers, or the list is empty."},
)


def _make_metric_at_thresholds(kind: str, summary: str, needed: Sequence[str], compute: Any, example: str) -> Metrics:
    """Return the public function of a metric computed from counts.

    Parameters
    ----------
    kind : str
        Name of the function, without "_at_thresholds".
    summary : str
        Beginning of the docstring.
    needed : sequence of str
        Kinds of the counts to accumulate, of the keys of `counts_at`.
    compute : callable
        Returns the metric from these counts, in this order.
    example : str
        Result of the docstring's example.
    """

    def compute_at_thresholds(
        labels: ArrayLike,
        predictions: ArrayLike,
        thresholds: Sequence[float],
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        with name_scope(name, kind):
            counts = counts_at(checked_thresholds(thresholds), labels, predictions, weights)
            needed_counts = {key: counts[key] for key in needed}
            return stream_metric(compute, needed_counts, float32, metrics_collections, updates_collections)

    sentence = f"{summary}, for each threshold above which a prediction is positive."
    arguments = "[0, 0, 1, 1, 1], [0.125, 0.5, 0.25, 0.5, 0.875], [0.25, 0.75]"
    line = "[round(x, 4) for x in session.run(update).tolist()]"
    result = "A float32 vector, as long as the thresholds"
    complete = metric(arguments, example, line, result, _AT_THRESHOLDS)
    return complete(name_function(compute_at_thresholds, f"{kind}_at_thresholds", sentence))


def _make_count_at_thresholds(kind: str, example: str) -> Metrics:
    return _make_metric_at_thresholds(kind, SUMMARIES[kind], [kind], lambda count: count, example)


def share_of_both(part: Tensor, rest: Tensor) -> Tensor:
    """Return the share of `part` in the sum of `part` and `rest`, 0 if both are 0."""
    # With `EPSILON` in the divisor, as in TensorFlow, unlike the metrics `precision` and `recall`.
    return part / (part + rest + EPSILON)


true_positives_at_thresholds: Metrics = _make_count_at_thresholds("true_positives", "[2.0, 1.0]")
false_positives_at_thresholds: Metrics = _make_count_at_thresholds("false_positives", "[1.0, 0.0]")
false_negatives_at_thresholds: Metrics = _make_count_at_thresholds("false_negatives", "[1.0, 2.0]")
true_negatives_at_thresholds: Metrics = _make_count_at_thresholds("true_negatives", "[1.0, 2.0]")
precision_at_thresholds: Metrics = _make_metric_at_thresholds(
    "precision",
    "Fraction of right predictions among the positive predictions of all steps",
    ["true_positives", "false_positives"],
    share_of_both,
    "[0.6667, 1.0]",
)
recall_at_thresholds: Metrics = _make_metric_at_thresholds(
    "recall",
    "Fraction of the positive labels of all steps predicted as positive",
    ["true_positives", "false_negatives"],
    share_of_both,
    "[0.6667, 0.3333]",
)

"""Counts of right and wrong binary predictions over all steps, precision and recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..base.docstrings import name_function
from ..base.dtypes import bool_, float32
from ..frontend.control.scopes import name_scope
from ..ir.apply import apply
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.control.weights import in_dtype, of_one_shape
from ..ops.math.arithmetic import div_no_nan
from ..ops.math.reductions import reduce_sum
from .family import ANSWERS, metric
from .streaming import Collections, Metric, apply_weights, same_ranks, stream_metric

KINDS = {  # kind: (label, prediction)
    "true_positives": (True, True),
    "false_positives": (False, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
}
SUMMARIES = {
    "true_positives": "Number of right positive predictions of all steps",
    "false_positives": "Number of wrong positive predictions of all steps",
    "false_negatives": "Number of wrong negative predictions of all steps",
    "true_negatives": "Number of right negative predictions of all steps",
}


def _count_outcomes(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None, *kinds: str
) -> Mapping[str, Tensor]:
    """Return the total weight of the elements of each kind."""
    labels, predictions = same_ranks(labels, predictions)
    labels = in_dtype(labels, bool_)
    predictions = of_one_shape(labels, in_dtype(predictions, bool_))
    counts = {}
    for kind in kinds:
        label, prediction = KINDS[kind]
        is_kind = apply("LogicalAnd", _matches_outcome(labels, label), _matches_outcome(predictions, prediction))
        # float32 suffices for the counts of one step; the variables that sum over steps are float64
        counts[kind] = reduce_sum(apply_weights(in_dtype(is_kind, float32), weights)[0])
    return counts


def _matches_outcome(x: Tensor, wanted: bool) -> Tensor:
    return x if wanted else apply("LogicalNot", x)


class Count(Protocol):
    """A metric counting outcomes of a kind."""

    def __call__(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric: ...


def _make_count(kind: str, example: str) -> Count:
    """Return the metric counting outcomes of a kind; `example` is the output of its docstring's example."""

    def count_outcome(
        labels: ArrayLike,
        predictions: ArrayLike,
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        with name_scope(name, kind):
            counts = _count_outcomes(labels, predictions, weights, kind)
            return stream_metric(lambda count: count, counts, float32, metrics_collections, updates_collections)

    # Four functions differ only in their kind, so they are made here.
    line = "[float(session.run(update)) for _ in range(2)]"
    complete = metric("[1, 1, 1, 0, 0], [1, 1, 0, 1, 0]", example, line, family=ANSWERS)
    return complete(name_function(count_outcome, kind, f"{SUMMARIES[kind]}."))


true_positives: Count = _make_count("true_positives", "[2.0, 4.0]")
false_positives: Count = _make_count("false_positives", "[1.0, 2.0]")
false_negatives: Count = _make_count("false_negatives", "[1.0, 2.0]")
true_negatives: Count = _make_count("true_negatives", "[1.0, 2.0]")


@metric("[1, 1, 1, 0, 0], [1, 0, 0, 1, 0]", "0.5", family=ANSWERS)
def precision(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Fraction of right predictions among the positive predictions of all steps; 0 without positive predictions."""
    with name_scope(name, "precision"):
        counts = _count_outcomes(labels, predictions, weights, "true_positives", "false_positives")
        return stream_metric(_share_of_both, counts, float32, metrics_collections, updates_collections)


@metric("[1, 1, 1, 1, 0], [1, 0, 0, 0, 1]", "0.25", family=ANSWERS)
def recall(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Fraction of the positive labels of all steps predicted as positive; 0 without positive labels."""
    with name_scope(name, "recall"):
        counts = _count_outcomes(labels, predictions, weights, "true_positives", "false_negatives")
        return stream_metric(_share_of_both, counts, float32, metrics_collections, updates_collections)


def _share_of_both(part: Tensor, rest: Tensor) -> Tensor:
    return div_no_nan(part, part + rest)

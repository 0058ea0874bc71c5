"""Metrics over curves of many thresholds: areas under curves, and points on curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.dtypes import float32
from ..base.errors import GraphError
from ..frontend.control.scopes import name_scope
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.argminmax import argmin
from ..ops.array.gather import gather
from ..ops.array.layout import reverse
from ..ops.array.where import where
from ..ops.math.arithmetic import div_no_nan, maximum, minimum
from ..ops.math.elementwise import abs as absolute
from ..ops.math.elementwise import log
from ..ops.math.reductions import reduce_sum
from ..ops.support.arguments import static_fraction, static_int
from .at_thresholds import EPSILON, checked_thresholds, counts_at, share_of_both
from .family import SCORES, metric
from .streaming import Collections, Metric, stream_metric

_ROUNDED = "round(float(session.run(update)), 4)"
_CURVES = ("ROC", "PR")
_SUMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "trapezoidal": lambda a, b: (a + b) / 2,
    "minoring": minimum,
    "majoring": maximum,
}
_CAREFUL = "careful_interpolation"
_SMALL = 1e-6  # added to numerators and denominators of the areas, as in TensorFlow


def _space_thresholds(count: int, given: Sequence[float] | None = None) -> list[float]:
    """Return thresholds from below 0 to above 1: the given thresholds, or `count` at equal distances."""
    if given is None and static_int(count, "num_thresholds") < 2:
        raise GraphError(
            "a curve goes through two thresholds at least",
            wanted="2 or more",
            got=count,
            hint="give num_thresholds=200",
        )
    # The outer thresholds are beyond [0, 1]: every prediction is above the first, none above the last.
    inner = [i / (count - 1) for i in range(1, count - 1)] if given is None else sorted(checked_thresholds(given))
    return [-EPSILON, *inner, 1 + EPSILON]


@metric("[0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]", "0.75", line=_ROUNDED, family=SCORES)
def auc(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Metric:
    """Area under the curve of true over false positives, or of precision over recall, of all steps.

    Outcomes are counted for a number of thresholds, and the area is computed under the curve through their points: the
    more thresholds, and the better they are spread over the predictions, the smaller the error.

    Parameters
    ----------
    curve : {'ROC', 'PR'}
        Receiver operating characteristic, or precision and recall.
    summation_method : {'trapezoidal', 'minoring', 'majoring', 'careful_interpolation'}
        Height between two points: the mean, the lower, or the higher of theirs; or, only for 'PR', the exact
        interpolation of counts of Davis and Goadrich (2006).
    thresholds : sequence of float, optional
        Thresholds instead of equal distances; a threshold below 0 and another above 1 are added.

    Raises
    ------
    GraphError
        If the curve or the method is unknown.
    """
    are_words = isinstance(curve, str) and isinstance(summation_method, str)
    careful = are_words and summation_method == _CAREFUL
    is_known = are_words and curve in _CURVES and (careful or summation_method in _SUMS)
    if not is_known or (careful and curve != "PR"):
        raise GraphError(
            "no such area",
            wanted=f"curve 'ROC' or 'PR', and {', '.join(_SUMS)}, or of 'PR' {_CAREFUL}",
            got=f"{curve}, {summation_method}",
            hint="leave them out for the trapezoidal rule on the ROC curve",
        )

    def compute_area(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        if careful:
            return _interpolate_area(tp, fp, fn)
        recall = (tp + _SMALL) / (tp + fn + _SMALL)
        x, y = (fp / (fp + tn + _SMALL), recall) if curve == "ROC" else (recall, (tp + _SMALL) / (tp + fp + _SMALL))
        # Thresholds ascend, so x descends from point to point.
        return reduce_sum((x[:-1] - x[1:]) * _SUMS[summation_method](y[:-1], y[1:]))

    with name_scope(name, "auc"):
        counts = counts_at(_space_thresholds(num_thresholds, thresholds), labels, predictions, weights)
        return stream_metric(compute_area, counts, float32, metrics_collections, updates_collections)


def _interpolate_area(tp: Tensor, fp: Tensor, fn: Tensor) -> Tensor:
    """Return the area under precision over recall if both counts change linearly between points."""
    positives = tp + fp
    # Between two points tp = slope * positives + intercept, and recall grows by slope for each positive: the integral
    # of tp / positives over recall is slope * (difference of tp + intercept * log(ratio of positives)) / labels.
    slope = div_no_nan(tp[:-1] - tp[1:], maximum(positives[:-1] - positives[1:], 0))
    intercept = tp[1:] - slope * positives[1:]
    # Where a point has no positive predictions the ratio is set to 1, whose logarithm contributes nothing.
    both = (positives[:-1] > 0) & (positives[1:] > 0)
    ratio = where(both, div_no_nan(positives[:-1], maximum(positives[1:], 0)), 1)
    areas = slope * (tp[:-1] - tp[1:] + intercept * log(ratio))
    return reduce_sum(div_no_nan(areas, maximum(tp[1:] + fn[1:], 0)))


@metric("[0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 1.0", "0.5", line=_ROUNDED, family=SCORES)
def sensitivity_at_specificity(
    labels: ArrayLike,
    predictions: ArrayLike,
    specificity: float,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Fraction of the positive labels of all steps predicted as positive, at the threshold of the nearest specificity.

    Specificity is the fraction of the negative labels predicted as negative.

    Parameters
    ----------
    specificity : float
        In [0, 1].

    Raises
    ------
    GraphError
        If the specificity is out of range.
    """
    wanted = static_fraction(specificity, "specificity")

    def compute_sensitivity(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        # Of equally near thresholds argmin takes the lowest, which has the highest sensitivity.
        nearest = argmin(absolute(share_of_both(tn, fp) - wanted), 0)
        return gather(share_of_both(tp, fn), nearest)

    with name_scope(name, "sensitivity_at_specificity"):
        counts = counts_at(_space_thresholds(num_thresholds), labels, predictions, weights)
        return stream_metric(compute_sensitivity, counts, float32, metrics_collections, updates_collections)


@metric("[0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 1.0", "0.5", line=_ROUNDED, family=SCORES)
def specificity_at_sensitivity(
    labels: ArrayLike,
    predictions: ArrayLike,
    sensitivity: float,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Fraction of the negative labels of all steps predicted as negative, at the threshold of the nearest sensitivity.

    Sensitivity is the fraction of the positive labels predicted as positive. Of equally near thresholds the highest is
    used.

    Parameters
    ----------
    sensitivity : float
        In [0, 1].

    Raises
    ------
    GraphError
        If the sensitivity is out of range.
    """
    wanted = static_fraction(sensitivity, "sensitivity")

    def compute_specificity(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        # reversed: of equally near thresholds argmin returns the first, and the highest is wanted
        nearest = argmin(reverse(absolute(share_of_both(tp, fn) - wanted), [0]), 0)
        return gather(reverse(share_of_both(tn, fp), [0]), nearest)

    with name_scope(name, "specificity_at_sensitivity"):
        counts = counts_at(_space_thresholds(num_thresholds), labels, predictions, weights)
        return stream_metric(compute_specificity, counts, float32, metrics_collections, updates_collections)

"""Metrics over many steps: each a value, and an operation that adds a step's labels and predictions."""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from .at_k import average_precision_at_k, precision_at_k, precision_at_top_k, recall_at_k, recall_at_top_k
from .at_thresholds import (
    false_negatives_at_thresholds,
    false_positives_at_thresholds,
    precision_at_thresholds,
    recall_at_thresholds,
    true_negatives_at_thresholds,
    true_positives_at_thresholds,
)
from .classes import mean_iou, mean_per_class_accuracy
from .curves import auc, sensitivity_at_specificity, specificity_at_sensitivity
from .means import (
    accuracy,
    mean,
    mean_absolute_error,
    mean_cosine_distance,
    mean_relative_error,
    mean_squared_error,
    mean_tensor,
    percentage_below,
    root_mean_squared_error,
)
from .outcomes import (
    false_negatives,
    false_positives,
    precision,
    recall,
    true_negatives,
    true_positives,
)
from .streaming import metric_variables, reset

if not TYPE_CHECKING:  # type checkers would accept any name of a module with __getattr__
    __getattr__ = missing_in("metrics")

__all__ = [
    "accuracy",
    "auc",
    "average_precision_at_k",
    "false_negatives",
    "false_negatives_at_thresholds",
    "false_positives",
    "false_positives_at_thresholds",
    "mean",
    "mean_absolute_error",
    "mean_cosine_distance",
    "mean_iou",
    "mean_per_class_accuracy",
    "mean_relative_error",
    "mean_squared_error",
    "mean_tensor",
    "metric_variables",
    "percentage_below",
    "precision",
    "precision_at_k",
    "precision_at_thresholds",
    "precision_at_top_k",
    "recall",
    "recall_at_k",
    "recall_at_thresholds",
    "recall_at_top_k",
    "reset",
    "root_mean_squared_error",
    "sensitivity_at_specificity",
    "specificity_at_sensitivity",
    "true_negatives",
    "true_negatives_at_thresholds",
    "true_positives",
    "true_positives_at_thresholds",
]


def __dir__() -> list[str]:
    """Return the public names, without the submodules."""
    return sorted(__all__)

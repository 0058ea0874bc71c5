"""Losses: distances of predictions from labels, weighted, and reduced to a scalar for an optimizer."""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from .classification import (
    hinge_loss,
    log_loss,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from .collected import add_loss, get_losses, get_regularization_losses, get_total_loss
from .regression import (
    absolute_difference,
    cosine_distance,
    huber_loss,
    mean_pairwise_squared_error,
    mean_squared_error,
)
from .weighting import Reduction, compute_weighted_loss

if not TYPE_CHECKING:  # type checkers would accept any name of a module with __getattr__
    __getattr__ = missing_in("losses")

__all__ = [
    "Reduction",
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


def __dir__() -> list[str]:
    """Return the public names, without the submodules."""
    return sorted(__all__)

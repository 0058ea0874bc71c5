"""Optimizers, learning-rate schedules, averages and checkpoints, built from variables, gradients and operations."""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from .accumulation import GradientAccumulator
from .adam import AdamOptimizer
from .adam_with_decay import AdamWOptimizer, LambOptimizer
from .adaptive import AdadeltaOptimizer, AdagradOptimizer, RMSPropOptimizer
from .averages import ExponentialMovingAverage, moving_average_variables
from .checkpoints import Checkpointer, CheckpointStatistics, Mismatch, Restored, Saving
from .cosine_schedules import (
    cosine_decay,
    cosine_decay_restarts,
    linear_cosine_decay,
    noisy_linear_cosine_decay,
)
from .descent import GradientDescentOptimizer, MomentumOptimizer
from .ftrl import FtrlOptimizer
from .global_step import assert_global_step, create_global_step, get_global_step, get_or_create_global_step
from .lbfgs import LBFGS, LBFGSResult, minimize_lbfgs
from .optimizer import Optimizer
from .replicas import AsyncReplicas, LateGradient, Replica, ReplicaGroup, ReplicaStatistics, SyncReplicas
from .schedules import (
    exponential_decay,
    inverse_time_decay,
    linear_warmup,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)

if not TYPE_CHECKING:  # a type checker would accept any name of a module with `__getattr__`
    __getattr__ = missing_in("training")

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamWOptimizer",
    "AsyncReplicas",
    "CheckpointStatistics",
    "Checkpointer",
    "ExponentialMovingAverage",
    "FtrlOptimizer",
    "GradientAccumulator",
    "GradientDescentOptimizer",
    "LBFGS",
    "LBFGSResult",
    "LambOptimizer",
    "LateGradient",
    "Mismatch",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
    "Replica",
    "ReplicaGroup",
    "ReplicaStatistics",
    "Restored",
    "Saving",
    "SyncReplicas",
    "assert_global_step",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "inverse_time_decay",
    "linear_cosine_decay",
    "linear_warmup",
    "minimize_lbfgs",
    "moving_average_variables",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "polynomial_decay",
]


def __dir__() -> list[str]:
    """Return the public names, without the names of submodules."""
    return sorted(__all__)

"""Optimizers, built at user level from variables, gradients and primitive operations."""

from .adam import AdamOptimizer
from .adam_with_decay import AdamWOptimizer, LambOptimizer
from .adaptive import AdadeltaOptimizer, AdagradOptimizer, RMSPropOptimizer
from .descent import GradientDescentOptimizer, MomentumOptimizer
from .ftrl import FtrlOptimizer
from .optimizer import Optimizer

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamWOptimizer",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "LambOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
]

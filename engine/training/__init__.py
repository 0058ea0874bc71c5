"""Optimizers, built at user level from variables, gradients and primitive operations."""

from .adam import AdamOptimizer
from .descent import GradientDescentOptimizer, MomentumOptimizer
from .optimizer import Optimizer

__all__ = ["AdamOptimizer", "GradientDescentOptimizer", "MomentumOptimizer", "Optimizer"]

"""Reverse-mode gradients of any order, through Cond, While and TensorArrays."""

from .api import gradients
from .hessian import hessians

__all__ = ["gradients", "hessians"]

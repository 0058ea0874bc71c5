"""Reverse-mode gradients of any order, through Cond, While and TensorArrays."""

from .api import gradients, hessians

__all__ = ["gradients", "hessians"]

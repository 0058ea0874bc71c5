"""Reverse-mode gradients of any order, through Cond, While and TensorArrays."""

from .api import gradients
from .hessian import hessians
from .jacobian import batch_jacobian, hessian_vector_product, jacobian, jvp

__all__ = ["batch_jacobian", "gradients", "hessian_vector_product", "hessians", "jacobian", "jvp"]

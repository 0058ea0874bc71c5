"""Derivatives of any order, in reverse and forward mode, through Cond, While and TensorArrays."""

from .api import gradients
from .hessian import hessians
from .jacobian import batch_jacobian, hessian_vector_product, jacobian
from .jvp import jvp

__all__ = ["batch_jacobian", "gradients", "hessian_vector_product", "hessians", "jacobian", "jvp"]

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "api": "gradients",
    "hessian": "hessians",
    "jacobian": "batch_jacobian hessian_vector_product jacobian",
    "jvp": "jvp",
}

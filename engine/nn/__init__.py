"""What models are made of: modules, which keep variables, and what is built of them."""

from ..frontend.missing_names import missing_in_nn as __getattr__  # noqa: F401, of this module
from .attention import MultiHeadAttention, TransformerEncoderLayer
from .batch_norm import BatchNorm
from .convolution import Conv1D, Conv2D, Conv2DTranspose, Conv3D
from .dense import Dense, Embedding, Flatten
from .depthwise import DepthwiseConv2D, SeparableConv2D
from .dropout import Dropout
from .get_variable import get_regularization_losses, get_variable
from .initializers import (
    Initializer,
    constant_initializer,
    ones_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    zeros_initializer,
)
from .module import Module, Sequential
from .normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from .orthogonal_initializers import delta_orthogonal_initializer, identity_initializer, orthogonal_initializer
from .scaled_initializers import (
    glorot_normal_initializer,
    glorot_uniform_initializer,
    he_normal_initializer,
    he_uniform_initializer,
    lecun_normal_initializer,
    lecun_uniform_initializer,
    variance_scaling_initializer,
)
from .variable_scope import AUTO_REUSE, VariableScope, get_variable_scope, variable_scope

__all__ = [
    "AUTO_REUSE",
    "BatchNorm",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Dense",
    "DepthwiseConv2D",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Initializer",
    "InstanceNorm",
    "LayerNorm",
    "Module",
    "MultiHeadAttention",
    "RMSNorm",
    "SeparableConv2D",
    "Sequential",
    "TransformerEncoderLayer",
    "VariableScope",
    "constant_initializer",
    "delta_orthogonal_initializer",
    "get_regularization_losses",
    "get_variable",
    "get_variable_scope",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "he_normal_initializer",
    "he_uniform_initializer",
    "identity_initializer",
    "lecun_normal_initializer",
    "lecun_uniform_initializer",
    "ones_initializer",
    "orthogonal_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "variable_scope",
    "variance_scaling_initializer",
    "zeros_initializer",
]

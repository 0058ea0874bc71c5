"""Neural networks: modules that own variables, layers, recurrent cells, initializers."""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from .attention import MultiHeadAttention, TransformerEncoderLayer
from .batch_norm import BatchNorm
from .cell_wrappers import DeviceWrapper, MultiRNNCell, ResidualWrapper
from .cells import BasicRNNCell, GRUCell, LSTMStateTuple, RNNCell
from .convolution import Conv1D, Conv1DTranspose, Conv2D, Conv2DTranspose, Conv3D, Conv3DTranspose
from .dense import Dense, Embedding, Flatten
from .depthwise import DepthwiseConv2D, SeparableConv1D, SeparableConv2D
from .dropout import Dropout
from .dropout_wrapper import DropoutWrapper
from .highway_wrapper import HighwayWrapper
from .initializers import (
    Initializer,
    constant_initializer,
    ones_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    zeros_initializer,
)
from .lstm_cells import LayerNormLSTMCell, LSTMCell
from .module import Module, Sequential
from .normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from .orthogonal_initializers import delta_orthogonal_initializer, identity_initializer, orthogonal_initializer
from .pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
)
from .raw_rnn import raw_rnn
from .recurrent import bidirectional_dynamic_rnn, dynamic_rnn, static_rnn
from .recurrent_layers import GRU, LSTM
from .scaled_initializers import (
    glorot_normal_initializer,
    glorot_uniform_initializer,
    he_normal_initializer,
    he_uniform_initializer,
    lecun_normal_initializer,
    lecun_uniform_initializer,
    variance_scaling_initializer,
)
from .stacked import stack_bidirectional_dynamic_rnn

if not TYPE_CHECKING:  # a type checker would accept any name of a module with `__getattr__`
    __getattr__ = missing_in("nn")

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BasicRNNCell",
    "BatchNorm",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dense",
    "DepthwiseConv2D",
    "DeviceWrapper",
    "Dropout",
    "DropoutWrapper",
    "Embedding",
    "Flatten",
    "GRU",
    "GRUCell",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalAveragePooling3D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "GlobalMaxPooling3D",
    "GroupNorm",
    "HighwayWrapper",
    "Initializer",
    "InstanceNorm",
    "LSTM",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNorm",
    "LayerNormLSTMCell",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "Module",
    "MultiHeadAttention",
    "MultiRNNCell",
    "RMSNorm",
    "RNNCell",
    "ResidualWrapper",
    "SeparableConv1D",
    "SeparableConv2D",
    "Sequential",
    "TransformerEncoderLayer",
    "bidirectional_dynamic_rnn",
    "constant_initializer",
    "delta_orthogonal_initializer",
    "dynamic_rnn",
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
    "raw_rnn",
    "stack_bidirectional_dynamic_rnn",
    "static_rnn",
    "truncated_normal_initializer",
    "variance_scaling_initializer",
    "zeros_initializer",
]


def __dir__() -> list[str]:
    """Return the public names, without the names of submodules."""
    return sorted(__all__)

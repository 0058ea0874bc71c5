"""What models are made of: modules, which keep variables, and what is built of them."""

from ..frontend.missing_names import missing_in_nn as __getattr__  # noqa: F401, of this module
from .cell_wrappers import DeviceWrapper, DropoutWrapper, MultiRNNCell, ResidualWrapper
from .cells import BasicRNNCell, GRUCell, LSTMStateTuple, RNNCell
from .lstm_cells import LayerNormLSTMCell, LSTMCell
from .module import Module, Sequential
from .recurrent import bidirectional_dynamic_rnn, dynamic_rnn, static_rnn

__all__ = [
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormLSTMCell",
    "Module",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
    "Sequential",
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
    "static_rnn",
]

"""What models are made of: modules, which keep variables, and what is built of them."""

from ..frontend.missing_names import missing_in_nn as __getattr__  # noqa: F401, of this module
from .attention import AttentionMechanism, BahdanauAttention, LuongAttention
from .attention_cells import AttentionWrapper, AttentionWrapperState
from .beam_search import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
)
from .beams import gather_tree, tile_batch
from .cell_wrappers import DeviceWrapper, DropoutWrapper, MultiRNNCell, ResidualWrapper
from .cells import BasicRNNCell, GRUCell, LSTMStateTuple, RNNCell
from .decoding import BasicDecoder, BasicDecoderOutput, Decoder, dynamic_decode
from .decoding_helpers import GreedyEmbeddingHelper, Helper, SampleEmbeddingHelper, TrainingHelper
from .lstm_cells import LayerNormLSTMCell, LSTMCell
from .module import Module, Sequential
from .raw_rnn import raw_rnn
from .recurrent import bidirectional_dynamic_rnn, dynamic_rnn, static_rnn
from .recurrent_layers import GRU, LSTM

__all__ = [
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BasicRNNCell",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "Decoder",
    "DeviceWrapper",
    "DropoutWrapper",
    "FinalBeamSearchDecoderOutput",
    "GRU",
    "GRUCell",
    "GreedyEmbeddingHelper",
    "Helper",
    "LSTM",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormLSTMCell",
    "LuongAttention",
    "Module",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
    "SampleEmbeddingHelper",
    "Sequential",
    "TrainingHelper",
    "bidirectional_dynamic_rnn",
    "dynamic_decode",
    "dynamic_rnn",
    "gather_tree",
    "raw_rnn",
    "static_rnn",
    "tile_batch",
]

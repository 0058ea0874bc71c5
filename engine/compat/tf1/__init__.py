"""Interfaces of TensorFlow 1 that tagloom has other means for, so that programs written for it move over unchanged.

Variables by name in scopes, recurrent decoders with helpers, attention wrappers and beam search, barriers, staging
areas, and readers of files. New programs use `tagloom.nn`, `tagloom.data` and queues: see docs/api/compat-tf1.md.
"""

from typing import TYPE_CHECKING

from ...frontend.missing_names import missing_in
from ...nn.variable_store import AUTO_REUSE, VariableScope, get_variable_scope
from .barriers.barrier import Barrier
from .figures import KeyedStatistics
from .readers.readers import FixedLengthRecordReader, TextLineReader, TFRecordReader, WholeFileReader
from .seq2seq.attention_cells import AttentionWrapper, AttentionWrapperState
from .seq2seq.attention_mechanisms import AttentionMechanism, BahdanauAttention, LuongAttention
from .seq2seq.attention_over_outputs import AttentionCellWrapper
from .seq2seq.beam_search import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
)
from .seq2seq.beams import gather_tree, tile_batch
from .seq2seq.decoding import BasicDecoder, BasicDecoderOutput, Decoder, dynamic_decode
from .seq2seq.decoding_helpers import GreedyEmbeddingHelper, Helper, SampleEmbeddingHelper, TrainingHelper
from .staging.areas import MapStagingArea, StagingArea
from .variables.get_variable import get_regularization_losses, get_variable
from .variables.variable_scope import variable_scope

if not TYPE_CHECKING:  # a type checker would accept any name of a module with `__getattr__`
    __getattr__ = missing_in("compat.tf1")

__all__ = [
    "AUTO_REUSE",
    "AttentionCellWrapper",
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "Barrier",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "Decoder",
    "FinalBeamSearchDecoderOutput",
    "FixedLengthRecordReader",
    "GreedyEmbeddingHelper",
    "Helper",
    "KeyedStatistics",
    "LuongAttention",
    "MapStagingArea",
    "SampleEmbeddingHelper",
    "StagingArea",
    "TFRecordReader",
    "TextLineReader",
    "TrainingHelper",
    "VariableScope",
    "WholeFileReader",
    "dynamic_decode",
    "gather_tree",
    "get_regularization_losses",
    "get_variable",
    "get_variable_scope",
    "tile_batch",
    "variable_scope",
]


def __dir__() -> list[str]:
    """Return the public names, without the names of submodules."""
    return sorted(__all__)

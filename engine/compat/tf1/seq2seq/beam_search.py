"""Beam search: decoding that follows the best partial sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....base import nest
from ....base.errors import GraphError, ShapeError
from ....ir.apply import constant, convert_to_tensor
from ....ir.tensor import Tensor
from ....nn.cell_wrappers import checked_cell
from ....ops.array.creation import fill, zeros
from ....ops.array.creation import range as numbers
from ....ops.array.gather import gather
from ....ops.array.ranking import top_k
from ....ops.array.shapes import expand_dims, reshape, shape
from ....ops.array.where import where
from ....ops.math.arithmetic import pow
from ....ops.math.casting import cast
from ....ops.math.comparison import equal, logical_not, logical_or
from ....ops.math.reductions import reduce_max
from ....ops.nn.losses import log_softmax
from .beams import gather_tree
from .decoding import Decoder

_IMPOSSIBLE = float("-inf")


class BeamSearchDecoderState(NamedTuple):
    """State of a BeamSearchDecoder.

    Attributes
    ----------
    cell_state : structure of Tensor of shape [batch * beams, ...]
    log_probs : Tensor of shape [batch, beams]
        Log-probabilities of the sequences so far.
    finished : bool Tensor of shape [batch, beams]
    lengths : int32 Tensor of shape [batch, beams]
        Number of symbols of each sequence, with its end token.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.compat.tf1.BeamSearchDecoderState._fields
    ('cell_state', 'log_probs', 'finished', 'lengths')
    """

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any


class BeamSearchDecoderOutput(NamedTuple):
    """Outputs of a BeamSearchDecoder at each step.

    Attributes
    ----------
    scores : Tensor of shape [batch, beams]
    predicted_ids, parent_ids : int32 Tensor of shape [batch, beams]

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.compat.tf1.BeamSearchDecoderOutput._fields
    ('scores', 'predicted_ids', 'parent_ids')
    """

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """Outputs of `dynamic_decode` with a BeamSearchDecoder.

    Attributes
    ----------
    predicted_ids : int32 Tensor of shape [batch, time, beams]
        The sequences, best first, padded with end tokens.
    beam_search_decoder_output : BeamSearchDecoderOutput
        Outputs of all steps; the last scores are the scores of the sequences.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.compat.tf1.FinalBeamSearchDecoderOutput._fields
    ('predicted_ids', 'beam_search_decoder_output')
    """

    predicted_ids: Any
    beam_search_decoder_output: Any


class BeamSearchDecoder(Decoder):
    """A decoder that follows the `beam_width` sequences with the best scores.

    The score of a sequence is its log-probability, divided by ``((5 + length) / 6) ** length_penalty_weight`` (Wu et
    al., 2016, section 7), where the length counts the end token. Ended sequences remain among the beams until better
    sequences replace them.

    Parameters
    ----------
    cell : RNNCell
    embedding : Tensor of shape [symbols, depth], or callable
        Table of the symbols' inputs, or a function from symbols to inputs.
    start_tokens : int32 Tensor of shape [batch]
    end_token : int or int32 scalar
    initial_state : structure of Tensor of shape [batch * beam_width, ...]
        As returned by `tile_batch`. A memory of attention in the cell must be tiled too.
    beam_width : int
    output_layer : callable, optional
        Function from the cell's output to logits.
    length_penalty_weight : float
    name : str, optional

    Raises
    ------
    ShapeError
        If the static shape of the state does not have a row for each beam.
    GraphError
        If `cell` is not a cell, `beam_width` is not a positive int, or the state has a TensorArray.

    Examples
    --------
    A first symbol of 0.6 with uncertain followers, and one of 0.4 with a sure follower, which greedy search misses:

    >>> import numpy as np, tagloom as tg
    >>> followers = np.log(np.float32([[1e-9, 0.6, 0.4], [0.5, 0.3, 0.2], [1 - 2e-9, 1e-9, 1e-9]]))
    >>> class Chain(tg.nn.RNNCell):
    ...     state_size = output_size = 3
    ...
    ...     def forward(self, inputs, state):
    ...         return tg.matmul(inputs, followers), state
    >>> def sequences(width):
    ...     start = tg.zeros([width, 3])
    ...     decoder = tg.compat.tf1.BeamSearchDecoder(Chain(), tg.eye(3), [0], 0, start, width)
    ...     return tg.compat.tf1.dynamic_decode(decoder, maximum_iterations=4)[0].predicted_ids[0, :, 0]
    >>> [tg.function(lambda: sequences(width)).sync().tolist() for width in (1, 2)]
    [[1, 0], [2, 0]]
    """

    tracks_own_finished = True

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.cell: Any = checked_cell(cell)
        self.width: int = beam_width
        self.embed = embedding if callable(embedding) else lambda ids: gather(embedding, ids)
        self.start: Tensor = cast(start_tokens, "int32")
        self.end: Tensor = convert_to_tensor(end_token, "int32")
        self.output_layer: Any = output_layer
        self.penalty: float = length_penalty_weight
        if not isinstance(beam_width, int) or beam_width < 1:
            raise GraphError(
                "a beam search follows a number of sequences",
                wanted="an int of at least 1",
                got=beam_width,
                hint="1 is greedy decoding",
            )
        if any(hasattr(leaf, "with_flow") for leaf in nest.flatten(initial_state)):
            raise GraphError(
                "beams change places, and arrays in their state would not",
                wanted="a state of tensors",
                got="a TensorArray",
                hint="leave alignment_history out",
            )
        self.initial_state: Any = nest.map_structure(convert_to_tensor, initial_state)
        # Number of examples, not of beams: `start_tokens` is not tiled.
        self.rows: Any = self.start.shape[0] if self.start.shape[0] is not None else shape(self.start)[0]
        self._require_tiled()
        floating = [leaf.dtype for leaf in nest.flatten(self.initial_state) if leaf.dtype.is_floating]
        self.dtype: Any = (floating or [convert_to_tensor(0.0).dtype])[0]

    def _require_tiled(self) -> None:
        """Raise ShapeError unless the state has a row for each beam of each start token."""
        if not isinstance(self.rows, int):
            return
        for path, leaf in nest.walk(self.initial_state, "initial_state"):
            if leaf.rank and leaf.shape[0] not in (None, self.rows * self.width):
                raise ShapeError(
                    f"the state of a beam search has a row for each beam: {path} has not",
                    wanted=f"{self.rows * self.width} rows, {self.width} beams for each of {self.rows} start tokens",
                    got=leaf.shape,
                    operation=leaf.op,
                    hint=f"initial_state = tile_batch(state, {self.width}); the memory of attention is tiled too, as "
                    "by cell.with_memory(tile_batch(memory, beam_width))",
                )

    def initialize(self) -> tuple[Any, Any, Any]:
        """Return unfinished flags, the start tokens, and a state in which only the first beam is possible."""
        sizes = [self.rows, self.width]
        # All beams begin equal: with log-probability 0 in each, the search would follow one sequence `width` times.
        first = where(equal(numbers(self.width), 0), constant(0.0, self.dtype), _IMPOSSIBLE)
        log_probs = expand_dims(first, 0) + zeros(sizes, self.dtype)
        finished = fill(sizes, False)
        tokens = reshape(expand_dims(self.start, 1) + zeros(sizes, "int32"), [-1])
        state = BeamSearchDecoderState(self.initial_state, log_probs, finished, zeros(sizes, "int32"))
        return finished, self.embed(tokens), state

    def step(self, time: Any, inputs: Any, state: Any) -> tuple[Any, Any, Any, Any]:
        """Run the cell for all beams and choose the best of all extended sequences.

        Parameters
        ----------
        time : int32 scalar Tensor
        inputs : structure of Tensor
        state : BeamSearchDecoderState

        Returns
        -------
        outputs : BeamSearchDecoderOutput
        state : BeamSearchDecoderState
        inputs : structure of Tensor
        finished : bool Tensor of shape [batch, beams]
        """
        output, cell_state = self.cell(inputs, state.cell_state)
        logits = output if self.output_layer is None else self.output_layer(output)
        count = logits.shape[-1] if logits.shape[-1] is not None else shape(logits)[-1]
        log_probs, lengths = self._extend_sequences(reshape(logits, [self.rows, self.width, count]), count, state)
        scores = log_probs if not self.penalty else log_probs / self._length_penalty(lengths)
        # The best of all beams and symbols together: a beam may have several followers, or none.
        best, chosen = top_k(reshape(scores, [self.rows, -1]), self.width)
        # An index into the flattened beams and symbols is ``beam * count + symbol``.
        parents, symbols = chosen // count, chosen % count
        finished = logical_or(gather(state.finished, parents, batch_dims=1), equal(symbols, self.end))
        after = BeamSearchDecoderState(
            nest.map_structure(lambda x: self._gather_parents(x, parents), cell_state),
            # Not `best`: scores are divided by a penalty that grows with the length.
            gather(reshape(log_probs, [self.rows, -1]), chosen, batch_dims=1),
            finished,
            # `lengths` has a last dimension of 1, for broadcasting over symbols.
            gather(lengths, parents, batch_dims=1)[..., 0],
        )
        # Gathers lose static shapes, which the loop requires to be constant.
        fixed = nest.pack_as(state, [_of_shape(x, y) for x, y in zip(nest.flatten(after), nest.flatten(state))])
        following = self.embed(reshape(symbols, [-1]))
        return BeamSearchDecoderOutput(best, symbols, parents), fixed, following, fixed.finished

    def _extend_sequences(self, logits: Tensor, count: Any, state: BeamSearchDecoderState) -> tuple[Tensor, Tensor]:
        """Return log-probabilities, [batch, beams, symbols], and lengths of all sequences extended by a symbol.

        An ended sequence is extended by an end token of probability 1, which does not count in the length.
        """
        finished = expand_dims(state.finished, 2)
        only_end = where(equal(numbers(count), self.end), constant(0.0, logits.dtype), _IMPOSSIBLE)
        symbols = where(finished, expand_dims(expand_dims(only_end, 0), 0), log_softmax(logits))
        lengths = state.lengths + cast(logical_not(state.finished), "int32")
        return expand_dims(state.log_probs, 2) + symbols, expand_dims(lengths, 2)

    def _length_penalty(self, lengths: Tensor) -> Tensor:
        # Wu et al., 2016, equation 14: the constants make the penalty of a single symbol 1.
        return pow((5.0 + cast(lengths, self.dtype)) / 6.0, self.penalty)

    def _gather_parents(self, x: Tensor, parents: Tensor) -> Tensor:
        """Return the rows of the chosen beams; a scalar unchanged."""
        if x.rank == 0:
            return x
        # States have a row for each beam: the beams of an example are consecutive rows.
        rows = expand_dims(numbers(self.rows) * self.width, 1) + parents
        return gather(x, reshape(rows, [-1]))

    def final_lengths(self, state: Any, lengths: Tensor) -> Tensor:
        """Return the lengths of the sequences, [batch, beams], with their end tokens.

        Parameters
        ----------
        state : BeamSearchDecoderState
        lengths : int32 Tensor

        Returns
        -------
        int32 Tensor
        """
        whole: Tensor = state.lengths
        return whole

    def finalize(self, outputs: Any, state: Any, lengths: Tensor) -> tuple[Any, Any]:
        """Return the sequences, and the state unchanged.

        Parameters
        ----------
        outputs : BeamSearchDecoderOutput
        state : BeamSearchDecoderState
        lengths : int32 Tensor

        Returns
        -------
        outputs : FinalBeamSearchDecoderOutput
        state : BeamSearchDecoderState
        """
        # [batch]: backtracking begins at the last step of a row's longest beam.
        longest = reduce_max(lengths, 1)
        found = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self.end)
        return FinalBeamSearchDecoderOutput(found, outputs), state


def _of_shape(x: Tensor, like: Tensor) -> Tensor:
    x.set_shape(like.shape)
    return x

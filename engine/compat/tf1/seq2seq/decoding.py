"""Decoding in a loop: a decoder computes its next inputs from its outputs, until all rows have finished."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....base import nest
from ....base.errors import GraphError
from ....frontend.control.loops import while_loop
from ....frontend.control.scopes import name_scope
from ....frontend.state.tensor_array import TensorArray
from ....ir.apply import convert_to_tensor
from ....ir.entry import public
from ....ir.tensor import Tensor
from ....nn.batches import array_like, loop_options, rows_chosen, swap_time_and_batch, tensor_or_array
from ....nn.cell_wrappers import checked_cell
from ....nn.module import Module
from ....ops.array.creation import zeros, zeros_like
from ....ops.array.shapes import shape
from ....ops.array.where import where
from ....ops.math.comparison import logical_not, logical_or
from ....ops.math.reductions import reduce_all
from .decoding_helpers import Helper


class Decoder(Module):
    """Base of the decoders that `dynamic_decode` runs.

    Attributes
    ----------
    tracks_own_finished : bool
        True if a finished row may continue: `dynamic_decode` then takes the flags of each step as they are.

    Examples
    --------
    A decoder that counts from a number down to 1:

    >>> import tagloom as tg
    >>> class Countdown(tg.compat.tf1.Decoder):
    ...     def initialize(self):
    ...         return tg.constant([False, False]), tg.constant([3, 2]), ()
    ...
    ...     def step(self, time, inputs, state):
    ...         return inputs, state, inputs - 1, inputs <= 1
    >>> build = lambda: tg.compat.tf1.dynamic_decode(Countdown(), impute_finished=True)[::2]
    >>> numbers, lengths = tg.function(build).sync()
    >>> numbers.tolist(), lengths.tolist()
    ([[3, 2, 1], [2, 1, 0]], [3, 2])
    """

    tracks_own_finished = False

    def initialize(self) -> tuple[Any, Any, Any]:
        """Return the finished flags, of shape [batch], the first inputs and the first state."""
        raise _missing_method_error(self, "initialize")

    def step(self, time: Any, inputs: Any, state: Any) -> tuple[Any, Any, Any, Any]:
        """Return outputs, next state, next inputs and finished flags.

        Parameters
        ----------
        time : int32 scalar Tensor
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        outputs, state, inputs : structure of Tensor
        finished : bool Tensor of shape [batch]
        """
        raise _missing_method_error(self, "step")

    def finalize(self, outputs: Any, state: Any, lengths: Tensor) -> tuple[Any, Any]:
        """Return the final outputs and state from the stacked outputs, time first, and the last state.

        Parameters
        ----------
        outputs : structure of Tensor
        state : structure of Tensor
        lengths : int32 Tensor
            Number of steps of each row.

        Returns
        -------
        outputs, state : structure of Tensor
        """
        return outputs, state

    def final_lengths(self, state: Any, lengths: Tensor) -> Tensor:
        """Return the lengths for the result of `dynamic_decode`.

        Parameters
        ----------
        state : structure of Tensor
            The last state.
        lengths : int32 Tensor
            Number of steps until each row finished.

        Returns
        -------
        int32 Tensor
        """
        return lengths


def _missing_method_error(decoder: Decoder, method: str) -> GraphError:
    return GraphError(
        f"{type(decoder).__name__} does not say how it decodes",
        wanted=f"a method `{method}`",
        got="none",
        hint="use BasicDecoder or BeamSearchDecoder, or define initialize and step",
    )


class BasicDecoderOutput(NamedTuple):
    """Outputs of a BasicDecoder.

    Attributes
    ----------
    rnn_output : Tensor
        The cell's output, after the output layer.
    sample_id : int32 Tensor
        Symbols chosen by the helper.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.compat.tf1.BasicDecoderOutput._fields
    ('rnn_output', 'sample_id')
    """

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A decoder that runs a cell with inputs from a helper.

    Parameters
    ----------
    cell : RNNCell
    helper : Helper
    initial_state : structure of Tensor
    output_layer : callable, optional
        Applied to the cell's output.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     helper = tg.compat.tf1.TrainingHelper(tg.ones([2, 7, 3]), [7, 4])
    ...     cell = tg.nn.GRUCell(5)
    ...     decoder = tg.compat.tf1.BasicDecoder(cell, helper, cell.zero_state(2))
    ...     outputs, state, lengths = tg.compat.tf1.dynamic_decode(decoder)
    >>> outputs.rnn_output.shape, state.shape
    (Shape(2, None, 5), Shape(2, 5))
    """

    def __init__(
        self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.cell: Any = checked_cell(cell)
        self.helper: Helper = helper
        self.initial_state: Any = initial_state
        self.output_layer: Any = output_layer

    def initialize(self) -> tuple[Any, Any, Any]:
        """Return the helper's finished flags and first inputs, and the initial state."""
        return (*self.helper.initialize(), self.initial_state)

    def step(self, time: Any, inputs: Any, state: Any) -> tuple[Any, Any, Any, Any]:
        """Run the cell; choose symbols and next inputs by the helper.

        Parameters
        ----------
        time : int32 scalar Tensor
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        outputs : BasicDecoderOutput
        state, inputs : structure of Tensor
        finished : bool Tensor of shape [batch]
        """
        output, state = self.cell(inputs, state)
        if self.output_layer is not None:
            output = self.output_layer(output)
        chosen = self.helper.sample(time, output, state)
        finished, following, state = self.helper.next_inputs(time, output, state, chosen)
        return BasicDecoderOutput(output, chosen), state, following, finished


@public
def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int | str | None = None,
    swap_memory: bool = False,
    name: str | None = None,
) -> tuple[Any, Any, Tensor]:
    """Run a decoder in a loop until all rows have finished.

    In Python::

        finished, inputs, state = decoder.initialize()
        while not all(finished):
            output, state, inputs, ended = decoder.step(time, inputs, state)
            outputs.append(output)
            lengths = [n if done else n + 1 for n, done in zip(lengths, finished)]
            finished, time = finished | ended, time + 1

    Parameters
    ----------
    decoder : Decoder
    output_time_major : bool
        If True, outputs have the shape [time, batch, ...].
    impute_finished : bool
        If True, outputs are zero and the state is unchanged in rows that have finished.
    maximum_iterations : int or int32 scalar, optional
        Largest number of steps.
    parallel_iterations, swap_memory
        As for `while_loop`.
    name : str, optional

    Returns
    -------
    outputs : structure of Tensor
        Outputs of the decoder's `finalize`, of shape [batch, time, ...].
    state : structure of Tensor
    lengths : int32 Tensor of shape [batch]
        Number of steps until each row finished.

    Raises
    ------
    GraphError
        If `decoder` is not a Decoder, or `impute_finished` is True and the decoder tracks its finished rows.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Double(tg.nn.RNNCell):
    ...     state_size = output_size = 4
    ...
    ...     def forward(self, inputs, state):
    ...         return tg.one_hot(tg.argmax(inputs, 1) + 1, 4), state
    >>> def decoded():  # each symbol is followed by the next one; 3 is the end
    ...     helper = tg.compat.tf1.GreedyEmbeddingHelper(tg.eye(4), [0, 1], end_token=3)
    ...     decoder = tg.compat.tf1.BasicDecoder(Double(), helper, tg.zeros([2, 4]))
    ...     outputs, _, lengths = tg.compat.tf1.dynamic_decode(decoder, impute_finished=True)
    ...     return outputs.sample_id, lengths
    >>> symbols, lengths = tg.function(decoded).sync()
    >>> symbols.tolist(), lengths.tolist()
    ([[1, 2, 3], [2, 3, 0]], [3, 2])
    """
    if not isinstance(decoder, Decoder):
        raise GraphError(
            "dynamic_decode runs a decoder",
            wanted="a tagloom.compat.tf1.Decoder",
            got=repr(decoder),
            hint="wrap a cell and a helper in a BasicDecoder",
        )
    if impute_finished and decoder.tracks_own_finished:
        raise GraphError(
            "impute_finished holds what has finished, and this decoder says itself what becomes of it",
            wanted="impute_finished=False",
            got=type(decoder).__name__,
            hint="leave it out",
        )
    with name_scope(name or "decoder"):
        loop = _Decoding(decoder, impute_finished)
        options = loop_options(parallel_iterations, swap_memory)
        outputs, state, lengths = loop.run(maximum_iterations, options)
        lengths = decoder.final_lengths(state, lengths)
        # Still time first, because a beam search backtracks along time; only results are swapped.
        outputs, state = decoder.finalize(outputs, state, lengths)
        return outputs if output_time_major else nest.map_structure(swap_time_and_batch, outputs), state, lengths


class _Decoding:
    """The loop of `dynamic_decode`."""

    def __init__(self, decoder: Decoder, impute_finished: bool) -> None:
        self.decoder, self.imputes = decoder, impute_finished
        # Called once, outside of both loops, `shapes` and `time`.
        finished, inputs, state = decoder.initialize()
        self.finished = convert_to_tensor(finished)
        self.inputs = nest.map_structure(tensor_or_array, inputs)
        self.state = nest.map_structure(tensor_or_array, state)
        self.like = self._outputs_like()

    def _outputs_like(self) -> Any:
        """Return outputs of a step, used only for their dtypes and shapes, built in a loop that is never run."""
        # In a loop whose condition is false at once: the step sees the shapes of loop variables, and never runs.
        made: list[Any] = []

        def trace_step(t: Tensor, state: Any) -> Any:
            outputs, after, *_ = self.decoder.step(t, self.inputs, state)
            made.append(nest.map_structure(convert_to_tensor, outputs))
            return t + 1, nest.pack_as(state, nest.flatten_as(state, after))

        while_loop(lambda t, state: t < 0, trace_step, (0, self.state), name="shapes", back_prop=False)
        return made[0]

    def run(self, maximum: Any, options: dict[str, Any]) -> tuple[Any, Any, Tensor]:
        """Build the loop; return the stacked outputs, time first, the last state and the lengths."""
        # One array per leaf of the outputs, in the order of `flatten`.
        arrays = [self._make_array(x) for x in nest.flatten(self.like)]
        # Lengths begin at 0, which remains for rows that have finished before the first step.
        start = (0, arrays, self.state, self.inputs, self.finished, zeros_like(self.finished, dtype="int32"))
        _, arrays, state, _, _, lengths = while_loop(
            lambda t, a, s, x, finished, n: logical_not(reduce_all(finished)),
            self._build_iteration,
            start,
            maximum_iterations=maximum,
            name="time",
            **options,
        )
        return nest.pack_as(self.like, [a.stack() for a in arrays]), state, lengths

    def _make_array(self, x: Tensor) -> TensorArray:
        """Return an array for outputs like `x`, a tensor of another loop, so only its static shape is usable."""
        # Only an unknown batch size can be found outside of the loop: the flags have it.
        if not x.rank or x.shape[0] is not None or not x.shape[1:].is_fully_known:
            return TensorArray(x.dtype, 0, True, element_shape=x.shape)
        return array_like(zeros([shape(self.finished)[0], *x.shape[1:]], x.dtype))

    def _build_iteration(
        self, t: Tensor, arrays: list[Any], state: Any, inputs: Any, finished: Tensor, lengths: Tensor
    ) -> Any:
        """Build one iteration: a decoder's step, with finished rows held if imputed."""
        outputs, after, following, ended = self.decoder.step(t, inputs, state)
        fresh, after_leaves = nest.flatten(outputs), nest.flatten_as(state, after)
        if self.imputes:
            fresh = [rows_chosen(finished, zeros_like(x), convert_to_tensor(x)) for x in fresh]
            pairs = zip(nest.flatten(state), after_leaves, strict=True)
            # Arrays have no rows to hold.
            after_leaves = [y if hasattr(y, "with_flow") else rows_chosen(finished, x, y) for x, y in pairs]
        arrays = [a.write(t, x) for a, x in zip(arrays, fresh, strict=True)]
        # By the flags before this step, so that the step of the end token counts.
        lengths = where(finished, lengths, t + 1)
        # Finished rows stay finished, although their later symbols need not be end tokens.
        if not self.decoder.tracks_own_finished:
            ended = logical_or(finished, ended)
        return t + 1, arrays, nest.pack_as(state, after_leaves), following, ended, lengths

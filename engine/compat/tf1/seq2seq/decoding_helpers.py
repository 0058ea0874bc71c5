"""Helpers that choose a decoder's next inputs: given inputs, the likeliest symbols, or drawn symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base import nest
from ....base.errors import GraphError, ShapeError
from ....frontend.control.conditional import cond
from ....frontend.state.tensor_array import TensorArray
from ....ir.apply import convert_to_tensor
from ....ir.tensor import Tensor
from ....nn.batches import convert_inputs, swap_time_and_batch
from ....ops.array.argminmax import argmax
from ....ops.array.creation import zeros, zeros_like
from ....ops.array.gather import gather
from ....ops.array.shapes import shape, squeeze
from ....ops.math.arithmetic import minimum
from ....ops.math.casting import cast
from ....ops.math.comparison import equal
from ....ops.random.discrete import categorical

Finished = tuple[Tensor, Any]


class Helper:
    """Base of helpers, which choose symbols by a decoder's output and return the next inputs.

    Examples
    --------
    A helper that chooses by the sign of the output, for four steps:

    >>> import tagloom as tg
    >>> class Signs(tg.compat.tf1.Helper):
    ...     def initialize(self):
    ...         return tg.constant([False]), tg.constant([[1.0]])
    ...
    ...     def sample(self, time, outputs, state):
    ...         return tg.cast(outputs[:, 0] > 0.0, "int32")
    ...
    ...     def next_inputs(self, time, outputs, state, sample_ids):
    ...         return tg.fill([1], time >= 3), -outputs, state
    >>> class Echo(tg.nn.RNNCell):
    ...     state_size = output_size = 1
    ...
    ...     def forward(self, inputs, state):
    ...         return inputs, state
    >>> decoder = lambda: tg.compat.tf1.BasicDecoder(Echo(), Signs(), tg.zeros([1, 1]))
    >>> tg.function(lambda: tg.compat.tf1.dynamic_decode(decoder())[0].sample_id).sync().tolist()
    [[1, 0, 1, 0]]
    """

    def initialize(self) -> Finished:
        """Return the finished flags before the first step, and the first inputs."""
        raise _missing_method_error(self, "initialize")

    def sample(self, time: Any, outputs: Tensor, state: Any) -> Tensor:
        """Return the symbols chosen by the outputs of a step.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor

        Returns
        -------
        int32 Tensor of shape [batch]
        """
        raise _missing_method_error(self, "sample")

    def next_inputs(self, time: Any, outputs: Tensor, state: Any, sample_ids: Tensor) -> tuple[Tensor, Any, Any]:
        """Return the finished flags, the next inputs and the next state.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor
        sample_ids : int32 Tensor of shape [batch]

        Returns
        -------
        finished : bool Tensor of shape [batch]
        inputs, state : structure of Tensor
        """
        raise _missing_method_error(self, "next_inputs")


def _missing_method_error(helper: Helper, method: str) -> GraphError:
    return GraphError(
        f"{type(helper).__name__} does not say what comes next",
        wanted=f"a method `{method}`",
        got="none",
        hint="use TrainingHelper or GreedyEmbeddingHelper, or define initialize, sample and next_inputs",
    )


class TrainingHelper(Helper):
    """Helper with given inputs, the correct symbols (teacher forcing, Williams and Zipser, 1989).

    Parameters
    ----------
    inputs : Tensor of shape [batch, time, ...], or structure of such
    sequence_length : int32 Tensor of shape [batch]
        Number of inputs of each row.
    time_major : bool
        If True, inputs have the shape [time, batch, ...].

    Raises
    ------
    ShapeError
        If `sequence_length` is not a vector.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     helper = tg.compat.tf1.TrainingHelper(tg.ones([2, 5, 3]), [5, 0])
    ...     finished, inputs = helper.initialize()
    >>> inputs.shape
    Shape(2, 3)
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False) -> None:
        given = convert_inputs(inputs)
        self.inputs: Any = given if time_major else nest.map_structure(swap_time_and_batch, given)
        self.lengths: Tensor = cast(sequence_length, "int32")
        if self.lengths.rank not in (1, None):
            raise ShapeError(
                "sequence_length has one number for each row of the batch",
                wanted="[batch]",
                got=self.lengths.shape,
                operation=self.lengths.op,
                hint="reshape it to a vector",
            )
        leaves = nest.flatten(self.inputs)
        self.steps: Any = leaves[0].shape[0] if leaves[0].shape[0] is not None else shape(leaves[0])[0]
        # The gradient of a read is a write of one element; the gradient of a slice would be as large as the input.
        self.arrays: list[TensorArray] = [
            # Elements are kept after a read: the last is read again by rows beyond the end.
            TensorArray(x.dtype, self.steps, clear_after_read=False).unstack(x)
            for x in leaves
        ]

    def _read_inputs(self, time: Any) -> Any:
        """Return the inputs of a step; beyond the end the last inputs, because rows that read them have finished."""
        return nest.pack_as(self.inputs, [a.read(minimum(time, self.steps - 1)) for a in self.arrays])

    def initialize(self) -> Finished:
        """Return flags of the empty rows, and the inputs of the first step."""
        return equal(self.lengths, 0), self._read_first_inputs()

    def _read_first_inputs(self) -> Any:
        """Return the inputs of the first step, zeros where there are no steps."""
        if isinstance(self.steps, int):
            return self._read_inputs(0) if self.steps else self._make_zero_inputs()
        return cond(self.steps > 0, lambda: self._read_inputs(0), self._make_zero_inputs, name="first")

    def _make_zero_inputs(self) -> Any:
        return nest.map_structure(lambda x: zeros(shape(x)[1:], x.dtype), self.inputs)

    def sample(self, time: Any, outputs: Tensor, state: Any) -> Tensor:
        """Return the likeliest symbols, which do not affect the next inputs.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor

        Returns
        -------
        int32 Tensor of shape [batch]
        """
        return cast(argmax(outputs, -1), "int32")

    def next_inputs(self, time: Any, outputs: Tensor, state: Any, sample_ids: Tensor) -> tuple[Tensor, Any, Any]:
        """Return flags of the rows without further inputs, the next inputs, and the state unchanged.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor
        sample_ids : int32 Tensor of shape [batch]

        Returns
        -------
        finished : bool Tensor of shape [batch]
        inputs, state : structure of Tensor
        """
        # The step of `time` is done; the inputs returned are for the next step.
        return time + 1 >= self.lengths, self._read_inputs(time + 1), state


class GreedyEmbeddingHelper(Helper):
    """Helper that chooses the likeliest symbol, whose embedding is the next input.

    Parameters
    ----------
    embedding : Tensor of shape [symbols, depth], or callable
        Table of the symbols' inputs, or a function from symbols to inputs.
    start_tokens : int32 Tensor of shape [batch]
    end_token : int or int32 scalar
        Symbol that finishes a row.

    Raises
    ------
    ShapeError
        If `start_tokens` is not a vector, or `end_token` not a scalar.

    Examples
    --------
    >>> import tagloom as tg
    >>> helper = lambda: tg.compat.tf1.GreedyEmbeddingHelper(tg.eye(3), [0, 2], end_token=1)
    >>> chosen = lambda: helper().sample(0, tg.constant([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]]), ())
    >>> tg.function(chosen).sync()
    array([1, 0], dtype=int32)
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self.embed: Callable[[Tensor], Any] = embedding if callable(embedding) else lambda ids: gather(embedding, ids)
        self.start_tokens: Tensor = cast(start_tokens, "int32")
        self.end_token: Tensor = convert_to_tensor(end_token, "int32")
        if self.start_tokens.rank not in (1, None):
            raise ShapeError(
                "there is one start token for each row of the batch",
                wanted="[batch]",
                got=self.start_tokens.shape,
                operation=self.start_tokens.op,
                hint="use fill([batch], token) if all begin alike",
            )
        if self.end_token.rank not in (0, None):
            raise ShapeError(
                "one token ends all rows",
                wanted="a scalar",
                got=self.end_token.shape,
                operation=self.end_token.op,
                hint="give end_token an int",
            )

    def initialize(self) -> Finished:
        """Return unfinished flags, and the embeddings of the start tokens."""
        return zeros_like(self.start_tokens, "bool"), self.embed(self.start_tokens)

    def sample(self, time: Any, outputs: Tensor, state: Any) -> Tensor:
        """Return the likeliest symbols.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor

        Returns
        -------
        int32 Tensor of shape [batch]
        """
        return cast(argmax(outputs, -1), "int32")

    def next_inputs(self, time: Any, outputs: Tensor, state: Any, sample_ids: Tensor) -> tuple[Tensor, Any, Any]:
        """Return flags of the rows with an end token, the embeddings of the symbols, and the state unchanged.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor
        sample_ids : int32 Tensor of shape [batch]

        Returns
        -------
        finished : bool Tensor of shape [batch]
        inputs, state : structure of Tensor
        """
        return equal(sample_ids, self.end_token), self.embed(sample_ids), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Helper that draws symbols by their probabilities; the embedding of the symbol is the next input.

    Parameters
    ----------
    embedding : Tensor of shape [symbols, depth], or callable
        Table of the symbols' inputs, or a function from symbols to inputs.
    start_tokens : int32 Tensor of shape [batch]
    end_token : int or int32 scalar
        Symbol that finishes a row.
    softmax_temperature : float or scalar Tensor, optional
        Divisor of the outputs: below 1, likely symbols are drawn more often.
    seed : int, optional
        As for `categorical`: each draw is a function of the seed, the session's step and the iteration.

    Examples
    --------
    >>> import tagloom as tg
    >>> helper = lambda: tg.compat.tf1.SampleEmbeddingHelper(tg.eye(3), [0, 2], end_token=1, softmax_temperature=0.01)
    >>> chosen = lambda: helper().sample(0, tg.constant([[0.1, 0.7, 0.2], [0.9, 0.1, 0.4]]), ())
    >>> tg.function(chosen).sync()
    array([1, 0], dtype=int32)
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self.temperature: Any = softmax_temperature
        self.seed: int | None = seed

    def sample(self, time: Any, outputs: Tensor, state: Any) -> Tensor:
        """Return symbols drawn by the softmax of the outputs.

        Parameters
        ----------
        time : int32 scalar Tensor
        outputs : Tensor of shape [batch, symbols]
        state : structure of Tensor

        Returns
        -------
        int32 Tensor of shape [batch]
        """
        # A low temperature sharpens the distribution, a high temperature flattens it.
        logits = outputs if self.temperature is None else outputs / self.temperature
        return squeeze(cast(categorical(logits, 1, seed=self.seed), "int32"), [1])

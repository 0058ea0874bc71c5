"""An LSTM written by hand: its time loop is a ``while_loop`` over TensorArrays (Hochreiter and Schmidhuber, 1997).

Computations independent of the state stand outside the loop: the product of all inputs with their weights before, the
logits and the loss of all outputs after, a matmul each. Where memory is short, all computations are in the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tagloom as tg

Array = np.ndarray[Any, Any]


def initial_weights(characters: int, embedding: int, units: int, seed: int) -> dict[str, Array]:
    """Draw the weights of a model, float32; the forget gate starts open."""
    random = np.random.default_rng(seed)

    def draw_matrix(rows: int, columns: int, scale: float) -> Array:
        return (random.standard_normal((rows, columns), np.float32) * np.float32(scale)).astype(np.float32)

    bias = np.zeros(4 * units, np.float32)
    bias[units : 2 * units] = 1  # the forget gate's part, see the order of gates in `_run_cell`
    return {
        "embedding": draw_matrix(characters, embedding, 0.5),
        "input": draw_matrix(embedding, 4 * units, embedding**-0.5),
        "recurrent": draw_matrix(units, 4 * units, units**-0.5),
        "bias": bias,
        "output": draw_matrix(units, characters, units**-0.5),
        "output_bias": np.zeros(characters, np.float32),
    }


class CharacterModel:
    """Variables of a model in the current graph, and methods to build its computations.

    Parameters
    ----------
    weights : mapping of str to array
        Arrays named as by `initial_weights`; their shapes determine the size of the model.

    Attributes
    ----------
    variables : dict of str to Variable
    characters, units : int
        Sizes of the alphabet and of the state.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.variables: dict[str, Any] = {name: tg.Variable(value, name=name) for name, value in weights.items()}
        self.units: int = len(weights["recurrent"])
        self.characters: int = len(weights["embedding"])

    def states(self, characters: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
        """Read characters and return the output after each, and the last state.

        Parameters
        ----------
        characters : int32 Tensor of shape [length, batch]
        h, c : float32 Tensor of shape [batch, units]
            Initial state.

        Returns
        -------
        outputs : float32 Tensor of shape [length, batch, units]
        h, c : float32 Tensor of shape [batch, units]
        """
        length, batch = tg.unstack(tg.shape(characters), num=2)
        rows = tg.reshape(self._gate_inputs(tg.reshape(characters, [-1])), [length, batch, 4 * self.units])
        # `length` is dynamic, so the reshape has lost the static batch; the loop's rows need it.
        rows.set_shape([None, characters.shape[1], 4 * self.units])
        inputs = tg.TensorArray("float32", length).unstack(rows)

        def run_iteration(t: Any, h: Any, c: Any, outputs: tg.TensorArray) -> tuple[Any, ...]:
            h, c = self._run_cell(inputs.read(t), h, c)
            return t + 1, h, c, outputs.write(t, h)

        start = [0, h, c, tg.TensorArray("float32", length)]
        _, h, c, outputs = tg.while_loop(lambda t, *_: t < length, run_iteration, start, name="time")
        return outputs.stack(), h, c

    def logits(self, outputs: Any) -> Any:
        """Return the unnormalised log probabilities of the next character, [n, characters], of outputs [n, units]."""
        return outputs @ self.variables["output"] + self.variables["output_bias"]

    def loss(self, outputs: Any, targets: Any) -> Any:
        """Return the mean cross-entropy, in nats per character, of outputs [length, batch, units]."""
        logits = self.logits(tg.reshape(outputs, [-1, self.units]))
        labels = tg.reshape(targets, [-1])
        return tg.reduce_mean(tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    def summed_loss(self, characters: Any, targets: Any, h: Any, c: Any, swap: bool) -> tuple[Any, Any, Any]:
        """Return the mean cross-entropy and the last state; memory outside the loop does not grow with the length.

        Parameters
        ----------
        characters, targets : int32 Tensor of shape [length, batch]
        h, c : float32 Tensor of shape [batch, units]
            Initial state.
        swap : bool
            Whether values saved by the loop for the gradient may leave the device's memory.

        Returns
        -------
        loss : float32 scalar Tensor
            Loss in nats per character.
        h, c : float32 Tensor of shape [batch, units]
        """
        length = tg.shape(characters)[0]
        inputs, label_array = (tg.TensorArray("int32", length).unstack(rows) for rows in (characters, targets))

        def run_iteration(t: Any, h: Any, c: Any, total: Any) -> tuple[Any, ...]:
            h, c = self._run_cell(self._gate_inputs(inputs.read(t)), h, c)
            loss = tg.sparse_softmax_cross_entropy_with_logits(labels=label_array.read(t), logits=self.logits(h))
            return t + 1, h, c, total + tg.reduce_mean(loss)

        start = [0, h, c, 0.0]
        _, h, c, total = tg.while_loop(lambda t, *_: t < length, run_iteration, start, swap_memory=swap, name="time")
        return total / tg.cast(length, "float32"), h, c

    def write(self, prompt: Any, draws: Any, temperature: Any, minimum: Any, newline: int) -> Any:
        """Continue a prompt character by character, in a loop of data-dependent length.

        Parameters
        ----------
        prompt : int32 Tensor of shape [length]
            Prompt of at least one character.
        draws : float32 Tensor of shape [most]
            A number in [0, 1) for each character, to draw from the probabilities instead of taking the maximum.
        temperature : float32 scalar Tensor
            Divisor of the logits; below 1 probable characters become more probable.
        minimum : int32 scalar Tensor
            Shortest length: once so many characters are written, a newline among them as the last ends the loop.
        newline : int
            Number of the newline character.

        Returns
        -------
        int32 Tensor
            Characters written, of shape [n] with n at most `most`. Inside the loop each is ``character:0``.
        """
        zeros = tg.zeros([1, self.units])
        outputs, h, c = self.states(tg.expand_dims(prompt, 1), zeros, zeros)
        most = tg.size(draws)

        def is_unfinished(t: Any, last: Any, *_: Any) -> Any:
            return tg.logical_and(t < most, tg.logical_or(t < minimum, tg.not_equal(last, newline)))

        def run_iteration(t: Any, last: Any, logits: Any, h: Any, c: Any, text: tg.TensorArray) -> tuple[Any, ...]:
            drawn = draw_class(logits / temperature, draws[t])
            h, c = self._run_cell(self._gate_inputs(drawn), h, c)
            character = tg.squeeze(drawn, name="character")
            return t + 1, character, self.logits(h), h, c, text.write(t, character)

        start = [0, prompt[-1], self.logits(outputs[-1]), h, c, tg.TensorArray("int32", element_shape=[])]
        return tg.while_loop(is_unfinished, run_iteration, start, name="writing")[-1].stack()

    def _gate_inputs(self, characters: Any) -> Any:
        """Return the contribution of characters [n] to the gates, [n, 4 * units]."""
        return tg.gather(self.variables["embedding"], characters) @ self.variables["input"] + self.variables["bias"]

    def _run_cell(self, inputs: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """Return the next state; the gates are input, forget, output, then the candidate."""
        gates, candidate = tg.split(inputs + h @ self.variables["recurrent"], [3 * self.units, self.units], axis=1)
        i, f, o = tg.split(tg.sigmoid(gates), 3, axis=1)
        c = f * c + i * tg.tanh(candidate)
        return o * tg.tanh(c), c


def draw_class(logits: Any, number: Any) -> Any:
    """Draw a class from the probabilities of logits [1, n] by a number in [0, 1); return int32 [1]."""
    shares = tg.cumsum(tg.softmax(logits), axis=-1)
    # Scaled by the last sum, which rounding may leave below or above 1; the minimum keeps rounding in range, too.
    below = tg.reduce_sum(tg.cast(shares <= number * shares[:, -1:], "int32"), axis=1)
    return tg.minimum(below, tg.shape(logits)[1] - 1)

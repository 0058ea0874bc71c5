"""Recurrent cells on the same numbers: eight spellings of one LSTM, a GRU and an LSTM with layer normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .experiment import Case
from .lstm_train import cell as lstm_state

WORDS = 16  # of each sequence

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Operations:
    """What an engine calls the operations of a cell, besides ``@``, ``+``, ``-`` and ``*``.

    Attributes
    ----------
    sigmoid, tanh : callable
    concat : callable
        Joins the columns of a list of matrices.
    split : callable
        ``split(z, n)`` cuts the columns of a matrix into n parts of one width.
    times_transposed : callable
        ``times_transposed(a, w)`` is ``a @ w.T``.
    normalized : callable
        ``normalized(x, gain, shift)`` is the layer normalization of the rows of x.
    """

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    concat: Callable[[list[Any]], Any]
    split: Callable[[Any, int], Any]
    times_transposed: Callable[[Any, Any], Any]
    normalized: Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Problem:
    """The same numbers for every spelling and engine; all but the words float32.

    A sequence has an alphabet of its own, in which the right half of each vector is the same: the context of that
    sequence. So its inputs are at once rows read from an array, vectors of words, and parts beside a constant context.

    Attributes
    ----------
    words : array of int32 of shape (length, batch)
    vectors : array of shape (batch * WORDS, units)
        One for each word; not trained.
    targets : array of shape (length, batch, units)
    weights : list of array
        Those of the cell, see `lstm_weights` and its neighbours.
    """

    words: np.ndarray
    vectors: np.ndarray
    targets: np.ndarray
    weights: Arrays

    @property
    def inputs(self) -> np.ndarray:
        """The vectors of the words, of shape (length, batch, units)."""
        return self.vectors[self.words]

    @property
    def parts(self) -> np.ndarray:
        """The left half of the inputs, which differs from word to word."""
        return np.ascontiguousarray(self.inputs[..., : self.vectors.shape[1] // 2])

    @property
    def context(self) -> np.ndarray:
        """The right half of the inputs at any time, of shape (batch, units - units // 2)."""
        return np.ascontiguousarray(self.inputs[0, :, self.vectors.shape[1] // 2 :])


def problem(case: Case) -> Problem:
    """Draw the numbers of a case."""
    batch, units, length = case["batch"], case["units"], case["length"]
    random = np.random.default_rng(0)
    vectors = random.standard_normal((batch, WORDS, units), np.float32)
    vectors[:, :, units // 2 :] = vectors[:, :1, units // 2 :]
    words = WORDS * np.arange(batch) + random.integers(WORDS, size=(length, batch))
    targets = random.standard_normal((length, batch, units), np.float32)
    weights = WEIGHTS[case["cell"]](random, units)
    return Problem(words.astype(np.int32), vectors.reshape(-1, units), targets, weights)


def matrix(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Draw a matrix that keeps the scale of what it multiplies."""
    return random.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(rows))


def vector(random: np.random.Generator, length: int) -> np.ndarray:
    """Draw a small bias."""
    return random.standard_normal(length, np.float32) / np.float32(10)


def lstm_weights(random: np.random.Generator, units: int) -> Arrays:
    """Draw a kernel of shape (2 * units, 4 * units), the rows of the input first, and a bias."""
    return [matrix(random, 2 * units, 4 * units), vector(random, 4 * units)]


def gru_weights(random: np.random.Generator, units: int) -> Arrays:
    """Draw kernel and bias of the two gates, then those of the candidate."""
    gates = [matrix(random, 2 * units, 2 * units), vector(random, 2 * units)]
    return [*gates, matrix(random, 2 * units, units), vector(random, units)]


def normed_weights(random: np.random.Generator, units: int) -> Arrays:
    """Draw a kernel, then gain and shift of each gate and of the cell state."""
    norms = [vector(random, units) + np.float32(gain) for _ in range(5) for gain in (1, 0)]
    return [matrix(random, 2 * units, 4 * units), *norms]


WEIGHTS = {"lstm": lstm_weights, "gru": gru_weights, "layer_normed_lstm": normed_weights}


def x_first(ops: Operations, weights: Sequence[Any], x: list[Any], h: Any) -> list[Any]:
    """Gates of ``concat([x, h]) @ w``, or of x in several parts."""
    w, b = weights
    return ops.split(ops.concat([*x, h]) @ w + b, 4)


def h_first(ops: Operations, weights: Sequence[Any], x: list[Any], h: Any) -> list[Any]:
    """Gates of ``concat([h, x]) @ w``."""
    w, b = weights
    return ops.split(ops.concat([h, *x]) @ w + b, 4)


def two_products(ops: Operations, weights: Sequence[Any], x: list[Any], h: Any) -> list[Any]:
    """Gates of ``x @ wx + h @ wh``."""
    wx, wh, b = weights
    return ops.split(x[0] @ wx + h @ wh + b, 4)


def eight_products(ops: Operations, weights: Sequence[Any], x: list[Any], h: Any) -> list[Any]:
    """Gates of two products each."""
    return [x[0] @ wx + h @ wh + b for wx, wh, b in zip(weights[0::3], weights[1::3], weights[2::3])]


def transposed_weight(ops: Operations, weights: Sequence[Any], x: list[Any], h: Any) -> list[Any]:
    """Gates of ``concat([x, h]) @ w.T``."""
    w, b = weights
    return ops.split(ops.times_transposed(ops.concat([*x, h]), w) + b, 4)


def gru(ops: Operations, weights: Sequence[Any], x: list[Any], state: Sequence[Any]) -> list[Any]:
    """Do a step of a GRU, whose state is its output."""
    (h,), (wg, bg, wc, bc) = state, weights
    reset, update = ops.split(ops.sigmoid(ops.concat([*x, h]) @ wg + bg), 2)
    candidate = ops.tanh(ops.concat([*x, reset * h]) @ wc + bc)
    return [update * h + (1 - update) * candidate]


def layer_normed_lstm(ops: Operations, weights: Sequence[Any], x: list[Any], state: Sequence[Any]) -> list[Any]:
    """Do a step of an LSTM that normalizes each gate and the cell state."""
    (h, c), (w, *norms) = state, weights
    gates = ops.split(ops.concat([*x, h]) @ w, 4)
    i, j, f, o = (ops.normalized(*each) for each in zip(gates, norms[0:8:2], norms[1:8:2]))
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(j)
    return [ops.sigmoid(o) * ops.tanh(ops.normalized(c, *norms[8:])), c]


def lstm(gates: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return what does a step of an LSTM whose gates, before their sigmoids, are spelled so."""

    def step(ops: Operations, weights: Sequence[Any], x: list[Any], state: Sequence[Any]) -> list[Any]:
        h, c = state
        return list(lstm_state(ops, gates(ops, weights, x, h), c))

    return step


@dataclass(frozen=True)
class Layout:
    """How a spelling lays out the weights of its cell; both ways are permutations, so gradients take them too.

    Attributes
    ----------
    arrange : callable
        Takes the cell's weights and returns those of the spelling.
    restore : callable
        Takes those of the spelling, or their gradients, and returns the cell's.
    """

    arrange: Callable[[Arrays], Arrays]
    restore: Callable[[Arrays], Arrays]


def _by_gate(weights: Arrays) -> Arrays:
    kernel, bias = weights
    gates = zip(np.split(kernel, 4, axis=1), np.split(bias, 4))
    return [np.ascontiguousarray(each) for w, b in gates for each in (*np.split(w, 2), b)]


def _of_gates(weights: Arrays) -> Arrays:
    kernels = [np.concatenate(pair) for pair in zip(weights[0::3], weights[1::3])]
    return [np.concatenate(kernels, axis=1), np.concatenate(weights[2::3])]


def _swap(weights: Arrays) -> Arrays:
    return [np.concatenate(np.split(weights[0], 2)[::-1]), weights[1]]


def _transpose(weights: Arrays) -> Arrays:
    return [np.ascontiguousarray(weights[0].T), weights[1]]


AS_IS = Layout(list, list)
SWAPPED = Layout(_swap, _swap)
PARTED = Layout(lambda w: [*np.split(w[0], 2), w[1]], lambda w: [np.concatenate(w[:2]), w[2]])
BY_GATE = Layout(_by_gate, _of_gates)
TRANSPOSED = Layout(_transpose, _transpose)


@dataclass(frozen=True)
class Spelling:
    """One way to write a cell.

    Attributes
    ----------
    step : callable
        ``step(ops, weights, x, state)`` returns the next state, whose first part is the output. The input of that
        step is `x`, matrices that stand side by side.
    source : {'read', 'slice', 'embedding', 'context'}
        Where `x` comes from: a row of the inputs, which a TensorArray has or an index cuts out; the vectors of words;
        a row of the left half of the inputs, and the context.
    layout : Layout
    states : int
        Parts of the state.
    """

    step: Callable[..., list[Any]]
    source: str = "read"
    layout: Layout = AS_IS
    states: int = 2


SPELLINGS = {
    ("lstm", "concat_x_h"): Spelling(lstm(x_first)),
    ("lstm", "concat_h_x"): Spelling(lstm(h_first), layout=SWAPPED),
    ("lstm", "two_products"): Spelling(lstm(two_products), layout=PARTED),
    ("lstm", "eight_products"): Spelling(lstm(eight_products), layout=BY_GATE),
    ("lstm", "context"): Spelling(lstm(x_first), source="context"),
    ("lstm", "slice"): Spelling(lstm(x_first), source="slice"),
    ("lstm", "embedding"): Spelling(lstm(two_products), source="embedding", layout=PARTED),
    ("lstm", "transposed_weight"): Spelling(lstm(transposed_weight), layout=TRANSPOSED),
    ("gru", "concat_x_h"): Spelling(gru, states=1),
    ("layer_normed_lstm", "concat_x_h"): Spelling(layer_normed_lstm),
}


def spelling(case: Case) -> Spelling:
    """Return the spelling of a case."""
    return SPELLINGS[case["cell"], case["spelling"]]


def feeds(case: Case, given: Problem) -> list[tuple[np.ndarray, int]]:
    """Return what a step is fed: arrays, and the axis of each that is the batch; the targets come last."""
    source = spelling(case).source
    if source == "context":
        inputs = [(given.parts, 1), (given.context, 0)]
    else:
        inputs = [(given.words if source == "embedding" else given.inputs, 1)]
    return [*inputs, (given.targets, 1)]

"""The LSTM over sequences of unequal lengths: both sides compute what NumPy does."""

import inspect
from contextlib import AsyncExitStack

import numpy as np
import pytest

from bench import rnn
from bench.protocol import compare

CASE = {"batch": 5, "depth": 2, "units": 3, "length": 4}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loss(given, kernel, bias):
    """Return the mean squared error of outputs that are zero behind the ends, in float64."""
    batch, length, units = given.targets.shape
    total = 0.0
    for x, n, y in zip(given.inputs, given.lengths, given.targets, strict=True):
        h = c = np.zeros(units)
        outputs = np.zeros((length, units))
        for t in range(n):
            i, j, f, o = np.split(np.concatenate([x[t], h]) @ kernel + bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
            outputs[t] = h = sigmoid(o) * np.tanh(c)
        total += np.square(outputs - y).sum()
    return total / (batch * length * units)


def gradient(given, weights, index, step=1e-5):
    """Return the gradient of the loss by one of the weights, by central differences."""
    found = np.zeros_like(weights[index])
    for place in np.ndindex(found.shape):
        sides = [[w.copy() for w in weights] for _ in range(2)]
        sides[0][index][place] += step
        sides[1][index][place] -= step
        found[place] = (loss(given, *sides[0]) - loss(given, *sides[1])) / (2 * step)
    return found


@pytest.mark.parametrize("engine", ["tagloom", "torch"])
async def test_an_engine_trains_the_lstm(engine):
    if engine != "tagloom":
        pytest.importorskip(engine, reason=f"{engine} is not installed; it is one of bench/requirements-peers.txt")
    given = rnn.problem(CASE)
    weights = [w.astype(np.float64) for w in (given.kernel, given.bias)]
    wanted = [np.asarray(loss(given, *weights)), *(gradient(given, weights, k) for k in range(2))]
    async with AsyncExitStack() as stack:
        step = getattr(rnn, engine)(CASE, stack)
        step = await step if inspect.isawaitable(step) else step
        values = step()
        values = await values if inspect.isawaitable(values) else values
        values = step.compared(values) if hasattr(step, "compared") else values
    assert compare(wanted, [np.asarray(v) for v in values], 1e-4) is None


def test_lengths_are_half_of_the_longest_on_average():
    given = rnn.problem({"batch": 2000, "depth": 1, "units": 1, "length": 10})
    assert given.lengths.min() == 1
    assert given.lengths.max() == 10
    assert given.lengths.mean() == pytest.approx(5.5, abs=0.2)

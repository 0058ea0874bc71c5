"""Recurrent layers in stacks from both ends, and cells with highways, against plain NumPy."""

import numpy as np
import pytest
import tagloom as tg

X = np.random.default_rng(1).standard_normal((2, 4, 2)).astype(np.float32)
LENGTHS = [4, 2]


class Sum(tg.nn.RNNCell):
    """A cell that adds up what it sees."""

    def __init__(self, size):
        super().__init__()
        self.state_size = self.output_size = size

    def forward(self, inputs, state):
        return state + inputs, state + inputs


def summed(x, lengths):
    """Return the running sums from both ends, joined, and the last states."""
    forward, backward = np.zeros_like(x), np.zeros_like(x)
    for row, length in enumerate(lengths):
        forward[row, :length] = np.cumsum(x[row, :length], 0)
        backward[row, :length] = np.cumsum(x[row, :length][::-1], 0)[::-1]
    whole = np.array([x[row, :length].sum(0) for row, length in enumerate(lengths)])
    return np.concatenate([forward, backward], -1), whole


@pytest.mark.parametrize("time_major", [False, True])
def test_layers_see_both_outputs_of_the_one_before(start, time_major):
    x = X.swapaxes(0, 1).copy() if time_major else X
    outputs, lasts, firsts = tg.nn.stack_bidirectional_dynamic_rnn(
        [Sum(2), Sum(4)], [Sum(2), Sum(4)], x, sequence_length=LENGTHS, time_major=time_major
    )
    found, *states = start([outputs, *lasts, *firsts])
    once, first = summed(X, LENGTHS)
    twice, second = summed(once, LENGTHS)
    np.testing.assert_allclose(found.swapaxes(0, 1) if time_major else found, twice, rtol=1e-4, atol=1e-5)
    for state, wanted in zip(states, [first, second, first, second], strict=True):
        np.testing.assert_allclose(state, wanted, rtol=1e-4, atol=1e-5)


def test_initial_states(start):
    ones = np.ones((2, 2), np.float32)
    outputs, _, _ = tg.nn.stack_bidirectional_dynamic_rnn([Sum(2)], [Sum(2)], X, [ones], [2 * ones])
    np.testing.assert_allclose(start(outputs), summed(X, [4, 4])[0] + [1, 1, 2, 2], rtol=1e-4, atol=1e-5)


def test_gradients_reach_all_layers(graph):
    cells = [[tg.nn.GRUCell(3) for _ in range(2)] for _ in range(2)]
    outputs, _, _ = tg.nn.stack_bidirectional_dynamic_rnn(*cells, X)
    weights = tg.trainable_variables()
    assert len(weights) == 16
    assert None not in tg.gradients(outputs, weights)


def test_as_many_cells_from_either_end(graph):
    for cells in (([], []), ([Sum(2)], []), ([Sum(2)], [Sum(2), Sum(4)])):
        with pytest.raises(tg.GraphError, match="each layer has a cell"):
            tg.nn.stack_bidirectional_dynamic_rnn(*cells, X)


@pytest.mark.parametrize("coupled", [True, False])
def test_highways(start, coupled):
    cell = tg.nn.HighwayWrapper(Sum(2), coupled, carry_bias_init=0.5)
    output, state = cell(X[:, 0], np.ones((2, 2), np.float32))
    gates = [cell.carry.kernel] + ([] if coupled else [cell.transform.kernel])
    found, after, *kernels = start([output, state, *gates])

    def gate(kernel, bias):
        return 1 / (1 + np.exp(-(X[:, 0] @ kernel + bias)))

    carry = gate(kernels[0], 0.5)
    transform = 1 - carry if coupled else gate(kernels[1], -0.5)
    np.testing.assert_allclose(after, X[:, 0] + 1, rtol=1e-5)
    np.testing.assert_allclose(found, carry * X[:, 0] + transform * after, rtol=1e-4)


def test_a_highway_in_a_loop(start):
    cell = tg.nn.HighwayWrapper(Sum(2))
    outputs, _ = tg.nn.dynamic_rnn(cell, X)
    assert [v.shape for v in cell.parameters()] == [[2, 2], [2]]
    assert start(outputs).shape == (2, 4, 2)
    assert None not in tg.gradients(outputs, cell.parameters())


def test_sizes_that_differ_are_refused(graph):
    cell = tg.nn.HighwayWrapper(tg.nn.GRUCell(3))
    with pytest.raises(tg.ShapeError, match="one size"):
        cell(X[:, 0], cell.zero_state(2))

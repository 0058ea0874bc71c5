"""Cells that read their own last outputs: by hand in NumPy, in loops, and what is refused."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

X = np.random.default_rng(3).standard_normal((2, 5, 3)).astype(np.float32)


def test_outputs_are_those_by_hand(start):
    cell = tf1.AttentionCellWrapper(tg.nn.BasicRNNCell(4), 2, attn_size=3, attn_vec_size=6, input_size=5)
    outputs, state = tg.nn.dynamic_rnn(cell, X)
    values = start([outputs, state, dict(cell.named_parameters())])
    found, (inner, read, window), p = values

    def layer(name, x):
        return x @ p[f"{name}.kernel"] + p.get(f"{name}.bias", 0)

    h, last, outs = np.zeros((2, 4)), np.zeros((2, 3)), np.zeros((2, 2, 3))
    for step in range(5):
        x = layer("input_layer", np.concatenate([X[:, step], last], 1))
        h = np.tanh(np.concatenate([x, h], 1) @ p["cell.kernel"] + p["cell.bias"])
        score = layer("score_layer", np.tanh(layer("key_layer", outs) + layer("query_layer", h)[:, None]))
        part = np.exp(score) / np.exp(score).sum(1, keepdims=True)
        last = (part * outs).sum(1)
        y = layer("output_layer", np.concatenate([h, last], 1))
        outs = np.concatenate([outs[:, 1:], y[:, None]], 1)
        np.testing.assert_allclose(found[:, step], y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(inner, h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(read, last, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(window.reshape(2, 2, 3), outs, rtol=1e-4, atol=1e-5)


def test_all_parameters_learn_through_a_loop(start):
    cell = tf1.AttentionCellWrapper(tg.nn.LSTMCell(4), 3)
    outputs, _ = tg.nn.dynamic_rnn(cell, X, sequence_length=[5, 2])
    assert outputs.shape == [2, 5, 4]
    assert None not in tg.gradients(outputs, cell.parameters())


def test_sizes_that_there_are_not(graph):
    for sizes in ({"attn_length": 0}, {"attn_length": 2, "attn_size": 0}, {"attn_length": 2, "input_size": -1}):
        with pytest.raises(tg.GraphError, match="number of elements"):
            tf1.AttentionCellWrapper(tg.nn.GRUCell(3), **sizes)
    with pytest.raises(tg.GraphError, match="no recurrent cell"):
        tf1.AttentionCellWrapper(len, 2)
    cell = tf1.AttentionCellWrapper(tg.nn.GRUCell(3), 2)
    with pytest.raises(tg.GraphError, match="how large its input is"):
        cell(tg.placeholder("float32", [2, None]), cell.zero_state(2))

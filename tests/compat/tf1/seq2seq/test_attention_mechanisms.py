"""Attention against plain NumPy, in float64."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

BATCH, PLACES, DEPTH, UNITS = 3, 5, 2, 4


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def run(graph, variables, weights, fetches, feeds=None):
    with tg.SyncSession(graph) as session:
        session.run(graph_init(graph))
        session.write_variables({v.name: w for v, w in zip(variables, weights, strict=True)})
        return session.run(fetches, feeds or {})


def graph_init(graph):
    with graph.as_default():
        return tg.global_variables_initializer()


def drawn(variables):
    random = np.random.default_rng(2)
    return [random.standard_normal(v.shape.as_tuple()) for v in variables]


def masked(scores, lengths):
    return np.where(np.arange(PLACES) < lengths[:, None], scores, -np.inf)


@pytest.mark.parametrize("variant", [False, True])
@pytest.mark.parametrize("kind", ["luong", "bahdanau"])
def test_alignments_are_those_of_the_papers(kind, variant):
    random = np.random.default_rng(0)
    memory, query = random.standard_normal((BATCH, PLACES, DEPTH)), random.standard_normal((BATCH, UNITS))
    lengths = np.int32([5, 1, 3])
    with tg.Graph().as_default() as graph:
        if kind == "luong":
            mechanism = tf1.LuongAttention(UNITS, memory, lengths, scale=variant)
        else:
            mechanism = tf1.BahdanauAttention(UNITS, memory, lengths, normalize=variant)
        alignments = mechanism(query)
    variables = mechanism.parameters()
    weights = drawn(variables)
    by_name = dict(zip((name for name, _ in mechanism.named_parameters()), weights))
    keys = (memory * (np.arange(PLACES) < lengths[:, None])[..., None]) @ by_name["memory_layer.kernel"]
    if kind == "luong":
        scores = np.einsum("bu,bpu->bp", query, keys) * (by_name["scale"] if variant else 1)
    else:
        v, hidden = by_name["attention_v"], keys + (query @ by_name["query_layer.kernel"])[:, None]
        if variant:
            v, hidden = by_name["attention_g"] * v / np.linalg.norm(v), hidden + by_name["attention_b"]
        scores = np.tanh(hidden) @ v
    found = run(graph, variables, weights, alignments)
    np.testing.assert_allclose(found, softmax(masked(scores, lengths)), atol=1e-12)


def test_a_row_without_places_reads_nothing_and_has_a_gradient():
    with tg.Graph().as_default() as graph:
        query = tg.placeholder("float32", [2, UNITS])
        mechanism = tf1.LuongAttention(UNITS, tg.ones([2, PLACES, DEPTH]), [0, PLACES])
        alignments = mechanism(query)
        slope = tg.gradients(tg.reduce_sum(tg.square(alignments)), [query])[0]
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        found, slopes = session.run([alignments, slope], {query: np.ones((2, UNITS))})
    np.testing.assert_allclose(found, [[0] * PLACES, [0.2] * PLACES])
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("size", [None, 6])
@pytest.mark.parametrize("output_attention", [True, False])
def test_a_cell_reads_what_it_asks_for(size, output_attention):
    random = np.random.default_rng(0)
    memory, x = random.standard_normal((BATCH, PLACES, DEPTH)), random.standard_normal((BATCH, 3, DEPTH))
    lengths = np.int32([5, 2, 4])
    with tg.Graph().as_default() as graph:
        given = tg.placeholder("float64", x.shape)
        mechanism = tf1.LuongAttention(UNITS, memory, lengths)
        cell = tf1.AttentionWrapper(
            tg.nn.BasicRNNCell(UNITS), mechanism, size, alignment_history=True, output_attention=output_attention
        )
        outputs, state = tg.nn.dynamic_rnn(cell, given)
        history = state.alignment_history.stack()
        slope = tg.gradients(tg.reduce_sum(outputs), [given])[0]
    variables = cell.parameters()
    weights = drawn(variables)
    named = dict(zip((name for name, _ in cell.named_parameters()), weights))
    found, last, past, time, slopes = run(
        graph, variables, weights, [outputs, state.attention, history, state.time, slope], {given: x}
    )
    values = memory * (np.arange(PLACES) < lengths[:, None])[..., None]
    keys = values @ named["mechanisms.0.memory_layer.kernel"]
    h, attention = np.zeros((BATCH, UNITS)), np.zeros((BATCH, size or DEPTH))
    for t in range(3):
        h = np.tanh(np.hstack([x[:, t], attention, h]) @ named["cell.kernel"] + named["cell.bias"])
        alignments = softmax(masked(np.einsum("bu,bpu->bp", h, keys), lengths))
        attention = np.einsum("bp,bpd->bd", alignments, values)
        if size:
            attention = np.hstack([h, attention]) @ named["layers.0.kernel"]
        np.testing.assert_allclose(found[:, t], attention if output_attention else h, atol=1e-12)
        np.testing.assert_allclose(past[t], alignments, atol=1e-12)
    np.testing.assert_allclose(last, attention, atol=1e-12)
    assert time == 3
    assert np.abs(slopes).max() > 0


def test_several_memories_are_read_side_by_side():
    with tg.Graph().as_default() as graph:
        mechanisms = [
            tf1.LuongAttention(UNITS, tg.ones([2, PLACES, 3])),
            tf1.BahdanauAttention(7, tg.fill([2, 4, 2], 5.0)),
        ]
        cell = tf1.AttentionWrapper(tg.nn.GRUCell(UNITS), mechanisms, alignment_history=True)
        outputs, state = tg.nn.dynamic_rnn(cell, tg.ones([2, 3, 1]))
        histories = [a.stack() for a in state.alignment_history]
        init = tg.global_variables_initializer()
        assert [a.shape.as_tuple() for a in state.alignments] == [(2, PLACES), (2, 4)]
    with tg.SyncSession(graph) as session:
        session.run(init)
        found, past = session.run([outputs, histories])
    np.testing.assert_allclose(found, np.broadcast_to([1.0] * 3 + [5.0] * 2, (2, 3, 5)), rtol=1e-5)
    np.testing.assert_allclose(past[0], 1 / PLACES)
    np.testing.assert_allclose(past[1], 1 / 4)


def test_a_state_may_be_given_and_inputs_be_joined_otherwise():
    with tg.Graph().as_default() as graph:
        mechanism = tf1.LuongAttention(UNITS, tg.ones([2, PLACES, 3]))
        begin = tg.ones([2, UNITS])
        cell = tf1.AttentionWrapper(
            tg.nn.GRUCell(UNITS), mechanism, cell_input_fn=lambda x, a: x, initial_cell_state=begin
        )
        state = cell.zero_state(2)
        cell(tg.ones([2, 1]), state)
        assert cell.cell.gate_kernel.shape == (1 + UNITS, 2 * UNITS)
    with tg.SyncSession(graph) as session:
        assert (session.run(state.cell_state) == 1).all()


def test_what_does_not_fit_is_refused():
    with tg.Graph().as_default():
        with pytest.raises(tg.ShapeError, match="a memory of places"):
            tf1.LuongAttention(UNITS, tg.ones([2, 3]))
        mechanism = tf1.LuongAttention(UNITS, tg.ones([2, PLACES, 3]))
        with pytest.raises(tg.ShapeError, match="have one depth"):
            mechanism(tg.ones([2, 3]))
        with pytest.raises(tg.GraphError, match="one layer for each"):
            tf1.AttentionWrapper(tg.nn.GRUCell(UNITS), mechanism, [3, 4])
        with pytest.raises(tg.GraphError, match="how it scores"):
            tf1.AttentionMechanism(UNITS, tg.ones([2, PLACES, 3]))(tg.ones([2, UNITS]))
        cell = tf1.AttentionWrapper(tg.nn.GRUCell(UNITS), mechanism, alignment_history=True)
        with pytest.raises(tg.GraphError, match="beams change places"):
            tf1.BeamSearchDecoder(cell, tg.eye(3), [0], 0, cell.zero_state(2), 2)


@pytest.mark.parametrize("make", [tf1.LuongAttention, tf1.BahdanauAttention])
def test_a_memory_without_a_row_for_each_beam(graph, make):
    attention = make(6, tg.ones([2, 4, 6]))
    with pytest.raises(tg.ShapeError, match="other rows than its query") as caught:
        attention(tg.ones([6, 6]))
    assert "tile_batch(memory, beam_width)" in caught.value.hint
    assert attention(tg.ones([2, 6])).shape.as_list() == [2, 4]

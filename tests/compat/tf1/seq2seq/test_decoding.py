"""Decoders against plain NumPy: greedy, forced, drawn, and beams against a search of all sequences."""

import itertools

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

SYMBOLS, END = 4, 0


class Chain(tg.nn.RNNCell):
    """A cell whose logits depend on the symbol before, and on how many there were."""

    state_size = 1
    output_size = SYMBOLS

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, inputs, state):
        logits = tg.matmul(inputs, self.table) * (1.0 + 0.5 * state)
        return logits, state + 1.0


@pytest.fixture
def table():
    return np.random.default_rng(3).standard_normal((SYMBOLS, SYMBOLS)).astype(np.float32)


def log_probs(table, symbol, step):
    logits = table[symbol].astype(np.float64) * (1 + 0.5 * step)
    return logits - np.log(np.exp(logits).sum())


def every_sequence(table, start, steps):
    """Return all sequences of at most so many steps that end or are as long, with log-probabilities."""
    found = {}
    for symbols in itertools.product(range(SYMBOLS), repeat=steps):
        ended = symbols.index(END) + 1 if END in symbols else steps
        kept, total, before = symbols[:ended], 0.0, start
        for step, symbol in enumerate(kept):
            total += log_probs(table, before, step)[symbol]
            before = symbol
        found[kept] = total
    return found


def beams(table, start, width, steps, penalty=0.0):
    """Return what a beam search with sorted lists finds: sequences and scores, best first."""
    kept = [((), 0.0)]
    for step in range(steps):
        longer = []
        for symbols, total in kept:
            if symbols and symbols[-1] == END:
                longer.append((symbols, total))
                continue
            following = log_probs(table, symbols[-1] if symbols else start, step)
            longer += [((*symbols, s), total + following[s]) for s in range(SYMBOLS)]
        longer.sort(key=lambda each: -each[1] / ((5 + len(each[0])) / 6) ** penalty)
        kept = longer[:width]
        if all(symbols[-1] == END for symbols, _ in kept):
            break
    return [(symbols, total / ((5 + len(symbols)) / 6) ** penalty) for symbols, total in kept]


def search(table, starts, width, steps, penalty=0.0):
    """Return tagloom's sequences, scores of the last step and lengths."""

    def build():
        state = tf1.tile_batch(tg.zeros([len(starts), 1]), width)
        cell = Chain(table)
        decoder = tf1.BeamSearchDecoder(cell, tg.eye(SYMBOLS), starts, END, state, width, length_penalty_weight=penalty)
        outputs, state, lengths = tf1.dynamic_decode(decoder, maximum_iterations=steps)
        return outputs.predicted_ids, outputs.beam_search_decoder_output.scores[:, -1], lengths

    return tg.function(build).sync()


@pytest.mark.parametrize("penalty", [0.0, 0.7])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_beams_are_those_of_sorted_lists(table, width, penalty):
    starts = [1, 2, 3]
    found, scores, lengths = search(table, starts, width, 5, penalty)
    for row, start in enumerate(starts):
        for k, (symbols, score) in enumerate(beams(table, start, width, 5, penalty)):
            assert tuple(found[row, : len(symbols), k]) == symbols
            assert (found[row, len(symbols) :, k] == END).all()
            assert lengths[row, k] == len(symbols)
            assert scores[row, k] == pytest.approx(score, abs=1e-4)


def test_as_many_beams_as_sequences_find_the_best_of_all(table):
    wanted = sorted(every_sequence(table, 1, 3).items(), key=lambda each: -each[1])
    found, scores, lengths = search(table, [1], len(wanted), 3)
    np.testing.assert_allclose(scores[0], [total for _, total in wanted], atol=1e-4)
    sequences = {tuple(found[0, : lengths[0, k], k]) for k in range(len(wanted))}
    assert sequences == {symbols for symbols, _ in wanted}


def followed(ids, parents, lengths, end):
    """Follow beams back, one by one."""
    time, batch, width = ids.shape
    found = np.full(ids.shape, end)
    for b, k in itertools.product(range(batch), range(width)):
        place = k
        for t in reversed(range(min(time, lengths[b]))):
            found[t, b, k] = ids[t, b, place]
            place = parents[t, b, place]
        ends = np.flatnonzero(found[:, b, k] == end)
        if len(ends):
            found[ends[0] :, b, k] = end
    return found


def test_trees_are_gathered():
    random = np.random.default_rng(0)
    for _ in range(20):
        time, batch, width = random.integers(1, 6, 3)
        ids = random.integers(0, 7, (time, batch, width)).astype(np.int32)
        parents = random.integers(0, width, ids.shape).astype(np.int32)
        lengths = random.integers(0, time + 2, batch).astype(np.int32)
        found = tg.function(lambda *a: tf1.gather_tree(*a, 6)).sync(ids, parents, lengths)
        np.testing.assert_array_equal(found, followed(ids, parents, lengths, 6))


def test_a_parent_that_there_is_not_is_an_error():
    with pytest.raises(tg.OpError, match="gather"):
        tg.function(lambda: tf1.gather_tree([[[1]], [[2]]], [[[0]], [[1]]], [2], 9)).sync()


def test_greedy_decoding_is_a_beam_of_one(table):
    def build():
        helper = tf1.GreedyEmbeddingHelper(tg.eye(SYMBOLS), [1, 2, 3], END)
        decoder = tf1.BasicDecoder(Chain(table), helper, tg.zeros([3, 1]))
        outputs, _, lengths = tf1.dynamic_decode(decoder, maximum_iterations=5, impute_finished=True)
        return outputs.sample_id, outputs.rnn_output, lengths

    symbols, logits, lengths = tg.function(build).sync()
    for row, start in enumerate([1, 2, 3]):
        ((wanted, _),) = beams(table, start, 1, 5)
        assert tuple(symbols[row, : len(wanted)]) == wanted
        assert lengths[row] == len(wanted)
        assert not symbols[row, len(wanted) :].any()
        assert not logits[row, len(wanted) :].any()


def test_drawn_symbols_have_their_probabilities(table):
    def build():
        helper = tf1.SampleEmbeddingHelper(tg.eye(SYMBOLS), tg.fill([4000], 1), END, seed=1)
        decoder = tf1.BasicDecoder(Chain(table), helper, tg.zeros([4000, 1]))
        return tf1.dynamic_decode(decoder, maximum_iterations=1)[0].sample_id

    found = np.bincount(tg.function(build).sync()[:, 0], minlength=SYMBOLS) / 4000
    np.testing.assert_allclose(found, np.exp(log_probs(table, 1, 0)), atol=0.03)


def test_forced_decoding_is_dynamic_rnn_with_gradients():
    random = np.random.default_rng(0)
    x, lengths = random.standard_normal((3, 5, 2)).astype(np.float32), np.int32([5, 0, 3])
    with tg.Graph().as_default() as graph:
        given, cell = tg.placeholder("float32", x.shape), tg.nn.LSTMCell(4)
        helper = tf1.TrainingHelper(given, lengths)
        decoder = tf1.BasicDecoder(cell, helper, cell.zero_state(3))
        outputs, state, counted = tf1.dynamic_decode(decoder, impute_finished=True)
        wanted, last = tg.nn.dynamic_rnn(cell, given, lengths)
        ends = [tg.gradients(tg.reduce_sum(tg.square(y)), [given, cell.kernel]) for y in (outputs[0], wanted)]
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        first, second, n = session.run([[outputs[0], *state, *ends[0]], [wanted, *last, *ends[1]], counted], {given: x})
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_array_equal(n, lengths)


def test_what_does_not_go_together_is_refused(table):
    with tg.Graph().as_default():
        decoder = tf1.BeamSearchDecoder(Chain(table), tg.eye(SYMBOLS), [1], END, tg.zeros([2, 1]), 2)
        with pytest.raises(tg.GraphError, match="impute_finished"):
            tf1.dynamic_decode(decoder, impute_finished=True)
        with pytest.raises(tg.GraphError, match="runs a decoder"):
            tf1.dynamic_decode(Chain(table))
        with pytest.raises(tg.GraphError, match="a number of sequences"):
            tf1.BeamSearchDecoder(Chain(table), tg.eye(SYMBOLS), [1], END, tg.zeros([1, 1]), 0)
        with pytest.raises(tg.GraphError, match="does not say how it decodes"):
            tf1.dynamic_decode(tf1.Decoder())
        with pytest.raises(tg.GraphError, match="does not say what comes next"):
            tf1.Helper().initialize()
        with pytest.raises(tg.ShapeError, match="one start token"):
            tf1.GreedyEmbeddingHelper(tg.eye(3), 1, 0)
        with pytest.raises(tg.ShapeError, match="one token ends"):
            tf1.GreedyEmbeddingHelper(tg.eye(3), [1, 2], [0, 1])
        with pytest.raises(tg.GraphError, match="tile_batch"):
            tf1.tile_batch(tg.zeros([2, 1]), 0)


@pytest.mark.parametrize("known", [True, False])
def test_there_may_be_nothing_to_decode(known):
    with tg.Graph().as_default() as graph:
        x, n = tg.placeholder("float32", [2, 0 if known else None, 3]), tg.placeholder("int32", [2])
        cell = tg.nn.GRUCell(4)
        decoder = tf1.BasicDecoder(cell, tf1.TrainingHelper(x, n), cell.zero_state(2))
        outputs, _, lengths = tf1.dynamic_decode(decoder)
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        found, counted = session.run([outputs.rnn_output, lengths], {x: np.zeros((2, 0, 3)), n: [0, 0]})
    assert found.shape == (2, 0, 4)
    assert counted.tolist() == [0, 0]


def test_rows_are_tiled_whatever_they_are():
    assert tg.function(lambda: tf1.tile_batch([[1, 2], [3, 4]], 2)).sync().tolist() == [
        [1, 2],
        [1, 2],
        [3, 4],
        [3, 4],
    ]
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, None, 3])
        tiled = tf1.tile_batch((x, tg.constant(5)), 2, name="beams")
        assert tiled[0].op.name.startswith("beams/")
    with tg.SyncSession(graph) as session:
        for shape in [(2, 0, 3), (0, 2, 3)]:
            rows, scalar = session.run(tiled, {x: np.zeros(shape)})
            assert rows.shape == (2 * shape[0], *shape[1:])
            assert scalar == 5


def test_trees_have_steps_rows_and_beams():
    with tg.Graph().as_default(), pytest.raises(tg.ShapeError, match="beams of all steps and rows"):
        tf1.gather_tree([[1, 2]], [[0, 0]], [1], 9)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_more_beams_than_first_symbols(dtype):
    """Beams that are impossible at first do not stand in for others that are possible."""
    logits = np.log(np.array([0.5, 0.3, 0.2])).astype(dtype)

    class Constant(tg.nn.RNNCell):
        state_size = output_size = 3

        def forward(self, inputs, state):
            return tg.zeros_like(state) + logits, state

    def build():
        state = tg.zeros([5, 3], dtype)
        decoder = tf1.BeamSearchDecoder(Constant(), tg.eye(3), [1], 0, state, 5)
        outputs, _, lengths = tf1.dynamic_decode(decoder, maximum_iterations=2)
        return outputs.predicted_ids, outputs.beam_search_decoder_output.scores[:, -1], lengths

    found, scores, lengths = tg.function(build).sync()
    assert found[0, :, 0].tolist() == [0, 0]
    assert scores.dtype == dtype
    np.testing.assert_allclose(np.exp(scores[0].astype(float)), [0.5, 0.15, 0.1, 0.09, 0.06], rtol=2e-2)
    assert lengths.tolist() == [[1, 2, 2, 2, 2]]

"""Cells step by step against plain NumPy, in float64, and what wrappers make of them."""

import numpy as np
import pytest
import tagloom as tg

BATCH, DEPTH, UNITS, TIME = 3, 2, 4, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normed(x, gain, shift):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12) * gain + shift


def basic(x, h, kernel, bias):
    h = np.tanh(np.hstack([x, h]) @ kernel + bias)
    return h, h


def gru(x, h, gates, gate_bias, candidate, candidate_bias):
    r, u = np.split(sigmoid(np.hstack([x, h]) @ gates + gate_bias), 2, 1)
    h = u * h + (1 - u) * np.tanh(np.hstack([x, r * h]) @ candidate + candidate_bias)
    return h, h


def gru_reset_after(x, h, gates, gate_bias, candidate, candidate_bias, recurrent, recurrent_bias):
    r, u = np.split(sigmoid(np.hstack([x, h]) @ gates + gate_bias), 2, 1)
    h = u * h + (1 - u) * np.tanh(x @ candidate + candidate_bias + r * (h @ recurrent + recurrent_bias))
    return h, h


def lstm(x, state, kernel, bias):
    c, h = state
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, 1)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    h = sigmoid(o) * np.tanh(c)
    return h, (c, h)


def full_lstm(x, state, kernel, bias, of_input, of_forget, of_output, projection):
    c, h = state
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, 1)
    c = sigmoid(f + 0.5 + of_forget * c) * c + sigmoid(i + of_input * c) * np.maximum(j, 0)
    c = np.clip(c, -0.4, 0.4)
    h = np.clip(sigmoid(o + of_output * c) * np.maximum(c, 0) @ projection, -0.2, 0.2)
    return h, (c, h)


def normed_lstm(x, state, kernel, *norms):
    c, h = state
    gains, shifts = norms[:5], norms[5:]
    parts = zip(np.split(np.hstack([x, h]) @ kernel, 4, 1), gains, shifts)
    i, j, f, o = (normed(*each) for each in parts)
    c = normed(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), gains[4], shifts[4])
    h = sigmoid(o) * np.tanh(c)
    return h, (c, h)


CELLS = {
    "basic": (lambda: tg.nn.BasicRNNCell(UNITS), basic),
    "gru": (lambda: tg.nn.GRUCell(UNITS), gru),
    "gru_reset_after": (lambda: tg.nn.GRUCell(UNITS, reset_after=True), gru_reset_after),
    "lstm": (lambda: tg.nn.LSTMCell(UNITS), lstm),
    "full_lstm": (
        lambda: tg.nn.LSTMCell(UNITS, True, 0.4, num_proj=3, proj_clip=0.2, forget_bias=0.5, activation=tg.relu),
        full_lstm,
    ),
    "normed_lstm": (lambda: tg.nn.LayerNormLSTMCell(UNITS), normed_lstm),
    "lstm_with_bias": (lambda: tg.nn.LayerNormLSTMCell(UNITS, layer_norm=False), lstm),
}
EXTRA = {"full_lstm": lambda cell: [cell.kernel, cell.bias, *cell.peepholes.values(), cell.projection]}


def weights_of(name, cell):
    """Return the variables of a cell in the order of its NumPy twin, with drawn values."""
    variables = EXTRA.get(name, lambda cell: cell.parameters())(cell)
    random = np.random.default_rng(1)
    return variables, [0.7 * random.standard_normal(v.shape.as_tuple()) for v in variables]


def stepped(step, x, lengths, state, weights):
    """Run a NumPy cell row by row; return outputs, zero behind the ends, and the last states."""
    outputs, last = [], []
    for row, n in zip(x, lengths, strict=True):
        mine, made = state, []
        for t in range(n):
            output, mine = step(row[t : t + 1], mine, *weights)
            made.append(output[0])
        size = np.shape(mine[1] if isinstance(mine, tuple) else mine)[1]
        outputs.append(np.concatenate([np.reshape(made, (-1, size)), np.zeros((len(row) - n, size))]))
        last.append(mine)
    parts = zip(*last) if isinstance(state, tuple) else [last]
    return np.stack(outputs), [np.concatenate(list(part)) for part in parts]


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_its_equations_over_time_and_its_gradient_is_their_slope(name):
    make, step = CELLS[name]
    random = np.random.default_rng(0)
    x, lengths = random.standard_normal((BATCH, TIME, DEPTH)), [TIME, 0, 3]
    with tg.Graph().as_default() as graph:
        cell = make()
        given = tg.placeholder("float64", x.shape)
        outputs, state = tg.nn.dynamic_rnn(cell, given, lengths)
        variables, weights = weights_of(name, cell)
        gradients = tg.gradients(tg.reduce_sum(tg.sin(outputs)), [given, *variables])
        init = tg.global_variables_initializer()
    sizes = cell.state_size
    zero = tuple(np.zeros((1, n)) for n in sizes) if isinstance(sizes, tuple) else np.zeros((1, sizes))
    wanted, last = stepped(step, x, lengths, zero, weights)
    with tg.SyncSession(graph) as session:
        session.run(init)
        session.write_variables({v.name: w for v, w in zip(variables, weights, strict=True)})
        found, ended, slopes = session.run([outputs, state, gradients], {given: x})
        assert all(loop.not_native is None for loop in session.report().loops)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    for mine, theirs in zip(ended if isinstance(sizes, tuple) else [ended], last, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    for k, slope in enumerate(slopes):
        toward = np.random.default_rng(k).standard_normal(slope.shape)
        sides = []
        for h in (1e-6, -1e-6):
            moved = [v + h * toward if k == n else v for n, v in enumerate([x, *weights])]
            sides.append(np.sin(stepped(step, moved[0], lengths, zero, moved[1:])[0]).sum())
        assert np.sum(slope * toward) == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-6)


class Echo(tg.nn.RNNCell):
    state_size = output_size = 100

    def forward(self, inputs, state):
        return inputs + 1.0, state + 1.0


def run(build):
    return tg.function(build).sync()


def test_dropout_differs_from_step_to_step_unless_it_is_variational():
    x = np.ones((2, 6, 100), np.float32)
    for variational in (False, True):

        def build(variational=variational):
            cell = tg.nn.DropoutWrapper(Echo(), 0.5, 0.8, 0.9, variational, input_size=100, dtype="float32", seed=1)
            return tg.nn.dynamic_rnn(cell, x)

        outputs, _ = run(build)
        values = np.unique(outputs.round(3))
        np.testing.assert_allclose(values, [0, 1.25, 3.75])
        assert (outputs == 0).mean() == pytest.approx(0.2, abs=0.1)
        same = (outputs == outputs[:, :1]).all()
        assert same == variational
        assert (outputs[0] == outputs[1]).all() == variational


def test_memory_of_an_lstm_is_never_dropped():
    state = tg.nn.LSTMStateTuple(np.ones((1, 50), np.float32), np.ones((1, 50), np.float32))

    class Keep(tg.nn.RNNCell):
        state_size, output_size = tg.nn.LSTMStateTuple(50, 50), 50

        def forward(self, inputs, state):
            return inputs, state

    def build():
        cell = tg.nn.DropoutWrapper(Keep(), state_keep_prob=0.5)
        return tuple(cell(tg.zeros([1, 50]), state)[1])

    c, h = run(build)
    assert (c == 1).all()
    assert sorted(set(h.ravel())) == [0, 2]


@pytest.mark.parametrize("keep", [0, 1.5, -1.0])
def test_a_probability_is_one(keep):
    with pytest.raises(tg.GraphError, match="a probability to keep"):
        tg.nn.DropoutWrapper(Echo(), output_keep_prob=keep)


def test_variational_dropout_has_to_know_sizes_before():
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="draws its masks before"):
        tg.nn.DropoutWrapper(Echo(), input_keep_prob=0.5, variational_recurrent=True, dtype="float32")


def test_what_is_no_cell_is_refused():
    with pytest.raises(tg.GraphError, match="no recurrent cell"):
        tg.nn.ResidualWrapper(lambda x, state: (x, state))
    with pytest.raises(tg.GraphError, match="each with weights of its own"):
        tg.nn.MultiRNNCell([tg.nn.GRUCell(2)] * 2)
    with pytest.raises(tg.GraphError, match="needs a number of units"):
        tg.nn.LSTMCell(0)
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="how large its state is"):
        tg.nn.RNNCell().zero_state(1)


def test_wrappers_say_whether_rows_are_apart():
    cell = tg.nn.LSTMCell(2)
    assert tg.nn.MultiRNNCell([cell, tg.nn.ResidualWrapper(tg.nn.GRUCell(2))]).by_rows
    assert not tg.nn.MultiRNNCell([cell, Echo()]).by_rows
    assert not tg.nn.ResidualWrapper(cell, lambda x, y: x).by_rows


def test_a_residual_may_be_a_function_and_devices_hold_variables():
    with tg.Graph().as_default():
        cell = tg.nn.DeviceWrapper(tg.nn.LSTMCell(2), "/cpu:1")
        output, state = cell(tg.ones([1, 2]), cell.zero_state(1))
        assert {t.device for t in (output, state.c, cell.cell.kernel)} == {"/device:CPU:1"}
    wrapped = tg.nn.ResidualWrapper(Echo(), lambda x, y: y - x)
    assert (run(lambda: wrapped(tg.ones([1, 100]), wrapped.zero_state(1))[0]) == 1).all()


def test_what_is_added_up_has_one_size():
    class Wide(tg.nn.RNNCell):
        state_size = output_size = 3

        def forward(self, inputs, state):
            return tg.ones([2, 3]), state

    with tg.Graph().as_default(), pytest.raises(tg.ShapeError, match="one size"):
        tg.nn.ResidualWrapper(Wide())(tg.ones([2, 1]), tg.zeros([2, 3]))


@pytest.mark.parametrize("make", [tg.nn.BasicRNNCell, tg.nn.GRUCell, tg.nn.LSTMCell, tg.nn.LayerNormLSTMCell])
def test_initializers_and_activations_may_be_names(make):
    with tg.Graph().as_default() as graph:
        cell = make(2, initializer="ones", activation="relu")
        output, _ = cell(tg.ones([1, 3]), cell.zero_state(1))
        again, _ = make(2, initializer=tg.ones, activation=tg.relu)(tg.ones([1, 3]), cell.zero_state(1))
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        first, second, *weights = session.run([output, again, *cell.parameters()[:1]])
    assert (first == second).all()
    assert (weights[0] == 1).all()


def test_gates_of_two_bytes_are_normalized_in_float32():
    with tg.Graph().as_default() as graph:
        cell = tg.nn.LayerNormLSTMCell(4)
        zero = cell.zero_state(2, "float16")
        output, state = cell(tg.zeros([2, 3], "float16"), zero)  # all alike: a variance of 0
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        found = session.run([output, *state])
    assert all(x.dtype == np.float16 and np.isfinite(x).all() for x in found)


def test_the_candidate_is_kept_with_a_probability():
    with pytest.raises(tg.GraphError, match="a probability to keep"):
        tg.nn.LayerNormLSTMCell(4, dropout_keep_prob=1.5)
    with tg.Graph().as_default(), pytest.raises(tg.DtypeError, match="no integers"):
        tg.nn.GRUCell(2)(tg.ones([1, 3], "int32"), tg.zeros([1, 2], "int32"))


@pytest.mark.parametrize("variational", [False, True])
def test_what_is_dropped_may_be_a_tensor(variational):
    def build(keep):
        cell = tg.nn.DropoutWrapper(
            Echo(), output_keep_prob=keep, variational_recurrent=variational, dtype="float32", seed=3
        )
        return tg.nn.dynamic_rnn(cell, np.ones((2, 3, 100), np.float32))[0]

    for keep in (np.float32(0.5), np.float64(0.5)):
        found = tg.function(build).sync(keep)
        assert set(np.unique(found)) == {0, 4}

"""What runs cells over sequences: lengths, unknown shapes, structures, how much is computed, and errors."""

import numpy as np
import pytest
import tagloom as tg


class Sum(tg.nn.RNNCell):
    """Adds up what comes."""

    state_size = output_size = 2

    def forward(self, inputs, state):
        return state + inputs, state + inputs


class Pair(tg.nn.RNNCell):
    """Takes and gives structures, one of them a scalar for each row, in a state that counts steps."""

    state_size = {"sum": 2, "seen": []}
    output_size = (2, [2, 3])

    def forward(self, inputs, state):
        total = state["sum"] + inputs["x"]
        cube = total[:, :, None] * inputs["y"]
        return (total, cube), {"sum": total, "seen": state["seen"] + 1.0}


def summed(x, lengths):
    """Return running sums of [batch, time, 2], zero behind the ends, and the last ones."""
    outputs = np.cumsum(x, 1)
    ends = np.arange(x.shape[1]) < np.asarray(lengths)[:, None]
    last = [row[n - 1] if n else np.zeros(2) for row, n in zip(outputs, lengths)]
    return outputs * ends[..., None], np.array(last)


def x_of(batch, time, depth=2):
    return np.random.default_rng(0).standard_normal((batch, time, depth)).astype(np.float32)


@pytest.mark.parametrize("shape", [None, [None, None, 2], [None, 4, 2], [3, None, 2]])
@pytest.mark.parametrize("lengths", [[4, 0, 2], [0, 0, 0], [1, 1, 1]])
def test_shapes_need_not_be_known(shape, lengths):
    x = x_of(3, 4)
    with tg.Graph().as_default() as graph:
        given, n = tg.placeholder("float32", shape), tg.placeholder("int64", [None])
        if shape is None:
            given.set_shape([None, None, 2])
        outputs, state = tg.nn.dynamic_rnn(Sum(), given, n)
        slope = tg.gradients(tg.reduce_sum(outputs), [given])[0]
    with tg.SyncSession(graph) as session:
        found, last, slopes = session.run([outputs, state, slope], {given: x, n: lengths})
    wanted, ends = summed(x, lengths)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(last, ends, atol=1e-5)
    for row, k in zip(slopes, lengths, strict=True):
        np.testing.assert_array_equal(row[:, 0], np.maximum(k - np.arange(4), 0))


def test_a_state_may_come_in_and_the_whole_time_is_the_default():
    x, start = x_of(2, 3), np.float32([[10, 20], [30, 40]])
    outputs, state = tg.function(lambda x, s: tg.nn.dynamic_rnn(Sum(), x, initial_state=s)).sync(x, start)
    np.testing.assert_allclose(outputs, np.cumsum(x, 1) + start[:, None], rtol=1e-5)
    np.testing.assert_allclose(state, outputs[:, -1])


@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_inputs_outputs_and_states_may_be_structures(lengths):
    x, y = x_of(2, 3), x_of(2, 3, 3)[:, :, None, :] * np.ones((1, 1, 2, 1), np.float32)
    build = lambda x, y: tg.nn.dynamic_rnn(Pair(), {"x": x, "y": y}, lengths)  # noqa: E731
    (total, cube), state = tg.function(build).sync(x, y)
    wanted, last = summed(x, lengths or [3, 3])
    np.testing.assert_allclose(total, wanted, atol=1e-5)
    np.testing.assert_allclose(cube, wanted[..., None] * y, atol=1e-5)
    np.testing.assert_allclose(state["sum"], last, atol=1e-5)
    np.testing.assert_array_equal(state["seen"], lengths or [3, 3])


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(("batch", "time"), [(0, 3), (2, 0), (0, 0)])
def test_there_may_be_nothing(batch, time, static):
    lengths = [0] * batch
    with tg.Graph().as_default() as graph:
        given = tg.placeholder("float32", [batch if static else None, time, 2])
        n = tg.placeholder("int32", [None])
        outputs, state = tg.nn.dynamic_rnn(Sum(), given, n)
    with tg.SyncSession(graph) as session:
        found, last = session.run([outputs, state], {given: np.zeros((batch, time, 2)), n: lengths})
    assert found.shape == (batch, time, 2)
    assert last.tolist() == [[0, 0]] * batch


def test_time_may_come_first():
    x, lengths = x_of(3, 4), [4, 0, 2]
    first = tg.function(lambda x: tg.nn.dynamic_rnn(Sum(), x, lengths)).sync(x)
    other = tg.function(lambda x: tg.nn.dynamic_rnn(Sum(), x, lengths, time_major=True)).sync(x.swapaxes(0, 1))
    np.testing.assert_array_equal(first[0], other[0].swapaxes(0, 1))
    np.testing.assert_array_equal(first[1], other[1])


def test_the_loop_ends_with_the_longest_row_and_goes_on_without_blocks_that_have_ended():
    x, lengths = x_of(6, 50), np.int32([7, 30, 2, 0, 9, 30])
    iterations = {}
    for blocks in (1, 2, 3, 6):
        with tg.Graph().as_default() as graph:
            given, n, cell = tg.placeholder("float32", x.shape), tg.placeholder("int32", [6]), tg.nn.LSTMCell(3)
            outputs, _ = tg.nn.dynamic_rnn(cell, given, n, blocks=blocks)
            slopes = tg.gradients(tg.reduce_sum(tg.square(outputs)), [cell.kernel])
            init = tg.global_variables_initializer()
        with tg.SyncSession(graph) as session:
            session.run(init)
            session.run([outputs, *slopes], {given: x, n: lengths})
            loops = [loop for loop in session.report().loops if "grad" not in loop.name]
            assert all(loop.not_native is None for loop in session.report().loops if loop.iterations > 1)
        iterations[blocks] = [loop.iterations - 1 for loop in loops]  # the last one finds the end
    assert iterations == {1: [30], 2: [7, 23], 3: [2, 7, 21], 6: [0, 2, 5, 2, 21, 0]}


def test_second_gradients_go_through_blocks():
    x, lengths = x_of(4, 5).astype(np.float64), [5, 1, 0, 3]
    found = []
    for blocks in (1, 4):
        with tg.Graph().as_default() as graph:
            given, cell = tg.placeholder("float64", x.shape), tg.nn.GRUCell(3, tg.tanh, lambda s, d: np.full(s, 0.3))
            outputs, _ = tg.nn.dynamic_rnn(cell, given, lengths, blocks=blocks)
            first = tg.gradients(tg.reduce_sum(tg.sin(outputs)), [given])[0]
            second = tg.gradients(tg.reduce_sum(tg.square(first)), [given, cell.gate_kernel])
            init = tg.global_variables_initializer()
        with tg.SyncSession(graph) as session:
            session.run(init)
            found.append(session.run([first, *second], {given: x}))
    for a, b in zip(*found, strict=True):
        assert np.abs(a).max() > 1e-3
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_batches_that_are_known_and_large_are_run_in_blocks():
    for batch, loops in ((31, 1), (32, 2), (1000, 4)):
        with tg.Graph().as_default() as graph:
            tg.nn.dynamic_rnn(tg.nn.GRUCell(2), tg.zeros([batch, 3, 2]), tg.zeros([batch], "int32"))
            tg.nn.dynamic_rnn(Sum(), tg.zeros([batch, 3, 2]), tg.zeros([batch], "int32"))
        assert sum(op.type == "While" for op in graph.root.walk()) == loops + 1


def test_both_directions_read_each_row_up_to_its_end():
    x, lengths = x_of(3, 4), [4, 0, 2]
    for time_major in (False, True):
        given = x.swapaxes(0, 1) if time_major else x
        build = lambda x, m=time_major: tg.nn.bidirectional_dynamic_rnn(Sum(), Sum(), x, lengths, time_major=m)  # noqa: E731
        (forth, back), states = tg.function(build).sync(given)
        turned = np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, lengths)])
        wanted, last = summed(turned, lengths)
        wanted = np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(wanted, lengths)])
        np.testing.assert_allclose(back.swapaxes(0, 1) if time_major else back, wanted, atol=1e-5)
        np.testing.assert_allclose(forth.swapaxes(0, 1) if time_major else forth, summed(x, lengths)[0], atol=1e-5)
        np.testing.assert_allclose(states[1], last, atol=1e-5)


def test_a_static_network_is_a_dynamic_one():
    x, lengths = x_of(3, 4), [4, 0, 2]
    build = lambda x: tg.nn.static_rnn(Sum(), tg.unstack(x, axis=1), sequence_length=lengths)  # noqa: E731
    outputs, state = tg.function(build).sync(x)
    wanted, last = summed(x, lengths)
    np.testing.assert_allclose(np.stack(outputs, 1), wanted, atol=1e-5)
    np.testing.assert_allclose(state, last, atol=1e-5)


@pytest.mark.parametrize("emits", [True, False])
def test_a_raw_network_is_a_dynamic_one_and_keeps_a_state_of_the_loop(emits):
    x, lengths = x_of(3, 4), np.int32([4, 0, 2])

    def build(x):
        rows = tg.TensorArray("float32", 4, clear_after_read=False).unstack(tg.transpose(x, [1, 0, 2]))

        def loop_fn(time, output, state, seen):
            following = rows.read(tg.minimum(time, 3))
            if output is None:
                emit = (tg.zeros([2]), tg.zeros([], "int32")) if emits else None
                return lengths <= time, following, tg.zeros([3, 2]), emit, 0
            emit = (output, tg.fill([3], time)) if emits else output
            return lengths <= time, following, state, emit, seen + time

        arrays, state, seen = tg.nn.raw_rnn(Sum(), loop_fn)
        return [a.stack() for a in (arrays if emits else [arrays])], state, seen

    made, state, seen = tg.function(build).sync(x)
    wanted, last = summed(x, lengths)
    np.testing.assert_allclose(made[0].swapaxes(0, 1), wanted, atol=1e-5)
    np.testing.assert_allclose(state, last, atol=1e-5)
    assert seen == 1 + 2 + 3 + 4
    if emits:
        np.testing.assert_array_equal(made[1], [[1, 0, 1], [2, 0, 2], [3, 0, 0], [4, 0, 0]])


@pytest.mark.parametrize("kind", [tg.nn.LSTM, tg.nn.GRU])
def test_layers_are_cells_one_upon_the_other(kind):
    x, lengths = x_of(3, 4), [4, 0, 2]
    with tg.Graph().as_default() as graph:
        layers = kind(3, num_layers=2, keep_prob=1.0)
        outputs, states = layers(x, lengths)
        wanted, last = tg.nn.dynamic_rnn(tg.nn.MultiRNNCell(layers.cells), x, lengths)
        init = tg.global_variables_initializer()
        assert len(layers.parameters()) == 2 * (2 if kind is tg.nn.LSTM else 4)
    with tg.SyncSession(graph) as session:
        session.run(init)
        found = session.run([outputs, states, wanted, last])
    np.testing.assert_allclose(found[0], found[2], atol=1e-6)
    for mine, theirs in zip(found[1], found[3], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_what_can_not_be_is_refused():
    with tg.Graph().as_default():
        x = tg.zeros([3, 4, 2])
        with pytest.raises(tg.ShapeError, match="batches of different sizes"):
            tg.nn.dynamic_rnn(Sum(), x, [1, 2])
        with pytest.raises(tg.ShapeError, match="one number for each row"):
            tg.nn.dynamic_rnn(Sum(), x, 3)
        with pytest.raises(tg.ShapeError, match="sequences of a batch"):
            tg.nn.dynamic_rnn(Sum(), tg.zeros([3]))
        with pytest.raises(tg.ShapeError, match="does not know the size of its inputs"):
            tg.nn.dynamic_rnn(tg.nn.GRUCell(2), tg.placeholder("float32", [3, 4, None]))
        with pytest.raises(tg.GraphError, match="in so many blocks"):
            tg.nn.dynamic_rnn(tg.nn.GRUCell(2), x, blocks=2)
        with pytest.raises(tg.GraphError, match="in so many blocks"):
            tg.nn.dynamic_rnn(Sum(), x, [1, 2, 3], blocks=2)
        with pytest.raises(tg.GraphError, match="in so many blocks"):
            tg.nn.dynamic_rnn(tg.nn.GRUCell(2), x, [1, 2, 3], blocks=4)
        with pytest.raises(tg.GraphError, match="goes through a list"):
            tg.nn.static_rnn(Sum(), [])
        with pytest.raises(tg.GraphError, match="five values"):
            tg.nn.raw_rnn(Sum(), lambda *_: None)
        with pytest.raises(tg.GraphError, match="the initial state of the loop"):
            tg.nn.raw_rnn(Sum(), lambda *_: (False, None, None, None, None))


class Stateless(tg.nn.RNNCell):
    """Keeps nothing."""

    state_size, output_size = (), 2

    def forward(self, inputs, state):
        return inputs * 2.0, state


class Counter(tg.nn.RNNCell):
    """Its state begins with a scalar."""

    state_size, output_size = ([], 2), 2

    def zero_state(self, batch_size, dtype="float32"):
        return tg.zeros([], "int32"), tg.zeros([batch_size, 2], dtype)

    def forward(self, inputs, state):
        return state[1] + inputs, (state[0] + 1, state[1] + inputs)


@pytest.mark.parametrize(("shape", "time"), [([3, 4], 4), ([None, None], 4), ([3, 0], 0), ([None, 0], 0)])
def test_a_state_may_be_nothing_or_begin_with_a_scalar(shape, time):
    x = x_of(3, time)
    with tg.Graph().as_default() as graph:
        given = tg.placeholder("float32", [*shape, 2])
        fetches = [tg.nn.dynamic_rnn(cell, given) for cell in (Stateless(), Counter())]
    with tg.SyncSession(graph) as session:
        (doubled, nothing), (sums, (count, last)) = session.run(fetches, {given: x})
    np.testing.assert_array_equal(doubled, 2 * x)
    assert nothing == ()
    np.testing.assert_allclose(sums, np.cumsum(x, 1), atol=1e-6)
    assert count == time
    np.testing.assert_allclose(last, x.sum(1), atol=1e-6)


def test_a_raw_network_emits_the_dtype_of_its_state_or_inputs():
    class Pair(tg.nn.RNNCell):
        state_size, output_size = ([], 2), 2

        def forward(self, inputs, state):
            return inputs + state[1], (state[0] + 1, state[1] + 1.0)

    def build(cell, start):
        def loop_fn(time, output, state, seen):
            return tg.fill([3], time >= 2), tg.ones([3, 2]), start if output is None else state, None, None

        return tg.nn.raw_rnn(cell, loop_fn)[0].stack()

    found = tg.function(lambda: [build(Stateless(), ()), build(Pair(), (0, tg.zeros([3, 2])))]).sync()
    assert [y[:, 0, 0].tolist() for y in found] == [[2, 2], [1, 2]]
    assert {y.dtype for y in found} == {np.dtype("float32")}


def test_layers_begin_with_a_state_for_each():
    with pytest.raises(tg.GraphError, match="is made of layers"):
        tg.nn.LSTM(3, num_layers=0)
    with tg.Graph().as_default():
        layers, zero = tg.nn.GRU(3, num_layers=2), tg.zeros([3, 3])
        for states in ([zero], [zero] * 3):
            with pytest.raises(tg.GraphError, match="a state for each layer"):
                layers(x_of(3, 4), initial_state=states)

"""Variables of layers in variable scopes: shared or refused, as those of `get_variable` are."""

import copy

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1
from tagloom.compat.tf1 import AUTO_REUSE, get_variable, variable_scope

X, IMAGES, WORDS = np.ones((2, 3), "f"), np.ones((2, 8, 8, 3), "f"), np.array([[0, 2]])
SEQUENCES, VOLUMES = np.ones((2, 5, 4), "f"), np.ones((1, 4, 4, 4, 2), "f")


def cell(make):
    def run():
        made = make()
        return made(X, made.zero_state(2))[0]

    return run


def attention(mechanism):
    def run():
        decoder = tf1.AttentionWrapper(tg.nn.GRUCell(4), mechanism(), attention_layer_size=3)
        return tg.nn.dynamic_rnn(decoder, SEQUENCES)[0]

    return run


LAYERS = {
    "Dense": lambda: tg.nn.Dense(3)(X),
    "Dense of a size": lambda: tg.nn.Dense(3, input_size=3)(X),
    "Embedding": lambda: tg.nn.Embedding(3, 2)(WORDS),
    "Conv1D": lambda: tg.nn.Conv1D(3, 2)(SEQUENCES),
    "Conv2D": lambda: tg.nn.Conv2D(3, 2)(IMAGES),
    "Conv3D": lambda: tg.nn.Conv3D(3, 2)(VOLUMES),
    "Conv2DTranspose": lambda: tg.nn.Conv2DTranspose(3, 2)(IMAGES),
    "DepthwiseConv2D": lambda: tg.nn.DepthwiseConv2D(2)(IMAGES),
    "Conv1DTranspose": lambda: tg.nn.Conv1DTranspose(3, 2)(SEQUENCES),
    "Conv3DTranspose": lambda: tg.nn.Conv3DTranspose(3, 2)(VOLUMES),
    "SeparableConv1D": lambda: tg.nn.SeparableConv1D(2, 2)(SEQUENCES),
    "SeparableConv2D": lambda: tg.nn.SeparableConv2D(2, 2)(IMAGES),
    "BatchNorm": lambda: tg.nn.BatchNorm()(X, training=True),
    "LayerNorm": lambda: tg.nn.LayerNorm()(X),
    "RMSNorm": lambda: tg.nn.RMSNorm()(X),
    "GroupNorm": lambda: tg.nn.GroupNorm(1)(IMAGES),
    "InstanceNorm": lambda: tg.nn.InstanceNorm()(IMAGES),
    "BasicRNNCell": cell(lambda: tg.nn.BasicRNNCell(4)),
    "GRUCell": cell(lambda: tg.nn.GRUCell(4, reset_after=True)),
    "LSTMCell": cell(lambda: tg.nn.LSTMCell(4, use_peepholes=True, num_proj=2)),
    "LayerNormLSTMCell": cell(lambda: tg.nn.LayerNormLSTMCell(4)),
    "MultiRNNCell": cell(lambda: tg.nn.MultiRNNCell([tg.nn.GRUCell(4), tg.nn.GRUCell(4), tg.nn.LSTMCell(4)])),
    "wrappers": cell(lambda: tg.nn.DropoutWrapper(tg.nn.DeviceWrapper(tg.nn.GRUCell(3), "/cpu:0"))),
    "HighwayWrapper": cell(lambda: tg.nn.HighwayWrapper(tg.nn.GRUCell(3), False)),
    "AttentionCellWrapper": cell(lambda: tf1.AttentionCellWrapper(tg.nn.LSTMCell(4), 2, 3)),
    "dynamic_rnn": lambda: tg.nn.dynamic_rnn(tg.nn.LSTMCell(4), SEQUENCES)[0],
    "static_rnn": lambda: tg.nn.static_rnn(tg.nn.LSTMCell(4), [X, X])[1][0],
    "bidirectional": lambda: tg.concat(
        tg.nn.bidirectional_dynamic_rnn(tg.nn.LSTMCell(4), tg.nn.LSTMCell(4), SEQUENCES)[0], 2
    ),
    "LSTM": lambda: tg.nn.LSTM(3, 2, bidirectional=True)(SEQUENCES)[0],
    "GRU": lambda: tg.nn.GRU(3)(SEQUENCES)[0],
    "MultiHeadAttention": lambda: tg.nn.MultiHeadAttention(2)(SEQUENCES),
    "TransformerEncoderLayer": lambda: tg.nn.Sequential(
        tg.nn.TransformerEncoderLayer(2, 8, dropout=0.0), tg.nn.TransformerEncoderLayer(2, 8, dropout=0.0)
    )(SEQUENCES),
    "LuongAttention": attention(lambda: tf1.LuongAttention(4, SEQUENCES, scale=True)),
    "BahdanauAttention": attention(lambda: tf1.BahdanauAttention(4, SEQUENCES, normalize=True)),
    "two of a name": lambda: tg.nn.Dense(3)(tg.nn.Dense(3)(X)),
    "Sequential": lambda: tg.nn.Sequential(tg.nn.Dense(3), tg.nn.Dense(3))(X),
}


def are_equal(a, b):
    init = tg.global_variables_initializer()
    with tg.SyncSession(tg.get_default_graph(), timeout=30) as session:
        session.run(init)
        return np.array_equal(*session.run([a, b]))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_share_where_the_scope_reuses(name):
    with variable_scope("model"):
        first = LAYERS[name]()
    made = tg.global_variables()
    with variable_scope("model", reuse=True):
        second = LAYERS[name]()
    assert made
    assert tg.global_variables() == made
    assert are_equal(first, second)


@pytest.mark.parametrize("name", LAYERS)
def test_auto_reuse_makes_then_shares(name):
    for _ in range(3):
        with variable_scope("model", reuse=AUTO_REUSE):
            LAYERS[name]()
        made = tg.global_variables()
        names = [v.name for v in made]
        assert len(names) == len(set(names)) == len(made)
    with variable_scope("other", reuse=AUTO_REUSE):
        LAYERS[name]()
    assert len(tg.global_variables()) == 2 * len(names)


@pytest.mark.parametrize("name", LAYERS)
def test_nothing_to_reuse_is_refused(name):
    refused = pytest.raises(tg.GraphError, match=r"there is no variable 'model/.*' to be reused")
    with refused, variable_scope("model", reuse=True):
        LAYERS[name]()


@pytest.mark.parametrize("name", LAYERS)
def test_a_scope_that_is_opened_again_without_reuse_is_refused(name):
    with variable_scope("model"):
        LAYERS[name]()
    with pytest.raises(tg.GraphError, match=r"variable 'model/.*' exists already"), variable_scope("model"):
        LAYERS[name]()


@pytest.mark.parametrize("name", LAYERS)
def test_layers_outside_of_scopes_are_their_own(name):
    first = LAYERS[name]()
    count = len(tg.global_variables())
    LAYERS[name]()
    assert len(tg.global_variables()) == 2 * count
    tf1.get_variable_scope().reuse_variables()
    with pytest.raises(tg.GraphError, match="to be reused"):
        LAYERS[name]()
    assert first is not None


def test_shapes_and_dtypes_that_differ_are_refused():
    with variable_scope("model"):
        tg.nn.Dense(3)(X)
    with pytest.raises(tg.ShapeError, match="another shape"), variable_scope("model", reuse=True):
        tg.nn.Dense(4)(X)
    with pytest.raises(tg.DtypeError, match="another dtype"), variable_scope("model", reuse=True):
        tg.nn.Dense(3)(X.astype(np.float64))


def test_names_that_the_user_gives():
    def fc(x):
        return tg.nn.Dense(3, name="fc")(x)

    with variable_scope("model", reuse=AUTO_REUSE):
        assert are_equal(fc(X), fc(X))
    with variable_scope("other"):
        fc(X)
        with pytest.raises(tg.GraphError, match="'other/fc/kernel' exists already"):
            fc(X)
    fc(X)
    fc(X)  # outside of scopes each is its own
    tf1.get_variable_scope().reuse_variables()
    fc(X)
    assert len(tg.global_variables()) == 8


def test_get_variable_finds_variables_of_layers():
    with variable_scope("model"):
        layer = tg.nn.Dense(3)
        layer(X)
        outside = tg.nn.Dense(2, name="outside")
    with variable_scope("model/dense", reuse=True):
        assert get_variable("kernel") is layer.kernel
    outside(X)  # the scope of its construction, since none is open
    with variable_scope("model", reuse=True):
        assert get_variable("outside/kernel") is outside.kernel


def test_a_layer_that_is_called_outside_of_the_scope_of_its_construction():
    with variable_scope("model"):
        first = tg.nn.LSTMCell(4)
    a = tg.nn.dynamic_rnn(first, SEQUENCES)[0]
    with variable_scope("model", reuse=True):
        second = tg.nn.LSTMCell(4)
    assert are_equal(a, tg.nn.dynamic_rnn(second, SEQUENCES)[0])


def test_a_layer_that_is_called_inside_of_another_scope():
    first, second = tg.nn.Dense(3), tg.nn.Dense(3)
    with variable_scope("model"):
        a = first(X)
    with variable_scope("model", reuse=True):
        assert are_equal(a, second(X))
    assert second.kernel is first.kernel


class Block(tg.nn.Module):
    """A module with a layer of its own, and one that each call constructs."""

    def __init__(self):
        super().__init__()
        self.inner = tg.nn.Dense(3)

    def forward(self, x):
        return tg.nn.Dense(3)(self.inner(x))


def test_modules_have_paths_of_their_own():
    with variable_scope("model"):
        tg.nn.Dense(3)(X)
        Block()(X)
        b = Block()(X)
    with variable_scope("model", reuse=True):
        Block()
        assert are_equal(b, Block()(X))
        assert get_variable("block_1/dense_1/bias").name.endswith("dense_1/bias")


def test_a_module_shares_what_its_calls_construct():
    with variable_scope("model", reuse=AUTO_REUSE):
        block = Block()
        assert are_equal(block(X), block(X))


def test_copies_are_modules_of_their_own():
    with variable_scope("model"):
        layer = tg.nn.Dense(3)
        layers = [copy.deepcopy(layer) for _ in range(2)]
        for each in (layer, *layers):
            each(X)
    assert len(tg.global_variables()) == 6
    assert isinstance(copy.deepcopy(tg.nn.LSTM(3, 2)).cells[1], tg.nn.LSTMCell)


def test_what_the_scope_says_of_variables():
    seen = []

    def getter(get, name, *args, **kwargs):
        seen.append(name)
        return get(name, *args, **kwargs)

    with variable_scope("model", initializer="ones", regularizer=tg.l2_loss, custom_getter=getter):
        layer, norm = tg.nn.Dense(2), tg.nn.BatchNorm()
        y = norm(layer(X), training=False)
        zeros = tg.nn.Dense(2, kernel_initializer="zeros")
        z = zeros(X)
    assert seen[:2] == ["model/dense/kernel", "model/dense/bias"]
    losses = tf1.get_regularization_losses("model")
    assert len(losses) == 6  # not of moving averages
    init = tg.global_variables_initializer()
    with tg.SyncSession(tg.get_default_graph(), timeout=30) as session:
        session.run(init)
        assert session.run(layer.kernel).tolist() == [[1, 1]] * 3
        assert session.run(z).tolist() == [[0, 0]] * 2
        assert session.run(y).shape == (2, 2)


def test_a_getter_may_return_a_tensor():
    with variable_scope("model", custom_getter=lambda get, *args, **kwargs: get(*args, **kwargs) * 2.0):
        layer = tg.nn.Dense(2, kernel_initializer="ones", bias_initializer="ones")
        y = layer(X)
    assert are_equal(y, tg.fill([2, 2], 8.0))


def test_functions_that_are_traced_again():
    @tg.function
    def f(x):
        with variable_scope("model"):
            return tg.nn.Dense(2, kernel_initializer="ones")(x)

    @tg.function
    def shared(x):
        ys = []
        for _ in range(2):
            with variable_scope("model", reuse=AUTO_REUSE):
                ys.append(tg.nn.Dense(2)(x))
        return ys

    assert f.sync(X).shape == (2, 2)
    assert f.sync(X[:1]).shape == (1, 2)
    assert np.array_equal(*shared.sync(X))
    assert np.array_equal(*shared.sync(X[:1]))


def test_loops_and_branches():
    def step(i, x):
        with variable_scope("model", reuse=AUTO_REUSE):
            return i + 1, tg.nn.Dense(3)(x)

    tg.while_loop(lambda i, x: i < 2, step, [0, X])
    tg.cond(tg.constant(True), lambda: step(0, X)[1], lambda: tg.constant(X))
    assert len(tg.global_variables()) == 2


def decode(attention, cell, memory):
    return tg.nn.dynamic_rnn(tf1.AttentionWrapper(cell, attention, 3), SEQUENCES)[0]


@pytest.mark.parametrize("kind", ["LuongAttention", "BahdanauAttention"])
def test_attention_over_another_memory(kind):
    memory = tg.random_normal([2, 5, 4], seed=1)
    trained = getattr(tf1, kind)(4, memory, [5, 3], name="attend")
    wrapper = tf1.AttentionWrapper(tg.nn.GRUCell(4), trained, attention_layer_size=3)
    tg.nn.dynamic_rnn(wrapper, SEQUENCES)
    made = tg.global_variables()
    tiled = wrapper.with_memory(tf1.tile_batch(memory, 2), tf1.tile_batch(tg.constant([5, 3]), 2))
    y = tg.nn.dynamic_rnn(wrapper, SEQUENCES)[0]
    z = tg.nn.dynamic_rnn(tiled, np.repeat(SEQUENCES, 2, 0))[0]
    assert tg.global_variables() == made
    assert tiled.zero_state(4).alignments.shape == tg.Shape([4, 5])
    assert trained.with_memory(memory).values.shape == memory.shape
    init = tg.global_variables_initializer()
    with tg.SyncSession(tg.get_default_graph(), timeout=30) as session:
        session.run(init)
        a, b = session.run([y, z])
    np.testing.assert_allclose(np.repeat(a, 2, 0), b, rtol=1e-5)


def test_attention_over_another_memory_is_checked():
    one = tf1.LuongAttention(4, SEQUENCES)
    two = tf1.AttentionWrapper(tg.nn.GRUCell(4), [one, tf1.LuongAttention(4, SEQUENCES)])
    with pytest.raises(tg.GraphError, match="a memory for each"):
        two.with_memory(SEQUENCES)
    assert len(two.with_memory([SEQUENCES, SEQUENCES]).mechanisms) == 2
    with pytest.raises(tg.ShapeError, match="another size"):
        one.with_memory(np.ones((2, 5, 7), "f"))


def test_partitioners_of_variables_and_scopes():
    with variable_scope("model", partitioner=tg.fixed_size_partitioner(2)):
        w = get_variable("w", [4, 3])
        step = get_variable("step", [], "int32")
        own = get_variable("own", [3, 3], partitioner=tg.fixed_size_partitioner(3))
        tg.nn.Dense(3)(X)
    with variable_scope("model", reuse=True):
        assert get_variable("w") is w
    assert [len(list(v)) for v in (w, own)] == [2, 3]
    assert isinstance(step, tg.Variable)
    init = tg.global_variables_initializer()
    with tg.SyncSession(tg.get_default_graph(), timeout=30) as session:
        session.run(init)
        assert session.run(tg.convert_to_tensor(w)).shape == (4, 3)


def test_a_state_that_is_not_tiled_names_tile_batch():
    cell = tg.nn.GRUCell(4)
    embedding = tg.ones([5, 4])
    with pytest.raises(tg.ShapeError, match="tile_batch"):
        tf1.BeamSearchDecoder(cell, embedding, [1, 1], 2, cell.zero_state(2), 3)
    tf1.BeamSearchDecoder(cell, embedding, [1, 1], 2, tf1.tile_batch(cell.zero_state(2), 3), 3)

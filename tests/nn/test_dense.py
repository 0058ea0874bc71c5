"""Dense layers, embeddings and Flatten: values, shapes that are not known, where their variables are made."""

import contextvars

import numpy as np
import pytest
import tagloom as tg

RANDOM = np.random.default_rng(3)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


class TestDense:
    @pytest.mark.parametrize("shape", [(4,), (2, 4), (0, 4), (2, 3, 4), (1, 2, 3, 4), (2, 0, 4)])
    @pytest.mark.parametrize("known", ["all", "some", "last", "rank", "nothing"])
    def test_values_and_shapes(self, start, shape, known):
        x, kernel, bias = draw(*shape), draw(4, 3), draw(3)
        static = {"all": shape, "some": [*shape[:-2], None, 4][-len(shape) :], "last": [None] * (len(shape) - 1) + [4]}
        fed = tg.placeholder("float32", {**static, "rank": [None] * len(shape), "nothing": None}[known])
        layer = tg.nn.Dense(3, "tanh", kernel_initializer=kernel, bias_initializer=bias, input_size=4)
        y = layer(fed)
        assert y.shape.includes(tg.Shape([*shape[:-1], 3]))
        assert known == "nothing" or y.shape[-1] == 3
        weights = draw(*shape[:-1], 3)
        found, *slopes = start([y, *tg.gradients(y, [fed, layer.kernel, layer.bias], weights)], {fed: x})
        wanted = np.tanh(x @ kernel + bias)
        back = weights * (1 - wanted**2)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slopes[0], back @ kernel.T, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(slopes[1], x.reshape(-1, 4).T @ back.reshape(-1, 3), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(slopes[2], back.reshape(-1, 3).sum(0), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
    def test_parameters_have_the_dtype_of_the_first_input(self, start, dtype):
        layer = tg.nn.Dense(2, kernel_initializer="ones")
        y = layer(tg.ones([1, 3], dtype))
        assert layer.kernel.dtype is layer.bias.dtype is y.dtype is tg.as_dtype(dtype)
        np.testing.assert_array_equal(start(y).astype(complex), [[3, 3]])

    def test_without_a_bias(self, start):
        layer = tg.nn.Dense(2, use_bias=False, kernel_initializer="identity")
        y = layer([[1.0, 2.0]])
        assert layer.bias is None
        assert layer.parameters() == [layer.kernel]
        np.testing.assert_array_equal(start(y), [[1, 2]])

    def test_names(self):
        early, late = tg.nn.Dense(2, input_size=3), tg.nn.Dense(2, name="late")
        late(tg.ones([1, 3]))
        late(tg.ones([1, 3]))
        assert [v.name for v in tg.global_variables()] == ["dense/kernel", "dense/bias", "late/kernel", "late/bias"]
        assert early.kernel.shape == [3, 2]

    def test_another_size_is_refused(self):
        layer = tg.nn.Dense(2, input_size=3)
        for shape in ([None, 3, 6], [2, 6], [1], []):  # of the first each row would be two
            with pytest.raises(tg.ShapeError, match="for inputs of another size"):
                layer(tg.placeholder("float32", shape))

    def test_an_unknown_size_is_refused(self):
        for shape in (None, [None], [2, None], []):
            with pytest.raises(tg.ShapeError, match="Dense 'dense' does not know the size") as caught:
                tg.nn.Dense(2)(tg.placeholder("float32", shape))
            assert "input_size=" in str(caught.value)

    def test_activations(self):
        x = tg.constant([[1.0, -1.0]])
        assert tg.nn.Dense(2, tg.relu)(x).op.type == "Relu"
        assert tg.nn.Dense(2, "sigmoid")(x).op.type == "Sigmoid"
        with pytest.raises(tg.GraphError, match="no activation of this name"):
            tg.nn.Dense(2, "rectify")

    def test_where_no_graph_is_open(self):
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("float32", [None, 3])
        y = contextvars.Context().run(tg.nn.Dense(2), x)
        assert y.graph is graph


class TestWhereLayersAreFirstCalled:
    def test_in_a_loop_body(self, start):
        layer = tg.nn.Dense(2, kernel_initializer="ones", use_bias=False)
        _, y = tg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, layer(x)), [0, tg.ones([1, 2])])
        (slope,) = tg.gradients(y, [layer.kernel])
        found = start([y, slope])
        np.testing.assert_array_equal(found[0], [[8, 8]])
        np.testing.assert_array_equal(found[1], [[12, 12], [12, 12]])

    def test_in_branches_in_loops(self, start):
        layer = tg.nn.Dense(2, kernel_initializer="ones", use_bias=False)

        def body(i, x):
            return i + 1, tg.cond(i % 2 < 1, lambda: layer(x), lambda: -layer(x))

        _, y = tg.while_loop(lambda i, x: i < 3, body, [0, tg.ones([1, 2])])
        assert len(tg.global_variables()) == 1
        assert layer.kernel.handle.op.region is tg.get_default_graph().root
        np.testing.assert_array_equal(start(y), [[-8, -8]])

    def test_in_map_fn_and_scan(self, start):
        layer = tg.nn.Dense(2, kernel_initializer="ones", use_bias=False)
        mapped = tg.map_fn(lambda row: layer(row), tg.constant([[1.0, 2.0], [3.0, 4.0]]))
        scanned = tg.scan(lambda state, x: layer(state + x), tg.ones([2, 2]), tg.zeros([2]))
        found = start([mapped, scanned])
        assert len(tg.global_variables()) == 1
        np.testing.assert_array_equal(found[0], [[3, 3], [7, 7]])
        np.testing.assert_array_equal(found[1], [[2, 2], [6, 6]])

    def test_in_functions_that_are_traced_again(self):
        layer = tg.nn.Dense(1, kernel_initializer="ones")

        @tg.function
        def f(x):
            inner = tg.nn.Dense(1, kernel_initializer="ones", name="inner")
            return inner(layer(x))

        assert [f.sync(np.ones((n, 2), np.float32)).tolist() for n in (1, 2)] == [[[2]], [[2], [2]]]
        assert f.traces == 2
        with f.graph.as_default():
            assert len(tg.global_variables()) >= 4

    def test_in_a_gradient_that_computes_again(self, start):
        layer = tg.nn.Dense(2, "tanh")
        x = tg.constant([[0.3, -0.2]])
        y = tg.recompute_grad(lambda x: layer(x))(x)
        direct = layer(x)
        slopes = start([tg.gradients(t, [layer.kernel, layer.bias, x]) for t in (y, direct)])
        for ours, wanted in zip(*slopes):
            np.testing.assert_allclose(ours, wanted, rtol=1e-6)


class TestEmbedding:
    @pytest.mark.parametrize("ids", [3, [0, 4], [[1, 1], [0, 2]], np.zeros((0, 2), np.int64)])
    def test_rows_and_their_gradient(self, start, ids):
        table = draw(5, 3)
        layer = tg.nn.Embedding(5, 3, table)
        y = layer(tg.constant(ids))
        weights = draw(*np.shape(ids), 3)
        (slope,) = tg.gradients(y, [layer.embeddings], weights)
        assert isinstance(slope, tg.IndexedSlices)
        found = start([y, tg.convert_to_tensor(slope)])
        np.testing.assert_array_equal(found[0], table[np.asarray(ids)])
        wanted = np.zeros((5, 3))
        np.add.at(wanted, np.asarray(ids), weights)
        np.testing.assert_allclose(found[1], wanted, rtol=1e-6)

    def test_in_loops_the_table_is_one(self, start):
        layer = tg.nn.Embedding(5, 2, np.arange(10, dtype=np.float32).reshape(5, 2))
        y = tg.map_fn(layer, tg.constant([4, 0]), dtype="float32")
        np.testing.assert_array_equal(start(y), [[8, 9], [0, 1]])

    def test_its_dtype_and_initial_values(self, start):
        layer = tg.nn.Embedding(50, 20, dtype="float64")
        found = start(layer.embeddings)
        assert found.dtype == np.float64
        assert 0.045 < abs(found).max() <= 0.05


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (0, 3, 4), (2, 0, 4)])
@pytest.mark.parametrize("known", [True, False])
def test_flatten(start, shape, known):
    x = tg.placeholder("int32", shape if known else [None] * len(shape))
    y = tg.nn.Flatten()(x)
    wanted = np.zeros(shape).reshape(shape[0], int(np.prod(shape[1:])))
    assert y.shape.includes(tg.Shape(wanted.shape))
    assert not known or y.shape.is_fully_known or shape == (2, 3, 4)
    assert start(y, {x: np.zeros(shape, np.int32)}).shape == wanted.shape


def test_flatten_of_an_unknown_rank(start):
    x = tg.placeholder("float32")
    assert start(tg.nn.Flatten()(x), {x: np.zeros((2, 3, 4))}).shape == (2, 12)

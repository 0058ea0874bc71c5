"""Loops over no elements whose sizes only the step knows, their gradients, and structures as elements."""

import numpy as np
import pytest
import tagloom as tg


@pytest.fixture(params=["machine", "reference"])
def evaluate(request):
    """Return ``evaluate(build, *arrays)``: what `build` gives of placeholders of unknown sizes fed with arrays."""

    def evaluate(build, *arrays):
        with tg.Graph().as_default() as graph:
            xs = [tg.placeholder(a.dtype, [None] * a.ndim) for a in map(np.asarray, arrays)]
            y = build(*xs)
            init = tg.global_variables_initializer() if tg.global_variables() else tg.no_op()
        with tg.SyncSession(graph, executor=request.param, timeout=30) as session:
            session.run(init)
            return session.run(y, dict(zip(xs, arrays, strict=True)))

    return evaluate


ROWS, START, BATCH = np.zeros((0, 3), "f"), np.zeros(3, "f"), np.zeros((2, 0, 4), "f")
CASES = {
    "scan": (lambda x, a: tg.scan(lambda a, row: a + row, x, a), (ROWS, START), (0, 3)),
    "scan_reverse": (lambda x, a: tg.scan(lambda a, r: a * r, x, a, reverse=True), (ROWS, START), (0, 3)),
    "map_fn": (lambda x: tg.map_fn(lambda row: row * 2.0, x), (ROWS,), (0, 3)),
    "map_fn_outer": (lambda x: tg.map_fn(lambda r: r[:, None] * r, x), (ROWS,), (0, 3, 3)),
    "map_fn_captures": (lambda x, a: tg.map_fn(lambda r: tg.concat([r, a, a], 0), x), (ROWS, START), (0, 9)),
    "map_fn_random": (lambda x: tg.map_fn(lambda r: r * tg.random_uniform(tg.shape(r)), x), (ROWS,), (0, 3)),
    "map_fn_constant": (lambda x: tg.map_fn(lambda r: tg.ones([2]), x), (ROWS,), (0, 2)),
    "foldl": (lambda x, a: tg.foldl(lambda a, r: a + r, x, a), (ROWS, START), (3,)),
    "unstack": (lambda x: tg.TensorArray("float32", tg.shape(x)[0]).unstack(x).stack(), (ROWS,), (0, 3)),
    "scatter": (lambda x: tg.TensorArray("float32").scatter(tg.range(tg.shape(x)[0]), x).stack(), (ROWS,), (0, 3)),
    "concat": (lambda x: tg.TensorArray("float32").split(x, tg.range(tg.shape(x)[0])).concat(), (ROWS,), (0, 3)),
    "dynamic_rnn": (lambda x: tg.nn.dynamic_rnn(tg.nn.GRUCell(3), known(x))[0], (BATCH,), (2, 0, 3)),
    "dynamic_rnn_lengths": (
        lambda x, n: tg.nn.dynamic_rnn(tg.nn.LSTMCell(3), known(x), n)[0],
        (BATCH, np.zeros(2, "i4")),
        (2, 0, 3),
    ),
    "bidirectional": (
        lambda x: tg.concat(tg.nn.bidirectional_dynamic_rnn(tg.nn.GRUCell(3), tg.nn.GRUCell(3), known(x))[0], 2),
        (BATCH,),
        (2, 0, 6),
    ),
    "layer": (lambda x: tg.nn.LSTM(3, 2)(known(x))[0], (BATCH,), (2, 0, 3)),
}


def known(x):
    x.set_shape([None, None, 4])
    return x


@pytest.mark.parametrize("name", CASES)
def test_shapes_of_nothing_and_of_its_gradient(name, evaluate):
    build, arrays, shape = CASES[name]

    def both(*xs):
        y = build(*xs)
        g = tg.gradients(tg.reduce_sum(y * 3.0), [xs[0]])[0]
        return [y, tg.zeros(tg.shape(xs[0])) if g is None else g]

    y, g = evaluate(both, *arrays)
    assert (y.shape, g.shape) == (shape, arrays[0].shape)


def test_there_are_elements_where_there_might_be_none(evaluate):
    x = np.arange(6, dtype="f").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(CASES["map_fn"][0], x), x * 2)
    np.testing.assert_array_equal(evaluate(CASES["scan"][0], x, START), np.cumsum(x, 0))


def test_static_sequences_of_no_steps(evaluate):
    y, state = evaluate(lambda: tg.nn.dynamic_rnn(tg.nn.GRUCell(3), np.zeros((2, 0, 4), "f")))
    assert y.shape == (2, 0, 3)
    assert state.shape == (2, 3)


def test_effects_are_not_done_for_a_shape(evaluate):
    calls = []

    def fn(row):
        tg.py_function(lambda r: calls.append(1), [row], [])
        return tg.py_function(lambda r: calls.append(1) or r, [row], "float32")

    with pytest.raises(tg.TagloomError, match="can be stacked"):
        evaluate(lambda x: tg.map_fn(fn, x), ROWS)
    assert not calls


class Count(tg.nn.RNNCell):
    """A cell that counts steps in int32, and gives something else."""

    state_size, output_size = tg.Shape([]), 1

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x, state):
        return tg.cast(x * 2.0, self.dtype), state + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "complex64"])
@pytest.mark.parametrize("steps", [0, 4])
@pytest.mark.parametrize("lengths", [None, [2]])
def test_outputs_have_the_dtype_that_the_cell_gives(dtype, steps, lengths, evaluate):
    build = lambda x: tg.nn.dynamic_rnn(Count(dtype), x[..., :1], lengths, tg.zeros([], "int32"))  # noqa: E731
    outputs, state = evaluate(build, np.ones((1, steps, 1), "f"))
    assert outputs.dtype == dtype
    assert state == (steps if lengths is None else min(steps, 2))


def test_raw_rnn_takes_the_dtype_of_the_cell(evaluate):
    def loop_fn(time, output, state, loop_state):
        if output is None:
            return tg.constant([False]), tg.ones([1, 1]), tg.zeros([], "int32"), None, None
        return tg.fill([1], time >= 3), tg.ones([1, 1]), state, None, None

    outputs = evaluate(lambda: tg.nn.raw_rnn(Count("float64"), loop_fn)[0].stack())
    assert (outputs.dtype, outputs.ravel().tolist()) == (np.float64, [2.0, 2.0, 2.0])


def test_bidirectional_outputs_of_several_dtypes(evaluate):
    outputs, _ = evaluate(
        lambda x: tg.nn.bidirectional_dynamic_rnn(
            Count("float64"),
            Count("float32"),
            x[..., :1],
            initial_state_fw=tg.zeros([], "int32"),
            initial_state_bw=tg.zeros([], "int32"),
        ),
        np.ones((1, 3, 1), "f"),
    )
    assert [o.dtype for o in outputs] == [np.float64, np.float32]


SPARSE = ([[2, 1], [0, 1], [2, 0]], [4.0, 1.0, 2.0], [4, 2])  # not in the order of rows


def dense(row):
    return tg.sparse_tensor_to_dense(tg.sparse_reorder(row))


def test_map_fn_goes_through_rows_of_sparse_tensors(evaluate):
    rows = evaluate(lambda: tg.map_fn(dense, tg.SparseTensor(*SPARSE), dtype="float32"))
    assert rows.tolist() == [[0, 1], [0, 0], [2, 4], [0, 0]]


def test_sparse_rows_beside_dense_ones_and_their_gradients(evaluate):
    def build(values, weights):
        sparse = tg.SparseTensor(SPARSE[0], values, SPARSE[2])
        fn = lambda e: tg.reduce_sum(dense(e["s"])) * e["w"]  # noqa: E731
        y = tg.map_fn(fn, {"s": sparse, "w": weights}, dtype="float32")
        return [y, *map(tg.convert_to_tensor, tg.gradients(y, [values, weights]))]

    y, to_values, to_weights = evaluate(build, np.array(SPARSE[1], "f"), np.array([1, 2, 3, 4], "f"))
    assert y.tolist() == [1, 0, 18, 0]
    assert to_values.tolist() == [3, 1, 3]
    assert to_weights.tolist() == [1, 0, 6, 0]


def test_numbers_of_sparse_and_dense_rows_differ(evaluate):
    with pytest.raises(tg.TagloomError, match="different numbers of elements"):
        evaluate(lambda w: tg.map_fn(lambda e: e[1], (tg.SparseTensor(*SPARSE), w), dtype="float32"), np.ones(3, "f"))


@pytest.mark.parametrize("function", ["scan", "foldl", "foldr"])
def test_folds_name_the_sparse_tensor(function):
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match=f"{function} does not go through a SparseTensor"):
        getattr(tg, function)(lambda a, r: a, tg.SparseTensor(*SPARSE), 0.0)


def test_indexed_slices_are_the_tensor_that_they_stand_for(evaluate):
    slices = lambda x: tg.IndexedSlices(x, tg.constant([2, 0]), tg.constant([3, 2]))  # noqa: E731
    y = evaluate(lambda x: tg.map_fn(lambda r: r * 10.0, slices(x)), np.array([[1, 2], [3, 4]], "f"))
    assert y.tolist() == [[30, 40], [0, 0], [10, 20]]


def test_partitioned_variables_are_one_tensor(evaluate):
    def build():
        v = tg.PartitionedVariable(np.arange(6, dtype="f").reshape(3, 2), tg.fixed_size_partitioner(2))
        return tg.map_fn(lambda r: r + 1.0, v)

    assert evaluate(build).tolist() == [[1, 2], [3, 4], [5, 6]]

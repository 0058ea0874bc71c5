"""Sparse tensors as structures, with sizes that are not known before, in branches and loops, differentiated twice."""

import numpy as np
import pytest
import scipy.sparse
import tagloom as tg
from tagloom.base import dtypes

X = tg.SparseTensorValue(np.int64([[0, 1], [1, 0], [1, 2]]), np.float64([5, -6, 7]), np.int64([2, 3]))
DENSE = np.float64([[0, 5, 0], [-6, 0, 7]])


def run(build, *values):
    """Return what a function of sparse placeholders of unknown rank gives, fed with values."""
    with tg.Graph().as_default() as graph:
        keys = [tg.sparse_placeholder("float64", [None] * len(value.dense_shape)) for value in values]
        result = build(*keys)
    with tg.SyncSession(graph) as session:
        return session.run(result, dict(zip(keys, values, strict=True)))


def dense(value):
    """Return a sparse value as an array, independently of tagloom."""
    array = np.zeros(tuple(value.dense_shape), value.values.dtype)
    np.add.at(array, tuple(np.transpose(value.indices)), value.values)
    return array


def random_sparse(random, shape, fraction=0.4):
    """Return a random sparse value in float64."""
    indices = np.argwhere(random.random(shape) < fraction)
    return tg.SparseTensorValue(indices, random.standard_normal(len(indices)), np.int64(shape))


def test_is_fetched_and_fed_as_a_structure():
    found = run(lambda x: {"twice": [x * 2.0], "as it is": x}, X)
    assert isinstance(found["twice"][0], tg.SparseTensorValue)
    np.testing.assert_array_equal(dense(found["twice"][0]), 2 * DENSE)
    np.testing.assert_array_equal(dense(found["as it is"]), DENSE)


def test_literals_are_converted_and_checked():
    with tg.Graph().as_default():
        x = tg.SparseTensor([[0, 1]], [5.0], [2, 3])
        assert (x.indices.dtype, x.dtype, x.rank, x.shape) == (dtypes.int64, dtypes.float32, 2, tg.Shape([2, 3]))
        assert tg.SparseTensor([], tg.zeros([0]), [2, 3]).indices.shape == tg.Shape([0, 2])
        assert tg.SparseTensor(tg.constant([[0]]), [1], np.int32([4])).indices.dtype is dtypes.int64
        with pytest.raises(tg.ShapeError, match="one index for each value"):
            tg.SparseTensor([[0, 1]], [1.0, 2.0], [2, 3])
        with pytest.raises(tg.ShapeError, match="one number in each index"):
            tg.SparseTensor([[0, 1]], [1.0], [2, 3, 4])
        with pytest.raises(tg.ShapeError, match="have rank 2"):
            tg.SparseTensor([0, 1], [1.0, 2.0], [2])
        with pytest.raises(tg.DtypeError):
            tg.SparseTensor([[0.5]], [1.0], [2])
        with pytest.raises(tg.GraphError, match="wants a sparse tensor"):
            tg.sparse_reorder(tg.zeros([2, 3]))


def test_shape_of_a_placeholder_is_checked_where_it_is_known():
    with tg.Graph().as_default() as graph:
        x = tg.sparse_placeholder("float64", [2, 3])
        y = tg.sparse_tensor_to_dense(x)
    assert y.shape == tg.Shape([2, 3])
    with tg.SyncSession(graph) as session:
        np.testing.assert_array_equal(session.run(y, {x: X}), DENSE)
        np.testing.assert_array_equal(session.run(y, {x: ([], [], [2, 3])}), 0 * DENSE)
        with pytest.raises(tg.ShapeError, match="another shape"):
            session.run(y, {x: X._replace(dense_shape=[3, 3])})
        with pytest.raises(tg.GraphError, match="three arrays"):
            session.run(y, {x: DENSE})


def test_steps_made_once_take_sparse_values():
    with tg.Graph().as_default() as graph:
        x, scale = tg.sparse_placeholder("float64", [None, None]), tg.placeholder("float64", [])
        y = tg.sparse_tensor_to_dense(x * scale)
    with tg.SyncSession(graph) as session:
        step = session.make_step(y, feeds=[x, scale])
        for factor in (2.0, 3.0):
            np.testing.assert_array_equal(step(X, factor), factor * DENSE)
        with pytest.raises(tg.GraphError, match="wrong number"):
            step(*X, 2.0)


async def test_partial_runs_take_sparse_values():
    with tg.Graph().as_default() as graph:
        x = tg.sparse_placeholder("float64", [None, None])
        y = tg.sparse_tensor_to_dense(x)
    async with tg.Session(graph) as session:
        handle = await session.partial_run_setup([y], [x])
        np.testing.assert_array_equal(await session.partial_run(handle, y, {x: X}), DENSE)


def test_tuples_of_tensors_are_fed_tuples():
    with tg.Graph().as_default() as graph:
        a, b = tg.placeholder("float32", []), tg.placeholder("float32", [])
        y = a - b
    with tg.SyncSession(graph) as session:
        assert session.run(y, {(a, b): (5.0, 3.0)}) == 2
        with pytest.raises(tg.GraphError, match="a structure of values"):
            session.run(y, {(a, b): 5.0})


def test_branches_return_them():
    def build(x):
        return tg.cond(tg.reduce_sum(x.values) > 0, lambda: tg.sparse_transpose(x), lambda: -x)

    np.testing.assert_array_equal(dense(run(build, X)), DENSE.T)
    np.testing.assert_array_equal(dense(run(build, X._replace(values=-X.values))), DENSE)


def test_loops_carry_them_and_are_differentiated():
    def build(x):
        def body(i, y):
            return i + 1, tg.sparse_add(y, x)

        _, y = tg.while_loop(lambda i, _: i < 3, body, [0, x])
        (g,) = tg.gradients(y.values * y.values, [x.values])
        return y, g

    y, g = run(build, X)
    assert isinstance(y, tg.SparseTensorValue)
    np.testing.assert_array_equal(dense(y), 4 * DENSE)
    np.testing.assert_allclose(g, 32 * X.values)


def test_functions_take_and_give_them():
    assert tg.function(lambda x: tg.sparse_transpose(x)).sync(X).dense_shape.tolist() == [3, 2]


def test_operators_take_what_broadcasts():
    row = np.float64([1, 2, 3])
    np.testing.assert_array_equal(dense(run(lambda x: x * row, X)), DENSE * row)
    np.testing.assert_array_equal(dense(run(lambda x: x / 2.0, X)), DENSE / 2)
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="no product"):
        tg.SparseTensor(*X) * tg.SparseTensor(*X)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "complex64", "int32"])
def test_products_of_every_kind_are_scipys(name):
    random = np.random.default_rng(4)
    matrix = scipy.sparse.random_array((40, 30), density=0.2, rng=random)
    a = np.float32(8 * matrix.toarray()).round()
    b = np.float32(random.integers(-3, 4, (30, 5)))
    kind = dtypes.as_dtype(name).numpy
    value = tg.SparseTensorValue(np.argwhere(a), a[a != 0].astype(kind), a.shape)
    product = tg.function(lambda x, b: tg.sparse_tensor_dense_matmul(x, b)).sync(value, b.astype(kind))
    assert product.dtype == kind
    wanted = (scipy.sparse.csr_array(a) @ b).astype(kind)
    np.testing.assert_array_equal(product, wanted)


def test_second_derivatives_of_products_are_those_of_dense_ones():
    random = np.random.default_rng(1)
    value, b = random_sparse(random, (4, 3)), random.standard_normal((3, 2))

    def slopes(y, xs):
        first = tg.gradients(tg.reduce_sum(y**3), xs)
        return [*first, *tg.gradients([tg.reduce_sum(tg.sin(g)) for g in first], xs)]

    def build(x):
        dense_b = tg.constant(b)
        return slopes(tg.sparse_tensor_dense_matmul(x, dense_b), [x.values, dense_b])

    with tg.Graph().as_default() as graph:
        values, dense_b = tg.constant(value.values), tg.constant(b)
        wanted = slopes(tg.matmul(tg.scatter_nd(value.indices, values, [4, 3]), dense_b), [values, dense_b])
    with tg.SyncSession(graph) as session:
        for found, dense_one in zip(run(build, value), session.run(wanted), strict=True):
            np.testing.assert_allclose(found, dense_one, rtol=1e-10)


SHAPES = [np.int64([2, 3]), np.int64([3, 3])]


@pytest.mark.parametrize(
    "join",
    [
        lambda x, y: tg.sparse_add(x, y),
        lambda x, y: tg.sparse_maximum(x, y),
        lambda x, y: tg.sparse_minimum(x, y),
        lambda x, y: tg.sparse_concat(1, [x, y]).values,
        lambda x, y: tg.sparse_add(x, tg.zeros(y.dense_shape, "float64")),
    ],
)
def test_sizes_that_differ_are_refused_when_they_are_known(join):
    other = X._replace(dense_shape=SHAPES[1])
    with pytest.raises(tg.OpError, match="one shape"):
        run(join, X, other)
    with tg.Graph().as_default(), pytest.raises(tg.ShapeError):
        join(tg.SparseTensor(*X), tg.SparseTensor(*other))


def test_order_and_repeats_are_checked_and_may_be_let_be():
    turned = X._replace(indices=X.indices[::-1].copy())
    with pytest.raises(tg.OpError, match="order of rows"):
        run(tg.sparse_tensor_to_dense, turned)
    twice = tg.SparseTensorValue(np.int64([[1], [1]]), np.float64([3, 4]), np.int64([2]))
    with pytest.raises(tg.OpError, match="each there once"):
        run(tg.sparse_tensor_to_dense, twice)

    def build(x):
        y = tg.sparse_tensor_to_dense(x, validate_indices=False)
        return [y, *tg.gradients(y * [5.0, 7.0], [x.values])]

    y, g = run(build, twice)
    assert (y.tolist(), g.tolist()) == ([0, 4], [0, 7])
    with pytest.raises(tg.OpError, match=r"\[0, 2\)"):
        run(tg.sparse_tensor_to_dense, tg.SparseTensorValue(np.int64([[2]]), np.float64([3]), np.int64([2])))


def test_strings_and_truth_values_are_made_dense():
    words = tg.SparseTensorValue([[1]], ["b"], [2])
    assert tg.function(lambda: tg.sparse_tensor_to_dense(words)).sync().tolist() == ["", "b"]
    assert tg.function(lambda: tg.sparse_from_dense(["", "b"])).sync().indices.tolist() == [[1]]
    truth = tg.SparseTensorValue([[1]], [True], [2])
    assert tg.function(lambda: tg.sparse_tensor_to_dense(truth)).sync().tolist() == [False, True]


def test_repeated_places_add_up_where_sums_are_made():
    twice = tg.SparseTensorValue(np.int64([[1, 0], [0, 2], [1, 0]]), np.float64([3, 4, 5]), np.int64([2, 3]))
    assert run(lambda x: tg.sparse_reduce_sum(x, 1), twice).tolist() == [4, 8]
    np.testing.assert_array_equal(dense(run(lambda x: tg.sparse_add(x, x), twice)), 2 * dense(twice))


def test_what_is_empty_stays_empty():
    empty = tg.SparseTensorValue(np.zeros((0, 2), np.int64), np.zeros(0), np.int64([2, 3]))
    for build in (
        tg.sparse_reorder,
        tg.sparse_softmax,
        tg.sparse_transpose,
        lambda x: tg.sparse_concat(0, [x, x]),
        lambda x: tg.sparse_add(x, x),
        lambda x: tg.sparse_slice(x, [0, 1], [1, 1]),
        lambda x: tg.sparse_reduce_max_sparse(x, 0),
        lambda x: tg.sparse_split(sp_input=x, num_split=2, axis=1)[1],
    ):
        assert len(run(build, empty).values) == 0
    assert run(lambda x: tg.sparse_reduce_max(x, 1), empty).tolist() == [0, 0]
    filled, was_empty = run(lambda x: tg.sparse_fill_empty_rows(x, 9.0), empty)
    assert (filled.values.tolist(), filled.indices.tolist()) == ([9, 9], [[0, 0], [1, 0]])
    assert was_empty.all()


def test_gradients_of_the_largest_values_are_shared_by_equal_ones():
    ties = tg.SparseTensorValue(np.int64([[0, 0], [0, 2], [1, 1]]), np.float64([5, 5, -1]), np.int64([3, 3]))

    def build(x):
        y = tg.sparse_reduce_max(x, 1)
        return [y, *tg.gradients(y * [2.0, 3.0, 4.0], [x.values])]

    y, g = run(build, ties)
    assert (y.tolist(), g.tolist()) == ([5, -1, 0], [1, 1, 3])


@pytest.mark.parametrize("name", ["sparse_maximum", "sparse_minimum"])
def test_gradients_of_larger_and_smaller_ones_go_to_those(name):
    other = tg.SparseTensorValue(np.int64([[0, 1], [1, 1]]), np.float64([6, 1]), np.int64([2, 3]))

    def build(x, y):
        z = getattr(tg, name)(x, y)
        return tg.gradients(z.values, [x.values, y.values])

    largest = name == "sparse_maximum"
    x, y = run(build, X, other)
    assert x.tolist() == [1 - largest, 1 - largest, largest]
    assert y.tolist() == [largest, largest]


def test_parts_joined_again_are_the_whole_and_carry_gradients():
    random = np.random.default_rng(2)
    value = random_sparse(random, (3, 7, 2))

    def build(x):
        y = tg.sparse_concat(1, tg.sparse_split(sp_input=x, num_split=3, axis=1))
        return [y, *tg.gradients(y.values**2, [x.values])]

    y, g = run(build, value)
    np.testing.assert_array_equal(dense(y), dense(value))
    np.testing.assert_allclose(g, 2 * value.values)


def test_static_shapes_follow():
    with tg.Graph().as_default():
        x = tg.SparseTensor(*X)
        assert tg.sparse_transpose(x).shape == tg.Shape([3, 2])
        assert tg.sparse_concat(0, [x, x]).shape == tg.Shape([4, 3])
        assert tg.sparse_reshape(x, [-1, 2]).shape == tg.Shape([3, 2])
        assert tg.sparse_expand_dims(x).shape == tg.Shape([2, 3, 1])
        assert tg.sparse_reduce_sum(x, 0, keepdims=True).shape == tg.Shape([1, 3])
        assert [p.shape for p in tg.sparse_split(sp_input=x, num_split=2, axis=1)] == [
            tg.Shape([2, 2]),
            tg.Shape([2, 1]),
        ]
        y = tg.sparse_placeholder("float32", [None, 4])
        assert tg.sparse_tensor_dense_matmul(y, tg.zeros([4, 5])).shape == tg.Shape([None, 5])
        with pytest.raises(tg.ShapeError, match="rank"):
            tg.sparse_transpose(tg.sparse_placeholder("float32"))


def test_rows_without_ids_are_zeros_and_train():
    ids = tg.SparseTensorValue([[0, 0], [0, 1], [2, 0]], [1, 1, 0], [4, 2])
    weights = tg.SparseTensorValue(ids.indices, [1.0, 3.0, 0.0], ids.dense_shape)
    with tg.Graph().as_default() as graph:
        table = tg.Variable([[1.0, 2.0], [3.0, 4.0]])
        mean = tg.embedding_lookup_sparse(table, ids, None)
        weighted = [tg.embedding_lookup_sparse([table], ids, weights, combiner=c) for c in ("mean", "sum", "sqrtn")]
        (g,) = tg.gradients(weighted[1], [table])
        assert isinstance(g, tg.IndexedSlices)
        with pytest.raises(tg.GraphError, match="no such combiner"):
            tg.embedding_lookup_sparse(table, ids, None, combiner="max")
    with tg.SyncSession(graph) as session:
        session.run(tg.global_variables_initializer())
        plain, (mean_w, total, root), g = session.run([mean, weighted, tg.convert_to_tensor(g)])
    np.testing.assert_allclose(plain, [[3, 4], [0, 0], [1, 2], [0, 0]])
    np.testing.assert_allclose(mean_w, [[3, 4], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(total, [[12, 16], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(root, np.float64(total) / np.sqrt(10), rtol=1e-6)
    np.testing.assert_allclose(g, [[0, 0], [4, 4]])


@pytest.mark.parametrize(
    "build",
    [
        lambda x, name: tg.sparse_add(x, x, name=name),
        lambda x, name: tg.sparse_add(x, x, 1.0, name=name),
        lambda x, name: tg.sparse_maximum(x, x, name=name),
        lambda x, name: tg.sparse_minimum(x, x, name=name),
        lambda x, name: tg.sparse_transpose(x, name=name),
        lambda x, name: tg.sparse_expand_dims(x, name=name),
        lambda x, name: tg.sparse_concat(0, [x, x], name=name),
        lambda x, name: tg.sparse_split(sp_input=x, num_split=2, axis=1, name=name)[0],
        lambda x, name: tg.sparse_reduce_sum_sparse(x, 0, name=name),
        lambda x, name: tg.sparse_reduce_max_sparse(x, 0, name=name),
        lambda x, name: tg.sparse_reorder(x, name=name),
        lambda x, name: tg.sparse_slice(x, [0, 0], [1, 2], name=name),
        lambda x, name: tg.sparse_fill_empty_rows(x, 1.0, name=name)[0],
        lambda x, name: tg.sparse_reshape(x, [-1], name=name),
        lambda x, name: tg.sparse_softmax(x, name=name),
    ],
)
def test_what_is_made_has_the_name_that_is_given(build):
    with tg.Graph().as_default():
        made = build(tg.sparse_placeholder("float64", [2, 3]), "mine")
    assert "mine" in (made.indices.op.name, made.values.op.name)

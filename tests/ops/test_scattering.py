"""Elements and blocks replaced and combined, in tensors and in variables."""

import numpy as np
import pytest
import tagloom as tg

from tests.ops.layouts import differences, second_order


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    """Return ``run(fetches, feeds=None)`` of a session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run


@pytest.mark.parametrize("kind", ["bool", "int8", "uint64", "float16", "bfloat16", "complex64", "string"])
def test_every_dtype_is_replaced(run, kind):
    data, other = (np.array(v).astype(tg.as_dtype(kind).numpy) for v in ([1, 0, 1, 1], [0, 1]))
    found = run(tg.tensor_scatter_update(tg.constant(data), [[0], [1]], tg.constant(other)))
    assert found.tolist() == [*other.tolist(), *data[2:].tolist()]


@pytest.mark.parametrize("known", [[3, 4], [None, 4], None])
@pytest.mark.parametrize("name", ["update", "add", "sub", "nd_max", "nd_min"])
def test_shapes_that_are_known_later(run, name, known):
    rng = np.random.default_rng(0)
    data, updates = rng.normal(size=(3, 4)), rng.normal(size=(2, 2))
    indices = np.int32([[[0, 1], [2, 3]], [[1, 1], [0, 0]]])
    x = tg.placeholder("float64", known)
    i, u = tg.placeholder("int32", None if known is None else [2, 2, 2]), tg.placeholder("float64", known and [2, 2])
    y = getattr(tg, f"tensor_scatter_{name}")(x, i, u)
    assert y.shape == tg.Shape(known)
    wanted = data.copy()
    change = {"update": lambda a, b: b, "add": np.add, "sub": np.subtract, "nd_max": np.maximum, "nd_min": np.minimum}
    for at, update in zip(indices.reshape(4, 2), updates.ravel(), strict=True):
        wanted[tuple(at)] = change[name](wanted[tuple(at)], update)
    feeds = {x: data, i: indices, u: updates}
    np.testing.assert_allclose(run(y, feeds), wanted)
    dx, du = run(list(map(tg.convert_to_tensor, tg.gradients(y, [x, u]))), feeds)
    assert (dx.shape, du.shape) == ((3, 4), (2, 2))


X = np.random.default_rng(1).normal(size=(3, 4))


@pytest.mark.parametrize("name", ["update", "add", "sub", "nd_max", "nd_min"])
def test_gradients_of_second_order(name):
    function = getattr(tg, f"tensor_scatter_{name}")
    updates = np.random.default_rng(2).normal(size=(2, 4))
    second_order(lambda t: function(t, [[2], [0]], updates) ** 3, X)
    second_order(lambda t: function(X, [[1], [0], [2]], t) ** 3, X + 1)


def test_the_last_of_repeated_ones_holds_and_gets_the_gradient(run):
    x, u = tg.constant([1.0, 2.0]), tg.constant([5.0, 6.0, 7.0])
    y = tg.tensor_scatter_update(x, [[1], [0], [1]], u)
    assert run(y).tolist() == [6.0, 7.0]
    dx, du = run(tg.gradients(y, [x, u], tg.constant([1.0, 10.0])))
    assert (dx.tolist(), du.tolist()) == ([0.0, 0.0], [0.0, 1.0, 10.0])


def test_equals_share_the_gradient(run):
    x, u = tg.constant([3.0, 2.0]), tg.constant([3.0, 3.0, 1.0])
    dx, du = run(tg.gradients(tg.tensor_scatter_nd_max(x, [[0], [0], [1]], u), [x, u], tg.constant([6.0, 1.0])))
    assert (dx.tolist(), du.tolist()) == ([2.0, 1.0], [2.0, 2.0, 0.0])


def test_whole_tensors_and_nothing(run):
    x = tg.constant([[1.0, 2.0]])
    assert run(tg.tensor_scatter_update(x, np.zeros((1, 0), np.int32), [[[3.0, 4.0]]])).tolist() == [[3.0, 4.0]]
    assert run(tg.tensor_scatter_nd_max(x, np.zeros((0, 1), np.int32), np.zeros((0, 2), np.float32))).tolist() == [
        [1, 2]
    ]
    assert run(tg.tensor_scatter_add(tg.zeros([0, 2]), np.zeros((0, 1), np.int32), tg.zeros([0, 2]))).shape == (0, 2)


def test_one_index_vector_alone():
    differences(lambda t: tg.tensor_scatter_update(t, [1, 2], 9.0) ** 2, X)
    differences(lambda t: tg.tensor_scatter_update(X, [1], t[0]) ** 2, X)


REFUSED = {
    "updates": (lambda: tg.tensor_scatter_update(tg.zeros([3, 4]), [[0]], tg.zeros([1, 3])), r"\[1,4\]"),
    "depth": (lambda: tg.tensor_scatter_update(tg.zeros([3]), [[0, 1]], tg.zeros([1])), "at most 1"),
    "rank": (lambda: tg.tensor_scatter_nd_max(tg.zeros([3]), tg.constant(0), tg.zeros([])), "index vectors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_shapes_that_do_not_fit_are_refused(graph, case):
    build, text = REFUSED[case]
    with pytest.raises(tg.ShapeError, match=text):
        build()


@pytest.mark.parametrize("at", [3, -1])
def test_an_index_out_of_range_is_refused(run, at):
    with pytest.raises(tg.OpError, match=r"\[0, 3\)"):
        run(tg.tensor_scatter_update(tg.zeros([3]), [[at]], [1.0]))


ROWS = {
    "scatter_update": [[9, 9], [3, 4], [2, 8]],
    "scatter_add": [[14, 15], [3, 4], [7, 14]],
    "scatter_sub": [[-12, -11], [3, 4], [3, -2]],
    "scatter_mul": [[36, 72], [3, 4], [10, 48]],
    "scatter_max": [[9, 9], [3, 4], [5, 8]],
    "scatter_min": [[1, 2], [3, 4], [2, 6]],
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_rows_of_a_variable_are_changed_one_after_the_other(run, name, kind):
    v = tg.Variable(np.array([[1, 2], [3, 4], [5, 6]], kind))
    updates = np.array([[4, 4], [2, 8], [9, 9]], kind)
    changed = getattr(tg, name)(v, [0, 2, 0], updates)
    run(v.initializer)
    np.testing.assert_array_equal(run(changed), ROWS[name])
    np.testing.assert_array_equal(run(v), ROWS[name])


def test_rows_of_a_variable_are_divided(run):
    v = tg.Variable([[1.0, 2.0], [3.0, 4.0]])
    by = tg.scatter_div(v, [[1], [0]], [[[2.0, 4.0]], [[0.5, 1.0]]])
    halved = v.scatter_div([0, 0], 2.0)
    run(v.initializer)
    assert run([by, halved])[1].tolist() == [[0.5, 0.5], [1.5, 1.0]]
    with pytest.raises(tg.DtypeError):
        tg.Variable([4]).scatter_div([0], [2])


def test_elements_of_a_variable_are_changed(run):
    v = tg.Variable([[1, 2], [3, 4]])
    changed = [
        v.scatter_nd_update([[0, 0], [0, 0]], [7, 9]),
        v.scatter_nd_add([[[1]], [[1]]], [[[1, 2]], [[10, 20]]]),
        v.scatter_nd_sub([[0, 1], [0, 1]], [1, 1]),
    ]
    run(v.initializer)
    assert run(changed)[-1].tolist() == [[9, 0], [14, 26]]


@pytest.mark.rule(140)
def test_updates_happen_in_the_order_in_which_they_are_built(run):
    v = tg.Variable([2.0, 3.0])
    before = v * 1.0
    multiplied = v.scatter_mul([0], [5.0])
    between = v + 0.0
    largest = v.scatter_max([0, 1], [4.0, 4.0])
    least = tg.scatter_nd_update(v, [[1]], [0.5])
    run(v.initializer)
    found = run([least, before, largest.op, between, multiplied.op, v.value()])
    assert [f.tolist() for f in (found[0], found[1], found[3], found[5])] == [[10, 0.5], [2, 3], [10, 3], [10, 0.5]]


def test_who_has_read_keeps_what_was_read(run):
    v = tg.Variable(np.ones(4, np.float32))
    run(v.initializer)
    before = run(v)
    run(v.scatter_nd_add([[1], [1]], [1.0, 2.0]).op)
    assert (before.tolist(), run(v).tolist()) == ([1, 1, 1, 1], [1, 4, 1, 1])


def test_slices_bring_their_updates_along(run):
    v, table = tg.Variable([1.0, 5.0, 3.0]), tg.constant([1.0, 2.0, 3.0])
    (slices,) = tg.gradients(tg.gather(table, [2, 1]) * 4.0, [table])
    changed = v.scatter_max(slices)
    run(v.initializer)
    assert run(changed).tolist() == [1.0, 5.0, 4.0]


def test_a_variable_is_changed_in_a_loop(run):
    v = tg.Variable(tg.ones([3]))

    def body(i):
        with tg.control_dependencies([v.scatter_mul([i % 3], [2.0])]):
            return i + 1

    end = tg.while_loop(lambda i: i < 5, body, [0])
    run(v.initializer)
    run(end)
    assert run(v).tolist() == [4.0, 4.0, 2.0]


WRONG = {
    "index": (lambda v: v.scatter_mul([2], [[1.0, 1.0]]), "out of range"),
    "row": (lambda v: v.scatter_max([0], [1.0]), "another shape"),
    "vector": (lambda v: v.scatter_nd_add([[0, 2]], [1.0]), r"\[0, 2\)"),
    "element": (lambda v: v.scatter_nd_update([[0, 1]], [[1.0]]), "need shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_update_is_refused_and_changes_nothing(run, case):
    v = tg.Variable([[1.0, 2.0], [3.0, 4.0]])
    update, text = WRONG[case]
    changed = update(v)
    run(v.initializer)
    with pytest.raises(tg.OpError, match=text):
        run(changed)
    assert run(v).tolist() == [[1.0, 2.0], [3.0, 4.0]]

"""`vmap` and `vectorized_map`: axes, structures, sizes, errors, effects."""

import functools

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

from tests.vectorize.comparing import check, check_gradient

M = np.arange(12.0).reshape(3, 4)


def run(build):
    return tg.function(build).sync()


def test_map_over_a_structure():
    found = run(lambda: tg.vectorized_map(lambda e: {"sum": e["a"] + e["b"], "a": e["a"]}, {"a": M, "b": M[:, 0]}))
    np.testing.assert_array_equal(found["sum"], M + M[:, :1])
    np.testing.assert_array_equal(found["a"], M)


def test_map_is_that_of_map_fn():
    fn = lambda x: tg.reduce_sum(x) * tg.softmax(x)  # noqa: E731
    one, other = run(lambda: (tg.vectorized_map(fn, M), tg.map_fn(fn, M)))
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes_of_arguments(axis):
    check(lambda r: r * tg.reduce_sum(r), M, in_axes=axis)


@pytest.mark.parametrize(("axis", "shape"), [(0, (3, 4, 2)), (1, (4, 3, 2)), (2, (4, 2, 3)), (-1, (4, 2, 3))])
def test_axes_of_results(axis, shape):
    f = tg.vmap(lambda r: tg.stack([r, 2 * r], axis=1), out_axes=axis)
    found = tg.function(f).sync(M)
    assert found.shape == shape
    np.testing.assert_array_equal(np.moveaxis(found, axis, 0), np.stack([M, 2 * M], 2))


def test_argument_passed_whole():
    check(lambda w, x: tg.tensordot(w, x, 1), M[:, 0], M, in_axes=(None, 1))


def test_axes_in_a_structure():
    f = tg.vmap(lambda pair, scale: pair["x"] * pair["y"] * scale, in_axes=({"x": 0, "y": None}, None))
    np.testing.assert_array_equal(tg.function(f).sync({"x": M, "y": M[0]}, np.float64(2)), M * M[0] * 2)


def test_keyword_arguments_are_sliced_along_the_first_axis():
    found = run(lambda: tg.vmap(lambda x, y: x + y)(tg.constant(M), y=tg.constant(M[:, 0])))
    np.testing.assert_array_equal(found, M + M[:, :1])


def test_results_in_a_structure_with_axes():
    f = tg.vmap(lambda x: (x, {"y": 2.0 * x}), out_axes=(1, 0))
    first, rest = tg.function(f).sync(M)
    np.testing.assert_array_equal(first, M.T)
    np.testing.assert_array_equal(rest["y"], 2 * M)


def test_common_result():
    common, spread = run(
        lambda: tg.vmap(lambda x: (tg.constant(2.0), tg.constant([1, 2])), out_axes=(None, 0))(tg.constant(M))
    )
    assert common == 2.0
    np.testing.assert_array_equal(spread, [[1, 2]] * 3)


def test_vmap_in_vmap():
    f = lambda a, b: tg.sin(a) * b  # noqa: E731
    outer = tg.vmap(tg.vmap(f, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_allclose(tg.function(outer).sync(M[:, 0], M[0]), np.sin(M[:, :1]) * M[0])


def test_unknown_numbers_of_examples():
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder("float64", [None, 4]), tg.placeholder("float64", [None])
        w = tg.placeholder("float64", [4, 2])
        out = tg.vmap(lambda x, y: tg.softmax(tg.expand_dims(x, 0) @ w)[0] * y + tg.reshape(x, [2, 2])[0])(x, y)
        slope = tg.gradients(out, x)[0]
        assert out.shape == tg.Shape([None, 2])
    with tg.SyncSession(graph) as session:
        for number in (0, 1, 3):
            feeds = {x: M[:number], y: M[:number, 1], w: M.T[:, :2]}
            value, g = session.run([out, slope], feeds)
            e = np.exp(M[:number] @ M.T[:, :2] - (M[:number] @ M.T[:, :2]).max(1, keepdims=True, initial=-np.inf))
            wanted = e / e.sum(1, keepdims=True) * M[:number, 1:2] + M[:number, :2]
            np.testing.assert_allclose(value, wanted)
            assert g.shape == (number, 4)


def test_unknown_sizes_of_examples():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [None, None])
        out = tg.vmap(
            lambda r: (
                tg.concat([tg.reverse(r, [0]), tg.zeros(tg.shape(r)[:1], "float64")[:1] + r[0]], 0)
                / tg.cast(tg.size(r), "float64")
            )
        )(x)
    with tg.SyncSession(graph) as session:
        found = session.run(out, {x: M})
    np.testing.assert_allclose(found, np.concatenate([M[:, ::-1], M[:, :1]], 1) / 4)


def test_sizes_known_to_differ():
    with pytest.raises(tg.ShapeError, match=r"(?s)argument \[0\] has 3.*argument \[1\] has 4"):
        tg.function(tg.vmap(lambda a, b: a[0] + b[0])).sync(M, M.T)


def test_sizes_that_differ_in_a_step():
    with tg.Graph().as_default() as graph:
        x, y = (tg.placeholder("float64", [None, None]) for _ in range(2))
        out = tg.vmap(lambda a, b: a[0] + b[0])(x, y)
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError, match=r"argument \[0\] and argument \[1\]"):
        session.run(out, {x: M, y: M.T})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tg.vmap(lambda a: a)(tg.constant(1.0)), "has no axis 0"),
        (lambda: tg.vmap(lambda a: a, in_axes=None)(tg.constant(M)), "no argument of a vectorized function is mapped"),
        (lambda: tg.vmap(lambda a, b: a, in_axes=(0,))(tg.constant(M), 1.0), "another length"),
        (lambda: tg.vmap(lambda a: a, in_axes=({"x": 0},))(tg.constant(M)), "in_axes does not have the structure"),
        (lambda: tg.vmap(lambda a: a, out_axes=None)(tg.constant(M)), "differs between slices"),
        (lambda: tg.vmap(lambda a: None)(tg.constant(M)), "has to return tensors"),
        (lambda: tg.vmap(lambda a: tg.reshape(M, tg.cast(a[:2], "int32")))(tg.constant(M)), "Reshape differs between"),
        (lambda: tg.vmap(lambda a: a, in_axes=0)(tg.placeholder("float32")), "needs the ranks"),
    ],
)
def test_wrong_uses(call, text):
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match=text):
        call()


def test_effects_are_refused():
    with tg.Graph().as_default():
        v = tg.Variable(1.0)
        with pytest.raises(tg.VectorizationError, match="AssignAddVariable, which has effects") as info:
            tg.vmap(lambda a: v.assign_add(a))(tg.constant([1.0, 2.0]))
        assert "test_vmap.py" in str(info.value)


def test_operation_without_a_rule_is_named(monkeypatch):
    with tg.Graph().as_default():
        queue = tg.FIFOQueue(2, "float32", shapes=[[]])
        with pytest.raises(tg.VectorizationError, match=r"(?s)Enqueue, which has effects.*map_fn"):
            tg.vmap(lambda a: tg.group(queue.enqueue(a)))(tg.constant([1.0, 2.0]))


def test_variables_are_common():
    with tg.Graph().as_default() as graph:
        v = tg.Variable([1.0, 2.0, 3.0, 4.0], dtype="float64")
        out = tg.vmap(lambda r: tg.reduce_sum(v * r))(tg.constant(M))
        (slope,) = tg.gradients(out, v)
        by_example = tg.vmap(lambda r: tg.gradients(tg.reduce_sum(v * r * r), v)[0])(tg.constant(M))
    with tg.SyncSession(graph) as session:
        session.run(v.initializer)
        value, total, each = session.run([out, slope, by_example])
    np.testing.assert_allclose(value, M @ [1, 2, 3, 4])
    np.testing.assert_allclose(total, M.sum(0))
    np.testing.assert_allclose(each, M * M)


def test_variables_made_in_the_function():
    with tg.Graph().as_default() as graph:
        out = tg.vmap(lambda r: tf1.get_variable("w", [4], "float64", tg.nn.ones_initializer()) * r)(tg.constant(M))
        start = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(start)
        np.testing.assert_array_equal(session.run(out), M)


def test_an_assertion_checks_all_examples(capfd):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [None, 4])

        def checked(r):
            with tg.control_dependencies([tg.Assert(tg.reduce_all(r >= 0.0), [r])]):
                return tg.identity(r) * 2.0

        out = tg.vmap(checked)(x)
    with tg.SyncSession(graph) as session:
        np.testing.assert_array_equal(session.run(out, {x: M}), 2 * M)
        with pytest.raises(tg.OpError):
            session.run(out, {x: -M})


def test_draws_differ_between_examples():
    a, b = run(
        lambda: tg.vmap(lambda x: (tg.random_normal([5]) + x, tg.random_uniform([]) + x))(
            tg.constant([0.0] * 4, "float32")
        )
    )
    assert a.shape == (4, 5)
    assert len(np.unique(a)) == 20
    assert len(np.unique(b)) == 4


def test_draws_by_keys_are_those_of_single_calls():
    keys = np.int64([[1, 2], [3, 4], [5, 6]])
    check(lambda key: tg.stateless_random_normal([3], key), keys)
    common = run(
        lambda: tg.vmap(lambda x: tg.stateless_random_normal([3], [7, 8]) * x)(tg.constant(np.float32([1, 1])))
    )
    np.testing.assert_array_equal(common[0], common[1])


def test_a_gradient_of_the_user():
    @tg.custom_gradient
    def scaled(x, w):
        return x * w, lambda d: (3.0 * d * w, 5.0 * d * x)

    check_gradient(lambda x, w: tg.sin(scaled(x, w)), M[:, 1], np.float64(2.0), in_axes=(0, None))
    check_gradient(lambda w, x: tg.sin(scaled(x, w)), np.float64(2.0), M[:, 1], in_axes=(None, 0))
    check_gradient(lambda w, x: scaled(w, w) * x, np.float64(2.0), M[:, 1], in_axes=(None, 0))


def test_sources_are_lines_of_the_function():
    with tg.Graph().as_default() as graph:
        tg.vmap(lambda r: tg.log(r))(tg.constant(M))
        op = next(op for op in graph.root.operations if op.type == "Log")
    assert "test_vmap.py" in str(op.source)


def test_nothing_of_the_single_function_stays():
    with tg.Graph().as_default() as graph:
        x = tg.constant(M)
        tg.vmap(lambda r: tg.while_loop(lambda r: tg.reduce_sum(r) < 5.0, lambda r: r + x[0], (r,)))(x)
        regions = {op.region for op in x.consumers()}
    assert all(region is graph.root or region.owner is not None for region in regions)


@pytest.mark.parametrize("axis", [0, 1])
def test_indices_of_each_example(axis):
    indices = np.int32([[2, 1], [0, 0], [1, 2]])
    check(lambda r, i: tg.gather(r, i, axis=axis), M, indices, in_axes=(None, 0))
    check(lambda r, i: tg.gather(tg.reshape(r, [2, 2]), i[0] // 2, axis=axis), M, indices)
    check(lambda r, i: r[i[0]], M, np.int32([[2], [-1], [0]]))
    check_gradient(lambda r, i: r[i[0]] ** 2.0, M, np.int32([[2], [-1], [0]]))
    check(lambda r, i: tg.slice(r, i, [2]), M, np.int32([[2], [1], [0]]))
    check_gradient(lambda r, i: tg.reduce_sum(tg.slice(r, i, [2]) ** 2.0), M, np.int32([[2], [1], [0]]))


def reduce_segments(function, rows, ids):
    return function(rows, ids, 3)


def test_segments_of_each_example():
    ids = np.int32([[2, 1, 0, -1], [0, 0, 0, 1], [2, 2, 2, 2]])
    for function in (tg.unsorted_segment_sum, tg.unsorted_segment_max, tg.unsorted_segment_prod):
        check(functools.partial(reduce_segments, function), M, ids)
    check_gradient(lambda r, i: tg.reduce_sum(tg.unsorted_segment_sum(r, i, 3) ** 3.0), M, ids)


def test_an_id_too_large_stays_too_large():
    f = tg.vmap(lambda r, i: tg.unsorted_segment_sum(r, i, 3))
    with pytest.raises(tg.OpError):
        tg.function(f).sync(M, np.int32([[2, 1, 0, 3], [0, 0, 0, 1], [2, 2, 2, 2]]))


def test_updates_of_each_example():
    places = np.int32([[[2], [1]], [[0], [3]], [[3], [1]]])
    check(lambda r, i: tg.scatter_nd(i, r[:2], [5]), M, places)
    check(lambda r, i: tg.tensor_scatter_update(r, i, r[2:]), M, places)
    check(lambda r, i: tg.gather_nd(r, i), M, places)


def test_second_derivatives_of_examples():
    check(tg.grad(lambda x: tg.grad(lambda x: tg.sin(x) * x**3.0)(x)), M[:, 1])

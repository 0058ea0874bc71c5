"""Branches, loops and arrays of vectorized functions."""

import numpy as np
import pytest
import tagloom as tg

from tests.vectorize.comparing import check, check_gradient

X = np.float64([0.5, 3.0, 40.0, 1.0])
M = np.arange(12.0).reshape(3, 4)


def types(graph):
    return [op.type for op in graph.root.walk()]


def test_a_common_predicate_keeps_the_branch():
    f = lambda x, p: tg.cond(p, lambda: tg.log(x), lambda: x * 2.0)  # noqa: E731
    for p in (True, False):
        check_gradient(f, X, np.bool_(p), in_axes=(0, None))
    with tg.Graph().as_default() as graph:
        tg.vmap(f, in_axes=(0, None))(tg.constant(X), tg.placeholder("bool", []))
    assert types(graph).count("Cond") == 1
    assert "Where" not in types(graph)


def test_predicates_that_differ_select():
    check_gradient(lambda x: tg.cond(x > 0.9, lambda: tg.sin(x), lambda: x * 2.0), X)


def test_examples_take_no_part_in_other_branches():
    f = lambda x: tg.cond(x > 0.0, lambda: tg.log(x) / x, lambda: x * 2.0)  # noqa: E731
    check_gradient(f, np.float64([0.0, 1.0, -2.0]))
    check_gradient(f, np.float64([0.0, -1.0]))  # nobody takes the first branch
    found = tg.function(tg.vmap(lambda n: tg.cond(n > 0, lambda: 12 // n, lambda: n))).sync(np.int32([0, 3, -1]))
    np.testing.assert_array_equal(found, [0, 4, -1])


def test_many_branches():
    branches = lambda x: [lambda: x, lambda: 2.0 * x, lambda: tg.log(x)]  # noqa: E731
    check_gradient(lambda x, i: tg.switch_case(i, branches(x)), X, np.int32([2, 7, 0, 1]))


def test_effects_in_a_branch_that_some_take():
    def shown(x):
        return tg.cond(x > 1.0, lambda: tg.print_(x, [x]), lambda: x)

    with tg.Graph().as_default(), pytest.raises(tg.VectorizationError, match="Print, which has effects"):
        tg.vmap(shown)(tg.constant(X))


def power(x):
    return tg.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * tg.cos(x)), (0, x))[1]


def test_a_common_number_of_iterations():
    check_gradient(power, X)
    with tg.Graph().as_default() as graph:
        tg.vmap(power)(tg.constant(X))
        loop = next(op for op in graph.root.operations if op.is_while)
    # The counter is the same for all examples.
    assert [t.shape.rank for t in loop.outputs] == [0, 1]


def test_captures_alone_make_a_variable_differ():
    check(
        lambda x: tg.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + x), (0, tg.constant(1.0, "float64")))[1], X
    )


def test_variables_spread_over_iterations():
    """The second variable differs from the second iteration on, the third from the third."""
    body = lambda i, a, b, c: (i + 1, a * 2.0, a, b + c)  # noqa: E731
    one = lambda: tg.constant(1.0, "float64")  # noqa: E731
    check(lambda x: tg.while_loop(lambda i, *_: i < 4, body, (0, x, one(), one()))[1:], X)


def newton(a):
    return tg.while_loop(lambda x: tg.abs(x * x - a) > 1e-9, lambda x: 0.5 * (x + a / x), (a,))


def test_numbers_of_iterations_that_differ():
    check_gradient(newton, np.float64([1.0, 2.0, 9.0, 100.0]))


def test_no_iteration_at_all():
    check_gradient(newton, np.float64([1.0, 1.0]))


def test_total_bodies_select_once():
    check_gradient(lambda x: tg.while_loop(lambda y: y < 30.0, lambda y: y * 1.5 + x, (x,)), X)


def quotients(x):
    """The sum of x / n, n from x down to 1: a further iteration would divide by 0."""
    n = tg.cast(x, "int32")
    return tg.while_loop(lambda n, s: n > 0, lambda n, s: (n - 1, s + x / tg.cast(n, "float64")), (n, x * 0.0))[1]


def test_examples_that_are_done_divide_by_nothing():
    check_gradient(quotients, np.float64([0.0, 1.0, 3.0, 5.0]))


def test_examples_that_are_done_do_not_fail():
    def divided(k):
        return tg.while_loop(lambda n, s: n > 0, lambda n, s: (n - 1, s + 12 // n), (k, 0))[1]

    check(divided, np.int32([0, 1, 3, 5]))
    check(
        lambda k: tg.while_loop(lambda n, s: n < 4, lambda n, s: (n + 1, s + tg.constant([1, 2, 3, 4])[n]), (k, 0))[1],
        np.int32([0, 4, 2, 9]),
    )


def test_gradients_are_finite_where_slopes_would_not_be():
    f = lambda x: tg.while_loop(lambda n, y: n < x, lambda n, y: (n + 1.0, tg.sqrt(x - n) + y), (x * 0.0, x * 0.0))[1]  # noqa: E731
    check_gradient(f, np.float64([0.0, 0.5, 2.5]))


def nested(x):
    def body(i, s):
        inner = tg.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t * x / (1.0 + t)), (0, s + 1.0))[1]
        return i + 1, s + inner

    return tg.while_loop(lambda i, s: s < x, body, (0, x * 0.0))[1]


def common_outside(x):
    def body(i, s):
        inner = tg.while_loop(lambda j, t: t < x, lambda j, t: (j + 1, t * 1.7 + 1.0), (0, s))[1]
        return i + 1, tg.log(s + 1.0) + inner / 2.0

    return tg.while_loop(lambda i, s: i < 3, body, (0, x * 0.0))[1]


def test_loops_in_loops():
    check(nested, X)
    check_gradient(common_outside, X)
    # Outside of vmap, any gradient can be taken.
    outside = tg.function(tg.grad(lambda x: tg.reduce_sum(tg.vmap(nested)(x)))).sync(X)
    np.testing.assert_allclose(outside, [tg.grad(nested).sync(x) for x in X])


def test_a_gradient_of_nested_loops_in_vmap_is_refused():
    with tg.Graph().as_default(), pytest.raises(tg.VectorizationError, match="gradient of a loop is vectorized"):
        tg.vmap(tg.grad(nested))(tg.constant(X))


def test_draws_in_a_loop_are_kept_by_examples_that_are_done():
    def walk(x):
        return tg.while_loop(
            lambda y, n: y < 10.0, lambda y, n: (y + tg.random_uniform([], dtype="float64") + 1.0, n + 1), (x, 0)
        )

    ys, ns = tg.function(tg.vmap(walk)).sync(np.float64([0.0, 9.5, 20.0]))
    assert ns[2] == 0
    assert ys[2] == 20.0
    assert ns[1] == 1
    assert 10.5 <= ys[1] < 11.5
    assert (ys[:2] >= 10.0).all()


def test_effects_in_a_loop_that_examples_leave_apart():
    def shown(x):
        return tg.while_loop(lambda y: y < 10.0, lambda y: tg.print_(y + 1.0, [y]), (x,))

    with tg.Graph().as_default(), pytest.raises(tg.VectorizationError, match="Print, which has effects"):
        tg.vmap(shown)(tg.constant(X))


def test_values_saved_for_segments():
    f = lambda x: tg.while_loop(lambda i, x: i < 7, lambda i, x: (i + 1, tg.sin(x) * x), (0, x), checkpoint_every=3)[1]  # noqa: E731
    check_gradient(f, X)


def test_recomputed_values():
    check_gradient(lambda r: tg.reduce_sum(tg.recompute_grad(lambda r: tg.sin(r) * r)(r)), M)


@pytest.mark.parametrize("order", [tg.foldl, tg.foldr])
def test_folds(order):
    check_gradient(lambda r: order(lambda a, e: a * e + r[0], r, initializer=r[1]), M)


def test_scan_and_map():
    check(lambda r: tg.scan(lambda a, e: a * e + r[0], r, initializer=r[1]), M)
    check_gradient(lambda r: tg.reduce_sum(tg.scan(lambda a, e: a * e + r[0], r, initializer=r[1])), M)
    check(lambda r: tg.map_fn(lambda e: e * r[0], r), M)


def test_arrays():
    def rows(r):
        return tg.TensorArray("float64", 4).unstack(r)

    check(lambda r: rows(r).read(2), M)
    check(lambda r: rows(r).gather([3, 1]), M)
    check(lambda r: rows(r).stack(), M)
    check(lambda r: tg.TensorArray("float64", 2).write(0, r).write(1, 2.0 * r).stack(), M)
    check(lambda r: tg.TensorArray("float64", 4).scatter([3, 1, 0, 2], r).stack(), M)
    check_gradient(lambda r: tg.reduce_sum(rows(r).gather([3, 1]) ** 2.0), M)
    check_gradient(lambda r: tg.reduce_sum(rows(r).stack() ** 2.0) * rows(r).read(1), M)


def test_an_array_from_outside():
    def read(r):
        ta = tg.TensorArray("float64", 4).unstack(M[0])
        return tg.vmap(lambda x, i: x * ta.read(i) + ta.read(1), in_axes=(0, 0))(r, tg.constant([1, 0, 3]))

    np.testing.assert_allclose(tg.function(read).sync(M), M * M[0][[1, 0, 3]][:, None] + M[0, 1])


def test_writing_to_an_array_from_outside_is_refused():
    with tg.Graph().as_default():
        ta = tg.TensorArray("float64", 4)
        with pytest.raises(tg.VectorizationError, match="TensorArray from outside"):
            tg.vmap(lambda r: ta.write(0, r).stack())(tg.constant(M))


def adaptive(y0):
    """Heun's method with step control for y' = -y * (1 + y * y), until t = 1."""
    slope = lambda y: -y * (1.0 + y * y)  # noqa: E731

    def body(t, y, h):
        h = tg.minimum(h, 1.0 - t)
        k1 = slope(y)
        k2 = slope(y + h * k1)
        error = tg.abs(h * (k2 - k1)) / 2.0 + 1e-12
        ok = error < 1e-4
        return (
            tg.where(ok, t + h, t),
            tg.where(ok, y + h * (k1 + k2) / 2.0, y),
            h * tg.minimum(2.0, 0.9 * tg.sqrt(1e-4 / error)),
        )

    zero = y0 * 0.0
    return tg.while_loop(lambda t, y, h: t < 1.0 - 1e-9, body, (zero, y0, zero + 0.1))[1]


def test_adaptive_steps():
    check_gradient(adaptive, np.float64([0.1, 0.5, 1.0, 2.0]))


def test_batched_loops_are_native():
    with tg.Graph().as_default() as graph:
        x = tg.constant(np.linspace(0.1, 2.0, 8))
        out = tg.vmap(adaptive)(x)
        slope = tg.gradients(out, x)[0]
        inside = tg.vmap(tg.grad(adaptive))(x)
    with tg.SyncSession(graph) as session:
        session.run([out, slope, inside])
        loops = session.report().loops
    assert len(loops) == 4  # forward and backward, twice
    assert [loop.not_native for loop in loops if loop.limited_by != "native"] == []
    assert not any(loop.called for loop in loops)


def rotated(x):
    """A loop over the vector of a state, with each kind of operation that takes vectors apart."""

    def body(i, y, p):
        z = tg.stack([y[1] * p, -y[0] + tg.reduce_max(y), tg.reduce_mean(y[:2])])
        low, high = tg.unstack(y[:2])
        z += tg.concat([y[1:], tg.reshape(low * high, [1])], 0) * tg.constant([0.5, -0.25, 0.125], "float64")
        return (
            i + 1,
            tg.where(tg.reduce_all(y < 10.0), z / (1.0 + tg.reduce_sum(tg.abs(z))), y + x),
            tg.reduce_min(y) * 0.5,
        )

    return tg.while_loop(
        lambda i, y, p: tg.reduce_sum(tg.abs(y)) + tg.cast(i, "float64") < x[1] * 2.0, body, (0, x, x[0])
    )[1]


def test_small_vectors_are_taken_apart():
    rows = np.float64([[0.5, 3.0, -1.0], [2.0, 1.0, 0.25], [9.0, 40.0, 1.0]])
    check(rotated, rows)
    check_gradient(lambda r: tg.reduce_sum(rotated(r) ** 2.0), rows)
    with tg.Graph().as_default() as graph:
        tg.vmap(rotated)(tg.constant(rows))
        loop = next(op for op in graph.root.operations if op.is_while)
    assert {t.shape.rank for t in loop.outputs} == {1}
    assert "StridedSlice" not in [op.type for op in loop.regions[1].operations]

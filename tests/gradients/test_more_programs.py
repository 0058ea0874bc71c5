"""Gradients of programs that easily go wrong: growing shapes, custom gradients, side effects, long loops."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, choose, derivatives, repeat, scalar, unknown


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_variable_that_grows(run, count):
    x, w = unknown(np.array([1.0, 2.0])), scalar(3.0)
    n = unknown(np.int32(count))

    def body(i, a):
        return i + 1, tg.concat([a, a[-1:] * w], 0)

    y = tg.while_loop(lambda i, a: i < n, body, [0, x], [tg.Shape([]), tg.Shape([None])])[1]
    weights = np.arange(1.0, 3.0 + count)
    g = run(tg.gradients(y, [x, w], grad_ys=[weights]))
    powers = 3.0 ** np.arange(count + 1)
    by_hand = [1.0, (weights[1:] * powers).sum()]
    slope = 2.0 * (weights[2:] * np.arange(1, count + 1) * 3.0 ** np.arange(count)).sum()
    assert_near(g, [by_hand, slope])


def test_a_variable_that_shrinks_to_second_order(run):
    x = unknown(np.array([1.0, 2.0, 3.0]))
    y = tg.while_loop(lambda a: tg.size(a) > 1, lambda a: a[1:] * a[:-1], [x], [tg.Shape([None])])
    plain = (x[1:] * x[:-1])[1:] * (x[1:] * x[:-1])[:-1]
    assert_near(run(derivatives(y, x, 3)), run(derivatives(plain, x, 3)))


def test_a_new_value_of_another_shape_that_ignores_the_old_one(run):
    x, z = unknown(np.ones(2), [None]), unknown(np.ones(3), [None])
    y = repeat_shapes(2, lambda i, a, b: (b * 2.0, b), x, z)[0]
    assert_near(run(tg.gradients(y, [x, z], unconnected_gradients="zero")), [np.zeros(2), np.full(3, 2.0)])


def repeat_shapes(count, body, *values):
    limit = unknown(np.int32(count))
    shapes = [tg.Shape([]), *(tg.Shape([None]) for _ in values)]
    return tg.while_loop(lambda i, *_: i < limit, lambda i, *v: (i + 1, *body(i, *v)), [0, *values], shapes)[1:]


@tg.custom_gradient
def doubled(x):
    """The sine of x, whose gradient is said to be twice what it is."""
    s = tg.sin(x)
    return s, lambda dy: dy * 2.0 * tg.cos(x)


class TestCustomGradients:
    def test_in_a_loop(self, run):
        x = scalar(0.5)
        (y,) = repeat(3, lambda i, a: (doubled(a) * x,), x)
        c = x
        for _ in range(3):
            c = doubled(c) * x
        assert_near(run(derivatives(y, x, 3)), run(derivatives(c, x, 3)))

    @pytest.mark.parametrize("taken", [True, False])
    def test_in_a_branch(self, run, taken):
        x = scalar(0.5)
        y = choose(taken, lambda: doubled(x * x), lambda: x)
        c = doubled(x * x) if taken else x * 1.0
        assert_near(run(derivatives(y, x, 2)[:2]), run(derivatives(c, x, 1)))

    def test_may_use_a_loop(self, run):
        @tg.custom_gradient
        def power(x):
            (y,) = repeat(3, lambda i, a: (a * x,), x)
            return y, lambda dy: dy * repeat(2, lambda i, a: (a * x,), x)[0] * 4.0

        x = scalar(1.5)
        (y,) = repeat(2, lambda i, a: (power(a),), x)
        assert_near(run(derivatives(y, x, 2)), [1.5**16, 16 * 1.5**15, 240 * 1.5**14])


class TestArrays:
    def test_that_grow_while_data_decides(self, run):
        x = scalar(2.0)
        ta = tg.TensorArray("float64", size=0, dynamic_size=True, element_shape=[])
        _, _, ta = tg.while_loop(
            lambda i, a, ta: a < 20.0, lambda i, a, ta: (i + 1, a * x, ta.write(i, a * a)), [0, x, ta]
        )
        # 4, 16, 64, 256
        assert_near(
            run(derivatives(ta.stack(), x, 2)), [340.0, 4 + 32 + 6 * 32 + 8 * 128.0, 2 + 48 + 30 * 16 + 56 * 64.0]
        )

    def test_made_in_a_branch(self, run):
        x = scalar(2.0)

        def branch():
            ta = tg.TensorArray("float64", size=2).write(0, x).write(1, x * x)
            return tg.reduce_prod(ta.stack())

        assert_near(run(derivatives(choose(True, branch, lambda: x), x, 2)), [8.0, 12.0, 12.0])

    def test_of_elements_of_different_shapes(self, run):
        x, z = unknown(np.array([1.0, 2.0])), unknown(np.array([3.0]))
        ta = tg.TensorArray("float64", size=3, infer_shape=False, clear_after_read=False).write(0, x).write(2, z)
        (y,) = repeat(2, lambda i, a: (a + tg.reduce_sum(ta.read(i * 2) ** 2.0),), scalar(0.0))
        assert_near(run(tg.gradients(y, [x, z])), [[2.0, 4.0], [6.0]])

    def test_differentiated_in_each_iteration_of_another_loop(self, run):
        x = unknown(np.array([2.0, 3.0]))
        ta = tg.TensorArray("float64", size=2, clear_after_read=False).unstack(x)
        y = ta.read(0) * ta.read(1) * ta.read(1)

        def body(i, a):
            (g,) = tg.gradients(y * tg.cast(i + 1, "float64"), [x])
            return (a + g,)

        (total,) = repeat(2, body, unknown(np.zeros(2)))
        assert_near(run(derivatives(total, x, 1)), [3 * (9.0 + 12.0)] + [3 * (6 + 6.0 + 4.0)])


def test_random_values_are_those_of_the_forward_loop(run):
    x = unknown(np.ones(4))

    def body(i, a, total):
        noise = tg.random_uniform([4], dtype="float64", seed=1)
        return a * noise, total + noise

    a, _ = repeat(3, body, x, unknown(np.zeros(4)))
    value, gradient = run([a, tg.gradients(a, [x])[0]])
    np.testing.assert_allclose(gradient, value)
    assert len(set(value.tolist())) == 4


def test_an_assignment_after_the_read_does_not_change_the_gradient(session):
    w = tg.Variable(np.float64(2.0))
    x = scalar(3.0)

    def body(i, a):
        value = w.read_value()
        with tg.control_dependencies([value]):
            changed = w.assign_add(tg.constant(np.float64(1.0)))
        with tg.control_dependencies([changed]):
            return i + 1, a * value

    n = unknown(np.int32(3))
    y = tg.while_loop(lambda i, a: i < n, body, [0, x], parallel_iterations=1)[1]
    (g,) = tg.gradients(y, [x])
    session.run(tg.global_variables_initializer())
    assert session.run([y, g]) == [3.0 * 24.0, 24.0]


@pytest.mark.rule(84)
def test_effects_in_the_body_happen_once_in_each_iteration(run):
    seen = []
    x = scalar(2.0)

    def body(i, a):
        value = tg.py_function(lambda v: seen.append(float(v)) or v, [a], "float64")
        value.set_shape([])
        return (tg.sin(value) + a * x,)

    (y,) = repeat(3, body, x)
    run([y, tg.gradients(y, [x])[0]])
    assert len(seen) == 3


@pytest.mark.rule(42, 84)
def test_a_long_loop(run, request):
    count = 5000 if "machine" in request.node.name else 300
    x = scalar(0.5)
    (y,) = repeat(count, lambda i, a: (tg.sin(a) + x,), x)
    a, da = 0.5, 1.0
    for _ in range(count):
        a, da = np.sin(a) + 0.5, np.cos(a) * da + 1.0
    assert_near(run(tg.gradients(y, [x])), [da])


def test_a_long_chain_of_operations(graph, run):
    x = scalar(0.5)
    y = x
    for _ in range(200):
        y = y + tg.sin(y) * 0.001
    (z,) = repeat(2, lambda i, a: (a * y,), x)
    assert np.isfinite(run(derivatives(z, x, 2))).all()

"""Second and third order, and hessians, by closed forms and against the unrolled program (rule 98)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import Dynamic, Unrolled, assert_near, choose, derivatives, repeat, scalar, unknown

SHAPES = pytest.mark.parametrize("shape", [[2], [None]], ids=str)


def power_derivatives(x, n, order):
    """Return x**n and its derivatives."""
    found, factor = [], 1.0
    for k in range(order + 1):
        found.append(factor * x ** max(n - k, 0))
        factor *= n - k
    return found


@pytest.mark.rule(98)
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_powers_to_fourth_order(run, count):
    x = scalar(1.5)
    (y,) = repeat(count, lambda i, a: (a * x,), x)
    found = [y, *(derivatives(y, x, 4)[1:])] if count else derivatives(y * y, x, 4)
    assert_near(run(found), power_derivatives(1.5, count + 1 if count else 2, 4))


@pytest.mark.rule(98)
def test_the_order_in_which_derivatives_are_taken_does_not_matter(run):
    x, z = scalar(1.5), scalar(0.5)
    (y,) = repeat(3, lambda i, a: (tg.sin(a * z) * x,), x)
    (g_x, g_z) = tg.gradients(y, [x, z])
    assert_near(run(tg.gradients(g_x, [z])), run(tg.gradients(g_z, [x])))


def loop(flow, x):
    return flow.repeat(3, lambda i, a: (tg.sin(a) * x + tg.reduce_sum(a),), x)[0]


def cond(flow, x):
    s = tg.exp(x * 0.5)
    return flow.choose(True, lambda: tg.sin(s) * tg.reduce_sum(x) * x, lambda: s)


def other_cond(flow, x):
    s = tg.exp(x * 0.5)
    return flow.choose(False, lambda: s, lambda: tg.sin(s) * tg.reduce_sum(x) * x)


def cond_in_loop(flow, x):
    def body(i, a):
        t = tg.sin(a) * x
        return (flow.choose(i % 2 < 1, lambda: tg.tanh(t) * tg.reduce_sum(t), lambda: t * a),)

    return flow.repeat(3, body, x)[0]


def loop_in_cond(flow, x):
    t = tg.sin(x)
    return flow.choose(
        True, lambda: flow.repeat(2, lambda i, a: (tg.sin(a) * t + tg.reduce_sum(a * t),), x)[0], lambda: t
    )


def loop_in_loop(flow, x):
    def body(i, a):
        return flow.repeat(2, lambda j, b: (tg.sin(b) * a * x,), a)

    return flow.repeat(2, body, x)[0]


def element_read_twice(flow, x):
    ta = tg.TensorArray("float64", size=unknown(np.int32(2)), clear_after_read=False).write(0, x).write(1, tg.sin(x))
    return flow.repeat(3, lambda i, a: (a * ta.read(0) + tg.reduce_sum(ta.read(i % 2)) * ta.read(1),), x)[0]


def read_in_a_branch(flow, x):
    ta = tg.TensorArray("float64", size=unknown(np.int32(1)), clear_after_read=False).write(0, tg.sin(x) * x)
    return flow.repeat(3, lambda i, a: (flow.choose(i % 2 < 1, lambda: ta.read(0) * a, lambda: tg.sin(a)),), x)[0]


def array_in_a_body(flow, x):
    def body(i, a):
        ta = tg.TensorArray("float64", size=unknown(np.int32(1)), clear_after_read=False).write(0, a * x)
        return (ta.read(0) * tg.sin(ta.read(0)),)

    return flow.repeat(2, body, x)[0]


def rows_of_a_table(flow, x):
    return flow.repeat(3, lambda i, a: (a * tg.gather(x * x, [1, 0]) + tg.sin(tg.gather(a, [i % 2, i % 2])),), x)[0]


PROGRAMS = [
    loop,
    cond,
    other_cond,
    cond_in_loop,
    loop_in_cond,
    loop_in_loop,
    element_read_twice,
    read_in_a_branch,
    array_in_a_body,
    rows_of_a_table,
]
VALUE = np.array([0.6, -0.3])
NAMED = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


@pytest.mark.sampled(every=10)
@NAMED
@pytest.mark.rule(98, 113)
def test_third_order_is_that_of_the_unrolled_program(run, program):
    dynamic = derivatives(program(Dynamic(), x := unknown(VALUE)), x, 3)
    unrolled = derivatives(program(Unrolled(), x := unknown(VALUE)), x, 3)
    assert_near(run(dynamic), run(unrolled))


def second_order(flow, program, shape):
    """Return the hessian of a program's sum, and the gradient of a weighted sum of it."""
    x = unknown(VALUE, shape)
    (h,) = tg.hessians(tg.reduce_sum(program(flow, x)), [x])
    return [h, *tg.gradients(h * np.array([[1.0, 2.0], [-3.0, 0.5]]), [x])]


@pytest.mark.sampled(every=10)
@NAMED
@pytest.mark.rule(98)
def test_hessians_and_their_gradient_are_those_of_the_unrolled_program(run, program):
    wanted = second_order(Unrolled(), program, [2])
    assert_near(run(second_order(Dynamic(), program, [None])), run(wanted))


@pytest.mark.sampled(every=2)
def test_the_hessian_of_a_hessian_through_a_loop(run):
    def twice(flow, shape):
        x = unknown(VALUE, shape)
        (h,) = tg.hessians(tg.reduce_sum(cond_in_loop(flow, x)), [x])
        return tg.hessians(tg.reduce_sum(h * np.array([[1.0, 2.0], [-3.0, 0.5]])), [x])

    assert_near(run(twice(Dynamic(), [None])), run(twice(Unrolled(), [2])))


def test_hessians_of_several_xs_have_their_shapes(run):
    x, z = unknown(np.ones((2, 2))), scalar(2.0)
    (y,) = repeat(2, lambda i, a: (a * x * z,), tg.ones([2, 2], "float64"))
    h_x, h_z = tg.hessians(y, [x, z])
    assert_near(run([h_x, h_z]), [(8.0 * np.eye(4)).reshape(2, 2, 2, 2), 8.0])


def test_the_hessian_of_what_does_not_matter_is_zero(run):
    x, z = unknown(np.ones(3), [None]), scalar(2.0)
    assert_near(run(tg.hessians(z * z, [x])), [np.zeros((3, 3))])
    assert_near(run(tg.hessians(tg.reduce_sum(x) * z, [x])), [np.zeros((3, 3))])


@SHAPES
@pytest.mark.parametrize("taken", [True, False])
def test_a_gradient_loop_over_a_cond_outside_it(run, shape, taken):
    """Values saved from one branch are read in each iteration of a loop, whose gradient adds them up."""

    def total(flow, shape):
        x = unknown(VALUE, shape)
        y = flow.choose(taken, lambda: tg.exp(tg.sin(x)), lambda: tg.sin(x * x))
        scale = unknown(np.array([1.0, 2.0, 3.0]))
        (z,) = flow.repeat(3, lambda i, a: (a + tg.gradients(y * scale[i], [x])[0] * y,), x)
        return derivatives(z, x, 2)

    assert_near(run(total(Dynamic(), shape)), run(total(Unrolled(), [2])))


@SHAPES
def test_a_gradient_loop_over_a_loop_in_a_cond(run, shape):
    """As above, with whole series saved from the branch."""

    def total(flow, shape):
        x = unknown(VALUE, shape)
        y = flow.choose(True, lambda: flow.repeat(2, lambda j, b: (tg.sin(b) * x,), x)[0], lambda: x)
        scale = unknown(np.array([1.0, 2.0]))
        (z,) = flow.repeat(2, lambda i, a: (a + tg.gradients(y * scale[i], [x])[0] * y,), x)
        return derivatives(z, x, 2)

    assert_near(run(total(Dynamic(), shape)), run(total(Unrolled(), [2])))


def test_a_branch_that_is_linear_has_a_second_derivative_of_zero(run):
    x = scalar(3.0)
    (g,) = tg.gradients(choose(True, lambda: x * 2.0, lambda: x * x), [x])
    assert_near(run(tg.gradients(g, [x])), [0.0])

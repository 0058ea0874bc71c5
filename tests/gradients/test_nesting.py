"""Gradients through cond and while_loop inside each other, against the same program without control flow."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import Dynamic, Unrolled, assert_near, choose, derivatives, repeat, scalar, unknown
from tests.gradients.nested_programs import PROGRAMS


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("shape", [[], [None]], ids=str)
@pytest.mark.rule(87, 88, 98)
def test_derivatives_to_third_order_are_those_of_the_unrolled_program(graph, session, program, shape):
    value = np.array(0.7) if shape == [] else np.array([0.7, -0.4])
    dynamic = derivatives(program(Dynamic(), x := unknown(value, shape)), x, 3)
    unrolled = derivatives(program(Unrolled(), x := unknown(value)), x, 3)
    assert_near(session.run(dynamic), session.run(unrolled))


@pytest.mark.rule(87)
@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_value_saved_in_a_branch_is_found_by_its_iteration(run, window):
    x = scalar(1.5)
    n = unknown(np.int32(6))

    def body(i, a):
        return i + 1, tg.cond(i % 3 < 1, lambda: tg.sin(a) * x, lambda: a * 1.25)

    y = tg.while_loop(lambda i, a: i < n, body, [0, x], parallel_iterations=window)[1]
    c = x
    for i in range(6):
        c = tg.sin(c) * x if i % 3 < 1 else c * 1.25
    assert_near(run(tg.gradients(y, [x])), run(tg.gradients(c, [x])))


@pytest.mark.rule(77, 88)
@pytest.mark.parametrize("inner", [0, 1, 3])
@pytest.mark.parametrize("outer", [0, 1, 2])
def test_inner_and_outer_trips_may_be_none(run, inner, outer):
    x, w = scalar(2.0), scalar(3.0)
    (y,) = repeat(outer, lambda i, a: repeat(inner, lambda j, b: (b * w,), a), x)
    n = inner * outer
    assert_near(run(tg.gradients(y, [x, w])), [3.0**n, n * 2.0 * 3.0 ** max(n - 1, 0)])


@pytest.mark.rule(101)
@pytest.mark.parametrize("taken", [True, False])
def test_an_outer_variable_added_beside_a_loop_in_a_cond(run, taken):
    x = scalar(1.0)

    def body(i, a):
        inner = tg.cond(unknown(taken), lambda: repeat(1, lambda j, b: (b + a,), a)[0], lambda: a)
        return (inner + a,)

    (y,) = repeat(1, lambda i, a: body(i, a), x)
    assert run(tg.gradients(y, [x])[0]) == (3.0 if taken else 2.0)


@pytest.mark.rule(101)
def test_the_program_that_was_known_to_be_wrong_gives_four(run):
    x = scalar(1.0)

    def outer(i, a):
        inner = tg.cond(i < 5, lambda: repeat(1, lambda j, b: (b + a,), a)[0], lambda: a)
        return (inner + a + x,)

    (y,) = repeat(1, outer, x)
    assert run(tg.gradients(y, [x])[0]) == 4.0


@pytest.mark.rule(98)
def test_repeated_squaring_to_second_order(run):
    x = scalar(2.0)
    y = tg.while_loop(lambda a: a < 15.0, lambda a: a * a, [x])
    (first,) = tg.gradients(y, [x])
    assert_near(run([y, first, *tg.gradients(first, [x])]), [16.0, 32.0, 48.0])


@pytest.mark.rule(88, 98)
def test_a_loop_in_a_cond_in_a_loop_that_data_ends(run):
    x = scalar(1.0)

    def body(a):
        return choose(True, lambda: repeat(4, lambda i, b: (b * 2.0,), a)[0] ** 2.0, lambda: a * 2.0)

    y = tg.while_loop(lambda a: a < 128.0, body, [x])
    assert_near(run(derivatives(y, x, 2)), [256.0, 512.0, 512.0])


@pytest.mark.rule(93)
@pytest.mark.parametrize("taken", [True, False])
def test_a_gradient_taken_in_a_branch_can_be_differentiated_outside(run, taken):
    """A value saved from one cond is read in another, that may take its other branch."""
    x = unknown(np.array([0.5, 1.0]), [None])
    y = choose(True, lambda: tg.exp(tg.sin(x)), lambda: x)
    z = choose(taken, lambda: tg.gradients(y, [x])[0] * x, lambda: y * 3.0)
    plain = tg.exp(tg.sin(x))
    wanted = tg.gradients(plain, [x])[0] * x if taken else plain * 3.0
    assert_near(run(derivatives(z, x, 2)), run(derivatives(wanted, x, 2)))

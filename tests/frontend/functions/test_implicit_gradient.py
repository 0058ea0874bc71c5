"""gradients() in the gradient function of custom_gradient, beside loops that the function has built."""

import warnings

import numpy as np
import pytest
import tagloom as tg

A = 0.5


def solve(a, steps=60):
    return tg.while_loop(lambda i, z: i < steps, lambda i, z: (i + 1, tg.cos(a * z)), [0, a * 0.0])[1]


def truth():
    """Return the derivative of the fixed point by a, from differences."""

    def fixed(a):
        z = 0.0
        for _ in range(200):
            z = np.cos(a * z)
        return z

    return (fixed(A + 1e-6) - fixed(A - 1e-6)) / 2e-6


def implicit(dz, a, z, at):
    by_z = tg.gradients(tg.cos(a * at), [at])[0]
    by_a = tg.gradients(tg.cos(a * at), [a])[0]
    return dz * by_a / (1.0 - by_z)


def derivative(function, order=1):
    with tg.Graph().as_default() as graph:
        a = tg.placeholder_with_default(tg.constant(A, "float64"), [])
        y = function(a)
        for _ in range(order):
            (y,) = tg.gradients(y, [a])
    with tg.SyncSession(graph) as session:
        return float(session.run(y))


def in_cond(a):
    return tg.cond(a > 0, lambda: solve(a), lambda: a)


def by_fold(a):
    return tg.foldl(lambda z, _: tg.cos(a * z), tg.range(60), a * 0.0)


@pytest.mark.parametrize("solver", [solve, in_cond, by_fold])
def test_without_loops_it_is_the_implicit_gradient(solver):
    @tg.custom_gradient(through_loops=False)
    def fixed_point(a):
        z = solver(a)
        return z, lambda dz: implicit(dz, a, z, z)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert derivative(fixed_point) == pytest.approx(truth(), rel=1e-6)


def test_a_method_keeps_the_option():
    class Solver:
        @tg.custom_gradient(through_loops=False)
        def fixed_point(self, a):
            z = solve(a)
            return z, lambda dz: implicit(dz, a, z, z)

    assert derivative(Solver().fixed_point) == pytest.approx(truth(), rel=1e-6)


@pytest.mark.parametrize("solver", [solve, in_cond, by_fold])
def test_by_default_it_warns_at_the_users_line(solver):
    @tg.custom_gradient
    def fixed_point(a):
        z = solver(a)
        return z, lambda dz: implicit(dz, a, z, z)

    with pytest.warns(RuntimeWarning, match=r"through the loop(.|\n)*through_loops=False") as caught:
        wrong = derivative(fixed_point)
    assert caught[0].filename == __file__
    assert abs(wrong - truth()) > 0.05


def test_stop_gradient_and_stop_gradients_do_not_warn():
    @tg.custom_gradient
    def stopped(a):
        z = solve(a)
        return z, lambda dz: implicit(dz, a, z, tg.stop_gradient(z))

    @tg.custom_gradient
    def listed(a):
        z = solve(a)

        def gradient(dz):
            f = tg.cos(a * z)
            by_z, by_a = tg.gradients(f, [z, a], stop_gradients=[z])
            return dz * by_a / (1.0 - by_z)

        return z, gradient

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (stopped, listed):
            assert derivative(function) == pytest.approx(truth(), rel=1e-6)


def test_the_gradient_of_the_loop_itself_does_not_warn():
    @tg.custom_gradient
    def halved(a):
        z = solve(a)
        return z, lambda dz: tg.gradients(z, [a], [dz])[0] * 0.5

    @tg.custom_gradient(through_loops=True)
    def through(a):
        z = solve(a)
        return z, lambda dz: tg.gradients(z * a, [a], [dz])[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert derivative(halved) == pytest.approx(truth() / 2, rel=1e-6)
        plain = derivative(lambda a: solve(a) * a)
        assert derivative(through) == pytest.approx(plain)


def test_loops_outside_of_the_function_are_differentiated():
    @tg.custom_gradient(through_loops=False)
    def double(x):
        return x * 2.0, lambda dx: tg.gradients(x * 2.0, [x], [dx])[0]

    assert derivative(lambda a: double(solve(a))) == pytest.approx(2 * truth(), rel=1e-6)

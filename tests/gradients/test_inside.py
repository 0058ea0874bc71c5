"""`gradients` called inside a branch or a loop body (rule 97)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import Dynamic, Unrolled, assert_near, choose, derivatives, repeat, scalar, unknown


@pytest.mark.rule(97)
class TestInLoops:
    def test_of_tensors_of_the_body(self, run):
        def body(i, a):
            y = tg.sin(a) * a
            return (a - 0.1 * tg.gradients(y, [a])[0],)

        (got,) = repeat(3, body, scalar(1.0))
        a = 1.0
        for _ in range(3):
            a -= 0.1 * (np.cos(a) * a + np.sin(a))
        assert run(got) == pytest.approx(a)

    def test_of_invariants(self, run):
        w = scalar(3.0)
        (y,) = repeat(2, lambda i, a: (a + tg.gradients(a * w * w, [w], stop_gradients=[a])[0],), scalar(1.0))
        assert run(y) == 1.0 * 7 * 7

    def test_of_what_was_computed_outside(self, run):
        x = scalar(2.0)
        (y,) = repeat(2, lambda i, b: (b * x,), x)
        (z,) = repeat(2, lambda i, a: (a + tg.gradients(y * 2.0, [x])[0],), scalar(0.0))
        assert run(z) == 2 * 24.0

    def test_of_a_loop_in_the_body(self, run):
        def body(i, a):
            (y,) = repeat(2, lambda j, b: (b * a,), a)
            return (tg.gradients(y, [a])[0] * 0.5,)

        (got,) = repeat(2, body, scalar(1.5))
        a = 1.5
        for _ in range(2):
            a = 3 * a * a * 0.5
        assert run(got) == pytest.approx(a)

    def test_can_be_differentiated(self, run):
        x = scalar(0.7)
        (y,) = repeat(2, lambda i, a: (tg.gradients(tg.sin(a) * a, [a])[0],), x)
        c = x
        for _ in range(2):
            c = tg.gradients(tg.sin(c) * c, [c])[0]
        assert_near(run(derivatives(y, x, 2)), run(derivatives(c, x, 2)))

    def test_of_a_loop_in_the_body_can_be_differentiated(self, run):
        x, w = scalar(0.7), scalar(1.2)

        def program(build):
            def body(i, a):
                (y,) = build.repeat(3, lambda j, b: (tg.tanh(b * w),), a)
                return (a - 0.1 * tg.gradients(y * y, [a])[0],)

            return tg.gradients(build.repeat(2, body, x), [x, w])

        assert_near(run(program(Dynamic())), run(program(Unrolled())))

    def test_through_an_initial_value_are_refused(self):
        x = scalar(2.0)
        with pytest.raises(tg.GraphError, match="with respect to its initial values"):
            repeat(2, lambda i, a: (tg.gradients(a * 2.0, [x])[0],), x * 3.0)

    def test_through_an_outer_loop_s_initial_value_are_refused(self):
        x = scalar(2.0)

        def outer(i, a):
            return repeat(2, lambda j, b: (tg.gradients(a * b, [x])[0],), scalar(1.0))

        with pytest.raises(tg.GraphError, match="with respect to its initial values"):
            repeat(2, outer, x)

    def test_in_the_predicate_through_an_initial_value_are_refused(self):
        x = scalar(2.0)
        with pytest.raises(tg.GraphError, match="with respect to its initial values"):
            tg.while_loop(lambda a: tg.gradients(a * 2.0, [x])[0] < 3.0, lambda a: a, [x])

    def test_beside_an_initial_value_work(self, run):
        x = scalar(2.0)
        (y,) = repeat(2, lambda i, a: (a + tg.gradients(x * x, [x])[0],), x)
        assert run(y) == 10.0


@pytest.mark.rule(97)
@pytest.mark.parametrize("taken", [True, False])
class TestInBranches:
    def test_of_captures(self, run, taken):
        x = scalar(3.0)
        y = choose(taken, lambda: tg.gradients(x * x * x, [x])[0], lambda: x)
        assert_near(run(derivatives(y, x, 2)), [27.0, 18.0, 6.0] if taken else [3.0, 1.0, 0.0])

    def test_of_a_loop_outside(self, run, taken):
        x = scalar(1.5)
        (z,) = repeat(3, lambda i, a: (tg.sin(a) * x,), x)
        y = choose(taken, lambda: tg.gradients(z, [x])[0], lambda: z)
        c = x
        for _ in range(3):
            c = tg.sin(c) * x
        wanted = tg.gradients(c, [x])[0] if taken else c
        assert_near(run(derivatives(y, x, 2)), run(derivatives(wanted, x, 2)))

    def test_of_a_cond_outside(self, run, taken):
        x = unknown(np.array([0.5, 0.25]), [None])
        z = choose(True, lambda: tg.exp(tg.sin(x)), lambda: x)
        y = choose(taken, lambda: tg.gradients(z, [x])[0], lambda: tg.sin(x))
        wanted = tg.gradients(tg.exp(tg.sin(x)), [x])[0] if taken else tg.sin(x)
        assert_near(run(derivatives(y, x, 2)), run(derivatives(wanted, x, 2)))

    def test_of_a_cond_outside_that_took_its_other_branch(self, run, taken):
        x = unknown(np.array([0.5, 0.25]), [None])
        z = choose(False, lambda: tg.exp(tg.sin(x)), lambda: x * x * x)
        y = choose(taken, lambda: tg.gradients(z, [x])[0], lambda: tg.sin(x))
        wanted = tg.gradients(x * x * x, [x])[0] if taken else tg.sin(x)
        assert_near(run(derivatives(y, x, 2)), run(derivatives(wanted, x, 2)))

    def test_in_a_loop(self, run, taken):
        x, even = scalar(0.7), unknown(taken)

        def body(i, a):
            return (tg.cond(even, lambda: tg.gradients(tg.sin(a) * a, [a])[0], lambda: tg.sin(a)),)

        (y,) = repeat(2, body, x)
        c = x
        for _ in range(2):
            c = tg.gradients(tg.sin(c) * c, [c])[0] if taken else tg.sin(c)
        assert_near(run(derivatives(y, x, 2)), run(derivatives(c, x, 2)))

"""Gradients through cond, case and switch_case (rule 93)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, choose, scalar, unknown

BOTH = pytest.mark.parametrize("taken", [True, False])


@BOTH
class TestCaptures:
    @pytest.mark.rule(93)
    def test_of_one_branch_get_zero_from_the_other(self, run, taken):
        x, z = scalar(3.0), scalar(5.0)
        y = choose(taken, lambda: x * x, lambda: z * 2.0)
        assert run(tg.gradients(y, [x, z])) == ([6.0, 0.0] if taken else [0.0, 2.0])

    @pytest.mark.rule(93)
    @pytest.mark.parametrize("shape", [[2, 3], [None, 3], None])
    def test_of_unknown_shape_get_zeros_of_their_run_time_shape(self, run, taken, shape):
        x, z = unknown(np.ones((2, 3)), tg.Shape(shape)), scalar(5.0)
        y = choose(taken, lambda: tg.reduce_sum(x * x), lambda: z * 2.0)
        g = run(tg.gradients(y, [x])[0])
        assert g.tolist() == np.full((2, 3), 2.0 if taken else 0.0).tolist()

    def test_of_both_branches(self, run, taken):
        x = scalar(3.0)
        y = choose(taken, lambda: x * x, lambda: x * 7.0)
        assert run(tg.gradients(y, [x])[0]) == (6.0 if taken else 7.0)

    def test_of_none(self, taken):
        x = scalar(3.0)
        y = choose(taken, lambda: tg.constant(1.0), lambda: tg.constant(2.0))
        assert tg.gradients(y, [x]) == [None]

    def test_returned_as_they_are(self, run, taken):
        x, z = scalar(3.0), scalar(4.0)
        y = choose(taken, lambda: x, lambda: z)
        assert run(tg.gradients(y * y, [x, z])) == ([6.0, 0.0] if taken else [0.0, 8.0])

    def test_of_one_branch_that_is_not_taken_may_be_undefined_there(self, run, taken):
        x = scalar(4.0 if taken else 0.0)
        y = choose(taken, lambda: tg.sqrt(x), lambda: x * 2.0)
        assert run(tg.gradients(y, [x])[0]) == (0.25 if taken else 2.0)


@BOTH
class TestResults:
    def test_several_may_be_used_in_part(self, run, taken):
        x = scalar(3.0)
        a, b = choose(taken, lambda: (x * x, x), lambda: (x, x * x * x))
        assert run(tg.gradients(a, [x])[0]) == (6.0 if taken else 1.0)
        assert run(tg.gradients(b, [x])[0]) == (1.0 if taken else 27.0)
        assert run(tg.gradients([a, b], [x])[0]) == (7.0 if taken else 28.0)

    @pytest.mark.rule(95)
    def test_integers_beside_them_have_none(self, run, taken):
        x = scalar(3.0)
        _, b = choose(taken, lambda: (1, x * x), lambda: (2, x))
        assert run(tg.gradients(b, [x])[0]) == (6.0 if taken else 1.0)

    def test_a_value_from_inside_feeds_the_gradient(self, run, taken):
        x = scalar(0.5)
        y = choose(taken, lambda: tg.exp(tg.sin(x)), lambda: tg.tanh(x * x))
        wanted = np.exp(np.sin(0.5)) * np.cos(0.5) if taken else (1 - np.tanh(0.25) ** 2) * 2 * 0.5
        assert run(tg.gradients(y, [x])[0]) == pytest.approx(wanted)

    def test_a_value_of_unknown_shape_from_inside_feeds_it_too(self, run, taken):
        x = unknown(np.array([0.5, 1.0]), [None])
        y = choose(taken, lambda: tg.exp(tg.sin(x))[:1], lambda: tg.exp(x))
        wanted = [np.exp(np.sin(0.5)) * np.cos(0.5), 0.0] if taken else np.exp([0.5, 1.0])
        np.testing.assert_allclose(run(tg.gradients(y, [x])[0]), wanted)

    def test_the_predicate_may_depend_on_what_is_differentiated(self, run, taken):
        x = scalar(3.0 if taken else -3.0)
        y = tg.cond(x > 0.0, lambda: x * x, lambda: -x)
        assert run(tg.gradients(y, [x])[0]) == (6.0 if taken else -1.0)

    def test_gradients_of_gradients_keep_the_branch(self, run, taken):
        x = scalar(2.0)
        y = choose(taken, lambda: x**4.0, lambda: x * 3.0)
        (g,) = tg.gradients(y, [x])
        (h,) = tg.gradients(g, [x], unconnected_gradients="zero")
        assert_near(run([g, h]), [32.0, 48.0] if taken else [3.0, 0.0])


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3])
def test_switch_case_takes_the_gradient_of_its_branch(run, index):
    x, z = scalar(3.0), scalar(2.0)
    y = tg.switch_case(unknown(np.int32(index)), [lambda: x * x, lambda: x * z, lambda: z * z * z])
    wanted = [[6.0, 0.0], [2.0, 3.0], [0.0, 12.0]][index if 0 <= index < 3 else 2]
    assert run(tg.gradients(y, [x, z])) == wanted


@pytest.mark.parametrize("index", [0, 1, 2])
def test_switch_case_to_second_order(run, index):
    x = scalar(3.0)
    y = tg.switch_case(unknown(np.int32(index)), [lambda: x * x, lambda: x, lambda: tg.exp(x) * x])
    (h,) = tg.gradients(tg.gradients(y, [x])[0], [x], unconnected_gradients="zero")
    assert run(h) == pytest.approx([2.0, 0.0, np.exp(3.0) * 5.0][index])


@pytest.mark.parametrize("value", [1.0, 3.0, 5.0])
def test_case_takes_the_gradient_of_the_first_true(run, value):
    x = scalar(value)
    y = tg.case([(x < 2.0, lambda: x * x), (x < 4.0, lambda: x * 10.0)], default=lambda: x**3.0)
    assert run(tg.gradients(y, [x])[0]) == pytest.approx({1.0: 2.0, 3.0: 10.0, 5.0: 75.0}[value])


@pytest.mark.rule(9, 83)
@BOTH
def test_free_switch_and_merge_route_the_gradient(run, taken):
    x = scalar(3.0)
    off, on = tg.switch(x, unknown(taken))
    y, _ = tg.merge([off * 2.0, on * on])
    assert run(tg.gradients(y, [x])[0]) == (6.0 if taken else 2.0)


def test_a_hand_made_loop_is_refused():
    x = scalar(3.0)
    entered = tg.enter(x, "by hand")
    head, _ = tg.merge([entered, entered])
    _, body = tg.switch(head, tg.loop_cond(head < 10.0))
    back = tg.next_iteration(body * 2.0)
    head.op.update_input(1, back)
    y = tg.exit(tg.switch(head, head < 10.0)[0])
    with pytest.raises(tg.GraphError, match="while_loop"):
        tg.gradients(y, [x])
    assert tg.gradients(tg.stop_gradient(y), [x]) == [None]

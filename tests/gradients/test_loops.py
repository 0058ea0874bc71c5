"""Gradients through while_loop (rules 84 to 92, 95)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, repeat, scalar, unknown

X = np.array([[0.5, -1.0], [2.0, 0.25]])
W = np.array([[1.0, 0.5], [-0.25, 2.0]])


@pytest.mark.rule(83, 84, 85)
def test_a_loop_of_products_has_the_gradients_of_its_unrolled_form(run):
    x, w = unknown(X), unknown(W)
    _, y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a @ w), [0, x])
    g_w, g_x = tg.gradients(y, [w, x])
    u_w, u_x = tg.gradients(x @ w @ w @ w, [w, x])
    got = run([g_w, g_x])
    assert [g.tolist() for g in got] == [u.tolist() for u in run([u_w, u_x])]
    ones = np.ones((2, 2))
    by_hand = X.T @ ones @ (W @ W).T + (X @ W).T @ ones @ W.T + (X @ W @ W).T @ ones
    np.testing.assert_allclose(got[0], by_hand)


@pytest.mark.rule(84, 39)
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_the_trip_count_may_be_unknown(run, count):
    x, n = scalar(1.5), tg.placeholder("int32", [])
    _, y = tg.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * x), [0, x])
    (g,) = tg.gradients(y, [x])
    assert run(g, {n: count}) == pytest.approx((count + 1) * 1.5**count)


@pytest.mark.rule(84)
@pytest.mark.parametrize("window", [1, 2, 7, 32])
def test_the_window_of_the_loop_does_not_change_gradients(run, window):
    x = scalar(1.25)
    n = unknown(np.int32(9))
    _, y = tg.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tg.sin(a) * x), [0, x], parallel_iterations=window)
    (g,) = tg.gradients(y, [x])
    a, da = 1.25, 1.0
    for _ in range(9):
        a, da = np.sin(a) * 1.25, np.cos(a) * da * 1.25 + np.sin(a)
    assert run(g) == pytest.approx(da)


def test_the_condition_may_depend_on_what_is_differentiated(run):
    x = scalar(3.0)
    y = tg.while_loop(lambda a: a < 100.0, lambda a: a * x, [x])
    assert run(tg.gradients(y, [x])[0]) == pytest.approx(5 * 3.0**4)


@pytest.mark.rule(84)
def test_the_condition_is_not_evaluated_again(run):
    calls = []
    x = scalar(2.0)

    def cond(i, a):
        return tg.py_function(lambda v: calls.append(int(v)) or np.bool_(v < 3), [i], "bool")

    _, y = tg.while_loop(cond, lambda i, a: (i + 1, a * x), [0, x])
    assert run(tg.gradients(y, [x])[0]) == 32.0
    assert sorted(calls) == [0, 1, 2, 3]


def test_maximum_iterations_ends_the_backward_loop_too(run):
    x = scalar(2.0)
    y = tg.while_loop(lambda a: a < 1e9, lambda a: a * x, [x], maximum_iterations=unknown(np.int32(4)))
    assert run(tg.gradients(y, [x])[0]) == 5 * 2.0**4


class TestSeveralVariables:
    @pytest.mark.rule(91)
    def test_a_result_that_is_not_used_still_passes_gradients_on(self, run):
        x, y = scalar(2.0), scalar(3.0)
        a, _ = repeat(3, lambda i, a, b: (a * b, b + a), x, y)
        c, d = x, y
        for _ in range(3):
            c, d = c * d, d + c
        assert_near(run(tg.gradients(a, [x, y])), run(tg.gradients(c, [x, y])))

    @pytest.mark.rule(91)
    def test_a_result_that_can_not_matter_gives_zero(self, run):
        x, z = scalar(2.0), scalar(5.0)
        a, _ = repeat(3, lambda i, a, b: (a * 2.0, b * 3.0), x, z)
        assert run(tg.gradients(a, [x, z], unconnected_gradients="zero")) == [8.0, 0.0]

    @pytest.mark.rule(91)
    def test_no_used_result_gives_none(self):
        x = scalar(2.0)
        repeat(3, lambda i, a: (a * 2.0,), x)
        assert tg.gradients(scalar(1.0) * 2.0, [x]) == [None]

    @pytest.mark.rule(92)
    @pytest.mark.parametrize("count", [0, 1, 4])
    def test_a_new_value_need_not_depend_on_the_old_one(self, run, count):
        x, y = scalar(2.0), scalar(3.0)
        a, _ = repeat(count, lambda i, a, b: (b * b, b * y), x, y)
        wanted = [1.0, 0.0] if count == 0 else [0.0, 2 * count * 3.0 ** (2 * count - 1)]
        assert run(tg.gradients(a, [x, y], unconnected_gradients="zero")) == pytest.approx(wanted)

    @pytest.mark.rule(95)
    def test_integers_have_none(self, run):
        x, n = scalar(2.0), unknown(np.int32(5))
        k, a = repeat(3, lambda i, k, a: (k + n, a * x), n, x)
        assert tg.gradients(a, [n]) == [None]
        assert run([k, tg.gradients(a, [x])[0]]) == [20, 32.0]

    @pytest.mark.rule(95)
    def test_a_path_through_an_integer_is_cut_and_the_other_counts(self, run):
        x = scalar(2.5)
        k, a = repeat(2, lambda i, k, a: (k + tg.cast(a, "int32"), a * x + tg.cast(k, "float64")), 0, x)
        assert run(tg.gradients(a, [x])[0]) == pytest.approx(3 * 2.5**2)
        assert tg.gradients(tg.cast(k, "float64"), [x]) == [None]

    def test_they_may_swap(self, run):
        x, y = scalar(2.0), scalar(5.0)
        a, _ = repeat(3, lambda i, a, b: (b * 2.0, a * 3.0), x, y)
        assert run(tg.gradients(a, [x, y], unconnected_gradients="zero")) == [0.0, 12.0]

    def test_one_that_does_not_change_has_all_of_its_uses(self, run):
        x, w = scalar(2.0), scalar(3.0)
        a, v = repeat(4, lambda i, a, v: (a * v, v), x, w)
        assert run(tg.gradients([a, v], [x, w])) == pytest.approx([81.0, 2 * 4 * 27.0 + 1])

    def test_a_loop_may_give_back_what_it_captures(self, run):
        x, w = scalar(2.0), scalar(3.0)
        a, b = repeat(4, lambda i, a, b: (w, a), x, x)
        assert run(tg.gradients(a + b * b, [x, w], unconnected_gradients="zero")) == [0.0, 7.0]

    def test_the_same_tensor_may_enter_several_times(self, run):
        x = scalar(3.0)
        a, b = repeat(2, lambda i, a, b: (a * b, b), x, x)
        assert run(tg.gradients(a + b, [x])[0]) == 28.0

    def test_an_initial_value_and_a_result_may_both_be_asked_for(self, run):
        x = scalar(3.0)
        (a,) = repeat(2, lambda i, a: (a * a,), x)
        assert run(tg.gradients(a * a, [x, a])) == [8 * 3.0**7, 2 * 81.0]


class TestCaptures:
    @pytest.mark.rule(89)
    @pytest.mark.parametrize("shape", [[2, 2], [None, 2], [None, None], None])
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_of_unknown_shape_get_zeros_of_their_shape_or_the_sum(self, run, shape, count):
        x, w = unknown(X), unknown(W, tg.Shape(shape))

        def body(i, a):
            product = a @ w
            product.set_shape([2, 2])
            return (product,)

        (y,) = repeat(count, body, x)
        unrolled = x
        for _ in range(count):
            unrolled = unrolled @ w
        (wanted,) = tg.gradients(unrolled, [w], unconnected_gradients="zero")
        got, wanted = run([tg.gradients(y, [w])[0], wanted])
        assert got.shape == (2, 2)
        np.testing.assert_allclose(got, wanted)

    @pytest.mark.rule(89)
    @pytest.mark.parametrize("shape", [[3], [None], [], [1, 3]])
    def test_that_broadcast_get_the_sum_over_rows(self, run, shape):
        value = np.full([3 if d is None else d for d in shape], 2.0)
        x, b = unknown(np.ones((2, 3))), unknown(value, shape)
        y = tg.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * b), [0, x], [tg.Shape([]), tg.Shape([2, 3])])[1]
        got = run(tg.gradients(y, [b])[0])
        assert got.shape == value.shape
        np.testing.assert_allclose(got, np.full(value.shape, 2 * 2.0 * 6 / value.size))

    def test_used_as_two_operands(self, run):
        x, w = scalar(1.0), scalar(3.0)
        (y,) = repeat(2, lambda i, a: (a * w * w,), x)
        assert run(tg.gradients(y, [w])[0]) == 4 * 27.0

    def test_used_in_the_predicate_only_have_none(self):
        x, limit = scalar(1.0), scalar(10.0)
        y = tg.while_loop(lambda a: a < limit, lambda a: a * 2.0, [x])
        assert tg.gradients(y, [limit]) == [None]

    @pytest.mark.rule(85)
    def test_computed_outside_are_differentiated_once(self, run):
        x = scalar(0.5)
        s = tg.exp(x)
        (y,) = repeat(3, lambda i, a: (a * s,), scalar(1.0))
        assert run(tg.gradients(y, [x])[0]) == pytest.approx(3 * np.exp(1.5))


@pytest.mark.rule(96)
def test_without_back_prop_other_paths_still_count(run):
    x = scalar(3.0)
    y = tg.while_loop(lambda a: a < 100.0, lambda a: a * x, [x], back_prop=False)
    assert tg.gradients(y, [x]) == [None]
    assert run(tg.gradients(y + x, [x])[0]) == 1.0

"""Gradients through TensorArrays (rules 111 to 113)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, choose, derivatives, repeat, scalar, unknown

ROWS = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]])


def array(size=3, **options):
    return tg.TensorArray("float64", size=unknown(np.int32(size)), **options)


@pytest.mark.rule(113)
class TestDuality:
    def test_of_write_and_read(self, run):
        x, z = scalar(2.0), scalar(3.0)
        ta = array(2).write(0, x * x).write(1, z)
        assert_near(run(tg.gradients(ta.read(0) * 5.0, [x, z], unconnected_gradients="zero")), [20.0, 0.0])

    def test_of_stack_and_unstack(self, run):
        x = unknown(ROWS)
        y = array().unstack(x).stack()
        assert_near(run(tg.gradients(y * y, [x])), [2 * ROWS])

    def test_of_gather_and_scatter(self, run):
        x = unknown(ROWS)
        ta = array(5).scatter([4, 0, 2], x)
        y = ta.gather([2, 4])
        assert_near(run(tg.gradients(y * [[1.0], [10.0]], [x])), [[[10.0, 10.0], [0.0, 0.0], [1.0, 1.0]]])

    def test_of_concat_and_split(self, run):
        x = unknown(np.arange(6.0))
        ta = array(infer_shape=False).split(x, [1, 3, 2])
        assert_near(run(tg.gradients(ta.concat() ** 2.0, [x])), [2 * np.arange(6.0)])
        other = array(infer_shape=False).split(x, [1, 3, 2])
        assert_near(run(tg.gradients(other.read(1) ** 2.0, [x])), [[0.0, 2.0, 4.0, 6.0, 0.0, 0.0]])

    def test_of_concat_and_write(self, run):
        x, z = unknown([1.0, 2.0]), unknown([[3.0]])
        ta = array(2, infer_shape=False).write(0, x).write(1, tg.reshape(z, [1]) * 2.0)
        assert_near(run(tg.gradients(ta.concat() ** 2.0, [x, z])), [[2.0, 4.0], [[24.0]]])

    @pytest.mark.parametrize("shape", [[3, 2], [None, 2], [None, None], None], ids=str)
    def test_elements_never_read_have_zero(self, run, shape):
        x = unknown(ROWS, tg.Shape(shape))
        assert_near(run(tg.gradients(array().unstack(x).read(1), [x])), [[[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]])

    def test_rows_beyond_those_written_are_left_out(self, run):
        x = unknown(ROWS)
        y = array(5, element_shape=[2]).unstack(x).stack()
        assert_near(run(tg.gradients(y * y, [x])), [2 * ROWS])


@pytest.mark.rule(107, 111)
def test_an_element_read_twice_has_the_sum(run):
    x = scalar(2.0)
    ta = array(1, clear_after_read=False).write(0, x)
    assert_near(run(derivatives(ta.read(0) * ta.read(0) * ta.read(0), x, 3)), [8.0, 12.0, 12.0, 6.0])


@pytest.mark.rule(111)
def test_repeated_reads_in_a_loop_are_summed(run):
    x = unknown(ROWS)
    ta = array(clear_after_read=False).unstack(x)
    (y,) = repeat(4, lambda i, a: (a * ta.read(i % 2),), unknown(np.ones(2)))
    a, b, _ = ROWS
    assert_near(run(tg.gradients(y, [x])), [[2 * a * b * b, 2 * a * a * b, [0.0, 0.0]]])


@pytest.mark.rule(111)
def test_two_gradients_in_one_run_do_not_share_an_array(run):
    x = unknown(ROWS)
    ta = array(clear_after_read=False).unstack(x)
    y = ta.stack()
    first, second = tg.gradients(y, [x])[0], tg.gradients(y * 3.0, [x])[0]
    assert_near(run([first, second]), [np.ones((3, 2)), np.full((3, 2), 3.0)])
    assert_near(run([first, second]), [np.ones((3, 2)), np.full((3, 2), 3.0)])


class TestLoops:
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_that_read_what_was_unstacked(self, run, count):
        x, start = unknown(ROWS), unknown(np.array([1.0, 1.0]))
        ta = array().unstack(x)
        (y,) = repeat(count, lambda i, a: (a * ta.read(i),), start)
        wanted = np.zeros((3, 2))
        for i in range(count):
            wanted[i] = np.prod(ROWS[:count], axis=0) / ROWS[i]
        assert_near(run(tg.gradients(y, [x, start])), [wanted, np.prod(ROWS[:count], axis=0)])

    @pytest.mark.parametrize("count", [1, 3])
    def test_that_write_what_is_stacked(self, run, count):
        x = scalar(2.0)
        _, ta = repeat(count, lambda i, a, ta: (a * x, ta.write(i, a)), x, array(count))
        weights = np.arange(1.0, count + 1)
        (g,) = tg.gradients(ta.stack() * weights, [x])
        assert run(g) == pytest.approx(sum(w * (i + 1) * 2.0**i for i, w in enumerate(weights)))

    def test_that_read_and_write_one_array(self, run):
        x = scalar(2.0)
        ta = array(5, clear_after_read=False).write(0, x)
        (ta,) = repeat(4, lambda i, ta: (ta.write(i + 1, ta.read(i) * x),), ta)
        assert_near(run(tg.gradients(ta.read(4), [x])), [5 * 16.0])

    def test_that_read_an_element_again_and_again(self, run):
        x = scalar(2.0)
        ta = array(5, clear_after_read=False).write(0, x)
        (ta,) = repeat(4, lambda i, ta: (ta.write(i + 1, ta.read(i) * ta.read(0)),), ta)
        assert_near(run(derivatives(ta.read(4), x, 2)), [32.0, 80.0, 160.0])

    def test_that_make_an_array_in_each_iteration(self, run):
        x = scalar(1.5)

        def body(i, a):
            ta = array(2, clear_after_read=False).write(0, a).write(1, x)
            return (ta.read(0) * ta.read(1) + tg.reduce_sum(ta.stack()),)

        (y,) = repeat(3, body, x)
        c = x
        for _ in range(3):
            c = c * x + c + x
        assert_near(run(derivatives(y, x, 3)), run(derivatives(c, x, 3)))

    def test_whose_result_is_not_used_but_the_array_is(self, run):
        x = scalar(2.0)
        _, ta = repeat(3, lambda i, a, ta: (a * 100.0, ta.write(i, x * a)), scalar(1.0), array())
        assert_near(run(tg.gradients(ta.read(1), [x])), [100.0])

    def test_inside_loops(self, run):
        x = unknown(ROWS)
        ta = array(clear_after_read=False).unstack(x)

        def outer(i, a):
            return repeat(3, lambda j, b: (b + ta.read(j) * ta.read(i),), a)

        (y,) = repeat(3, outer, unknown(np.zeros(2)))
        assert_near(run(tg.gradients(y, [x])), [np.broadcast_to(2 * ROWS.sum(0), (3, 2))])


@pytest.mark.parametrize("taken", [True, False])
class TestBranches:
    def test_that_read(self, run, taken):
        x = unknown(ROWS)
        ta = array().unstack(x)
        y = choose(taken, lambda: ta.read(0) * 2.0, lambda: ta.read(2) * 3.0)
        wanted = np.zeros((3, 2))
        wanted[0 if taken else 2] = 2.0 if taken else 3.0
        assert_near(run(tg.gradients(y, [x])), [wanted])

    def test_that_write(self, run, taken):
        x, z, ta = scalar(2.0), scalar(3.0), array(1)
        ta = choose(taken, lambda: ta.write(0, x * x), lambda: ta.write(0, z))
        assert_near(run(tg.gradients(ta.read(0), [x, z])), [4.0, 0.0] if taken else [0.0, 1.0])

    def test_in_a_loop(self, run, taken):
        x = unknown(ROWS)
        ta = array().unstack(x)
        even = unknown(taken)

        def body(i, a):
            return (tg.cond(tg.logical_and(even, i % 2 < 1), lambda: a + ta.read(i), lambda: a * 2.0),)

        (y,) = repeat(3, body, unknown(np.zeros(2)))
        assert_near(run(tg.gradients(y, [x])), [[[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]] if taken else np.zeros((3, 2))])


class TestFunctional:
    def test_scan_with_respect_to_elements_and_the_initial_value(self, run):
        x, start = unknown(np.array([2.0, 3.0, 4.0])), scalar(5.0)
        y = tg.scan(lambda a, e: a * e, x, start)
        g_x, g_start = tg.gradients(y, [x, start])
        assert_near(run([g_x, g_start]), [[5 * (1 + 3 + 12.0), 5 * (2 + 8.0), 5 * 6.0], 2 + 6 + 24.0])

    def test_map_fn(self, run):
        x, w = unknown(ROWS), scalar(2.0)
        y = tg.map_fn(lambda row: tg.reduce_sum(row * row) * w, x)
        assert_near(run(tg.gradients(y, [x, w])), [4 * ROWS, (ROWS**2).sum()])

    def test_foldl_and_foldr(self, run):
        x = unknown(np.array([2.0, 3.0, 4.0]))
        left, right = tg.foldl(lambda a, e: a * 2.0 + e, x), tg.foldr(lambda a, e: a * 2.0 + e, x)
        assert_near(run(tg.gradients(left, [x])), [[4.0, 2.0, 1.0]])
        assert_near(run(tg.gradients(right, [x])), [[1.0, 2.0, 4.0]])

    def test_scan_to_third_order(self, run):
        x = unknown(np.array([0.5, 0.25]))
        y = tg.scan(lambda a, e: tg.sin(a) * e, x, scalar(1.0))
        first = tg.sin(tg.constant(1.0, "float64")) * x[0]
        plain = first + tg.sin(first) * x[1]
        assert_near(run(derivatives(y, x, 3)), run(derivatives(plain, x, 3)))


class TestAsTarget:
    def test_the_gradient_is_an_array_of_the_elements_gradients(self, run):
        ta = array(clear_after_read=False).unstack(unknown(ROWS))
        y = ta.read(0) * 2.0 + ta.read(2) * ta.read(2)
        (g,) = tg.gradients(y, [ta])
        assert_near(run(g.stack()), [[2.0, 2.0], [0.0, 0.0], [1.0, 8.0]])

    def test_in_a_structure(self, run):
        ta, x = array(1).write(0, scalar(3.0)), scalar(2.0)
        g = tg.gradients(ta.read(0) * x, {"array": ta, "x": x})
        assert_near(run([g["array"].read(0), g["x"]]), [2.0, 3.0])

    def test_that_is_not_used(self, run):
        ta, x = array(2, element_shape=[]), scalar(2.0)
        assert tg.gradients(x, [ta]) == [None]
        (g,) = tg.gradients(x, [ta], unconnected_gradients="zero")
        assert_near(run(g.stack()), [0.0, 0.0])


@pytest.mark.rule(112)
def test_a_gradient_array_of_ones_own_sums_writes(run):
    x = scalar(2.0)
    ta = array(2).write(0, x).write(1, x)
    g = ta.grad("mine").write(0, x).write(0, x * 3.0)
    assert_near(run(tg.gradients(g.read(0), [x])), [4.0])

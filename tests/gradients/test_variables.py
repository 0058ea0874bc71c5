"""Gradients with respect to variables, dense and as IndexedSlices (rule 90)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, choose, repeat, scalar, unknown

TABLE = np.arange(8.0).reshape(4, 2)


@pytest.fixture
def ready(session):
    """Return a function that initializes the variables and runs."""

    def run(*args):
        session.run(tg.global_variables_initializer())
        return session.run(*args)

    return run


class TestVariables:
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_captured_by_a_loop(self, ready, count):
        w, x = tg.Variable(np.float64(2.0)), scalar(3.0)
        (y,) = repeat(count, lambda i, a: (a * w,), x)
        assert_near(ready(tg.gradients(y, [w])), [count * 3.0 * 2.0 ** max(count - 1, 0)])

    @pytest.mark.parametrize("count", [0, 3])
    def test_read_inside_a_loop(self, ready, count):
        w, x = tg.Variable(np.float64(2.0)), scalar(3.0)
        (y,) = repeat(count, lambda i, a: (a * w.read_value(),), x)
        assert_near(ready(tg.gradients(y, [w])), [count * 3.0 * 2.0 ** max(count - 1, 0)])

    @pytest.mark.parametrize("taken", [True, False])
    def test_read_inside_a_branch(self, ready, taken):
        w = tg.Variable(np.array([2.0, 3.0]))
        y = choose(taken, lambda: w.read_value() ** 2.0, lambda: tg.constant(np.zeros(2)))
        assert_near(ready(tg.gradients(y, [w])), [[4.0, 6.0] if taken else [0.0, 0.0]])

    @pytest.mark.parametrize("taken", [True, False])
    def test_of_unknown_shape_read_inside_a_branch(self, ready, taken):
        w = tg.Variable(np.array([2.0, 3.0]), shape=[None])
        y = choose(taken, lambda: tg.reduce_sum(w.read_value() ** 2.0), lambda: scalar(0.0))
        assert_near(ready(tg.gradients(y, [w])), [[4.0, 6.0] if taken else [0.0, 0.0]])

    def test_all_reads_count(self, ready):
        w = tg.Variable(np.float64(2.0))
        (y,) = repeat(2, lambda i, a: (a * w.read_value() * w,), scalar(1.0))
        assert_near(ready(tg.gradients(y * w, [w])), [5 * 16.0])

    def test_to_second_order_in_nested_loops(self, ready):
        w = tg.Variable(np.float64(2.0))
        (y,) = repeat(2, lambda i, a: repeat(2, lambda j, b: (b * w.read_value(),), a), scalar(1.0))
        (g,) = tg.gradients(y, [w])
        assert_near(ready([g, *tg.gradients(g, [w])]), [4 * 8.0, 12 * 4.0])


class TestSlices:
    """What `gather` uses of a table; all must be equal to the dense gradient, `rows` taken in order."""

    def check(self, ready, make, rows, sparse=True):
        table = tg.Variable(TABLE)
        (g,) = tg.gradients(make(table), [table])
        assert isinstance(g, tg.IndexedSlices) is sparse
        wanted = np.zeros_like(TABLE)
        np.add.at(wanted, rows, 2 * TABLE[rows])
        np.testing.assert_allclose(ready(tg.convert_to_tensor(g)), wanted)
        return g

    def test_outside_control_flow(self, ready):
        self.check(ready, lambda t: tg.gather(t, unknown([1, 3, 1])) ** 2.0, [1, 3, 1])

    @pytest.mark.rule(90)
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_of_a_captured_table_in_a_loop(self, ready, count):
        def make(table):
            return repeat(count, lambda i, a: (a + tg.reduce_sum(tg.gather(table, [i, 3]) ** 2.0),), scalar(0.0))[0]

        self.check(ready, make, [k for i in range(count) for k in (i, 3)])

    @pytest.mark.rule(90)
    def test_have_the_rows_that_were_used(self, ready):
        table = tg.Variable(TABLE)
        (y,) = repeat(3, lambda i, a: (a + tg.reduce_sum(tg.gather(table, [i])),), scalar(0.0))
        (g,) = tg.gradients(y, [table])
        slices = ready(g)
        assert sorted(slices.indices.tolist()) == [0, 1, 2]
        assert slices.values.shape == (3, 2)

    @pytest.mark.rule(90)
    @pytest.mark.parametrize("taken", [True, False])
    def test_in_one_branch(self, ready, taken):
        def make(table):
            return choose(taken, lambda: tg.reduce_sum(tg.gather(table, [2, 2]) ** 2.0), lambda: scalar(0.0))

        self.check(ready, make, [2, 2] if taken else [])

    @pytest.mark.parametrize("taken", [True, False])
    def test_in_both_branches(self, ready, taken):
        def rows(table, indices):
            return tg.reduce_sum(tg.gather(table, indices) ** 2.0)

        self.check(
            ready,
            lambda t: choose(taken, lambda: rows(t, [2]), lambda: rows(t, tg.constant([0, 1], "int64"))),
            [2] if taken else [0, 1],
        )

    @pytest.mark.parametrize("taken", [True, False])
    def test_in_one_branch_of_a_table_of_unknown_shape(self, ready, taken):
        table = unknown(TABLE, [None, None])
        y = choose(taken, lambda: tg.reduce_sum(tg.gather(table, [2]) ** 2.0), lambda: scalar(0.0))
        wanted = np.zeros_like(TABLE)
        wanted[2] = 2 * TABLE[2] * taken
        np.testing.assert_allclose(ready(tg.convert_to_tensor(tg.gradients(y, [table])[0])), wanted)

    @pytest.mark.parametrize("taken", [True, False])
    def test_are_dense_where_the_other_branch_is(self, ready, taken):
        table = tg.Variable(TABLE)
        y = choose(taken, lambda: tg.reduce_sum(tg.gather(table, [2]) ** 2.0), lambda: tg.reduce_sum(table * table))
        (g,) = tg.gradients(y, [table])
        wanted = 2 * TABLE * ([[0], [0], [1], [0]] if taken else 1)
        np.testing.assert_allclose(ready(g), wanted)

    @pytest.mark.rule(90)
    def test_in_a_branch_in_nested_loops(self, ready):
        def make(table):
            def inner(i, j, b):
                return (tg.cond(i < j, lambda: b + tg.reduce_sum(tg.gather(table, [i]) ** 2.0), lambda: b),)

            return repeat(3, lambda i, a: repeat(3, lambda j, b: inner(i, j, b), a), scalar(0.0))[0]

        self.check(ready, make, [0, 0, 1])

    def test_are_added_to_slices_from_elsewhere(self, ready):
        def make(table):
            (a,) = repeat(2, lambda i, a: (a + tg.reduce_sum(tg.gather(table, [i]) ** 2.0),), scalar(0.0))
            return a + tg.reduce_sum(tg.gather(table, [1]) ** 2.0)

        self.check(ready, make, [0, 1, 1])

    def test_are_made_dense_to_add_them_to_a_dense_one(self, ready):
        table = tg.Variable(TABLE)
        (a,) = repeat(2, lambda i, a: (a + tg.reduce_sum(tg.gather(table, [i])),), scalar(0.0))
        (g,) = tg.gradients(a + tg.reduce_sum(table), [table])
        assert_near(ready([g]), [[[2.0, 2.0], [2.0, 2.0], [1.0, 1.0], [1.0, 1.0]]])

    def test_mixed_in_one_body(self, ready):
        table = tg.Variable(TABLE)
        (a,) = repeat(2, lambda i, a: (a + tg.reduce_sum(tg.gather(table, [i]) * table[3]),), scalar(0.0))
        (g,) = tg.gradients(a, [table])
        assert_near(ready([g]), [[TABLE[3], TABLE[3], [0.0, 0.0], TABLE[0] + TABLE[1]]])

    def test_pass_through_a_computed_table(self, ready):
        table = tg.Variable(TABLE)
        doubled = table * 2.0
        (a,) = repeat(2, lambda i, a: (a + tg.reduce_sum(tg.gather(doubled, [i])),), scalar(0.0))
        assert_near(ready(tg.gradients(a, [table])), [[[2.0, 2.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]])

    def test_can_be_differentiated_again(self, ready):
        table = tg.Variable(TABLE)
        (a,) = repeat(3, lambda i, a: (a + tg.reduce_sum(tg.gather(table, [i % 2]) ** 3.0),), scalar(0.0))
        (g,) = tg.gradients(a, [table])
        (h,) = tg.gradients(g, [table])
        wanted = 6 * TABLE * [[2], [1], [0], [0]]
        np.testing.assert_allclose(ready(tg.convert_to_tensor(h)), wanted)

    def test_of_a_table_that_is_a_loop_variable_are_dense(self, ready):
        table = unknown(TABLE)
        a, _ = repeat(2, lambda i, a, t: (a + tg.reduce_sum(tg.gather(t, [i])), t * 2.0), scalar(0.0), table)
        assert_near(ready(tg.gradients(a, [table])), [[[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]])

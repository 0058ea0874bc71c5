"""What forward loops and branches save for gradients, and how large gradients are."""

import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.gradients.building import Dynamic, assert_near, choose, derivatives, repeat, scalar, unknown
from tests.gradients.nested_programs import PROGRAMS
from tests.support.compiling import lowered


def compiled(*fetches):
    """Return the operations of the lowered program that computes the fetches."""
    return lowered(Program(fetches[0].graph, [], list(fetches))).graph.get_operations()


def types(*fetches):
    return Counter(op.type for op in compiled(*fetches))


def saved(*fetches):
    """Return the types of the operations whose results are saved, sorted."""
    return sorted(op.inputs[0].op.type for op in compiled(*fetches) if op.type == "SeriesPush")


class TestWithoutGradients:
    def test_nothing_is_saved(self):
        x = scalar(2.0)
        (y,) = repeat(3, lambda i, a: (tg.sin(a) * x,), x)
        before = types(y)
        (g,) = tg.gradients(y, [x])
        assert types(y) == before
        assert not {"SeriesPush", "TripCount"} & set(types(y))
        assert {"SeriesPush", "TripCount"} <= set(types(g))

    def test_compiled_steps_stay_valid(self, session):
        x = scalar(2.0)
        (y,) = repeat(3, lambda i, a: (choose(True, lambda: tg.sin(a) * x, lambda: a),), x)
        step = session.make_step(y)
        value = step()
        (g,) = tg.gradients(y, [x])
        (h,) = tg.gradients(g, [x])
        assert step() == value
        both = session.run([y, g])
        assert both[0] == value
        assert session.run([y, g, h])[1] == both[1]
        assert step() == value


@pytest.mark.rule(85, 94)
class TestLoops:
    def test_save_what_is_needed_once(self):
        x, w = scalar(2.0), scalar(3.0)
        (y,) = repeat(3, lambda i, a: (tg.sin(a) * w,), x)
        (g_x, g_w) = tg.gradients(y, [x, w])
        assert saved(g_x) == ["Switch"]  # the loop variable
        assert saved(g_x, g_w) == ["Sin", "Switch"]
        (again,) = tg.gradients(y * 2.0, [x])
        assert saved(g_x, g_w, again) == ["Sin", "Switch"]

    def test_do_not_save_invariants_constants_and_counters(self):
        x, w = unknown(np.ones((2, 2))), unknown(np.ones((2, 2)))
        loop = tg.while_loop(
            lambda i, k, a: i < 5, lambda i, k, a: (i + 1, k - 3, (a @ w) * 2.0 * tg.cast(i + k, "float64")), [0, 7, x]
        )
        assert saved(tg.gradients(loop[2], [x])[0]) == []

    def test_recompute_counters_rightly(self, run):
        x = scalar(1.5)
        start = unknown(np.int32(7))
        _, _, a = tg.while_loop(
            lambda i, k, a: i < 3, lambda i, k, a: (i + 1, k - 3, a * tg.cast(i + k, "float64")), [1, start, x]
        )
        assert_near(run(tg.gradients(a, [x])), [8.0 * 6.0])

    @pytest.mark.parametrize(
        "body", [lambda a: a - tg.reduce_sum(a), lambda a: tg.reverse(a, [0]) * 2.0 + tg.reduce_mean(a)]
    )
    def test_save_shapes_where_shapes_are_enough(self, run, body):
        x = unknown(np.array([1.0, 2.0, 4.0]), [None])
        (y,) = repeat(2, lambda i, a: (body(a),), x)
        (g,) = tg.gradients(y, [x], grad_ys=[np.array([1.0, 2.0, 3.0])])
        assert set(saved(g)) <= {"Shape", "Size"}
        (wanted,) = tg.gradients(body(body(x)), [x], grad_ys=[np.array([1.0, 2.0, 3.0])])
        assert_near(run([g]), run([wanted]))

    def test_save_nothing_where_the_shape_is_known(self):
        x = unknown(np.array([1.0, 2.0, 4.0]))
        (y,) = repeat(2, lambda i, a: (a - tg.reduce_sum(a),), x)
        assert saved(tg.gradients(y, [x])[0]) == []

    @pytest.mark.rule(89)
    def test_do_not_save_a_capture_for_its_shape(self):
        x, w = unknown(np.ones(3), [None]), unknown(np.ones(3), [None])
        (y,) = repeat(2, lambda i, a: (a + w,), x)
        assert set(saved(tg.gradients(y, [w])[0])) <= {"Shape"}


class TestBranches:
    def test_save_their_values_in_a_loop_only_if_they_run(self, run):
        x = scalar(0.5)
        (y,) = repeat(4, lambda i, a: (tg.cond(i < 1, lambda: tg.exp(tg.sin(a)), lambda: a * x),), x)
        (g,) = tg.gradients(y, [x])
        assert "Exp" in saved(g)
        a, da = 0.5, 1.0
        for i in range(4):
            a, da = (np.exp(np.sin(a)), np.exp(np.sin(a)) * np.cos(a) * da) if i < 1 else (a * 0.5, da * 0.5 + a)
        assert_near(run([g]), [da])

    def test_outside_loops_need_no_series(self):
        x = scalar(0.5)
        y = choose(True, lambda: tg.exp(tg.sin(x)), lambda: x)
        assert saved(tg.gradients(y, [x])[0]) == []


class TestSize:
    @pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
    def test_each_order_is_a_few_times_the_one_before(self, graph, program):
        x = scalar(0.7)
        y = tg.reduce_sum(program(Dynamic(), x))
        sizes = [len(compiled(y))]
        for _ in range(3):
            y = tg.reduce_sum(tg.gradients(y, [x])[0])
            sizes.append(len(compiled(y)))
        assert all(after <= 5 * before for before, after in pairwise(sizes)), sizes

    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_grows_linearly_with_the_length_of_a_chain(self, order):
        def size(length):
            with tg.Graph().as_default() as graph:
                x = scalar(0.5)
                a = x
                for _ in range(length):
                    a = tg.cond(a < 2.0, lambda a=a: tg.sin(a) * x, lambda a=a: a)
                    (a,) = repeat(2, lambda i, b: (tg.sin(b) * x,), a)
                derivatives(a, x, order)
                return len(graph.get_operations())

        two, four, six = size(2), size(4), size(6)
        assert six - four <= 1.5 * (four - two)

    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_grows_linearly_with_depth(self, order):
        def size(depth):
            def nested(depth, a):
                if depth == 0:
                    return (tg.sin(a) * x,)
                return repeat(2, lambda i, b: nested(depth - 1, b), a)

            with tg.Graph().as_default():
                x = scalar(0.5)
                return len(compiled(*derivatives(nested(depth, x)[0], x, order)))

        one, two, three, four = (size(d) for d in range(1, 5))
        assert four - three <= 2 * (two - one), (one, two, three, four)


@pytest.mark.rule(113)
def test_the_gradient_of_reading_rows_takes_memory_linear_in_their_number(run):
    x = unknown(np.ones((200, 1000)))
    ta = tg.TensorArray("float64", size=200).unstack(x)
    (y,) = repeat(200, lambda i, a: (a + ta.read(i),), unknown(np.zeros(1000)))
    (g,) = tg.gradients(y, [x])
    run(g)
    tracemalloc.start()
    try:
        run(g)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * 200 * 1000 * 8


class TestShapes:
    """Of what broadcasting may have changed, the shape is saved, once for all that share it."""

    def check(self, run, body, counts):
        x = unknown(np.array([0.5, 2.0, 0.25]), [None])
        y = tg.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, body(a)), [0, x])[1]
        (g,) = tg.gradients(y, [x])
        assert Counter(saved(g))["Shape"] == counts
        assert_near(run([g]), run(tg.gradients(body(body(x)), [x])))

    def test_elementwise_operations_on_one_tensor_need_none(self, run):
        self.check(run, lambda a: tg.sin(a) * tg.exp(a) + a * 2.0, 0)

    def test_what_can_not_be_broadcast_needs_none(self, run):
        row = unknown(np.array([1.0, 2.0, 3.0]))
        self.check(run, lambda a: a * row, 1)

    def test_those_of_one_source_share_one(self, run):
        other = unknown(np.array([1.0, 2.0, 3.0]), [None])
        self.check(run, lambda a: tg.sin(a) * other + tg.exp(a), 2)

    def test_a_fed_tensor_has_the_shape_it_is_fed_with(self, run):
        x = tg.placeholder("float64", [None])
        y, z = tg.exp(x), unknown(np.array([2.0, 3.0, 4.0]), [None])
        (g,) = tg.gradients(y * tg.sin(y) * z, [y])
        fed = np.array([0.5])
        np.testing.assert_allclose(run(g, {y: fed}), [9 * (np.sin(0.5) + 0.5 * np.cos(0.5))])

"""What `gradients` can be given: several ys, their cotangents, stops, structures (rules 95, 99, 100)."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, choose, repeat, scalar, unknown


class TestYs:
    @pytest.mark.rule(100)
    def test_several_add_up(self, run):
        x = scalar(3.0)
        assert_near(run(tg.gradients([x * x, x * 5.0, x], [x])), [12.0])

    def test_of_any_shape_are_summed(self, run):
        x = unknown(np.array([1.0, 2.0]))
        assert_near(run(tg.gradients({"a": x * x, "b": (tg.reduce_sum(x),)}, [x])), [[3.0, 5.0]])

    def test_may_be_among_the_xs(self, run):
        x = scalar(3.0)
        y = x * x
        assert_near(run(tg.gradients(y, [y, x])), [1.0, 6.0])

    def test_may_be_slices(self, run):
        x = unknown(np.array([1.0, 2.0]))
        (g,) = tg.gradients(tg.gather(x, [1]) ** 3.0, [x])
        assert isinstance(g, tg.IndexedSlices)
        (h,) = tg.gradients(g, [x])
        assert_near(run([tg.convert_to_tensor(h)]), [[0.0, 12.0]])

    def test_must_be_differentiable(self):
        with pytest.raises(tg.DtypeError, match="cast"):
            tg.gradients(tg.constant(3), [scalar(1.0)])


class TestCotangents:
    @pytest.mark.rule(100)
    def test_weigh_the_ys(self, run):
        x = unknown(np.array([1.0, 2.0]))
        found = tg.gradients([x * x, x], [x], grad_ys=[np.array([10.0, 1.0]), None])
        assert_near(run(found), [[21.0, 5.0]])

    def test_follow_the_structure_of_ys(self, run):
        x = scalar(3.0)
        ys = {"a": x * x, "b": [x]}
        assert_near(run(tg.gradients(ys, [x], grad_ys={"a": 2.0, "b": [7.0]})), [19.0])

    def test_enter_a_loop(self, run):
        x = unknown(np.array([1.0, 2.0]))
        a, b = repeat(2, lambda i, a, b: (a * 2.0, b * a), x, x)
        weights = unknown(np.array([1.0, 10.0]))
        ones = unknown(np.ones(2))
        assert_near(
            run(tg.gradients([a, b], [x], grad_ys=[weights, ones])),
            [4 * np.array([1.0, 10.0]) + 6 * np.array([1.0, 4.0])],
        )

    def test_are_differentiable(self, run):
        x, c = scalar(3.0), scalar(5.0)
        (g,) = tg.gradients(x * x, [x], grad_ys=[c])
        assert_near(run(tg.gradients(g, [c])), [6.0])

    def test_must_fit(self):
        x = unknown(np.array([1.0, 2.0]))
        with pytest.raises(tg.ShapeError, match="grad_ys"):
            tg.gradients(x * x, [x], grad_ys=[np.ones(3)])
        with pytest.raises(tg.GraphError, match="one entry for each y"):
            tg.gradients([x, x], [x], grad_ys=[np.ones(2)])


class TestXs:
    def test_keep_their_structure(self, run):
        x, z = scalar(3.0), scalar(4.0)
        found = tg.gradients(x * z, {"x": x, "more": (z, [x])})
        assert run(found) == {"x": 4.0, "more": (3.0, [4.0])}

    def test_may_be_a_single_tensor(self, run):
        x = scalar(3.0)
        assert_near(run(tg.gradients(x * x, x)), [6.0])

    def test_may_depend_on_each_other(self, run):
        x = scalar(3.0)
        z = x * x
        assert_near(run(tg.gradients(z * z, [x, z])), [4 * 27.0, 18.0])
        assert_near(run(tg.gradients(z * z, [z, x])), [18.0, 4 * 27.0])

    def test_may_be_results_of_control_flow(self, run):
        x = scalar(3.0)
        (a,) = repeat(2, lambda i, a: (a * x,), x)
        b = choose(True, lambda: a * a, lambda: a)
        assert_near(run(tg.gradients(b * 2.0, [x, a, b])), [2 * 6 * 3.0**5, 4 * 27.0, 2.0])

    def test_must_be_something_to_differentiate_by(self):
        x = scalar(3.0)
        with pytest.raises(tg.GraphError, match="with respect to"):
            tg.gradients(x, [3.0])

    def test_inside_another_region_are_refused(self):
        kept = []
        (y,) = repeat(2, lambda i, a: (kept.append(a) or a * 2.0,), scalar(1.0))
        with pytest.raises(tg.GraphError, match="outside the loop body"):
            tg.gradients(y, kept)


class TestUnconnected:
    @pytest.mark.rule(100)
    def test_give_none_or_zeros(self, run):
        x, z = scalar(3.0), unknown(np.ones((2, 3)), [None, 3])
        assert tg.gradients(x, [z]) == [None]
        assert tg.gradients(x, [z], unconnected_gradients="none") == [None]
        assert_near(run(tg.gradients(x, [z], unconnected_gradients="zero")), [np.zeros((2, 3))])

    def test_no_other_choice(self):
        x = scalar(3.0)
        with pytest.raises(tg.GraphError, match="'none' or 'zero'"):
            tg.gradients(x, [x], unconnected_gradients="maybe")

    @pytest.mark.rule(95)
    def test_integers_are(self):
        n = unknown(np.int32(3))
        assert tg.gradients(tg.cast(n, "float64") * 2.0, [n]) == [None]


class TestStops:
    @pytest.mark.rule(100)
    def test_count_as_constants(self, run):
        x = scalar(3.0)
        z = x * x
        assert_near(run(tg.gradients(z * x, [x], stop_gradients=[z])), [9.0])

    def test_may_be_the_xs_themselves(self, run):
        x = scalar(3.0)
        z = x * 2.0
        assert_near(run(tg.gradients(x + z, [x, z], stop_gradients=[x, z])), [1.0, 1.0])
        assert_near(run(tg.gradients(x + z, [x, z])), [3.0, 1.0])

    def test_at_a_loop_variable_s_result(self, run):
        x = scalar(3.0)
        a, b = repeat(2, lambda i, a, b: (a * x, b + a), x, x)
        assert_near(run(tg.gradients(a * b, [x], stop_gradients=[b])), [27.0 * (3 + 3 + 9)])

    def test_at_an_initial_value(self, run):
        x = scalar(3.0)
        start = x * 1.0
        (a,) = repeat(2, lambda i, a: (a * x,), start)
        assert_near(run(tg.gradients(a, [x], stop_gradients=[start])), [18.0])

    def test_at_a_capture(self, run):
        x = scalar(3.0)
        z = x * 1.0
        y = choose(True, lambda: x * z, lambda: z)
        assert_near(run(tg.gradients(y, [x], stop_gradients=[z])), [3.0])

    @pytest.mark.rule(99)
    def test_inside_a_loop_give_zero_outside_none(self, run):
        x = scalar(3.0)
        (a,) = repeat(2, lambda i, a: (tg.stop_gradient(a) * 2.0,), x)
        assert_near(run(tg.gradients(a, [x], unconnected_gradients="zero")), [0.0])
        (b,) = repeat(2, lambda i, b: (b * 2.0,), tg.stop_gradient(x))
        assert tg.gradients(b, [x]) == [None]
        (c,) = repeat(2, lambda i, c: (c * 2.0,), x)
        assert tg.gradients(tg.stop_gradient(c), [x]) == [None]

    @pytest.mark.rule(99)
    def test_inside_a_loop_leave_other_paths(self, run):
        x = scalar(3.0)
        (a,) = repeat(2, lambda i, a: (tg.stop_gradient(a) * x,), x)
        assert_near(run(tg.gradients(a, [x])), [9.0])

    @pytest.mark.rule(99)
    def test_no_operation_is_built_behind_them(self, graph):
        x = scalar(3.0)
        y = tg.stop_gradient(tg.sin(tg.exp(x))) * x
        before = set(graph.get_operations())
        tg.gradients(y, [x])
        assert not {"Cos", "Exp"} & {op.type for op in set(graph.get_operations()) - before}


class TestDevices:
    def made_by(self, graph, y, x):
        before = set(graph.get_operations())
        tg.gradients(y, [x])
        return [op for op in graph.get_operations() if op not in before]

    def test_are_those_of_the_forward_operations(self, graph):
        x = scalar(3.0)
        with tg.device("/cpu:1"):
            y = tg.sin(x)
        made = self.made_by(graph, y * 2.0, x)
        assert {op.device for op in made if op.type == "Cos"} == {"/device:CPU:1"}
        assert {op.device for op in made if op.type == "Const"} <= {"", "/device:CPU:1"}

    def test_of_a_scope_around_gradients_come_first(self, graph):
        x = scalar(3.0)
        with tg.device("/cpu:1"):
            y = tg.sin(x)
        with tg.device("/cpu:2"):
            made = self.made_by(graph, y, x)
        assert {op.device for op in made} == {"/device:CPU:2"}

    def test_hold_inside_loops(self, graph):
        x = scalar(3.0)

        def body(i, a):
            with tg.device("/cpu:1"):
                return (tg.sin(a),)

        made = self.made_by(graph, repeat(2, body, x)[0], x)
        assert {op.device for op in made if op.type == "Cos"} == {"/device:CPU:1"}
        with tg.device("/cpu:2"):
            y = repeat(2, body, x)[0]
        assert {op.device for op in self.made_by(graph, y, x) if op.type == "Cos"} == {"/device:CPU:1"}

    def test_of_sums_are_those_of_their_terms(self, graph):
        x = scalar(3.0)
        with tg.device("/cpu:1"):
            y = tg.sin(x) * tg.exp(x)
        made = self.made_by(graph, y, x)
        assert [op.device for op in made if op.type == "Add"] == ["/device:CPU:1"]
        with tg.device("/cpu:2"):
            z = y + tg.cos(x)
        made = self.made_by(graph, z, x)
        assert [op.device for op in made if op.type == "AddN"] == [""]

    def test_of_a_weight_used_in_a_loop_are_where_it_is_used(self, graph):
        w, x = tg.constant(np.eye(2)), tg.constant(np.ones((2, 2)))

        def body(i, a):
            with tg.device("/cpu:1"):
                return (tg.tanh(a @ w),)

        y = repeat(3, body, x)[0]
        made = self.made_by(graph, y, w)
        (loop,) = [op for op in made if op.type == "While"]
        sums = [op for op in loop.regions[1].operations if op.type == "Add"]
        assert [op.device for op in sums] == ["/device:CPU:1"]

    def test_of_a_branch_are_where_what_is_in_it_was(self, graph):
        x, p = scalar(3.0), tg.placeholder("bool", [])

        def branch():
            with tg.device("/cpu:1"):
                return tg.sin(x)

        with tg.device("/cpu:0"):
            y = tg.cond(p, branch, lambda: tg.identity(x))
        made = self.made_by(graph, y, x)
        assert {op.type: op.device for op in made if op.type in ("Cos", "Cond")} == {"Cos": "/device:CPU:1", "Cond": ""}

    def test_of_both_are_put_together(self, graph):
        x = scalar(3.0)
        with tg.device("/cpu:1"):
            y = tg.sin(x)
        with tg.device("/job:worker"):
            made = self.made_by(graph, y, x)
        assert {op.device for op in made if op.type == "Cos"} == {"/job:worker/device:CPU:1"}


# ---- literals, integers, and what is stopped


def test_cotangents_may_be_nested_lists(session):
    x = tg.constant([1.0, 2.0])
    y = x * x
    found = [
        tg.gradients([y], [x], grad_ys=[[3.0, 4.0]])[0],
        tg.gradients(y, x, grad_ys=[3.0, 4.0])[0],
        tg.gradients(y, x, grad_ys=[[3.0, 4.0]])[0],
        tg.gradients([y], x, grad_ys=np.float32([3.0, 4.0]))[0],
        tg.gradients({"a": y, "b": [y]}, x, grad_ys={"b": [None], "a": [2.0, 3.0]})[0],
    ]
    for slope in session.run(found):
        np.testing.assert_array_equal(slope, [6.0, 16.0])


def test_cotangents_of_another_structure_are_refused():
    x = tg.constant([1.0, 2.0])
    for given in ([1.0, 2.0, 3.0], [[1.0, 1.0]] * 3, 1.0):
        with pytest.raises(tg.GraphError, match="one entry for each y"):
            tg.gradients([x * x, x], [x], grad_ys=given)


def test_integers_beside_others_count_as_not_connected(session):
    x = tg.constant(1.0)
    loop = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, x])
    assert session.run(tg.gradients(loop, [x])) == [8.0]
    with pytest.raises(tg.DtypeError, match="only floating and complex"):
        tg.gradients([loop[0]], [x])


@pytest.mark.rule(99)
def test_what_a_loop_stops_is_zero_and_not_none(session):
    x, y, z = tg.constant(3.0), tg.constant(2.0), tg.constant([1.0, 2.0])

    def body(x, y):
        stopped = tg.stop_gradient(tg.square(y) + tg.reduce_sum(z))
        return tg.square(x) + stopped, stopped

    result, _ = tg.while_loop(lambda x, y: x < 100.0, body, [x, y])
    found = tg.gradients(result, [y, z])
    assert [each.tolist() for each in session.run(found)] == [0.0, [0.0, 0.0]]
    assert tg.gradients(tg.stop_gradient(y) * x, [y]) == [None]


@pytest.mark.rule(90)
@pytest.mark.parametrize("taken", [False, True])
def test_the_gradient_of_one_output_of_a_switch(session, taken):
    x = tg.constant(2.0)
    sides = tg.switch(x, tg.constant(taken))
    slopes = [tg.gradients(side, x)[0] for side in sides]
    assert session.run(slopes) == [float(not taken), float(taken)]

"""while_loop while a step runs: rules 71 to 82, and the traps of rules 73 to 77 by counting what runs."""

import asyncio
import dataclasses
from collections import namedtuple

import numpy as np
import pytest
import tagflow as tg

from tests.execute import Calls

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class State:
    total: object
    rest: object


def number(value, dtype="int32"):
    """Return a tensor that no pass can fold."""
    return tg.placeholder_with_default(tg.constant(value, dtype=dtype), [])


def scalar(function, *inputs):
    """Return the int32 that a Python function gives."""
    return tg.py_function(function, inputs, "int32", output_shapes=[])


def late(calls):
    """Return a tensor that is there, and noted in `calls`, only after several turns of the event loop."""

    async def wait():
        for _ in range(5):
            await asyncio.sleep(0)
        return calls(1)

    return scalar(wait)


def count_up(n):
    return lambda i, *_: i < n


WINDOWS = pytest.mark.parametrize("window", [1, 2, 7, 32])


@pytest.mark.rule(71)
class TestMeaning:
    @WINDOWS
    @pytest.mark.parametrize("trips", [0, 1, 2, 40])
    def test_as_in_python(self, run, window, trips):
        i, a, b = tg.while_loop(
            count_up(number(trips)), lambda i, a, b: (i + 1, b, a + b), (0, 0, 1), parallel_iterations=window
        )
        x, y = 0, 1
        for _ in range(trips):
            x, y = y, (x + y + 2**31) % 2**32 - 2**31
        assert run([i, a, b]) == [trips, x, y]

    @pytest.mark.rule(39)
    def test_without_a_trip_the_initial_values_come_out(self, run):
        calls = Calls()
        i, x = tg.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, calls.watch(x)), (number(5), number(7)))
        assert run([i, x]) == [5, 7]
        assert calls.count == 0

    def test_variables_may_swap(self, run):
        _, a, b = tg.while_loop(count_up(number(3)), lambda i, a, b: (i + 1, b, a), (0, 1, 2))
        assert run([a, b]) == [2, 1]

    def test_a_variable_may_become_an_invariant(self, run):
        x = number(9)
        _, a = tg.while_loop(count_up(number(2)), lambda i, a: (i + 1, x), (0, 1))
        assert run(a) == 9

    def test_functions_are_called_once(self):
        called = []
        tg.while_loop(lambda i: called.append("cond") or i < 3, lambda i: called.append("body") or i + 1, [0])
        assert called == ["cond", "body"]

    def test_predicate_and_body_run_once_an_iteration(self, run):
        predicate, body = Calls(), Calls()
        run(tg.while_loop(lambda i: predicate.watch(i) < 4, lambda i: body.watch(i) + 1, [number(0)]))
        assert sorted(predicate.values) == [0, 1, 2, 3, 4]
        assert sorted(body.values) == [0, 1, 2, 3]

    @pytest.mark.parametrize(("outer", "inner"), [(0, 3), (3, 0), (3, 4)])
    def test_nested(self, run, outer, inner):
        calls = Calls()

        def body(i, total):
            _, total = tg.while_loop(
                count_up(number(inner)), lambda j, t: (j + 1, t + calls.watch(i * 10 + j)), (0, total)
            )
            return i + 1, total

        _, total = tg.while_loop(count_up(number(outer)), body, (0, 0))
        wanted = [i * 10 + j for i in range(outer) for j in range(inner)]
        assert run(total) == sum(wanted)
        assert sorted(calls.values) == wanted

    @pytest.mark.parametrize("taken", [True, False])
    @pytest.mark.rule(40)
    def test_in_a_branch(self, run, taken):
        calls, pred = Calls(), tg.placeholder("bool", [])
        loop = lambda: tg.while_loop(lambda i: i < 3, lambda i: calls.watch(i) + 1, [number(0)])  # noqa: E731
        assert run(tg.cond(pred, loop, lambda: tg.constant(-1)), {pred: taken}) == (3 if taken else -1)
        assert calls.count == (3 if taken else 0)

    def test_a_branch_in_it(self, run):
        even, odd = Calls(), Calls()
        _, total = tg.while_loop(
            count_up(number(5)),
            lambda i, t: (i + 1, tg.cond(tg.equal(i % 2, 0), lambda: t + even.watch(i), lambda: t - odd.watch(i))),
            (0, 0),
        )
        assert run(total) == 0 - 1 + 2 - 3 + 4
        assert (sorted(even.values), sorted(odd.values)) == ([0, 2, 4], [1, 3])


@pytest.mark.rule(72)
class TestCaptures:
    def test_of_predicate_and_body(self, run):
        calls = Calls()
        n, step = calls.watch(number(6)), calls.watch(number(2))
        assert run(tg.while_loop(lambda i: i < n, lambda i: i + step, [0])) == 6
        assert sorted(calls.values) == [2, 6]

    def test_through_two_loops(self, run):
        x = number(3)

        def body(i, t):
            return i + 1, tg.while_loop(count_up(2), lambda j, t: (j + 1, t + x * i), (0, t))[1]

        assert run(tg.while_loop(count_up(x), body, (0, 0))[1]) == 2 * 3 * (0 + 1 + 2)

    def test_of_a_value_of_the_outer_iteration(self, run):
        def body(i, t):
            square = i * i
            return i + 1, tg.while_loop(lambda j, t: j < square, lambda j, t: (j + 1, t + square), (0, t))[1]

        assert run(tg.while_loop(count_up(4), body, (0, 0))[1]) == sum(k**4 for k in range(4))


@pytest.mark.rule(73)
class TestOperationsWithoutInputs:
    def test_in_the_body_run_once_an_iteration(self, run):
        calls = Calls()
        _, t = tg.while_loop(count_up(number(5)), lambda i, t: (i + 1, t + scalar(lambda: calls(2))), (0, 0))
        assert run(t) == 10
        assert calls.count == 5

    def test_in_the_predicate_run_once_more(self, run):
        calls = Calls()
        i = tg.while_loop(lambda i: i < scalar(lambda: calls(3)), lambda i: i + 1, [0])
        assert run(i) == 3
        assert calls.count == 4

    @pytest.mark.rule(21)
    def test_do_not_run_without_a_trip(self, run):
        calls = Calls()
        _, t = tg.while_loop(count_up(number(0)), lambda i, t: (i + 1, scalar(lambda: calls(2))), (0, 1))
        assert run(t) == 1
        assert calls.count == 0

    def test_in_a_branch_in_the_body(self, run):
        calls = Calls()
        made = lambda: scalar(lambda: calls(1))  # noqa: E731
        _, t = tg.while_loop(count_up(number(6)), lambda i, t: (i + 1, t + tg.cond(i < 4, made, lambda: 0)), (0, 0))
        assert run(t) == 4
        assert calls.count == 4

    def test_an_inner_loop_of_constants_runs_in_each_iteration(self, run):
        calls = Calls()

        def body(i, t):
            inner = tg.while_loop(lambda j: j < 3, lambda j: calls.watch(j) + 1, [0])
            return i + 1, t + inner

        assert run(tg.while_loop(count_up(number(4)), body, (0, 0))[1]) == 12
        assert calls.count == 12


@pytest.mark.rule(74)
class TestOperationsOfInvariants:
    @pytest.mark.parametrize("trips", [0, 1, 5])
    def test_in_the_body_run_once_an_iteration(self, run, trips):
        calls, x = Calls(), number(3)
        _, t = tg.while_loop(count_up(number(trips)), lambda i, t: (i + 1, t + calls.watch(x)), (0, 0))
        assert run(t) == 3 * trips
        assert calls.count == trips

    def test_in_the_predicate_run_once_more(self, run):
        calls, x = Calls(), number(3)
        assert run(tg.while_loop(lambda i: i < calls.watch(x), lambda i: i + 1, [0])) == 3
        assert calls.count == 4

    @pytest.mark.parametrize("trips", [0, 3])
    def test_in_a_branch_on_an_invariant(self, run, trips):
        calls, x, p = Calls(), number(3), tg.placeholder_with_default(True, [])
        body = lambda i, t: (i + 1, t + tg.cond(p, lambda: calls.watch(x), lambda: 0))  # noqa: E731
        assert run(tg.while_loop(count_up(number(trips)), body, (0, 0))[1]) == 3 * trips
        assert calls.count == trips

    def test_one_after_another(self, run):
        calls, x = Calls(), number(3)
        _, t = tg.while_loop(count_up(number(4)), lambda i, t: (i + 1, t + calls.watch(calls.watch(x) + 1)), (0, 0))
        assert run(t) == 16
        assert sorted(calls.values) == [3] * 4 + [4] * 4


@pytest.mark.rule(75)
class TestExternalControlDependencies:
    def test_run_once_and_before_what_depends_on_them(self, run):
        outside, seen = Calls(), []
        before = late(outside)

        def body(i):
            with tg.control_dependencies([before]):
                return scalar(lambda i: seen.append(outside.count) or i + 1, i)

        assert run(tg.while_loop(lambda i: i < 3, body, [number(0)])) == 3
        assert outside.count == 1
        assert seen == [1, 1, 1]

    def test_of_an_operation_without_outputs(self, run):
        log = []
        note = tg.py_function(lambda: log.append("outside") or [], [], [])

        def body(i):
            with tg.control_dependencies([note]):
                return scalar(lambda i: log.append("inside") or i + 1, i)

        assert run(tg.while_loop(lambda i: i < 2, body, [number(0)])) == 2
        assert log == ["outside", "inside", "inside"]

    def test_through_two_loops(self, run):
        log = []
        note = tg.py_function(lambda: log.append("outside") or [], [], [])

        def inner(j):
            with tg.control_dependencies([note]):
                return scalar(lambda j: log.append("inside") or j + 1, j)

        body = lambda i, t: (i + 1, t + tg.while_loop(lambda j: j < 2, inner, [0]))  # noqa: E731
        assert run(tg.while_loop(count_up(number(2)), body, (0, 0))[1]) == 4
        assert log == ["outside", *["inside"] * 4]

    def test_in_a_branch_in_the_body(self, run):
        log = []
        note = tg.py_function(lambda: log.append("outside") or [], [], [])

        def branch(i):
            with tg.control_dependencies([note]):
                return scalar(lambda i: log.append("inside") or i + 1, i)

        body = lambda i: tg.cond(i < 2, lambda: branch(i), lambda: i + 10)  # noqa: E731
        assert run(tg.while_loop(lambda i: i < 5, body, [number(0)])) == 12
        assert log == ["outside", "inside", "inside"]


@pytest.mark.rule(76)
class TestScopeAroundTheLoop:
    def test_the_loop_waits(self, run):
        outside, seen, start = Calls(), [], number(0)
        with tg.control_dependencies([late(outside)]):
            i = tg.while_loop(
                lambda i: i < 2, lambda i: scalar(lambda i: seen.append(outside.count) or i + 1, i), [start]
            )
        assert run(i) == 2
        assert (outside.count, seen) == (1, [1, 1])

    def test_what_is_inside_does_not_get_the_edges(self, graph):
        before = tg.no_op()
        made = []
        with tg.control_dependencies([before]):
            tg.while_loop(lambda i: i < 2, lambda i: made.append(i + 1) or made[0], [0])
        assert made[0].op.control_inputs == []

    def test_without_a_trip_the_loop_waits_too(self, run):
        outside, start = Calls(), number(5)
        with tg.control_dependencies([late(outside)]):
            i = tg.while_loop(lambda i: i < 0, lambda i: i + 1, [start])
        assert run(i) == 5
        assert outside.count == 1


@pytest.mark.rule(77)
class TestInnerLoopThatStartsFromAnInvariant:
    @pytest.mark.parametrize("trips", [0, 1, 3])
    def test_runs_only_in_iterations_that_run(self, run, trips):
        predicate, body, start = Calls(), Calls(), number(5)

        def outer(i, t):
            return i + 1, t + tg.while_loop(lambda j: predicate.watch(j) < 7, lambda j: body.watch(j) + 1, [start])

        assert run(tg.while_loop(count_up(number(trips)), outer, (0, 0))[1]) == 7 * trips
        assert (predicate.count, body.count) == (3 * trips, 2 * trips)

    def test_in_the_predicate_of_the_outer_loop(self, run):
        body, start = Calls(), number(1)
        inner = lambda: tg.while_loop(lambda j: j < 3, lambda j: body.watch(j) + 1, [start])  # noqa: E731
        assert run(tg.while_loop(lambda i: i < inner(), lambda i: i + 1, [number(0)])) == 3
        assert body.count == 2 * 4


@pytest.mark.rule(78)
class TestControlEdgesInside:
    def test_between_operations_of_one_iteration(self, run):
        log = []

        def body(i):
            first = scalar(lambda i: log.append(("first", int(i))) or i, i)
            with tg.control_dependencies([first]):
                return scalar(lambda i: log.append(("second", int(i))) or i + 1, i)

        assert run(tg.while_loop(lambda i: i < 3, body, [number(0)])) == 3
        assert [x for x in log if x[0] == "second"] == [("second", k) for k in range(3)]
        assert all(log.index(("first", k)) < log.index(("second", k)) for k in range(3))

    def test_from_a_loop_to_what_follows_it(self, run):
        calls = Calls()
        i = tg.while_loop(lambda i: i < 3, lambda i: calls.watch(i) + 1, [number(0)])
        with tg.control_dependencies([i]):
            after = scalar(lambda: calls.count)
        assert run(after) == 3

    def test_an_assignment_in_each_iteration(self, run):
        v = tg.Variable(1.0)

        def body(i):
            with tg.control_dependencies([v.assign_add(2.0)]):
                return i + 1

        loop = tg.while_loop(lambda i: i < 4, body, [0], parallel_iterations=1)
        run(v.initializer)
        assert run(loop) == 4
        assert run(v) == 9.0


@pytest.mark.rule(79)
class TestShapes:
    def test_a_variable_that_grows(self, run):
        _, rows = tg.while_loop(
            count_up(number(3)),
            lambda i, a: (i + 1, tg.concat([a, a[:1] + tg.cast(i, "float32")], 0)),
            (0, tg.zeros([1, 2])),
            shape_invariants=([], [None, 2]),
        )
        assert rows.shape == [None, 2]
        assert run(rows).shape == (4, 2)

    def test_invariants_in_nested_structures(self, run):
        loop_vars = {"i": number(0), "pair": (tg.zeros([1]), tg.zeros([2]))}
        result = tg.while_loop(
            lambda v: v["i"] < 2,
            lambda v: {"pair": (tg.tile(v["pair"][0], [2]), v["pair"][1] + 1.0), "i": v["i"] + 1},
            [loop_vars],
            shape_invariants=[{"pair": ([None], [2]), "i": []}],
        )
        assert result["pair"][0].shape == [None]
        found = run(result)
        assert found["pair"][0].shape == (4,)
        assert found["pair"][1].tolist() == [2.0, 2.0]

    def test_gradient_of_a_variable_that_grows(self, run):
        x = tg.constant([1.0, 2.0])
        _, y = tg.while_loop(
            count_up(number(3)),
            lambda i, a: (i + 1, tg.concat([a, a[-2:] * x], 0)),
            (0, x),
            shape_invariants=([], [None]),
        )
        (g,) = tg.gradients(y, [x])
        assert run(g).tolist() == [1 + 2 + 3 + 4, 1 + 4 + 12 + 32]

    @pytest.mark.parametrize("given", [{"i": []}, {"i": [], "b": []}])
    def test_a_dict_with_other_keys_is_refused(self, given):
        with pytest.raises(tg.LoopVariableError, match="structure of loop_vars"):
            tg.while_loop(lambda i, a: i < 2, lambda i, a: {"i": i, "a": a}, {"i": 0, "a": 1}, shape_invariants=given)


@pytest.mark.rule(80)
class TestStructures:
    def test_tuples_lists_named_tuples_dicts_and_dataclasses(self, run):
        start = [0, Pair(1, [2.0]), {"x": (3,), "s": State(4, {"y": 5})}]

        def body(i, pair, d):
            s = d["s"]
            return (
                i + 1,
                Pair(pair.left * 2, [pair.right[0] + 0.5]),
                {"s": State(s.total + s.rest["y"], {"y": s.rest["y"] + 1}), "x": (d["x"][0] + pair.left,)},
            )

        i, pair, d = run(tg.while_loop(count_up(number(3)), body, start))
        assert (i, pair) == (3, Pair(8, [3.5]))
        assert isinstance(pair, Pair)
        assert (d["x"][0], d["s"].total, d["s"].rest["y"]) == (10, 4 + 5 + 6 + 7, 8)

    def test_keys_of_a_dict_in_another_order(self, run):
        _, d = tg.while_loop(
            count_up(number(3)), lambda i, d: (i + 1, {"b": d["b"] + 10, "a": d["a"] + 1}), (0, {"a": 0, "b": 0})
        )
        assert run(d) == {"a": 3, "b": 30}

    @pytest.mark.parametrize("body", [lambda i: i + 1, lambda i: [i + 1], lambda i: (i + 1,)])
    def test_one_variable_is_unpacked(self, run, body):
        i = tg.while_loop(lambda i: i < 3, body, [number(0)])
        assert isinstance(i, tg.Tensor)
        assert run(i) == 3

    def test_unless_asked_not_to(self, run):
        found = tg.while_loop(lambda i: i < 3, lambda i: i + 1, [number(0)], return_same_structure=True)
        assert isinstance(found, list)
        assert run(found) == [3]

    def test_one_variable_that_is_a_structure(self, run):
        found = tg.while_loop(
            lambda p: p.left < 3, lambda p: Pair(p.left + 1, p.right * 2), [Pair(number(0), number(1))]
        )
        assert isinstance(found, Pair)
        assert run(found) == Pair(3, 8)

    def test_a_structure_that_is_no_sequence_is_one_argument(self, run):
        found = tg.while_loop(lambda d: d["i"] < 3, lambda d: {"i": d["i"] + 1}, {"i": number(0)})
        assert run(found) == {"i": 3}

    def test_the_body_may_return_a_list_for_a_tuple(self, run):
        assert run(tg.while_loop(lambda i, j: i < 3, lambda i, j: [i + 1, j + 2], (0, 0))) == (3, 6)


@pytest.mark.rule(81)
class TestMaximumIterations:
    @pytest.mark.parametrize(("maximum", "wanted"), [(0, 0), (3, 3), (10, 5)])
    @pytest.mark.parametrize("make", [int, np.int64, number, lambda n: number(n, "int64")])
    def test_stops(self, run, maximum, wanted, make):
        assert run(tg.while_loop(lambda i: i < 5, lambda i: i + 1, [0], maximum_iterations=make(maximum))) == wanted

    def test_the_hidden_counter_is_hidden(self):
        i, j = tg.while_loop(lambda i, j: True, lambda i, j: (i, j), (0, 1), maximum_iterations=2)
        assert (i.op.type, j.op.type) == ("While", "While")

    def test_from_an_outer_loop(self, run):
        def body(i, t):
            return i + 1, tg.while_loop(
                lambda j, t: j < 100, lambda j, t: (j + 1, t + 1), (0, t), maximum_iterations=i
            )[1]

        assert run(tg.while_loop(count_up(number(4)), body, (0, 0))[1]) == 0 + 1 + 2 + 3

    def test_gradient(self, run):
        x = tg.constant(3.0)
        y = tg.while_loop(lambda a: True, lambda a: a * x, [x], maximum_iterations=3)
        (g,) = tg.gradients(y, [x])
        assert run([y, g]) == [81.0, 108.0]


@pytest.mark.rule(82)
class TestLoopVariables:
    def test_numbers_and_arrays(self, run):
        i, f, b, a = tg.while_loop(
            lambda i, f, b, a: i < 2,
            lambda i, f, b, a: (i + 1, f * 2.0, tg.logical_not(b), a + 1),
            [0, 1.5, True, np.array([1, 2], np.int64)],
        )
        assert [t.dtype for t in (i, f, b, a)] == [tg.int32, tg.float32, tg.bool, tg.int64]
        values = run([i, f, b, a])
        assert values[:3] == [2, 6.0, True]
        assert values[3].tolist() == [3, 4]

    def test_literals_from_the_body_take_the_dtype(self, run):
        _, x = tg.while_loop(lambda i, x: i < 1, lambda i, x: (i + 1, 7), [0, tg.constant(np.float64(1))])
        assert x.dtype is tg.float64
        assert run(x) == 7.0

    def test_a_variable_of_the_graph(self, run):
        v = tg.Variable(3.0)
        _, x = tg.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * v), [0, v])
        run(v.initializer)
        assert run(x) == 27.0

    def test_a_tensor_array(self, run):
        squares = tg.TensorArray("int32", 4)
        _, squares = tg.while_loop(count_up(4), lambda i, ta: (i + 1, ta.write(i, i * i)), (0, squares))
        assert isinstance(squares, tg.TensorArray)
        assert run(squares.stack()).tolist() == [0, 1, 4, 9]

    def test_arrays_in_a_structure_of_which_one_reads_what_the_other_wrote(self, run):
        arrays = {"in": tg.TensorArray("float32", 4, clear_after_read=False).unstack(tg.constant([1.0, 2, 3, 4])),
                  "out": tg.TensorArray("float32", 4)}  # fmt: skip

        def body(i, a):
            previous = a["in"].read(tg.maximum(i - 1, 0))
            return i + 1, {"out": a["out"].write(i, a["in"].read(i) + previous), "in": a["in"]}

        _, arrays = tg.while_loop(count_up(number(4)), body, (0, arrays))
        assert run(arrays["out"].stack()).tolist() == [2, 3, 5, 7]

    def test_an_array_written_before_and_after(self, run):
        array = tg.TensorArray("int32", 4).write(0, 10)
        _, array = tg.while_loop(lambda i, ta: i < 3, lambda i, ta: (i + 1, ta.write(i, i)), (1, array))
        assert run(array.write(3, 30).stack()).tolist() == [10, 1, 2, 30]

    def test_an_array_without_a_trip(self, run):
        array = tg.TensorArray("int32", 1).write(0, 7)
        _, after = tg.while_loop(count_up(number(0)), lambda i, ta: (i + 1, ta.write(i, 0)), (0, array))
        assert run(after.read(0)) == 7

    def test_an_array_of_the_inner_loop_in_each_outer_iteration(self, run):
        def body(i, t):
            ta = tg.while_loop(
                lambda j, ta: j < 3, lambda j, ta: (j + 1, ta.write(j, i * j)), (0, tg.TensorArray("int32", 3))
            )[1]
            return i + 1, t + tg.reduce_sum(ta.stack())

        assert run(tg.while_loop(count_up(number(4)), body, (0, 0))[1]) == sum(
            i * j for i in range(4) for j in range(3)
        )

    def test_another_array_from_the_body_is_refused(self):
        other = tg.TensorArray("int32", 3)
        with pytest.raises(tg.LoopVariableError, match="TensorArray"):
            tg.while_loop(count_up(3), lambda i, ta: (i + 1, other), (0, tg.TensorArray("int32", 3)))


@pytest.mark.rule(36)
@WINDOWS
def test_variables_that_are_many_iterations_apart(run, window):
    async def slow(x):
        return x + 1

    i, x = tg.while_loop(
        count_up(number(20)),
        lambda i, x: (i + 1, scalar(slow, x)),
        (0, 0),
        parallel_iterations=window,
    )
    assert run([i, x]) == [20, 20]


@pytest.mark.rule(38, 47)
def test_an_endless_loop_ends_at_the_timeout(run):
    with pytest.raises(tg.StepTimeout):
        run(tg.while_loop(lambda i: tg.greater_equal(i, 0), lambda i: i * 1, [number(0)]), timeout=0.2)
    assert run(tg.constant(3) + 4) == 7


@pytest.mark.rule(57)
def test_a_variable_nobody_needs_is_not_computed(run):
    calls = Calls()
    i, x = tg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, calls.watch(x)), (number(0), number(1)))
    assert run(i) == 3
    assert calls.count == 0
    assert run(x) == 1
    assert calls.count == 3


@pytest.mark.rule(99)
def test_stop_gradient_in_the_body_makes_the_path_zero(run):
    x = tg.constant(2.0)
    _, y = tg.while_loop(count_up(number(3)), lambda i, a: (i + 1, tg.stop_gradient(a * x)), (0, x))
    (g,) = tg.gradients(y, [x])
    assert run(g) == 0.0
    assert tg.gradients(tg.stop_gradient(y), [x]) == [None]


@pytest.mark.rule(96)
def test_back_prop_false_is_opaque_to_gradients(run):
    x = tg.constant(2.0)
    _, y = tg.while_loop(count_up(number(3)), lambda i, a: (i + 1, a * x), (0, x), back_prop=False)
    assert tg.gradients(y, [x]) == [None]
    (g,) = tg.gradients(y + x, [x])
    assert run(g) == 1.0

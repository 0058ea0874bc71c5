"""while_loop while a step runs: rules 71 to 78, and the traps of rules 73 to 77 by counting what runs."""

import asyncio

import numpy as np
import pytest
import tagloom as tg

from tests.support.execute import Calls


def number(value, dtype="int32"):
    """Return a tensor that no pass can fold."""
    return tg.placeholder_with_default(tg.constant(value, dtype=dtype), [])


def scalar(function, *inputs):
    """Return the int32 that a Python function gives."""
    return tg.py_function(function, inputs, "int32", output_shapes=[])


def late(calls, *inputs):
    """Return a tensor that is there, and noted in `calls`, only after several turns of the event loop."""

    async def wait(*_):
        for _ in range(5):
            await asyncio.sleep(0)
        return calls(1)

    return scalar(wait, *inputs)


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
    @WINDOWS
    def test_from_a_loop_variable(self, run, window):
        log, start = [], number(0)

        def body(i, done):
            with tg.control_dependencies([done]):
                first = scalar(lambda: log.append("first") or 0)
            return i + 1, late(lambda _: log.append("second") or 1, first)

        loop = tg.while_loop(lambda i, _: i < 3, body, [number(0), start], parallel_iterations=window)
        assert run(loop) == [3, 1]
        assert log == ["first", "second"] * 3

    def test_from_a_loop_variable_that_nothing_else_reads(self, run):
        log = []

        def body(i, done):
            with tg.control_dependencies([done]):
                following = tg.identity(i + 1)
            return following, scalar(lambda i: log.append(int(i)) or 0, i)

        assert run(tg.while_loop(lambda i, _: i < 3, body, [number(0), number(0)])[0]) == 3
        assert log == [0, 1, 2]

    def test_from_a_loop_variable_in_the_predicate(self, run):
        log = []

        def test(i, done):
            with tg.control_dependencies([done]):
                return scalar(lambda i: log.append("test") or i, i) < 2

        def body(i, done):
            return i + 1, late(lambda _: log.append("body") or 1, i)

        assert run(tg.while_loop(test, body, [number(0), number(0)])[0]) == 2
        assert log == ["test", "body", "test", "body", "test"]

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


@pytest.mark.rule(35)
def test_the_window_may_be_a_numpy_integer(run):
    y = tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=np.int64(2))
    assert y.op.get_attr("parallel_iterations") == 2
    assert run(y) == 3


@pytest.mark.parametrize("arguments", [{"parallel_iterations": 0}, {"loop_vars": []}, {"body": lambda i: (i, i)}])
def test_refusals_say_what_to_try(arguments):
    given = {"cond": lambda i: i < 3, "body": lambda i: i + 1, "loop_vars": [0], **arguments}
    with pytest.raises(tg.GraphError) as refused:
        tg.while_loop(**given)
    assert refused.value.hint
    assert refused.value.source.file == __file__

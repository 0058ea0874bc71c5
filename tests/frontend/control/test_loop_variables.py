"""The loop variables of while_loop: shapes, structures, arrays, maximum_iterations (rules 79 to 82)."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
import tagloom as tg

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class State:
    total: object
    rest: object


def number(value, dtype="int32"):
    """Return a tensor that no pass can fold."""
    return tg.placeholder_with_default(tg.constant(value, dtype=dtype), [])


def count_up(n):
    return lambda i, *_: i < n


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
        arrays = {
            "in": tg.TensorArray("float32", 4, clear_after_read=False).unstack(tg.constant([1.0, 2, 3, 4])),
            "out": tg.TensorArray("float32", 4),
        }

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


class TestContainers:
    @pytest.mark.parametrize("kind", [dict, OrderedDict, lambda pairs: defaultdict(list, pairs)])
    def test_a_dict_stays_what_it_is(self, run, kind):
        start = kind([("i", number(0)), ("a", number(1))])
        step = lambda v: kind([("a", v["a"] * 2), ("i", v["i"] + 1)])  # noqa: E731
        result = tg.while_loop(lambda v: v["i"] < 3, step, [start])
        assert type(result) is type(start)
        assert getattr(result, "default_factory", None) is getattr(start, "default_factory", None)
        assert run(result) == {"i": 3, "a": 8}

    def test_a_field_that_the_constructor_does_not_take_is_refused(self):
        @dataclasses.dataclass
        class StepCounters:
            value: object
            calls: object = dataclasses.field(default=0, init=False)

        with pytest.raises(tg.GraphError, match="field calls of StepCounters") as caught:
            tg.while_loop(lambda v: v.value < 3, lambda v: v, [StepCounters(number(0))])
        assert "constructor" in caught.value.hint


@dataclasses.dataclass
class Optional:
    total: object
    bias: object = None


def test_a_field_that_is_none_unless_given_holds_nothing(run):
    state = tg.while_loop(lambda s: s.total < 5, lambda s: Optional(s.total + 2), [Optional(0)])
    assert state.bias is None
    assert run(state) == Optional(6)
    both = tg.while_loop(lambda s: s.total < 5, lambda s: Optional(s.total + 2, s.bias * 2), [Optional(0, 1)])
    assert run(both) == Optional(6, 8)
    with pytest.raises(tg.LoopVariableError, match="1 elements on one side and 2 on the other"):
        tg.while_loop(lambda s: s.total < 5, lambda s: Optional(s.total + 2, 1), [Optional(0)])

"""cond, case and switch_case while a step runs (rules 64 to 70)."""

import asyncio
import dataclasses
from collections import namedtuple

import numpy as np
import pytest
import tagloom as tg

from tests.support.execute import Calls

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    inner: object
    label: object


def flag(value):
    """Return a predicate that no pass can fold."""
    return tg.placeholder_with_default(tg.constant(value), [])


BOTH = pytest.mark.parametrize("chosen", [True, False])


@pytest.mark.rule(64)
class TestBranchFunctions:
    def test_each_is_called_once_while_building(self):
        called = []
        tg.cond(
            flag(True),
            lambda: called.append("true") or tg.constant(1),
            lambda: called.append("false") or tg.constant(2),
        )
        assert sorted(called) == ["false", "true"]

    @BOTH
    def test_only_the_chosen_one_runs(self, run, chosen):
        true, false, x = Calls(), Calls(), tg.constant(5)
        y = tg.cond(flag(chosen), lambda: true.watch(x) + 1, lambda: false.watch(x) - 1)
        assert run(y) == (6 if chosen else 4)
        assert (true.count, false.count) == ((1, 0) if chosen else (0, 1))

    @BOTH
    def test_what_is_made_outside_runs_anyway(self, run, chosen):
        outside = Calls()
        x = outside.watch(3)
        y = tg.cond(flag(chosen), lambda: x * 2, lambda: tg.constant(0))
        assert run(y) == (6 if chosen else 0)
        assert outside.count == 1

    @BOTH
    def test_the_predicate_may_be_fed(self, run, chosen):
        pred = tg.constant(not chosen)
        y = tg.cond(pred, lambda: tg.constant(1), lambda: tg.constant(2))
        assert run(y, {pred: chosen}) == (1 if chosen else 2)


@pytest.mark.rule(65)
class TestCaptures:
    @BOTH
    def test_a_branch_may_just_return_an_outer_tensor(self, run, chosen):
        x, y = tg.constant(1.0), tg.constant(2.0)
        assert run(tg.cond(flag(chosen), lambda: x, lambda: y)) == (1.0 if chosen else 2.0)

    @BOTH
    def test_or_the_predicate_itself(self, run, chosen):
        pred = flag(chosen)
        assert run(tg.cond(pred, lambda: pred, lambda: pred)) == chosen

    @pytest.mark.parametrize("outer", [True, False])
    @pytest.mark.parametrize("inner", [True, False])
    def test_through_two_levels(self, run, outer, inner):
        x, a, b = tg.constant(10), flag(outer), flag(inner)
        y = tg.cond(a, lambda: tg.cond(b, lambda: x + 1, lambda: x + 2), lambda: tg.cond(b, lambda: x + 3, lambda: x))
        assert run(y) == {(True, True): 11, (True, False): 12, (False, True): 13, (False, False): 10}[outer, inner]

    def test_a_capture_used_in_one_branch_alone_costs_the_other_nothing(self, run):
        x = tg.constant([1.0, 0.0])
        checked = lambda: tg.check_numerics(1.0 / x, "inverse")  # noqa: E731
        assert run(tg.cond(flag(False), checked, lambda: x)).tolist() == [1.0, 0.0]


@pytest.mark.rule(66)
class TestOperationsWithoutInputs:
    @BOTH
    def test_do_not_run_in_a_branch_not_taken(self, run, chosen):
        true, false = Calls(), Calls()
        y = tg.cond(
            flag(chosen),
            lambda: tg.py_function(lambda: true(1), [], "int32"),
            lambda: tg.py_function(lambda: false(2), [], "int32"),
        )
        assert run(y) == (1 if chosen else 2)
        assert (true.count, false.count) == ((1, 0) if chosen else (0, 1))

    @BOTH
    def test_in_nested_branches(self, run, chosen):
        calls = Calls()
        deep = lambda: tg.py_function(lambda: calls(7), [], "int32")  # noqa: E731
        y = tg.cond(flag(chosen), lambda: tg.cond(flag(True), deep, lambda: tg.constant(0)), lambda: tg.constant(1))
        assert run(y) == (7 if chosen else 1)
        assert calls.count == chosen

    @BOTH
    def test_control_dependencies_around_hold_for_the_whole_cond(self, run, chosen):
        before, inside, pred = Calls(), [], flag(chosen)

        async def late():
            for _ in range(5):
                await asyncio.sleep(0)
            return before(1)

        def branch(value):
            return tg.py_function(lambda: inside.append(before.count) or value, [], "int32")

        with tg.control_dependencies([tg.py_function(late, [], "int32")]):
            y = tg.cond(pred, lambda: branch(1), lambda: branch(2))
        assert run(y) == (1 if chosen else 2)
        assert inside == [1]


@pytest.mark.rule(67)
class TestOperationsAsResults:
    @BOTH
    def test_give_whether_the_true_branch_ran_after_they_did(self, run, chosen):
        true, false = Calls(), Calls()
        result = tg.cond(
            flag(chosen),
            lambda: tg.py_function(lambda: true(1) and [], [], []),
            lambda: tg.py_function(lambda: false(1) and [], [], []),
        )
        assert result.dtype is tg.bool
        assert run(result) == chosen
        assert (true.count, false.count) == ((1, 0) if chosen else (0, 1))

    @BOTH
    def test_beside_a_bool(self, run, chosen):
        assert run(tg.cond(flag(chosen), tg.no_op, lambda: tg.constant(False))) == chosen

    def test_an_assignment_in_a_branch(self, run):
        v = tg.Variable(1.0)
        pred = tg.placeholder("bool", [])
        update = tg.cond(pred, lambda: v.assign(5.0).op, tg.no_op)
        run(v.initializer)
        assert (run(update, {pred: False}), run(v)) == (False, 1.0)
        assert (run(update, {pred: True}), run(v)) == (True, 5.0)


@pytest.mark.rule(68)
class TestStructures:
    @BOTH
    def test_tuples_lists_dicts_named_tuples_and_dataclasses(self, run, chosen):
        def build(n):
            return {
                "pair": Pair(tg.constant(n), [tg.constant(n + 1)]),
                "box": Box((tg.constant(n + 2),), tg.constant(str(n))),
            }

        found = run(tg.cond(flag(chosen), lambda: build(10), lambda: build(20)))
        n = 10 if chosen else 20
        assert isinstance(found["pair"], Pair)
        assert found["pair"].left == n
        assert found["pair"].right[0] == n + 1
        assert isinstance(found["box"], Box)
        assert found["box"].inner[0] == n + 2
        assert found["box"].label == str(n)

    @BOTH
    def test_keys_of_dicts_in_another_order(self, run, chosen):
        y = tg.cond(
            flag(chosen),
            lambda: {"a": tg.constant(1), "b": tg.constant(2)},
            lambda: {"b": tg.constant(20), "a": tg.constant(10)},
        )
        assert run(y) == ({"a": 1, "b": 2} if chosen else {"a": 10, "b": 20})

    def test_one_element_is_unpacked_unless_strict(self):
        one, two = lambda: [tg.constant(1)], lambda: [tg.constant(2)]
        assert isinstance(tg.cond(flag(True), one, two), tg.Tensor)
        assert isinstance(tg.cond(flag(True), one, two, strict=True), list)
        assert isinstance(tg.cond(flag(True), lambda: (tg.constant(1),), two()[0].op.outputs.copy), tg.Tensor)

    @BOTH
    def test_literals_take_the_dtype_of_the_other_branch(self, run, chosen):
        x = tg.constant(np.float64(2.5))
        y = tg.cond(flag(chosen), lambda: 1, lambda: x)
        assert y.dtype is tg.float64
        assert run(y) == (1.0 if chosen else 2.5)

    @BOTH
    def test_index_dtypes_of_slices_become_int64(self, run, chosen):
        def rows(dtype, where):
            return tg.IndexedSlices(
                tg.constant([[1.0, 2.0]]), tg.constant([where], dtype=dtype), tg.constant([3, 2], dtype=dtype)
            )

        y = tg.cond(flag(chosen), lambda: rows("int32", 2), lambda: rows("int64", 0))
        assert isinstance(y, tg.IndexedSlices)
        assert (y.indices.dtype, y.dense_shape.dtype) == (tg.int64, tg.int64)
        dense = np.zeros((3, 2))
        dense[2 if chosen else 0] = [1, 2]
        np.testing.assert_array_equal(run(tg.identity(y)), dense)

    def test_index_dtypes_that_agree_stay(self):
        def rows():
            return tg.IndexedSlices(tg.constant([1.0]), tg.constant([0]), tg.constant([3]))

        assert tg.cond(flag(True), rows, rows).indices.dtype is tg.int32

    def test_other_dtypes_are_not_widened(self):
        with pytest.raises(tg.BranchMismatchError, match=r"different dtypes for \[1\]"):
            tg.cond(flag(True), lambda: (1.0, tg.constant(1)), lambda: (2.0, tg.constant(1, dtype="int64")))


class TestTensorArrays:
    @BOTH
    def test_one_array_written_in_either_branch(self, run, chosen):
        array = tg.TensorArray("float32", 2).write(0, 1.0)
        after = tg.cond(flag(chosen), lambda: array.write(1, 5.0), lambda: array.write(1, 7.0))
        assert isinstance(after, tg.TensorArray)
        assert run(after.stack()).tolist() == [1.0, 5.0 if chosen else 7.0]

    @BOTH
    def test_written_in_one_branch_alone(self, run, chosen):
        x, array = tg.constant(3.0), tg.TensorArray("float32", 2, element_shape=[])
        after = tg.cond(flag(chosen), lambda: array.write(1, x * x), lambda: array)
        stacked = after.stack()
        assert run(stacked).tolist() == ([0.0, 9.0] if chosen else [0.0, 0.0])
        (g,) = tg.gradients(stacked, [x])
        assert run(g) == (6.0 if chosen else 0.0)

    @pytest.mark.parametrize("inside", [True, False])
    def test_different_arrays_are_refused(self, inside):
        first, second = tg.TensorArray("float32", 1), tg.TensorArray("float32", 1)
        true = (lambda: tg.TensorArray("float32", 1)) if inside else lambda: second
        with pytest.raises(tg.BranchMismatchError, match="different TensorArrays") as caught:
            tg.cond(flag(True), true, lambda: first)
        assert "false branch" in caught.value.wanted
        assert "true branch" in caught.value.got

    def test_an_array_beside_a_tensor_is_refused(self):
        array = tg.TensorArray("float32", 1)
        with pytest.raises(tg.BranchMismatchError, match="different TensorArrays"):
            tg.cond(flag(True), lambda: array.flow, lambda: array)


@pytest.mark.rule(69)
class TestStaticShapes:
    def test_agreeing_dimensions_are_kept(self):
        y = tg.cond(flag(True), lambda: tg.zeros([2, 3]), lambda: tg.zeros([4, 3]))
        assert y.shape == [None, 3]

    def test_different_ranks_leave_nothing(self):
        assert tg.cond(flag(True), lambda: tg.zeros([2, 3]), lambda: tg.zeros([2])).shape.rank is None


@pytest.mark.rule(70)
class TestCase:
    PAIRS = ((True, False), (False, True), (True, True), (False, False))

    @pytest.mark.parametrize("values", PAIRS)
    def test_the_first_true_one_wins(self, run, values):
        a, b = map(flag, values)
        calls = [Calls(), Calls(), Calls()]
        y = tg.case([(a, lambda: calls[0].watch(1)), (b, lambda: calls[1].watch(2))], default=lambda: calls[2].watch(3))
        wanted = 1 if values[0] else 2 if values[1] else 3
        assert run(y) == wanted
        assert [c.count for c in calls] == [n == wanted for n in (1, 2, 3)]

    @pytest.mark.parametrize("values", PAIRS)
    def test_exclusive_is_checked_when_it_runs(self, run, values):
        a, b = map(flag, values)
        y = tg.case([(a, lambda: tg.constant(1)), (b, lambda: tg.constant(2))], lambda: tg.constant(3), exclusive=True)
        if all(values):
            with pytest.raises(tg.OpError, match="Input error: more than one"):
                run(y)
        else:
            assert run(y) == (1 if values[0] else 2 if values[1] else 3)

    @pytest.mark.parametrize("values", PAIRS)
    def test_without_default_none_true_is_an_error(self, run, values):
        a, b = map(flag, values)
        y = tg.case([(a, lambda: tg.constant(1)), (b, lambda: tg.constant(2))])
        if any(values):
            assert run(y) == (1 if values[0] else 2)
        else:
            with pytest.raises(tg.OpError, match="Input error: no predicate"):
                run(y)

    def test_one_pair_without_default(self, run):
        pred = tg.placeholder("bool", [])
        y = tg.case([(pred, lambda: tg.constant(1))])
        assert run(y, {pred: True}) == 1
        with pytest.raises(tg.OpError, match="no predicate"):
            run(y, {pred: False})

    def test_a_dict_of_pairs(self, run):
        y = tg.case({flag(False): lambda: tg.constant(1), flag(True): lambda: tg.constant(2)})
        assert run(y) == 2

    @pytest.mark.parametrize("values", PAIRS)
    def test_gradient(self, run, values):
        x = tg.constant(3.0)
        a, b = map(flag, values)
        y = tg.case([(a, lambda: x * x), (b, lambda: 5.0 * x)], default=lambda: x * x * x)
        (first,) = tg.gradients(y, [x])
        (second,) = tg.gradients(first, [x], unconnected_gradients="zero")
        wanted = (6.0, 2.0) if values[0] else (5.0, 0.0) if values[1] else (27.0, 18.0)
        assert tuple(run([first, second])) == wanted

    @pytest.mark.rule(70)
    @pytest.mark.parametrize("strict", [False, True])
    def test_a_single_pair_without_a_default_is_checked(self, run, strict):
        p, x, calls = tg.placeholder("bool", []), tg.constant(2.0), Calls()
        y = tg.case([(p, lambda: calls.watch(x))], strict=strict)
        literal = tg.case([(p, lambda: [5])], strict=strict)
        assert run([y, literal], {p: True}) == [2.0, [5] if strict else 5]
        with pytest.raises(tg.OpError, match="no predicate of case is true"):
            run(y, {p: False})
        assert calls.count == 1


class TestSwitchCase:
    @pytest.mark.rule(5)
    @pytest.mark.parametrize("index", [0, 1, 2, 3, -1, 99])
    def test_out_of_range_is_the_default(self, run, index):
        calls = [Calls() for _ in range(3)]
        x = tg.constant(10)
        i = tg.placeholder("int32", [])
        y = tg.switch_case(i, [lambda c=c, k=k: c.watch(x + k) for k, c in enumerate(calls)])
        chosen = index if 0 <= index < 3 else 2
        assert run(y, {i: index}) == 10 + chosen
        assert [c.count for c in calls] == [k == chosen for k in range(3)]

    @pytest.mark.parametrize("index", [0, 1, 2])
    def test_a_dict_and_a_default(self, run, index):
        i = tg.placeholder("int32", [])
        y = tg.switch_case(i, {1: lambda: tg.constant("b"), 0: lambda: tg.constant("a")}, lambda: tg.constant("c"))
        assert run(y, {i: index}) == "abc"[index]

    def test_pairs_of_number_and_function(self, run):
        assert run(tg.switch_case(tg.constant(0), [(1, lambda: "b"), (0, lambda: "a")])) == "a"

    @pytest.mark.parametrize("index", [0, 1, 5])
    def test_gradient(self, run, index):
        x, i = tg.constant(3.0), tg.placeholder("int32", [])
        y = tg.switch_case(i, [lambda: x * x, lambda: 4.0 * x, lambda: tg.constant(1.0)])
        (g,) = tg.gradients(y, [x])
        assert run(g, {i: index}) == {0: 6.0, 1: 4.0, 5: 0.0}[index]


@pytest.mark.rule(57)
def test_an_effect_that_no_fetched_result_needs_does_not_run(run):
    calls, x = Calls(), tg.constant(1)
    kept, dropped = tg.cond(flag(True), lambda: (x + 1, calls.watch(x)), lambda: (x, x))
    assert run(kept) == 2
    assert calls.count == 0
    assert run(dropped) == 1
    assert calls.count == 1


@pytest.mark.rule(59)
def test_an_assertion_in_a_branch_not_taken_does_not_fire(run):
    pred = tg.placeholder("bool", [])

    def checked():
        with tg.control_dependencies([tg.Assert(tg.constant(False), ["never"])]):
            return tg.constant(1)

    y = tg.cond(pred, checked, lambda: tg.constant(2))
    assert run(y, {pred: False}) == 2
    with pytest.raises(tg.OpError, match="never"):
        run(y, {pred: True})


@pytest.mark.rule(93)
@BOTH
def test_gradient_of_what_one_branch_uses(run, chosen):
    x, y = tg.constant([1.0, 2.0]), tg.constant([3.0, 4.0])
    z = tg.cond(flag(chosen), lambda: x * x, lambda: y * 5.0)
    gx, gy = run(tg.gradients(z, [x, y]))
    assert gx.tolist() == ([2.0, 4.0] if chosen else [0.0, 0.0])
    assert gy.tolist() == ([0.0, 0.0] if chosen else [5.0, 5.0])


def test_true_fn_is_called_first(run):
    order = []
    x = tg.constant(1.0)
    result = tg.cond(x > 0.0, lambda: order.append("true") or x, lambda: order.append("false") or -x)
    assert order == ["true", "false"]
    assert run(result) == 1.0


class TestSmartCond:
    @pytest.mark.parametrize("pred", [True, False, np.True_, np.False_])
    def test_a_choice_that_is_known_calls_one_function(self, graph, pred):
        x = tg.constant(1.0)
        for known in (pred, tg.constant(pred)):
            called = []
            tg.smart_cond(known, lambda: called.append(True) or x, lambda: called.append(False) or x)  # noqa: B023
            assert called == [bool(pred)]
        assert not [op for op in graph.get_operations() if op.is_cond]

    def test_any_other_is_a_cond(self, run):
        pred, x = tg.placeholder("bool", []), tg.constant(2.0)
        y = tg.smart_cond(pred, lambda: x * x, lambda: -x)
        assert [run(y, {pred: p}) for p in (True, False)] == [4.0, -2.0]

    @BOTH
    def test_the_result_is_what_cond_gives(self, run, chosen):
        def branch():
            return {"a": [3.0], "ran": tg.no_op()}

        known, late = tg.smart_cond(chosen, branch, branch), tg.cond(flag(chosen), branch, branch)
        assert run(known) == run(late) == {"a": [3.0], "ran": chosen}
        assert run(tg.smart_cond(chosen, lambda: [1], lambda: [1])) == 1

    def test_what_was_looked_at_can_not_be_fed(self, run):
        pred = tg.constant(True)
        y = tg.smart_cond(pred, lambda: 1, lambda: 2)
        with pytest.raises(tg.GraphError, match="fed"):
            run(y, {pred: False})

    def test_what_is_no_bool_is_refused(self, graph):
        with pytest.raises(tg.DtypeError, match="predicate of smart_cond"):
            tg.smart_cond(1, lambda: 1, lambda: 2)

"""Lowering: goldens of what Cond and While become, and that it runs as their regions say."""

from dataclasses import replace

import numpy as np
import pytest
from tagloom.base.settings import DEFAULTS
from tagloom.compile.lower.lowering import lower
from tagloom.frontend.control.conditional import case, cond, switch_case
from tagloom.frontend.control.loops import while_loop
from tagloom.frontend.control.scopes import control_dependencies
from tagloom.frontend.functions.py_function import py_function
from tagloom.ir import scopes
from tagloom.ir.apply import constant
from tagloom.ir.program import Program, copy_program
from tagloom.ir.structured import save_maybe, save_series, trip_count
from tagloom.ir.text import parse, to_text
from tagloom.ops.control.placeholders import identity, no_op, placeholder
from tagloom.runtime.reference.executor import ReferenceMachine

from tests.ops.evaluation import declare_all
from tests.ops.instances import make_step
from tests.support.compiling import lowered, plan_of
from tests.support.execute import Calls, execute
from tests.support.settings import MACHINE
from tests.support.tiers import is_thorough

pytestmark = pytest.mark.usefixtures("graph")

declare_all()


def operations(fetches, feeds=(), targets=()):
    """Return the lowered operations by type."""
    found = {}
    settings = replace(MACHINE, hoist=False)  # constants where they were written
    program = lowered(Program(scopes.get_default_graph(), list(feeds), list(fetches), list(targets)), settings)
    for op in program.graph.get_operations():
        found.setdefault(op.type, []).append(op)
    return found


def plainly_lowered(fetches, feeds=()):
    """Return the text after pruning and lowering alone, as a golden shows it."""
    program = copy_program(Program(scopes.get_default_graph(), list(feeds), list(fetches)))
    text = to_text(lower(program).graph)
    assert to_text(parse(text)) == text
    return text


# ---- goldens


@pytest.mark.rule(65, 66, 68)
def test_golden_cond(golden):
    x, p = placeholder("float32", [None], name="x"), placeholder("bool", [], name="p")
    y = cond(p, lambda: x + 1.0, lambda: x, name="choose")
    golden("lowered_cond", plainly_lowered([y], [x, p]))


@pytest.mark.rule(71, 72)
def test_golden_nested_while(golden):
    n = placeholder("int32", [], name="n")

    def outer(i, total):
        _, inner = while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + n), [i, total], name="inner")
        return i + 1, inner

    _, total = while_loop(lambda i, t: i < n, outer, [0, 0], name="outer")
    golden("lowered_nested_while", plainly_lowered([total], [n]))


@pytest.mark.rule(72, 73, 74, 77)
def test_golden_invariants_and_pivots(golden):
    n, x = placeholder("int32", [], name="n"), placeholder("float32", [], name="x")
    _, a = while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + x * x), [0, x], name="loop")
    golden("lowered_pivots", plainly_lowered([a], [n, x]))


@pytest.mark.rule(40, 65)
def test_golden_while_in_cond(golden):
    x, p = placeholder("int32", [], name="x"), placeholder("bool", [], name="p")
    y = cond(p, lambda: while_loop(lambda i: i < x, lambda i: i + 2, [0], name="loop"), lambda: -x, name="choose")
    golden("lowered_while_in_cond", plainly_lowered([y], [x, p]))


@pytest.mark.rule(85)
def test_golden_saved_values(golden):
    n = placeholder("int32", [], name="n")
    squares = []

    def body(i, total):
        squares.append(i * i)
        return i + 1, total + squares[0]

    _, total = while_loop(lambda i, t: i < n, body, [0, 0], name="loop")
    series, trips = save_series(total.op, squares[0]), trip_count(total.op)
    golden("lowered_saved_values", plainly_lowered([total, series, trips], [n]))


# ---- cond


@pytest.mark.rule(64)
async def test_branch_functions_run_once_and_what_is_outside_runs_always():
    calls, outside = [], Calls()
    p = placeholder("bool", [])
    made = outside.watch(constant(1))

    def branch(name, value):
        calls.append(name)
        return made + value

    y = cond(p, lambda: branch("true", 1), lambda: branch("false", 2))
    assert sorted(calls) == ["false", "true"]
    assert await execute([y], {p: True}) == [2]
    assert await execute([y], {p: False}) == [3]
    z = cond(p, lambda: made, lambda: constant(0))
    assert await execute([z], {p: False}) == [0]
    assert outside.count == 3


@pytest.mark.rule(65)
def test_one_switch_for_each_captured_tensor_and_cond():
    x, p = placeholder("float32", []), placeholder("bool", [])
    y = cond(p, lambda: x * x + x, lambda: x)
    switches = operations([y], [x, p])["Switch"]
    assert len(switches) == 1
    assert switches[0].inputs[0].op.attrs["index"] == 0


@pytest.mark.rule(65)
def test_nested_conds_switch_level_by_level():
    x, p, q = placeholder("float32", []), placeholder("bool", []), placeholder("bool", [])
    y = cond(p, lambda: cond(q, lambda: x, lambda: -x), lambda: x)
    switches = {op.inputs[0].op.type for op in operations([y], [x, p, q])["Switch"]}
    assert switches == {"Feed", "Switch"}


@pytest.mark.rule(66)
async def test_an_operation_without_inputs_waits_for_its_branch():
    taken, other, p = Calls(), Calls(), placeholder("bool", [])
    y = cond(p, lambda: taken.watch(1), lambda: other.watch(2))
    constants = [op for op in operations([y], [p])["Const"] if op.control_inputs]
    assert [op.control_inputs[0].type for op in constants] == ["Identity", "Identity"]
    assert await execute([y], {p: True}) == [1]
    assert (taken.count, other.count) == (1, 0)


@pytest.mark.rule(67)
async def test_an_operation_as_result_stands_for_its_branch():
    p = placeholder("bool", [])
    y = cond(p, no_op, no_op)
    assert y.dtype.name == "bool"
    assert await execute([y], {p: True}) == [True]
    assert await execute([y], {p: False}) == [False]


@pytest.mark.rule(68)
def test_without_strict_one_element_is_unpacked():
    p = placeholder("bool", [])
    assert not isinstance(cond(p, lambda: [constant(1)], lambda: [constant(2)]), list)
    assert isinstance(cond(p, lambda: [constant(1)], lambda: [constant(2)], strict=True), list)


@pytest.mark.rule(56, 69)
def test_static_shape_of_a_result_keeps_what_the_branches_agree_on():
    p, x, y = placeholder("bool", []), placeholder("float32", [2, 3]), placeholder("float32", [4, 3])
    assert cond(p, lambda: x, lambda: y).shape == [None, 3]
    assert cond(p, lambda: x, lambda: constant(1.0)).shape.rank is None


@pytest.mark.rule(5)
@pytest.mark.parametrize(("index", "wanted"), [(0, 10), (1, 20), (2, 30), (-1, 30), (7, 30)])
async def test_switch_case_runs_the_last_branch_out_of_range(index, wanted):
    i = placeholder("int32", [])
    y = switch_case(i, [lambda: constant(10), lambda: constant(20)], default=lambda: constant(30))
    assert await execute([y], {i: index}) == [wanted]


@pytest.mark.rule(70)
@pytest.mark.parametrize(("value", "wanted"), [(0, 1), (4, 2), (9, 3)])
async def test_case_takes_the_first_true_predicate(value, wanted):
    x = placeholder("int32", [])
    y = case([(x < 1, lambda: constant(1)), (x < 5, lambda: constant(2))], default=lambda: constant(3))
    assert await execute([y], {x: value}) == [wanted]


@pytest.mark.rule(70)
async def test_case_checks_its_predicates_when_run():
    x = placeholder("int32", [])
    pairs = [(x < 5, lambda: constant(1)), (x < 9, lambda: constant(2))]
    with pytest.raises(Exception, match="Input error"):
        await execute([case(pairs, default=lambda: constant(3), exclusive=True)], {x: 3})
    with pytest.raises(Exception, match="Input error"):
        await execute([case(pairs)], {x: 10})
    assert await execute([case(pairs)], {x: 6}) == [2]


async def test_a_saved_maybe_is_live_in_its_branch_only():
    p, x = placeholder("bool", []), placeholder("float32", [])
    inner = []
    y = cond(p, lambda: inner.append(x * 2.0) or inner[0] + 1.0, lambda: x)
    maybe = identity(save_maybe(y.op, 1, inner[0]))
    assert await execute([maybe], {p: True, x: 3.0}) == [6.0]
    (dead,) = await execute([maybe], {p: False, x: 3.0})
    assert repr(dead) == "DEAD"


# ---- while_loop


@pytest.mark.rule(71)
def test_a_loop_variable_becomes_the_six_primitives():
    n = placeholder("int32", [])
    y = while_loop(lambda i: i < n, lambda i: i + 1, [0])
    found = operations([y], [n])
    (merge,), (switch,), (exit_,) = found["Merge"], found["Switch"], found["Exit"]
    assert [t.op.type for t in merge.inputs] == ["Enter", "NextIteration"]
    assert [t.op.type for t in switch.inputs] == ["Merge", "LoopCond"]
    assert (exit_.inputs[0].op, exit_.inputs[0].index) == (switch, 0)
    assert found["NextIteration"][0].inputs[0].op.inputs[0].index == 1


@pytest.mark.rule(72)
def test_one_constant_enter_for_each_captured_tensor_and_level():
    n, x = placeholder("int32", []), placeholder("float32", [])

    def outer(i, a):
        return i + 1, while_loop(lambda j, b: j < n, lambda j, b: (j + 1, b * x + x), [0, a * x])[1]

    _, y = while_loop(lambda i, a: i < n, outer, [0, x])
    enters = [op for op in operations([y], [n, x])["Enter"] if op.attrs["is_constant"]]
    captured = sorted((op.attrs["frame_name"], op.inputs[0].op.type) for op in enters)
    assert captured.count(("while_1", "Feed")) == 2
    assert captured.count(("while", "Enter")) == 2


@pytest.mark.rule(73)
def test_operations_without_inputs_wait_for_the_pivot():
    y = while_loop(lambda i: i < constant(7), lambda i: i + constant(2), [0])
    pivots = {int(op.attrs["value"]): op.control_inputs for op in operations([y])["Const"]}
    assert pivots[0] == []
    assert [op.type for op in pivots[7]] == ["Merge"]
    assert [op.type for op in pivots[2]] == ["Identity"]


@pytest.mark.rule(21, 74)
async def test_operations_on_invariants_run_once_for_each_iteration():
    calls, n, x = Calls(), placeholder("int32", []), placeholder("float32", [])
    _, a = while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + calls.watch(x)), [0, 0.0])
    assert await execute([a], {n: 3, x: 2.0}) == [6.0]
    assert calls.count == 3
    assert await execute([a], {n: 0, x: 2.0}) == [0.0]
    assert calls.count == 3


@pytest.mark.rule(75)
async def test_a_body_waits_once_for_an_operation_outside():
    calls, n = Calls(), placeholder("int32", [])
    first = calls.watch(constant(5))
    order = Calls()

    def body(i):
        with control_dependencies([first]):
            return py_function(lambda v: order(calls.count) * 0 + v + 1, [i], "int32", output_shapes=[])

    y = while_loop(lambda i: i < n, body, [0])
    assert await execute([y], {n: 3}) == [3]
    assert calls.count == 1
    assert order.values == [1, 1, 1]


@pytest.mark.rule(76)
def test_control_dependencies_around_a_loop_apply_to_its_enters():
    n, first = placeholder("int32", []), no_op("first")
    with control_dependencies([first]):
        y = while_loop(lambda i: i < n, lambda i: i + 1, [0])
    found = operations([y], [n])
    enters = {op.attrs["is_constant"]: [c.name for c in op.control_inputs] for op in found["Enter"]}
    assert enters == {False: ["first"], True: []}
    inside = [op for type_ in ("Less", "Add", "Merge", "Switch", "NextIteration") for op in found[type_]]
    assert not any(c.name == "first" for op in inside for c in op.control_inputs)


@pytest.mark.rule(77)
async def test_an_inner_loop_that_starts_from_an_invariant_waits_for_the_outer_pivot():
    n, x, calls = placeholder("int32", []), placeholder("int32", []), Calls()

    def inner_body(j):
        return calls.watch(j) + 1

    def outer(i, t):
        return i + 1, t + while_loop(lambda j: j < 12, inner_body, [x], name="inner")

    _, y = while_loop(lambda i, t: i < n, outer, [0, 0], name="outer")
    enters = operations([y], [n, x])["Enter"]
    (start,) = [op for op in enters if op.attrs["frame_name"] == "inner" and not op.attrs["is_constant"]]
    assert [c.type for c in start.control_inputs] == ["Identity"]
    assert await execute([y], {n: 2, x: 10}) == [24]
    assert sorted(calls.values) == [10, 10, 11, 11]


@pytest.mark.rule(78)
async def test_control_edges_within_an_iteration_are_kept():
    seen, n = [], placeholder("int32", [])

    def note(what, value):
        return py_function(lambda v: seen.append((what, int(v))) or v, [value], "int32", output_shapes=[])

    def body(i):
        first = py_function(lambda v: seen.append(("first", int(v))), [i], [])
        with control_dependencies([first]):
            return note("second", i) + 1

    y = while_loop(lambda i: i < n, body, [0], parallel_iterations=1)
    with control_dependencies([y]):
        after = note("after", n)
    assert await execute([after], {n: 2}) == [2]
    assert seen == [("first", 0), ("second", 0), ("first", 1), ("second", 1), ("after", 2)]


@pytest.mark.rule(80)
async def test_structures_are_kept_and_a_single_variable_is_unpacked():
    n = placeholder("int32", [])
    result = while_loop(
        lambda i, d: i < n,
        lambda i, d: [i + 1, {"a": d["b"][0], "b": (d["a"],)}],
        (0, {"a": constant(1), "b": (constant(2),)}),
    )
    assert isinstance(result, tuple)
    assert isinstance(result[1]["b"], tuple)
    assert await execute([result[1]["a"], result[1]["b"][0]], {n: 3}) == [2, 1]
    assert while_loop(lambda i: i < n, lambda i: i + 1, [0]).rank == 0
    assert isinstance(while_loop(lambda i: i < n, lambda i: [i + 1], [0], return_same_structure=True), list)


@pytest.mark.rule(81)
async def test_maximum_iterations_ends_a_loop_also_when_it_comes_from_an_outer_one():
    assert await execute([while_loop(lambda i: constant(True), lambda i: i + 1, [0], maximum_iterations=4)]) == [4]

    def outer(i, t):
        return i + 1, while_loop(lambda j: j < 100, lambda j: j + 1, [t], maximum_iterations=i)

    _, y = while_loop(lambda i, t: i < 5, outer, [0, 0])
    assert await execute([y]) == [0 + 1 + 2 + 3 + 4]


@pytest.mark.rule(82)
async def test_numbers_and_arrays_are_loop_variables():
    i, v = while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * 2.0), [0, np.float64([1, 2])])
    assert (i.dtype.name, v.dtype.name, v.shape) == ("int32", "float64", [2])
    _, value = await execute([i, v])
    np.testing.assert_array_equal(value, [4, 8])


@pytest.mark.rule(39)
async def test_a_loop_without_iterations_gives_its_initial_values():
    calls = Calls()
    i, x = while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, calls.watch(x)), [5, 1.5])
    assert await execute([i, x]) == [5, 1.5]
    assert calls.count == 0


@pytest.mark.rule(40)
@pytest.mark.parametrize("shuffle_seed", [None, 1, 2])
async def test_a_loop_in_an_untaken_branch_does_not_run(shuffle_seed):
    calls, p, n = Calls(), placeholder("bool", []), placeholder("int32", [])
    loop = lambda: while_loop(lambda i: i < n, lambda i: calls.watch(i) + 1, [0])  # noqa: E731
    y = cond(p, loop, lambda: -n)
    assert await execute([y], {p: False, n: 3}, shuffle_seed=shuffle_seed) == [-3]
    assert calls.count == 0
    assert await execute([y], {p: True, n: 3}, shuffle_seed=shuffle_seed) == [3]


async def test_a_cond_in_a_loop_chooses_anew_in_each_iteration():
    n = placeholder("int32", [])

    def body(i, t):
        even = (i % 2) < 1
        return i + 1, cond(even, lambda: t + i, lambda: t * n)

    _, y = while_loop(lambda i, t: i < n, body, [0, 1])
    wanted = 1
    for i in range(5):
        wanted = wanted + i if i % 2 == 0 else wanted * 5
    assert await execute([y], {n: 5}) == [wanted]


async def test_a_saved_series_holds_a_value_for_each_iteration():
    n, squares = placeholder("int32", []), []

    def body(i):
        squares.append(i * i)
        return i + 1

    y = while_loop(lambda i: i < n, body, [0])
    series, trips = save_series(y.op, squares[0]), trip_count(y.op)
    program = lowered(Program(y.graph, [n], [y, trips, series]))
    assert len([op for op in program.graph.get_operations() if op.type == "SeriesPush"]) == 1
    last, count = await execute([y, trips], {n: 4})
    assert (int(last), int(count)) == (4, 4)
    (saved,) = await execute_series(series, {n: 4})
    assert {k: int(saved.get(k)) for k in saved.indices()} == {0: 0, 1: 1, 2: 4, 3: 9}


async def execute_series(series, feeds):
    """Return saved values as they are: a series is no array."""
    plan = plan_of(Program(series.graph, list(feeds), [series]))
    machine = ReferenceMachine(plan, make_step(), [np.asarray(v, t.dtype.numpy) for t, v in feeds.items()])
    await machine.run()
    assert machine.failure is None
    return machine.fetches


@pytest.mark.rule(65, 72)
async def test_captures_reach_through_loops_and_branches():
    n, x, p = placeholder("int32", []), placeholder("int32", []), placeholder("bool", [])

    def outer(i, t):
        inner = lambda: while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u + x * n), [0, t])[1]  # noqa: E731
        return i + 1, cond(p, inner, lambda: t - x)

    _, y = while_loop(lambda i, t: i < n, outer, [0, 0])
    assert await execute([y], {n: 4, x: 3, p: True}) == [6 * 12]
    assert await execute([y], {n: 4, x: 3, p: False}) == [-12]


def test_settings_of_the_thorough_tier_check_all_passes():
    if not is_thorough():
        pytest.skip("the default tier checks passes in some tests only: tests/architecture/test_tiers.py")
    assert DEFAULTS.check_passes

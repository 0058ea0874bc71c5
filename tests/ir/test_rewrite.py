"""Copying prunes and keeps meaning; folding and merging of duplicates respect feeds, effects and regions."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.errors import GraphError
from tagloom.base.settings import DEFAULTS, Settings
from tagloom.compile.simplify.cse import merge_duplicates
from tagloom.compile.simplify.fold import fold_constants
from tagloom.frontend.control.conditional import cond
from tagloom.frontend.control.loops import while_loop
from tagloom.frontend.control.scopes import control_dependencies, device
from tagloom.ir.apply import apply, constant
from tagloom.ir.program import Program, copy_program
from tagloom.ir.structured import num_results, save_maybe, save_series, saved_outputs, trip_count
from tagloom.ir.text import to_text
from tagloom.ir.topological import topological_order
from tagloom.ir.verify import check
from tagloom.ops.control.placeholders import identity, no_op, placeholder
from tagloom.ops.control.primitives import enter, exit, loop_cond, merge, next_iteration, switch

from tests.ops.evaluation import declare_all
from tests.support.compiling import lowered, pruned
from tests.support.execute import Calls, execute
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

declare_all()


def copied(fetches, feeds=(), targets=()):
    program = pruned(Program((list(fetches) + list(targets))[0].graph, list(feeds), list(fetches), list(targets)))
    check(program.graph, "structured")
    return program


def types(program):
    return [op.type for op in program.graph.get_operations()]


def the(program, type_):
    (found,) = [op for op in program.graph.get_operations() if op.type == type_]
    return found


# ---- pruning


@pytest.mark.rule(57)
def test_only_what_is_fetched_is_copied():
    x = placeholder("float32", [])
    y, _ = x + 1.0, x * 2.0
    assert types(copied([y])) == ["Placeholder", "Const", "Add"]


@pytest.mark.rule(60)
async def test_a_fed_tensor_replaces_what_makes_it():
    calls = Calls()
    made = calls.watch(constant(1.0))
    y = made + 1.0
    assert types(copied([y, made], [made])) == ["Feed", "Const", "Add"]
    assert await execute([y, made, made], {made: 5.0}) == [6.0, 5.0, 5.0]
    assert calls.count == 0


def test_targets_are_kept_with_what_they_wait_for():
    first = no_op("first")
    with control_dependencies([first]):
        second = no_op("second")
    program = copied([], targets=[second])
    assert [op.name for op in program.targets] == ["second"]
    assert program.targets[0].control_inputs[0].name == "first"


@pytest.mark.rule(57)
def test_unused_loop_variables_are_left_out():
    i, a, b, _ = while_loop(
        lambda i, a, b, c: i < 3, lambda i, a, b, c: (i + 1, a + b, b * 2, c - 1), [0, 1, 2, 3], name="loop"
    )
    assert num_results(the(copied([i]), "While")) == 1
    assert num_results(the(copied([b]), "While")) == 2
    loop = the(copied([a]), "While")
    assert num_results(loop) == 3
    assert [len(r.params) for r in loop.regions] == [3, 3]
    assert "Sub" not in [op.type for op in loop.regions[1].operations]


@pytest.mark.rule(57)
async def test_an_effect_that_no_fetched_branch_result_needs_does_not_run():
    p, wanted, other = placeholder("bool", []), Calls(), Calls()
    x, _ = cond(p, lambda: (wanted.watch(1), other.watch(2)), lambda: (constant(3), constant(4)))
    (copy,) = [op for op in copied([x], [p]).graph.get_operations() if op.type == "Cond"]
    assert len(copy.outputs) == 1
    assert await execute([x], {p: True}) == [1]
    assert (wanted.count, other.count) == (1, 0)


@pytest.mark.rule(57)
async def test_an_effect_in_a_body_that_nothing_waits_for_does_not_run():
    free, waited = Calls(), Calls()

    def body(i):
        free.watch(i)
        with control_dependencies([waited.watch(i)]):
            return identity(i) + 1

    assert await execute([while_loop(lambda i: i < 3, body, [0])]) == [3]
    assert (free.count, waited.values) == (0, [0, 1, 2])


def test_saved_values_that_nobody_reads_are_left_out():
    squares, inner, p = [], [], placeholder("bool", [])
    i = while_loop(lambda i: i < 3, lambda i: squares.append(i * i) or i + 1, [0])
    choose = cond(p, lambda: inner.append(i + 7) or inner[0] * 2, lambda: i)
    save_series(i.op, squares[0])
    trips, maybe = trip_count(i.op), save_maybe(choose.op, 1, inner[0])
    loop = the(copied([i]), "While")
    assert saved_outputs(loop) == []
    assert "Mul" not in [op.type for op in loop.regions[1].operations]
    assert [e.kind for e in saved_outputs(the(copied([trips]), "While"))] == ["trip"]
    program = copied([maybe])
    assert [e.kind for e in saved_outputs(the(program, "Cond"))] == ["maybe"]
    assert num_results(the(program, "Cond")) == 0
    assert num_results(the(program, "While")) == 1


def test_a_saved_value_keeps_the_variables_it_depends_on():
    seen = []
    i, x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, seen.append(x * 2) or x + 1), [0, 5])
    loop = the(copied([save_series(i.op, seen[0])]), "While")
    assert num_results(loop) == 2
    assert x.op is i.op


def test_a_copy_of_a_copy_reads_the_same_and_the_original_is_untouched():
    n = placeholder("int32", [], name="n")
    y = while_loop(lambda i: i < n, lambda i: cond(i < 2, lambda: i + 1, lambda: i + n), [0])
    before = to_text(y.graph)
    program = copied([y], [n])
    text = to_text(program.graph)
    again = copy_program(Program(program.graph, program.feeds, program.fetches))
    assert to_text(again.graph).replace("_1", "") == text.replace("_1", "")
    assert to_text(y.graph) == before


# ---- order


def test_an_operation_given_a_later_input_is_put_in_order():
    early = identity(constant(1))
    late = identity(constant(2)) + 5
    early.op.update_input(0, late)
    order = [op.name for op in topological_order(early.graph.root.operations)]
    assert order.index("Add") < order.index(early.op.name)


async def test_a_graph_out_of_order_runs():
    early = identity(constant(1))
    early.op.update_input(0, identity(constant(2)) + 5)
    assert await execute([early * 2]) == [14]


@pytest.mark.rule(10, 71)
@pytest.mark.parametrize("back", [0, 1])
async def test_a_hand_made_loop_may_have_its_back_edge_first_or_last(back):
    start = enter(constant(0), "frame")
    variable, _ = merge([start, start])
    limit, step = (enter(constant(v), "frame", is_constant=True) for v in (7, 2))
    done, more = switch(variable, loop_cond(variable < limit))
    variable.op.update_input(back, next_iteration(more + step))
    assert await execute([exit(done)]) == [8]


def test_a_merge_with_back_edges_alone_is_refused():
    start = enter(constant(0), "frame")
    variable, _ = merge([start])
    variable.op.update_input(0, next_iteration(variable))
    with pytest.raises(GraphError, match="no input from outside its loop"):
        copied([exit(variable)])


# ---- folding


def folded(fetches, feeds=(), settings=DEFAULTS):
    program = fold_constants(copied(fetches, feeds), settings.fold_bytes)
    check(program.graph, "structured")
    return copy_program(program)


def test_constants_are_computed_while_compiling():
    program = folded([(constant(2) + 3) * 4])
    assert types(program) == ["Const"]
    assert program.fetches[0].op.attrs["value"] == 20


@pytest.mark.rule(58)
async def test_a_fed_constant_is_none():
    p = constant(True)
    y = cond(p, lambda: constant(1), lambda: constant(2))
    z = constant(2) * 3
    assert await execute([y], {p: False}) == [2]
    assert await execute([y]) == [1]
    assert types(folded([z], [z.op.inputs[0]])) == ["Feed", "Const", "Mul"]
    assert await execute([z], {z.op.inputs[0]: 5}) == [15]


@pytest.mark.rule(59)
@pytest.mark.parametrize("taken", [True, False])
async def test_an_assertion_in_an_untaken_branch_does_not_fire(taken):
    p = constant(taken)

    def fails():
        with control_dependencies([apply("Assert", constant(False), [constant(1)], message="fired")]):
            return identity(constant(1))

    y = cond(p, fails, lambda: constant(2))
    if not taken:
        assert await execute([y]) == [2]
        return
    with pytest.raises(Exception, match="fired"):
        await execute([y])
    assert await execute([y], {p: False}) == [2]


@pytest.mark.rule(59)
async def test_a_switch_that_carries_only_control_is_not_cut():
    calls, p = Calls(), placeholder("bool", [])
    _, taken = switch(constant(0), p)
    with control_dependencies([identity(taken)]):
        effect = calls.watch(constant(1))
    await execute([], {p: False}, targets=[effect.op])
    assert calls.count == 0
    await execute([], {p: True}, targets=[effect.op])
    assert calls.count == 1


def test_what_has_effects_waits_or_grows_too_large_is_not_folded():
    with control_dependencies([no_op()]):
        waiting = constant(1)
    random = apply("RandomUniform", constant([2]), [], seed=1)
    large = apply("Fill", constant([1000]), constant(1.0))
    assert "Add" in types(folded([waiting + 1]))
    assert "RandomUniform" in types(folded([random]))
    assert types(folded([large])) == ["Const"]
    assert "Fill" in types(folded([large], settings=Settings(fold_bytes=100)))


async def test_an_error_of_a_constant_operation_is_left_to_the_step():
    p = placeholder("bool", [])
    bad = apply("Gather", constant([1, 2]), constant(7), axis=0)
    y = cond(p, lambda: identity(constant(1)), lambda: identity(bad))
    assert "Gather" in types(folded([bad]))
    with pytest.raises(IndexError):
        await execute([y], {p: True})


# ---- duplicates


def merged(fetches, feeds=()):
    program = merge_duplicates(copied(fetches, feeds))
    check(program.graph, "structured")
    return copy_program(program)


def test_two_operations_that_compute_the_same_become_one():
    x = placeholder("float32", [2])
    assert types(merged([(x + 1.0) * (x + 1.0)], [x])) == ["Feed", "Const", "Add", "Mul"]
    assert types(merged([x + 1.0, x + 2.0], [x])).count("Add") == 2


def test_what_is_saved_twice_is_read_from_one_series():
    x = placeholder("float32", [])
    y = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, apply("Sin", y) * x + apply("Sin", y) * y), [0, x])[1]
    found = merged([y, *tg.gradients(y, [x])], [x])
    (loop,) = [op for op in found.graph.root.walk() if op.is_while and saved_outputs(op)]
    series = [each.value for each in saved_outputs(loop) if each.kind == "series"]
    assert len(series) == len(set(series)) == 2  # sin(y) and y
    assert [op.type for op in found.graph.root.walk()].count("SeriesRead") == 2


def test_attributes_dtypes_and_devices_tell_operations_apart():
    x = placeholder("float32", [2, 2])
    sums = [apply("Sum", x, axis=(axis,), keepdims=False) for axis in (0, 1, 0)]
    assert types(merged(sums, [x])).count("Sum") == 2
    assert types(merged([constant(1), constant(1.0), constant(np.int32(1)), constant(True)])).count("Const") == 3
    with device("/cpu:1"):
        elsewhere = x + x
    assert types(merged([x + x, elsewhere], [x])).count("Add") == 2


def test_zero_and_minus_zero_are_two_constants():
    assert types(merged([constant(0.0), constant(-0.0)])).count("Const") == 2


def test_effects_and_what_waits_are_not_merged():
    first = no_op()
    calls = Calls()
    watched = [calls.watch(constant(1)) for _ in range(2)]
    assert types(merged(watched)).count("PyFunction") == 2
    x = placeholder("int32", [])
    with control_dependencies([first]):
        waiting = x + x
    assert types(merged([x + x, waiting], [x])).count("Add") == 2


def test_a_twin_in_a_region_merges_with_one_around_it_but_not_beside_it():
    x, p = placeholder("int32", []), placeholder("bool", [])
    outside = x * x
    y = cond(p, lambda: x * x + 1, lambda: x * x - 1)
    assert types(merged([outside, y], [x, p])).count("Mul") == 1
    assert types(merged([y], [x, p])).count("Mul") == 2


async def test_passes_together_do_not_change_results():
    x, n = placeholder("int32", []), placeholder("int32", [])

    def body(i, t):
        twice = cond((i % 2) < 1, lambda: x * (constant(2) + 3) + t, lambda: x * (constant(2) + 3) - i)
        return i + 1, twice

    _, y = while_loop(lambda i, t: i < n, body, [0, 0])
    wanted = 0
    for i in range(5):
        wanted = 7 * 5 + wanted if i % 2 == 0 else 7 * 5 - i
    assert await execute([y], {x: 7, n: 5}) == [wanted]
    plain = len(lowered(Program(y.graph, [x, n], [y]), replace(ON, fold_bytes=0)).graph.get_operations())
    assert len(lowered(Program(y.graph, [x, n], [y]), ON).graph.get_operations()) < plain
    assert y.dtype is dtypes.int32

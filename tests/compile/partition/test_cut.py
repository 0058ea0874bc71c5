"""Cutting: one Send and Recv for a tensor and device, control loops, and what may not be cut."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError
from tagloom.base.tags import DEAD
from tagloom.compile.partition import partition
from tagloom.compile.place import place
from tagloom.compile.plan.build import build_plan
from tagloom.ir.program import Program, copy_program
from tagloom.ir.text import to_text as graph_text
from tagloom.kernels.core.table import Kind
from tagloom.kernels.elementary.functions import elementary_function

from tests.compile.partition.building import DEVICES, counted, cut, on, operations, run, source, two_devices
from tests.compile.partition.machines import run_partitioned
from tests.support.compiling import lowered

pytestmark = pytest.mark.usefixtures("graph")

EXP_1 = elementary_function(np, "exp")(np.float32(1.0))


# ---- one Send and Recv for a tensor and device


@pytest.mark.rule(116)
def test_a_tensor_is_sent_once_to_each_device_that_uses_it():
    x = source(0)
    ys = [on(1, tg.exp, x), on(1, tg.tanh, x), on(2, tg.exp, x), on(0, tg.tanh, x)]
    found = cut(ys, [x])
    assert [(c.name, c.destination) for c in found.channels] == [("x:0", DEVICES[1]), ("x:0", DEVICES[2])]
    assert len(operations(found, 0, "Send")) == 2
    assert len(operations(found, 1, "Recv")) == len(operations(found, 2, "Recv")) == 1
    assert [device.index for device, _ in found.fetches] == [1, 1, 2, 0]


@pytest.mark.rule(116)
def test_a_control_edge_is_an_empty_message_of_its_own():
    x = source(0)
    x2 = on(0, tg.tanh, x, name="x2")
    with tg.control_dependencies([x2]):
        y = on(1, tg.exp, x2)
    found = cut([y], [x])
    channels = [(c.name, c.is_control, c.dtype) for c in found.channels]
    assert channels == [("x2:0", False, "float32"), ("^x2", True, "bool")]
    (done,) = [send.inputs[0].op for send in operations(found, 0, "Send") if send.inputs[0].op.type == "Const"]
    assert [c.name for c in done.control_inputs] == ["x2"]
    (exp,) = operations(found, 1, "Exp")
    assert [c.type for c in exp.control_inputs] == ["Recv"]
    assert run([y], {x: 0.0})[0] == [1.0]


def test_constants_are_made_where_they_are_used():
    three = on(0, tg.constant, [3.0] * 70)
    found = cut([on(1, tg.exp, three), on(2, tg.tanh, three), three])
    assert found.channels == []
    assert [device.index for device, _ in found.fetches] == [1, 2, 0]


def test_feeds_and_fetches_are_numbered_by_device():
    xs = [source(i % 2, f"x{i}") for i in range(4)]
    ys = [on((i + 1) % 2, tg.exp, x) for i, x in enumerate(xs)]
    found = cut(ys, xs)
    assert list(found.feeds) == [(DEVICES[0], 0), (DEVICES[1], 0), (DEVICES[0], 1), (DEVICES[1], 1)]
    assert [op.attrs["index"] for op in operations(found, 1, "Feed")] == [0, 1]
    assert run(ys, {x: i for i, x in enumerate(xs)})[0] == pytest.approx(np.exp(np.arange(4, dtype="float32")))


def test_what_is_on_one_device_is_left_as_it_is():
    x = tg.placeholder("float32", [])
    y = tg.while_loop(lambda i: i < x, lambda i: i + 1.0, [0.0])
    program = lowered(Program(x.graph, [x], [y]))
    found = partition(program, place(program, DEVICES))
    assert list(found.programs) == [DEVICES[0]]
    texts = [sorted(graph_text(p.graph).splitlines()) for p in (found.programs[DEVICES[0]], copy_program(program))]
    assert texts[0] == texts[1]


def test_targets_run_where_they_are():
    v = on(1, tg.Variable, 1.0)
    x = source(0)
    update = v.assign_add(on(0, tg.exp, x))
    found = cut([], [x], [update.op])
    assert found.programs[DEVICES[1]].targets[0].type == "AssignAddVariable"
    assert [op.type for op in found.programs[DEVICES[0]].targets] == ["Send"]


def test_plan_nodes_of_send_and_recv():
    x = source(0)
    found = cut([on(1, tg.exp, x)], [x])
    plans = [build_plan(found.programs[DEVICES[i]]) for i in (0, 1)]
    (send,) = [n for n in plans[0].nodes if n.kind is Kind.SEND]
    (recv,) = [n for n in plans[1].nodes if n.kind is Kind.RECV]
    assert (send.index, send.num_inputs, send.outputs, send.dead_silent) == (0, 1, (), False)
    assert (recv.index, recv.num_inputs, recv.num_controls, recv.outputs) == (0, 0, 0, (np.dtype("float32"),))


# ---- loops


@pytest.mark.rule(118, 119)
def test_a_device_that_receives_in_a_loop_has_a_control_loop():
    n = source(0, "n", "int32")
    found = cut([two_devices(n)], [n])
    (recv,) = operations(found, 1, "Recv")
    (merge,) = recv.control_inputs
    (enter, again) = [t.op for t in merge.inputs]
    switch = again.inputs[0].op
    assert (enter.type, enter.inputs[0].op.type) == ("Enter", "Const")
    assert (again.type, switch.type, again.inputs[0].index) == ("NextIteration", "Switch", 1)
    condition = switch.inputs[1].op
    assert (condition.type, condition.inputs[0].op) == ("LoopCond", recv)
    assert switch.inputs[0].op is merge
    switches = operations(found, 1, "Switch")
    assert len(switches) == 2
    assert {op.inputs[1].op for op in switches} == {condition}


@pytest.mark.rule(118)
def test_the_owner_of_the_predicate_that_receives_nothing_has_no_control_loop():
    n = source(0, "n", "int32")
    found = cut([two_devices(n)], [n])
    assert [op.name for op in operations(found, 0, "Merge")] == ["while/Merge"]
    assert operations(found, 0, "Recv") == []


@pytest.mark.rule(118, 119)
def test_the_owner_of_the_predicate_that_receives_has_one():
    n, x = source(0, "n", "int32"), source(1)
    y = tg.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, on(0, tg.add, x, on(1, tg.exp, x))), [0, x])[1]
    found = cut([y], [n, x])
    inside = [op for op in operations(found, 0, "Recv") if op.name == "Exp/Recv"]
    (condition,) = operations(found, 0, "LoopCond")
    (merge,) = inside[0].control_inputs
    assert merge.inputs[1].op.inputs[0].op.inputs[1].op is condition
    assert run([y], {n: 2, x: 0.0})[0] == [1.0 + EXP_1]


@pytest.mark.rule(118)
def test_a_loop_on_one_device_gets_nothing():
    n, x = source(0, "n", "int32"), source(1)
    y = on(1, lambda: tg.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, [x]))
    found = cut([y * tg.cast(n, "float32")], [n, x])
    assert operations(found, 0, "Merge") == []
    assert [op.name for op in operations(found, 1, "Merge")] == ["while/Merge"]


@pytest.mark.rule(118)
def test_nested_control_loops_are_stacked():
    n = source(0, "n", "int32")

    def body(i, x):
        inner = tg.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, on(1, tg.multiply, y, 2.0)), [0, x], name="in")
        return i + 1, inner[1]

    y = tg.while_loop(lambda i, x: i < n, body, [0, on(1, tg.constant, 1.0)], name="out")[1]
    found = cut([y], [n])
    enters = {op.attrs["frame_name"]: op for op in operations(found, 1, "Enter") if "control" in op.name}
    assert set(enters) == {"out", "in"}
    outer = enters["in"].inputs[0].op
    assert (outer.type, outer.inputs[0].op) == ("Merge", enters["out"])
    assert run([y], {n: 4})[0] == [2.0**6]


@pytest.mark.rule(118)
def test_a_device_with_nothing_in_the_inner_loop_has_no_control_loop_for_it():
    n = source(0, "n", "int32")

    def body(i, x):
        inner = on(0, lambda: tg.while_loop(lambda j: j < i, lambda j: j + 1, [0], name="in"))
        return i + 1, on(1, tg.add, x, inner)

    y = tg.while_loop(lambda i, x: i < n, body, [0, on(1, tg.constant, 0)], name="out")[1]
    found = cut([y], [n])
    assert [op.attrs["frame_name"] for op in operations(found, 1, "Enter") if "control" in op.name] == ["out"]
    assert run([y], {n: 4})[0] == [6]


@pytest.mark.rule(118, 123)
def test_a_device_that_only_passes_on_a_loops_invariants_takes_part():
    """It receives nothing in the loop, and yet what it sends is wanted in each iteration."""
    frame = {"frame_name": "loop"}
    w = on(1, tg.placeholder, "float32", [], "w")
    with tg.device("/cpu:0"):
        i = tg.merge([tg.enter(tg.constant(0.0), **frame)] * 2)[0]
        cond = tg.loop_cond(i < tg.enter(tg.constant(10.0), is_constant=True, **frame))
        false, true = tg.switch(i, cond)
    step = on(1, tg.exp, tg.enter(w, is_constant=True, **frame))
    with tg.device("/cpu:0"):
        i.op.update_input(1, tg.next_iteration(true + step))
        y = tg.exit(false)
    found = cut([y], [w])
    assert [op.type for op in operations(found, 1, "LoopCond", "NextIteration")] == ["LoopCond", "NextIteration"]
    assert run([y], {w: 0.0})[0] == [10.0]


@pytest.mark.rule(119)
def test_edges_into_enter_and_out_of_exit_are_in_the_frame_around():
    n, x = source(0, "n", "int32"), source(2)
    y = on(3, tg.exp, counted(n, lambda x: on(1, tg.multiply, x, 2.0), x))
    found = cut([y], [n, x])
    assert {c.name: c.frame for c in found.channels} == {"x:0": "", "while/LoopCond:0": "while", "while/Exit_1:0": ""}
    assert [op.control_inputs for op in operations(found, 3, "Recv")] == [[]]
    assert run([y], {n: 3, x: 0.125})[0] == [EXP_1]


def test_an_invariant_enters_on_each_device_that_uses_it():
    n, w = source(0, "n", "int32"), source(2, "w")
    _, x, y = tg.while_loop(
        lambda i, x, y: i < n, lambda i, x, y: (i + 1, on(0, tg.multiply, x, w), on(1, tg.add, y, w)), [0, 1.0, 0.0]
    )
    found = cut([x, y], [n, w])
    assert {(c.name, c.frame) for c in found.channels} == {("w:0", ""), ("while/LoopCond:0", "while")}
    assert run([x, y], {n: 3, w: 2.0})[0] == [8.0, 6.0]


@pytest.mark.parametrize("positive", [True, False])
def test_what_a_branch_uses_of_a_loops_invariants_crosses_once(positive):
    """The branch's predicate crosses in each iteration, and the Switch of the invariant is made where it is used."""
    w, n = source(2, "w"), source(0, "n", "int32")  # with a known length, the predicate would leave the loop

    def body(i, y):
        with tg.device("/cpu:0"):
            inside = lambda: tg.cond(w > 9.0, lambda: on(1, tg.negative, w), lambda: on(1, tg.exp, w))  # noqa: E731
            return i + 1, y + tg.cond(w > 0.0, inside, lambda: 1.0)

    _, y = tg.while_loop(lambda i, _: i < n, body, [0, 0.0])
    found = cut([y], [w, n])
    assert {c.frame for c in found.channels if c.name == "w:0"} == {""}
    assert not [c for c in found.channels if "Switch" in c.name and c.dtype != "bool"]
    value = 0.0 if positive else -1.0
    assert run([y], {w: value + 1.0, n: 3})[0] == [3 * EXP_1 if positive else 3.0]


@pytest.mark.parametrize("window", [1, 2, 32])
@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.rule(118, 120, 123)
def test_the_walk_through_of_a_loop_on_two_devices(trips, window):
    n = source(0, "n", "int32")
    values, sent = run([two_devices(n, window)], {n: trips}, shuffle_seed=trips)
    assert values == [2.0**trips]
    assert sent == [("while/LoopCond:0", "root/0/while", i, i < trips) for i in range(trips + 1)]


@pytest.mark.rule(118)
def test_without_the_control_loops_back_edge_a_device_stops_after_one_iteration():
    n = source(0, "n", "int32")
    found = cut([two_devices(n)], [n])
    (merge,) = operations(found, 1, "Recv")[0].control_inputs
    merge.update_input(1, merge.inputs[0])
    with pytest.raises(AssertionError, match=r"wait for each other: .*while/LoopCond/Send@root/0/while/1"):
        asyncio.run(run_partitioned(found, [np.int32(3)], timeout=0.3))


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.rule(120)
def test_a_loop_in_an_untaken_branch_tells_the_other_device_once(taken):
    p, n = source(0, "p", "bool"), source(0, "n", "int32")
    y = tg.cond(p, lambda: two_devices(n), lambda: tg.constant(-1.0))
    values, sent = run([y], {p: taken, n: 2})
    assert values == [4.0 if taken else -1.0]
    told = [value for name, _, _, value in sent if name == "while/LoopCond:0"]
    assert told == ([True, True, False] if taken else [DEAD])


@pytest.mark.rule(59, 116)
def test_an_assertion_in_an_untaken_branch_on_another_device_stays_silent():
    p = source(0, "p", "bool")

    def fails():
        with tg.device("/cpu:1"), tg.control_dependencies([tg.Assert(tg.constant(False), ["no"])]):
            return tg.constant(1.0)

    y = tg.cond(p, fails, lambda: tg.constant(2.0))
    assert run([y], {p: False})[0] == [2.0]
    with pytest.raises(tg.TagloomError):
        run([y], {p: True})


# ---- what may not be cut


def hand_made(predicate, middle):
    """A loop that adds `middle(i)` until `predicate(i)` gives a Switch's predicate that is false."""
    with tg.device("/cpu:0"):
        entered = tg.enter(tg.constant(0.0), frame_name="loop")
        i = tg.merge([entered, entered])[0]
        false, true = tg.switch(i, predicate(i < tg.enter(tg.constant(3.0), frame_name="loop", is_constant=True)))
    step = middle(true, entered)
    with tg.device("/cpu:0"):
        i.op.update_input(1, tg.next_iteration(true + step))
        return tg.exit(false)


@pytest.mark.rule(118)
def test_a_loop_on_two_devices_needs_a_loop_cond():
    y = hand_made(tg.identity, lambda true, entered: on(1, tg.exp, true))
    with pytest.raises(GraphError, match="'loop' is on several devices and has no LoopCond") as caught:
        cut([y])
    assert caught.value.source.file == __file__


def test_a_value_of_the_first_iteration_alone_is_not_sent():
    y = hand_made(tg.loop_cond, lambda true, entered: on(1, tg.add, on(0, tg.exp, entered), true))
    with pytest.raises(GraphError, match="Exp does not run in every iteration of its loop"):
        cut([y])


def test_placements_that_can_not_be():
    v = tg.Variable(1.0)
    n = source(0, "n", "int32")
    program = lowered(Program(n.graph, [n], [v.value(), two_devices(n)]))
    good = place(program, DEVICES)
    back = {op: DEVICES[3] if op.type == "NextIteration" else device for op, device in good.items()}
    with pytest.raises(GraphError, match="a back edge crosses devices"):
        partition(program, back)
    apart = {op: DEVICES[3] if op.type == "ReadVariable" else device for op, device in good.items()}
    with pytest.raises(GraphError, match="a handle crosses devices"):
        partition(program, apart)

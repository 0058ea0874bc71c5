"""The step machine, rule by rule: readiness, deadness, and how a step starts and ends."""

import logging

import numpy as np
import pytest
from tagloom.base.tags import DEAD
from tagloom.kernels.core.table import Kind
from tagloom.kernels.scheduler.plan import CompiledPlan

from tests.kernels.planning import BOOL, F32, F64, I32, I64, Planner, every_order, result


def recorder(log, label, value=0):
    """Return a kernel that notes that it ran."""

    def kernel(*arrays):
        log.append(label)
        return np.int32(value)

    return kernel


def branches(plan, taken):
    """Return the false and true side of a Switch on a constant."""
    return plan.switch(plan.const(7), plan.const(taken, BOOL))


@every_order
@pytest.mark.rule(1)
def test_ordinary_node_waits_for_all_inputs(seed, window):
    plan, log = Planner(window), []
    first = plan.call(recorder(log, "first", 1))
    second = plan.call(recorder(log, "second", 2), first)
    third = plan.call(recorder(log, "third"), plan.const(0), controls=[first, second])
    plan.fetch(plan.call(lambda x, y, z: np.int32(x + y + z), first, second, third))
    assert plan.run(seed=seed) == [3]
    assert log == ["first", "second", "third"]


@every_order
@pytest.mark.rule(1, 2)
def test_dead_node_does_not_run_and_passes_deadness_on(seed, window):
    plan, log = Planner(window), []
    dead = branches(plan, True)[0]
    victim = plan.call(recorder(log, "victim"), plan.const(1), dead)
    by_data = plan.call(recorder(log, "by data"), victim)
    by_control = plan.call(recorder(log, "by control"), plan.const(1), controls=[victim])
    for ref in (victim, by_data, by_control):
        plan.fetch(ref)
    assert plan.run(seed=seed) == [DEAD] * 3
    assert log == []


@every_order
@pytest.mark.rule(3)
def test_outputs_are_dead_one_by_one(seed, window):
    plan = Planner(window)
    switch = branches(plan, True)
    plan.fetch(switch[0])
    plan.fetch(switch[1])
    assert plan.run(seed=seed) == [DEAD, 7]


@pytest.mark.rule(3)
def test_kernel_must_set_all_outputs():
    plan = Planner()
    plan.fetch(plan.call(lambda: (np.int32(1),), outputs=(I32, I32)))
    machine = plan.start()
    machine.drain(1)
    assert str(machine.failure[2]) == "wanted 2 outputs, got 1"


@every_order
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.rule(4)
def test_switch(seed, window, taken):
    plan, log = Planner(window), []
    switch = branches(plan, taken)
    plan.call(recorder(log, "after"), plan.const(0), controls=[switch])
    plan.fetch(switch[0])
    plan.fetch(switch[1])
    machine = plan.start(seed=seed)
    machine.drain(1)
    assert machine.switch_outcomes() == {switch.node: taken}
    assert result(machine) == ([DEAD, 7] if taken else [7, DEAD])
    assert log == ["after"]


@every_order
@pytest.mark.rule(4)
def test_dead_switch_is_dead_on_both_sides(seed, window):
    plan = Planner(window)
    dead = branches(plan, True)[0]
    by_data = plan.switch(dead, plan.const(True, BOOL))
    dead_predicate = plan.switch(plan.const(True, BOOL), plan.const(False, BOOL))[1]
    by_predicate = plan.switch(plan.const(1), dead_predicate)
    for ref in (by_data[0], by_data[1], by_predicate[0], by_predicate[1]):
        plan.fetch(ref)
    machine = plan.start(seed=seed)
    machine.drain(1)
    outcomes = machine.switch_outcomes()
    assert outcomes[by_data.node] is None
    assert outcomes[by_predicate.node] is None
    assert result(machine) == [DEAD] * 4


@pytest.mark.rule(4)
def test_predicate_must_be_scalar():
    plan = Planner()
    plan.fetch(plan.switch(plan.const(1), plan.const([True, False], BOOL))[1])
    machine = plan.start()
    machine.drain(1)
    node, tag, error, shapes = machine.failure
    assert (node, tag, shapes) == (2, "n2@root/0", [(), (2,)])
    assert isinstance(error, TypeError)
    assert "must be a scalar" in str(error)


@every_order
@pytest.mark.parametrize(("index", "taken"), [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (2**40, 2)])
@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.rule(5)
def test_n_way_switch(seed, window, index, taken, dtype):
    if not np.iinfo(dtype).min <= index <= np.iinfo(dtype).max:
        return
    plan = Planner(window)
    switch = plan.switch_n(plan.const(7), plan.const(index, dtype), 3)
    for output in range(3):
        plan.fetch(switch[output])
    machine = plan.start(seed=seed)
    machine.drain(1)
    assert machine.switch_outcomes() == {switch.node: index}
    assert result(machine) == [7 if output == taken else DEAD for output in range(3)]


@every_order
@pytest.mark.rule(6, 9)
def test_merge_fires_on_the_first_live_input(seed, window):
    plan = Planner(window)
    left, right = branches(plan, True), branches(plan, False)
    merge = plan.merge(left[0], right[0])
    plan.fetch(merge)
    plan.fetch(merge[1])
    assert plan.run(seed=seed) == [7, 1]


@pytest.mark.rule(6)
def test_merge_does_not_wait_for_other_inputs():
    plan = Planner()
    late = plan.call(waiting, plan.const(1))
    plan.fetch(plan.merge(plan.const(5), late))
    machine = plan.start()
    machine.drain(1)
    assert machine.fetches == [5]
    [(ticket, awaitable, _, _)] = machine.launches()
    awaitable.close()
    machine.finish(ticket, np.int32(9))
    machine.drain(1)
    assert result(machine) == [5]


async def waiting(*arrays):
    """Stand for an asynchronous kernel; the tests answer for it."""


@every_order
@pytest.mark.rule(6)
def test_merge_waits_for_its_control_inputs(seed, window):
    plan, log = Planner(window), []
    slow = plan.call(recorder(log, "slow"), plan.call(recorder(log, "first")))
    plan.call(recorder(log, "after"), plan.merge(plan.const(5), branches(plan, True)[0], controls=[slow]))
    plan.run(seed=seed)
    assert log == ["first", "slow", "after"]


@every_order
@pytest.mark.rule(7)
def test_merge_ignores_dead_control_inputs(seed, window):
    plan = Planner(window)
    dead = plan.identity(branches(plan, True)[0])
    plan.fetch(plan.merge(plan.const(5), dead, controls=[dead, dead]))
    plan.fetch(plan.merge(dead, dead, controls=[plan.const(1), dead]))
    assert plan.run(seed=seed) == [5, DEAD]


@every_order
@pytest.mark.rule(7)
def test_merge_is_dead_if_all_data_inputs_are(seed, window):
    plan = Planner(window)
    dead = branches(plan, True)[0]
    merge = plan.merge(dead, dead, dead)
    plan.fetch(merge)
    plan.fetch(merge[1])
    assert plan.run(seed=seed) == [DEAD, DEAD]


@every_order
@pytest.mark.rule(8)
def test_merge_fires_once(seed, window):
    plan, log = Planner(window), []
    plan.call(recorder(log, "ran"), plan.merge(plan.const(5), plan.const(6), plan.const(7)))
    plan.run(seed=seed)
    assert log == ["ran"]


@every_order
@pytest.mark.rule(8)
def test_merge_takes_the_lowest_of_several_live_inputs(seed, window, caplog):
    plan = Planner(window)
    inputs = [plan.const(5), plan.const(6), plan.const(7)]
    last = plan.call(lambda *_: np.int32(0), *inputs)
    merge = plan.merge(*inputs, controls=[last])
    plan.fetch(merge)
    plan.fetch(merge[1])
    with caplog.at_level(logging.WARNING, "tagloom"):
        assert plan.run(seed=seed) == [5, 0]
    assert "more than one input" in caplog.text


@every_order
@pytest.mark.rule(17)
def test_control_trigger_is_live(seed, window):
    plan, log = Planner(window), []
    dead = branches(plan, True)[0]
    trigger = plan.node(Kind.CONTROL_TRIGGER, controls=[plan.identity(dead), plan.const(1)])
    plan.call(recorder(log, "after"), plan.const(1), controls=[trigger])
    plan.run(seed=seed)
    assert log == ["after"]


@pytest.mark.rule(20)
def test_fetch_that_never_runs_is_dead():
    plan = Planner()
    never = plan.merge(plan.const(1), branches(plan, True)[0], controls=[])
    plan.fetch(branches(plan, True)[0])
    plan.fetch(never)
    assert plan.run() == [DEAD, 1]


@pytest.mark.rule(21)
def test_roots_only_in_the_root_frame():
    plan = Planner()
    frame = plan.frame("w")
    plan.enter(plan.const(1), frame)
    plan.node(Kind.CONST, (), (I32,), frame=frame, value=np.int32(1))
    with pytest.raises(ValueError, match="n2: has no inputs but is not in the root frame"):
        CompiledPlan(plan.plan())


@every_order
@pytest.mark.rule(51)
def test_random_order(seed, window):
    plan, log = Planner(window), []
    for label in range(40):
        plan.call(recorder(log, label))
    plan.run(seed=seed)
    assert sorted(log) == list(range(40))
    assert (log == sorted(log)) == (seed is None)


def test_random_order_is_reproducible():
    def order(seed):
        plan, log = Planner(), []
        for label in range(20):
            plan.call(recorder(log, label))
        plan.run(seed=seed)
        return log

    assert order(3) == order(3) != order(4)


def test_empty_plan():
    machine = Planner().start()
    assert machine.done
    assert machine.drain(1) is False
    assert result(machine) == []


def test_feeds():
    plan = Planner()
    x, y = plan.feed(F64), plan.feed(F32)
    plan.fetch(plan.ufunc("add", x, x))
    plan.fetch(y)
    array = np.ones((2, 3), np.float32)
    fetched = plan.run([np.float64(1.5), array])
    assert fetched[0] == 3.0
    assert fetched[0].shape == ()
    assert fetched[0].dtype == F64
    assert fetched[1] is array


def test_wrong_feeds():
    plan = Planner()
    plan.fetch(plan.feed(F64))
    with pytest.raises(ValueError, match="wanted 1 feeds, got 0"):
        plan.start()
    with pytest.raises(TypeError, match="wanted an array of float64, got one of float32"):
        plan.start([np.float32(1)])
    with pytest.raises(TypeError, match="wanted an array of float64, got a float"):
        plan.start([1.0])


def test_swapped_feed_becomes_native():
    plan = Planner()
    x = plan.feed(F64)
    plan.fetch(plan.ufunc("add", x, x))
    [fetched] = plan.run([np.arange(3, dtype=">f8")])
    assert fetched.tolist() == [0, 2, 4]
    assert fetched.dtype.isnative


def test_drain_stops_when_the_time_is_over():
    plan = Planner()
    plan.fetch(plan.count_to(plan.frame("w"), 100_000))
    machine = plan.start()
    drains = 1
    while machine.drain(0.0):
        assert not machine.done
        drains += 1
    assert drains > 100
    assert result(machine) == [100_000]


def test_loop_of_primitives_lets_kernels_run():
    plan, log = Planner(), []
    frame = plan.frame("forever")
    plan.loop(frame, [plan.const(True, BOOL)], lambda x: x, lambda x: [x])
    plan.call(recorder(log, "ran"))
    machine = plan.start()
    assert machine.drain(0.01) is True
    assert log == ["ran"]


@pytest.mark.rule(38)
def test_endless_loop_can_be_aborted():
    plan = Planner()
    plan.loop(plan.frame("forever"), [plan.const(True, BOOL)], lambda x: x, lambda x: [x])
    machine = plan.start()
    assert machine.drain(0.001) is True
    machine.abort(TimeoutError("late"))
    assert machine.done
    assert machine.drain(1) is False
    assert machine.failure[0] == -1
    assert isinstance(machine.failure[2], TimeoutError)


def test_stateful_kernel_knows_its_instance():
    plan, seen = Planner(), []

    def kernel(context, i):
        seen.append((context.step, context.operation, context.iteration, context.tag, context.frame_id))
        return np.int32(i + 1)

    frame = plan.frame("w")
    plan.loop(
        frame,
        [plan.const(0)],
        lambda i: plan.call(lambda i: np.bool_(i < 2), i, outputs=(BOOL,)),
        lambda i: [plan.call(kernel, i, stateful=True, name="step")],
    )
    machine = plan.start(step="the step")
    machine.drain(1)
    result(machine)
    assert [s[:4] for s in seen] == [
        (
            "the step",
            "step",
            k,
            f"step@root/0/w/{k}",
        )
        for k in range(2)
    ]
    assert seen[0][4] == seen[1][4] != 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.connect(p.const(1), p.const(2), 0), "input 0 comes twice"),
        (lambda p: p.node(Kind.IDENTITY, [None], (I32,)), "waits for 1 inputs, 0 come"),
        (lambda p: p.node(Kind.EXIT, [p.const(1)], (I32,)), "must be in a loop"),
        (lambda p: p.switch(p.const(1), p.const(1)), "its predicate is int32, not bool"),
        (lambda p: p.node(Kind.SWITCH, [p.const(1), p.const(True, BOOL)], (I32,)), "must have two outputs"),
        (lambda p: p.frame("w", window=0), "must be a positive integer"),
        (lambda p: p.frame("w"), "has 0 Enters"),
        (lambda p: p.call(None), "has no kernel"),
        (lambda p: p.identity(p.enter(p.const(1), p.frame("w")), controls=[p.const(1)]), "different frames"),
    ],
)
def test_malformed_plans_are_refused(change, message):
    plan = Planner()
    change(plan)
    with pytest.raises(ValueError, match=message):
        CompiledPlan(plan.plan())

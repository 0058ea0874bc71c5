"""The step machine, rule by rule: frames, iterations, and when they end."""

import resource

import numpy as np
import pytest
from tagloom.base.tags import DEAD, ROOT_ID, frame_id, name_hash
from tagloom.kernels.core.table import Kind
from tagloom.kernels.scheduler.state import live_counts

from tests.kernels.planning import BOOL, I32, Planner, every_order, result


async def waiting(*arrays):
    """Stand for an asynchronous kernel; the tests answer for it."""


def below(limit):
    """Return a predicate kernel."""
    return lambda i, *_: np.bool_(i < limit)


def plus_one(i, *_):
    return np.int32(i + 1)


def answer(machine, value):
    """Finish the asynchronous instances started since the last call; return their tags."""
    tags = []
    for ticket, awaitable, _, tag in machine.launches():
        awaitable.close()
        machine.finish(ticket, value)
        tags.append(tag)
    return tags


def dead_value(plan):
    """Return an output that is dead."""
    return plan.switch(plan.const(1), plan.const(True, BOOL))[0]


@every_order
@pytest.mark.parametrize("limit", [1, 2, 31, 32, 33, 100])
@pytest.mark.rule(10, 32, 37)
def test_counting(seed, window, limit):
    plan = Planner(window)
    plan.fetch(plan.count_to(plan.frame("w"), limit))
    assert plan.run(seed=seed) == [limit]


@every_order
@pytest.mark.rule(39)
def test_zero_trips(seed, window):
    plan, log = Planner(window), []
    frame = plan.frame("w")
    x, y = plan.loop(
        frame,
        [plan.const(5), plan.const(6)],
        lambda x, y: plan.call(below(0), x, outputs=(BOOL,)),
        lambda x, y: [plan.call(lambda x: log.append("ran"), x), y],
    )
    plan.fetch(x)
    plan.fetch(y)
    assert plan.run(seed=seed) == [5, 6]
    assert log == []


@every_order
@pytest.mark.rule(10, 36)
def test_several_variables_and_arrays(seed, window):
    plan = Planner(window)
    step = plan.const(np.arange(3.0), np.dtype("float64"))
    start = plan.const(np.zeros(3), np.dtype("float64"))
    i, total = plan.loop(
        plan.frame("w"),
        [plan.const(0), start],
        lambda i, total, _: plan.call(below(5), i, outputs=(BOOL,)),
        lambda i, total, step: [plan.call(plus_one, i), plan.ufunc("add", total, step)],
        [step],
    )
    plan.fetch(i)
    plan.fetch(total)
    count, array = plan.run(seed=seed)
    assert count == 5
    assert array.tolist() == [0, 5, 10]


@every_order
@pytest.mark.rule(11, 12, 13, 14, 40)
def test_loop_in_untaken_branch(seed, window):
    plan, log = Planner(window), []
    invariant, start = plan.switch(plan.const(10), plan.const(False, BOOL)), dead_value(plan)
    frame = plan.frame("w")
    out = plan.loop(
        frame,
        [start],
        lambda i, top: plan.call(lambda *a: log.append("predicate"), i, top, outputs=(BOOL,)),
        lambda i, top: [plan.call(lambda *a: log.append("body"), i, top)],
        [invariant[1]],
    )[0]
    plan.fetch(out)
    plan.fetch(plan.merge(out, plan.const(3)))
    plan.fetch(plan.merge(out, plan.identity(out)))
    assert plan.run(seed=seed) == [DEAD, 3, DEAD]
    assert log == []


@every_order
@pytest.mark.rule(14, 25, 40)
def test_dead_loop_waits_for_all_enters(seed, window):
    plan = Planner(window)
    late = plan.call(waiting)
    out = plan.loop(
        plan.frame("w"),
        [dead_value(plan)],
        lambda i, _: plan.call(below(3), i, outputs=(BOOL,)),
        lambda i, late: [plan.call(plus_one, i, late)],
        [late],
    )[0]
    sink = plan.merge(out, plan.identity(out))
    log = []
    plan.call(lambda *_: log.append("after"), plan.const(1), controls=[sink], outputs=())
    plan.call(lambda *_: log.append("trigger"), controls=[plan.node(Kind.CONTROL_TRIGGER, controls=[out])], outputs=())
    machine = plan.start(seed=seed)
    machine.drain(1)
    assert log == []
    answer(machine, np.int32(1))
    machine.drain(1)
    assert log == ["trigger"]
    result(machine)


@every_order
@pytest.mark.rule(13)
def test_dead_exits_of_earlier_iterations_are_dropped(seed, window):
    plan, log = Planner(window), []
    out = plan.count_to(plan.frame("w"), 5)
    plan.call(lambda i: log.append(int(i)), out, outputs=())
    plan.run(seed=seed)
    assert log == [5]


@pytest.mark.rule(15)
def test_live_exit_leaves_before_the_frame_is_done():
    plan = Planner()
    i, slow = plan.loop(
        plan.frame("w"),
        [plan.const(0), plan.const(0)],
        lambda i, _: plan.call(below(2), i, outputs=(BOOL,)),
        lambda i, slow: [plan.call(plus_one, i), plan.call(waiting, slow)],
    )
    plan.fetch(i)
    plan.fetch(slow)
    machine = plan.start()
    machine.drain(1)
    assert machine.fetches == [2, DEAD]
    assert not machine.done
    assert [tag.split("@")[1] for tag in answer(machine, np.int32(5))] == ["root/0/w/0"]
    machine.drain(1)
    assert [tag.split("@")[1] for tag in answer(machine, np.int32(6))] == ["root/0/w/1"]
    machine.drain(1)
    assert result(machine) == [2, 6]


@every_order
@pytest.mark.rule(16, 23, 41)
def test_nested_loops(seed, window):
    plan = Planner(window)
    outer = plan.frame("outer")
    inner = plan.frame("inner", parent=outer)

    def body(i, total):
        _, total = plan.loop(
            inner,
            [i, total],
            lambda j, _: plan.call(below(5), j, outputs=(BOOL,)),
            lambda j, total: [plan.call(plus_one, j), plan.ufunc("add", total, j)],
        )
        return [plan.call(plus_one, i), total]

    i, total = plan.loop(
        outer, [plan.const(0), plan.const(0)], lambda i, _: plan.call(below(7), i, outputs=(BOOL,)), body
    )
    plan.fetch(i)
    plan.fetch(total)
    assert plan.run(seed=seed) == [7, sum(sum(range(i, 5)) for i in range(7))]


@every_order
@pytest.mark.rule(11, 41)
def test_loop_in_untaken_branch_of_a_loop(seed, window):
    plan = Planner(window)
    outer = plan.frame("outer")
    inner = plan.frame("inner", parent=outer)

    def body(i):
        is_even = plan.call(lambda i: np.bool_(i % 2 == 0), i, outputs=(BOOL,))
        odd, even = (plan.switch(i, is_even)[k] for k in range(2))
        jumped = plan.loop(
            inner,
            [even],
            lambda j: plan.call(lambda j: np.bool_(j % 3 != 2), j, outputs=(BOOL,)),
            lambda j: [plan.call(plus_one, j)],
        )[0]
        return [plan.call(plus_one, plan.merge(odd, jumped))]

    plan.fetch(plan.loop(outer, [plan.const(0)], lambda i: plan.call(below(20), i, outputs=(BOOL,)), body)[0])

    i = 0
    while i < 20:
        while i % 2 == 0 and i % 3 != 2:
            i += 1
            while i % 3 != 2:
                i += 1
            break
        i += 1
    assert plan.run(seed=seed) == [i]


@pytest.mark.rule(23, 24)
def test_frame_ids():
    plan, seen = Planner(), {}
    outer = plan.frame("outer")
    inner = plan.frame("inner", parent=outer)

    def note(context, j, *_):
        seen[context.tag] = context.frame_id
        return np.int32(j + 1)

    def body(i):
        j = plan.loop(
            inner,
            [i],
            lambda j: plan.call(below(3), j, outputs=(BOOL,)),
            lambda j: [plan.call(note, j, stateful=True, name="note")],
        )[0]
        return [plan.call(plus_one, i, j)]

    start = plan.call(note, plan.const(-1), stateful=True, name="note")
    plan.loop(outer, [start], lambda i: plan.call(below(3), i, outputs=(BOOL,)), body)
    plan.run()
    path = frame_id(ROOT_ID, 0, name_hash("outer"))
    assert seen.pop("note@root/0") == ROOT_ID
    assert seen == {
        f"note@root/0/outer/{i}/inner/{j}": frame_id(path, i, name_hash("inner"))
        for i in range(3)
        for j in range(3 - i)
    }


@every_order
@pytest.mark.rule(26, 27, 31)
def test_nodes_that_never_become_ready_hold_nothing_up(seed, window):
    """The predicate comes through a non-constant Enter, so the Switch of iteration 1 waits for ever."""
    plan = Planner(window)
    frame = plan.frame("w")
    merge = plan.merge(plan.enter(plan.const(10), frame), None)
    predicate = plan.same(Kind.LOOP_COND, plan.enter(plan.const(True, BOOL), frame))
    switch = plan.switch(merge, predicate)
    plan.next(plan.identity(switch[1]), merge)
    plan.fetch(plan.exit(plan.identity(merge)))
    machine = plan.start(seed=seed)
    machine.drain(1)
    assert live_counts()["frames"] == 0
    assert result(machine) == [10]


@every_order
@pytest.mark.rule(29)
def test_invariants_reach_all_iterations(seed, window):
    plan, log = Planner(window), []
    frame = plan.frame("w")
    capture = plan.const(np.arange(2))
    plan.loop(
        frame,
        [plan.const(0)],
        lambda i, _: plan.call(below(40), i, outputs=(BOOL,)),
        lambda i, array: [plan.call(lambda i, array: log.append(int(i)) or np.int32(i + 1), i, array)],
        [capture],
    )
    plan.run(seed=seed)
    assert log == list(range(40))


@every_order
@pytest.mark.rule(30)
def test_late_invariant_reaches_running_iterations(seed, window):
    plan, log = Planner(window), []
    late = plan.call(waiting)
    i, _ = plan.loop(
        plan.frame("w"),
        [plan.const(0), plan.const(0)],
        lambda i, *_: plan.call(below(10), i, outputs=(BOOL,)),
        lambda i, x, late: [plan.call(plus_one, i), plan.call(lambda i, z: log.append(int(i)) or z, i, late)],
        [late],
    )
    plan.fetch(i)
    machine = plan.start(seed=seed)
    machine.drain(1)
    assert log == []
    assert machine.fetches == ([10] if window > 10 else [DEAD])
    answer(machine, np.int32(3))
    machine.drain(1)
    assert sorted(log) == list(range(10))
    assert result(machine) == [10]


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("window", [1, 2, 3, 8])
@pytest.mark.rule(33, 34)
def test_window_holds_iterations_back(seed, window):
    plan = Planner(window)
    i, _ = plan.loop(
        plan.frame("w"),
        [plan.const(0), plan.const(0)],
        lambda i, *_: plan.call(below(20), i, outputs=(BOOL,)),
        lambda i, x: [plan.call(plus_one, i), plan.call(waiting, i)],
    )
    plan.fetch(i)
    machine = plan.start(seed=seed)
    machine.drain(1)
    assert machine.pending == window
    assert live_counts()["iterations"] == window + 1
    first, *others = machine.launches()
    for ticket, awaitable, *_ in others:
        awaitable.close()
        machine.finish(ticket, np.int32(0))
    machine.drain(1)
    assert machine.launches() == []  # iteration 0 is unfinished, so the window can not move
    first[1].close()
    machine.finish(first[0], np.int32(0))
    machine.drain(1)
    while answer(machine, np.int32(0)):
        machine.drain(1)
    assert result(machine) == [20]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.rule(34)
def test_window_of_one_is_sequential(seed):
    plan, log = Planner(1), []

    def note(label):
        return lambda i: log.append((int(i), label)) or np.int32(i + 1)

    i, *_ = plan.loop(
        plan.frame("w"),
        [plan.const(0)] * 3,
        lambda i, *_: plan.call(below(10), i, outputs=(BOOL,)),
        lambda i, x, y: [plan.call(note("a"), i), plan.call(note("b"), x), plan.call(note("c"), y)],
    )
    plan.fetch(i)
    assert plan.run(seed=seed) == [10]
    assert [k for k, _ in log] == sorted(k for k, _ in log)


@pytest.mark.rule(36)
def test_counter_runs_ahead():
    plan, log = Planner(8), []
    plan.loop(
        plan.frame("w"),
        [plan.const(0), plan.const(0)],
        lambda i, *_: plan.call(below(100), i, outputs=(BOOL,)),
        lambda i, x: [plan.call(lambda i: log.append(int(i)) or np.int32(i + 1), i), plan.call(waiting, x)],
    )
    machine = plan.start()
    machine.drain(1)
    assert log == list(range(8))
    machine.close()


@every_order
@pytest.mark.rule(28)
def test_control_edges_across_frames(seed, window):
    """Enter and Exit carry their control edges into the frame to which they send."""
    plan, log = Planner(window), []
    frame = plan.frame("w")
    enter = plan.enter(plan.const(1), frame, constant=True)
    start = plan.const(0)

    def body(i):
        plan.call(lambda i: log.append(int(i)), i, controls=[enter], outputs=())
        return [plan.call(plus_one, i)]

    out = plan.loop(frame, [start], lambda i: plan.call(below(3), i, outputs=(BOOL,)), body)[0]
    plan.call(lambda: log.append("after"), controls=[out], outputs=())
    plan.run(seed=seed)
    assert sorted(log, key=str) == [0, 1, 2, "after"]


@every_order
@pytest.mark.rule(29)
def test_dead_invariant_is_dead_in_every_iteration(seed, window):
    plan, log = Planner(window), []
    frame = plan.frame("w")
    dead = dead_value(plan)

    def body(i, dead):
        plan.call(lambda *_: log.append("ran"), i, dead, outputs=())
        return [plan.merge(plan.call(plus_one, i), plan.call(plus_one, i, controls=[dead]))]

    out = plan.loop(frame, [plan.const(0)], lambda i, _: plan.call(below(4), i, outputs=(BOOL,)), body, [dead])[0]
    plan.fetch(out)
    assert plan.run(seed=seed) == [4]
    assert log == []


@pytest.mark.rule(42)
def test_inputs_are_released_when_consumed():
    plan, alive = Planner(1), []

    def grow(i, array):
        alive.append(live_counts()["values"])
        return np.int32(i + 1), array + 1.0

    def body(i, array):
        both = plan.call(grow, i, array, outputs=(I32, np.dtype("float64")))
        return [both[0], both[1]]

    start = plan.const(np.zeros(10), np.dtype("float64"))
    plan.loop(plan.frame("w"), [plan.const(0), start], lambda i, _: plan.call(below(50), i, outputs=(BOOL,)), body)
    plan.run()
    assert max(alive) == 1


@pytest.mark.parametrize("window", [1, 32])
@pytest.mark.rule(42)
def test_buffers_are_reused_in_a_loop(window):
    plan, buffers = Planner(window), []

    def body(i, array, one):
        watched = plan.call(lambda a: buffers.append(a.ctypes.data) or a, array, outputs=(np.dtype("float64"),))
        return [plan.call(plus_one, i), plan.ufunc("add", watched, one)]

    start = plan.const(np.zeros(1000), np.dtype("float64"))
    _, out = plan.loop(
        plan.frame("w"),
        [plan.const(0), start],
        lambda i, *_: plan.call(below(1000), i, outputs=(BOOL,)),
        body,
        [plan.const(1.0, np.dtype("float64"))],
    )
    plan.fetch(out)
    assert plan.run()[0].tolist() == [1000.0] * 1000
    assert len(buffers) == 1000
    assert len(set(buffers)) < 756


@every_order
@pytest.mark.rule(43)
def test_constants_and_feeds_are_never_written(seed, window):
    plan = Planner(window)
    f64 = np.dtype("float64")
    fed, constant = np.ones(3), np.ones(3)
    capture, x = plan.const(constant, f64), plan.feed(f64)
    _, out, other = plan.loop(
        plan.frame("w"),
        [plan.const(0), capture, x],
        lambda i, *_: plan.call(below(5), i, outputs=(BOOL,)),
        lambda i, a, b, c: [plan.call(plus_one, i), plan.ufunc("add", a, c), plan.ufunc("multiply", b, c)],
        [capture],
    )
    plan.fetch(out)
    plan.fetch(other)
    plan.fetch(plan.ufunc("negative", x))
    out, other, negative = plan.run([fed], seed)
    assert [out.tolist(), other.tolist(), negative.tolist()] == [[6.0] * 3, [1.0] * 3, [-1.0] * 3]
    assert fed.tolist() == constant.tolist() == [1.0] * 3


@pytest.mark.rule(42)
def test_million_iterations_in_flat_memory():
    plan = Planner()
    plan.fetch(plan.count_to(plan.frame("w"), 1_000_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert plan.run() == [1_000_000]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048  # KiB


def test_many_steps_share_a_plan():
    plan = Planner()
    plan.fetch(plan.count_to(plan.frame("w"), 3, plan.feed()))
    machines = [plan.start([np.int32(k)]) for k in range(5)]
    for machine in machines:
        machine.drain(1)
    assert [result(m)[0] for m in machines] == [3, 3, 3, 3, 4]

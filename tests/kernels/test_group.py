"""Several machines that run one step and meet in messages (rules 117 to 121; DE2, DE3, DE6 to DE16)."""

import numpy as np
import pytest
from tagloom.base.tags import DEAD
from tagloom.kernels.core.table import Kind
from tagloom.kernels.scheduler.state import live_counts
from tagloom.runtime.steps.execution import outcome

from tests.kernels.planning import BOOL, F32, Planner, every_order, group, run_together


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = live_counts()
    yield
    after = live_counts()
    assert {k: after[k] for k in ("frames", "iterations", "values")} == {
        k: before[k] for k in ("frames", "iterations", "values")
    }


def pair(window=32):
    return Planner(window), Planner(window)


def plus_one(i):
    return np.int32(i + 1)


@every_order
@pytest.mark.rule(121)
def test_a_value_goes_over(seed, window):
    a, b = pair(window)
    a.send(a.const(3), 0)
    b.fetch(b.call(plus_one, b.recv(0)))
    for plans in ([a, b], [b, a]):  # whoever comes first
        fetches, traffic = run_together(plans, 1, seed)
        assert fetches == [4]
        assert (traffic[0]["messages"], traffic[0]["dead"], traffic[0]["waiting"]) == (1, 0, 0)


def test_an_array_is_copied():
    a, b = pair()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    a.send(a.call(lambda: array, outputs=(F32,)), 0)
    b.fetch(b.recv(0, F32))
    (got,), _ = run_together([a, b], 1)
    np.testing.assert_array_equal(got, array)
    assert not np.shares_memory(got, array)


@pytest.mark.rule(122)
def test_another_dtype_than_the_channels_is_an_internal_error():
    a, b = pair()
    a.send(a.const([1.0, 2.0], F32), 0)
    b.fetch(b.recv(0))
    running = group([a, b], 1)
    running.drain(10.0)
    assert running.failure[1].startswith("n0@root")
    assert "internal error" in str(running.failure[2])
    running.close()


@every_order
@pytest.mark.rule(18)
@pytest.mark.rule(19)
def test_a_dead_value_is_dead_there(seed, window):
    a, b = pair(window)
    switch = a.switch(a.const(7), a.const(False, BOOL))
    a.send(switch[1], 0)
    a.send(switch[0], 1)
    b.fetch(b.recv(0))
    b.fetch(b.recv(1))
    fetches, traffic = run_together([a, b], 2, seed)
    assert fetches == [DEAD, 7]
    assert [t["dead"] for t in traffic] == [1, 0]


def test_deadness_hops_over_devices():
    plans = [Planner() for _ in range(4)]
    plans[0].send(plans[0].switch(plans[0].const(7), plans[0].const(False, BOOL))[1], 0)
    for i in (1, 2):
        plans[i].send(plans[i].call(plus_one, plans[i].recv(i - 1)), i)
    plans[3].fetch(plans[3].recv(2))
    assert run_together(plans, 3)[0] == [DEAD]


@pytest.mark.rule(121)
def test_messages_of_one_key_are_taken_in_order():
    a, b = pair()
    first = a.const(1)
    a.send(first, 0)
    a.send(a.call(plus_one, first), 0)
    one = b.recv(0)
    b.fetch(one)
    b.fetch(b.recv(0, controls=[one]))
    assert run_together([a, b], 1)[0] == [1, 2]


def body_elsewhere(trips, window, control=True):
    """Return a loop whose body is on the second device: ``while i < trips: i += 1``."""
    a, b = pair(window)
    frame = a.frame("loop")
    merge = a.merge(a.enter(a.const(0), frame), None)
    pred = a.same(Kind.LOOP_COND, a.call(lambda i: np.bool_(i < trips), merge, outputs=(BOOL,)))
    a.send(pred, 0)
    switch = a.switch(merge, pred)
    a.send(a.identity(switch[1]), 1)
    a.next(a.recv(2, controls=[a.control_loop(frame, pred=pred)]), merge)
    a.fetch(a.exit(switch))
    if control:
        merge = b.control_loop(b.frame("loop"), 0)
    else:
        frame = b.frame("loop")
        merge = b.enter(b.const(0), frame)
        b.fetch(b.recv(0, BOOL, [merge]))
    b.send(b.call(plus_one, b.recv(1, controls=[merge])), 2)
    return a, b


@every_order
@pytest.mark.rule(117)
@pytest.mark.rule(118)
@pytest.mark.parametrize("trips", [0, 1, 5, 100])
def test_a_loop_with_its_body_elsewhere(seed, window, trips):
    fetches, traffic = run_together(body_elsewhere(trips, window), 3, seed)
    assert fetches == [trips]
    assert [t["messages"] for t in traffic] == [trips + 1] * 3
    assert [t["dead"] for t in traffic] == [0, 1, 1]
    assert all(t["most"] <= window for t in traffic)


@pytest.mark.rule(119)
def test_without_a_control_loop_the_other_device_stops_after_one_iteration():
    a, b = body_elsewhere(5, 1, control=False)
    running = group([a, b], 3)
    running.drain(10.0)
    assert running.stuck
    assert [t["messages"] for t in running.rendezvous.traffic()] == [2, 2, 1]
    running.close()


@every_order
def test_devices_are_in_different_iterations_within_their_windows(seed, window):
    """A producer that could run far ahead waits for what takes its messages (back-pressure)."""
    a, b = pair(window)
    frame = a.frame("loop")
    sent = []

    def body(i):
        a.send(i, 1)
        sent.append(i)
        return [a.call(plus_one, i)]

    def condition(i):
        pred = a.call(lambda i: np.bool_(i < 50), i, outputs=(BOOL,))
        a.send(pred, 0)
        return pred

    a.fetch(a.loop(frame, [a.const(0)], condition, body)[0])
    merge = b.control_loop(b.frame("loop"), 0)
    b.call(plus_one, b.recv(1, controls=[merge]))
    fetches, traffic = run_together([a, b], 2, seed)
    assert fetches == [50]
    assert max(t["most"] for t in traffic) <= window
    assert seed is not None or window == 1 or max(t["most"] for t in traffic) > 1


@every_order
@pytest.mark.rule(118)
def test_nested_loops(seed, window):
    """Three times: x += 1 while x < 4 * (k + 1), the inner body elsewhere."""
    a, b = pair(window)
    outer = a.frame("outer")
    inner = a.frame("inner", parent=outer)
    k = a.merge(a.enter(a.const(0), outer), None)
    x = a.merge(a.enter(a.const(0), outer), None)
    more = a.same(Kind.LOOP_COND, a.call(lambda k: np.bool_(k < 3), k, outputs=(BOOL,)))
    a.send(more, 0)
    ks, xs = a.switch(k, more), a.switch(x, more)
    limit = a.enter(a.call(lambda k: np.int32(4 * k + 4), ks[1]), inner, constant=True)
    y = a.merge(a.enter(xs[1], inner), None)
    again = a.same(Kind.LOOP_COND, a.call(lambda y, top: np.bool_(y < top), y, limit, outputs=(BOOL,)))
    a.send(again, 1)
    ys = a.switch(y, again)
    a.send(a.identity(ys[1]), 2)
    start = a.control_loop(inner, pred=again, start=a.control_loop(outer, pred=more))
    a.next(a.recv(3, controls=[start]), y)
    a.next(a.call(plus_one, ks[1]), k)
    a.next(a.exit(ys), x)
    a.fetch(a.exit(xs))
    around = b.control_loop(b.frame("outer"), 0)
    merge = b.control_loop(b.frame("inner", parent=1), 1, start=around)
    b.send(b.call(plus_one, b.recv(2, controls=[merge])), 3)
    fetches, traffic = run_together([a, b], 4, seed)
    assert fetches == [12]
    assert traffic[0]["messages"] == 4
    assert traffic[2]["messages"] == 12 + 3 + 1  # each trip, the last test of each inner loop, the outer's last round


@every_order
@pytest.mark.rule(120)
def test_a_loop_in_a_branch_that_is_not_taken(seed, window):
    a, b = pair(window)
    switch = a.switch(a.const(0), a.const(False, BOOL))
    frame = a.frame("loop")
    merge = a.merge(a.enter(switch[1], frame), None)
    pred = a.same(Kind.LOOP_COND, a.call(lambda i: np.bool_(i < 5), merge, outputs=(BOOL,)))
    a.send(pred, 0)
    turn = a.switch(merge, pred)
    a.send(a.identity(turn[1]), 1)
    a.next(a.recv(2, controls=[a.control_loop(frame, pred=pred)]), merge)
    a.fetch(a.merge(switch[0], a.exit(turn)))
    merge = b.control_loop(b.frame("loop"), 0)
    b.send(b.call(plus_one, b.recv(1, controls=[merge])), 2)
    fetches, traffic = run_together([a, b], 3, seed)
    assert fetches == [0]
    assert (traffic[0]["messages"], traffic[0]["dead"], traffic[0]["waiting"]) == (1, 1, 0)


@pytest.mark.rule(121)
def test_the_first_error_ends_the_step_everywhere():
    def fail(i):
        raise ValueError("no")

    a, b = body_elsewhere(1000, 4)
    b.call(fail, b.recv(3))
    a.send(a.const(1), 3)
    running = group([a, b], 4)
    running.drain(10.0)
    assert str(running.failure[2]) == "no"
    assert [n.kernel for n in running.compiled.plan.nodes].count(fail) == 1
    assert running.rendezvous.waiting == 0
    assert not any(live_counts()[k] for k in ("frames", "iterations", "values"))
    running.close()


def test_a_dead_silent_send_says_nothing_when_it_is_dead():
    a, b = pair()
    switch = a.switch(a.const(7), a.const(False, BOOL))
    for channel in range(3):
        a.send(switch[1], channel, dead_silent=channel > 0)
    first = b.recv(0)
    b.fetch(first)
    b.fetch(b.recv(1, controls=[first], dead_silent=True))
    b.fetch(b.recv(2, controls=[first], dead_silent=True))
    fetches, traffic = run_together([a, b], 3)
    assert fetches == [DEAD] * 3
    assert [t["messages"] for t in traffic] == [1, 0, 0]


@every_order
@pytest.mark.rule(18)
@pytest.mark.rule(19)
def test_a_dead_recv_takes_its_message_and_is_as_live_as_that(seed, window):
    a, b = pair(window)
    a.send(a.const(3), 0)
    a.send(a.switch(a.const(7), a.const(False, BOOL))[1], 1)
    dead = b.identity(b.switch(b.const(7), b.const(False, BOOL))[1])
    for channel in range(2):
        b.fetch(b.recv(channel, controls=[dead]))
    fetches, traffic = run_together([a, b], 2, seed)
    assert fetches == [3, DEAD]
    assert [(t["messages"], t["dead"], t["waiting"]) for t in traffic] == [(1, 0, 0), (1, 1, 0)]


def test_devices_that_wait_for_each_other_are_an_internal_error():
    a, b = body_elsewhere(5, 1, control=False)
    running = group([a, b], 3)
    running.drain(10.0)
    with pytest.raises(RuntimeError, match="wait for each other"):
        outcome(None, running, running.compiled.plan)
    running.close()

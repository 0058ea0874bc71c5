"""Parts of a step in several tasks: machines that never see each other's memory (rules 18, 19, 117 to 123)."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from tagloom.base.tags import DEAD, frame_id, name_hash, path_hash
from tagloom.kernels.core.table import Kind
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.pool import Pool
from tagloom.kernels.scheduler.group import MachineGroup
from tagloom.kernels.scheduler.limited import LimitedMachine
from tagloom.kernels.scheduler.plan import CompiledPlan
from tagloom.kernels.scheduler.rendezvous import MessageKey, MessageRefused, RemoteChannel, Rendezvous
from tagloom.kernels.scheduler.state import live_counts
from tagloom.ops.support.context import StepContext
from tagloom.runtime.resources.manager import ResourceManager
from tagloom.runtime.steps.execution import outcome

from tests.kernels.planning import BOOL, F32, I32, Planner, every_order, parts_of, run_apart, run_together
from tests.support.parts import Network, finish, start_part, task_name

ZEROS = {"frames": 0, "iterations": 0, "values": 0}


def pair(window=32):
    return Planner(window), Planner(window)


def plus_one(i):
    return np.int32(i + 1)


def body_elsewhere(trips, window=32, dtype=I32):
    """Return a loop whose body is on the second device: ``while i < trips: i += 1``, of arrays unless int32."""
    a, b = pair(window)
    frame = a.frame("loop")
    start = a.const(0) if dtype == I32 else a.const([0.0, 1.0], dtype)
    merge = a.merge(a.enter(start, frame), None)
    test = (lambda i: np.bool_(i < trips)) if dtype == I32 else (lambda x: np.bool_(x[0] < trips))
    pred = a.same(Kind.LOOP_COND, a.call(test, merge, outputs=(BOOL,)))
    a.send(pred, 0)
    switch = a.switch(merge, pred)
    a.send(a.identity(switch[1]), 1)
    a.next(a.recv(2, dtype, controls=[a.control_loop(frame, pred=pred)]), merge)
    a.fetch(a.exit(switch))
    start = b.control_loop(b.frame("loop"), 0)
    step = plus_one if dtype == I32 else (lambda x: x + np.float32(1))
    b.send(b.call(step, b.recv(1, dtype, controls=[start]), outputs=(dtype,)), 2)
    return a, b


@every_order
def test_a_value_goes_over(seed, window):
    a, b = pair(window)
    a.send(a.const(3), 0)
    b.fetch(b.call(plus_one, b.recv(0)))
    fetches, network = run_apart([[a], [b]], 1, seed)
    assert fetches == [4]
    assert network.carried == [(MessageKey(0, 0, 0, 0), 3)]


def test_arrays_share_no_memory():
    a, b = pair()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    a.send(a.call(lambda: array, outputs=(F32,)), 0)
    b.fetch(b.recv(0, F32))
    part_a, part_b = parts_of([[a], [b]], 1)
    part_a.drain(1.0)
    ((key, value),) = part_a.rendezvous.take_outbox()
    part_b.drain(1.0)
    part_b.rendezvous.deliver(key, value)
    part_b.drain(1.0)
    ((), (got,)) = finish([part_a, part_b])
    np.testing.assert_array_equal(got, array)
    assert not np.shares_memory(got, array)


@every_order
@pytest.mark.rule(18)
@pytest.mark.rule(19)
def test_deadness_crosses_over(seed, window):
    plans = [Planner(window) for _ in range(4)]
    plans[0].send(plans[0].switch(plans[0].const(7), plans[0].const(False, BOOL))[1], 0)
    for i in (1, 2):
        plans[i].send(plans[i].call(plus_one, plans[i].recv(i - 1)), i)
    plans[3].fetch(plans[3].recv(2))
    fetches, network = run_apart([[plan] for plan in plans], 3, seed)
    assert fetches == [DEAD]
    assert [value for _, value in network.carried] == [DEAD] * 3


def test_silent_channels_say_nothing_when_they_are_dead():
    a, b = pair()
    switch = a.switch(a.const(7), a.const(False, BOOL))
    for channel in range(3):
        a.send(switch[1], channel, dead_silent=channel > 0)
    first = b.recv(0)
    b.fetch(first)
    for channel in (1, 2):
        b.fetch(b.recv(channel, controls=[first], dead_silent=True))
    fetches, network = run_apart([[a], [b]], 3)
    assert fetches == [DEAD] * 3
    assert len(network.carried) == 1


@every_order
@pytest.mark.rule(117)
@pytest.mark.rule(118)
@pytest.mark.rule(123)
@pytest.mark.parametrize("dtype", [I32, F32])
@pytest.mark.parametrize("trips", [0, 1, 30])
def test_loops_give_what_they_give_in_one_process(seed, window, trips, dtype):
    local, traffic = run_together(body_elsewhere(trips, window, dtype), 3, seed)
    a, b = body_elsewhere(trips, window, dtype)
    apart, network = run_apart([[a], [b]], 3, seed)
    np.testing.assert_array_equal(apart, local)
    assert len(network.carried) == sum(each["messages"] for each in traffic)


@every_order
def test_tasks_may_have_several_devices(seed, window):
    """Three devices in a ring, two of them in one task: local and remote channels in one table."""

    def build():
        a, b = body_elsewhere(20, window)
        c = Planner(window)
        c.send(c.call(lambda i: np.int32(2 * i), c.recv(3)), 4)
        a.send(a.const(21), 3)
        b.fetch(b.recv(4))
        return a, b, c

    local, traffic = run_together(build(), 5, seed)
    for tasks in ([[0, 1], [2]], [[0], [1, 2]], [[0, 2], [1]], [[0], [1], [2]]):
        plans = build()
        apart, network = run_apart([[plans[i] for i in each] for each in tasks], 5, seed)
        assert sorted(apart) == sorted(local) == [20, 42]
        home = {i: t for t, each in enumerate(tasks) for i in each}
        ends = [(0, 1), (0, 1), (1, 0), (0, 2), (2, 1)]
        crossing = [n for n, (s, r) in enumerate(ends) if home[s] != home[r]]
        assert len(network.carried) == sum(traffic[n]["messages"] for n in crossing)


@pytest.mark.rule(148)
@pytest.mark.parametrize("seed", range(6))
def test_a_window_bounds_what_is_under_way_until_it_is_taken(seed):
    """A producer whose messages nobody takes goes no further than its window."""
    a, b = pair(4)
    frame = a.frame("loop")

    def body(i):
        a.send(i, 1)
        return [a.call(plus_one, i)]

    def condition(i):
        pred = a.call(lambda i: np.bool_(i < 50), i, outputs=(BOOL,))
        a.send(pred, 0)
        return pred

    a.fetch(a.loop(frame, [a.const(0)], condition, body)[0])
    b.call(plus_one, b.recv(1, controls=[b.control_loop(b.frame("loop"), 0)]))
    parts = parts_of([[a], [b]], 2, seed)
    parts[0].drain(10.0)
    assert not parts[0].done
    assert max(each["most"] for each in parts[0].rendezvous.traffic()) <= 4
    assert all(each.is_sent for each in parts[0].peer_waits())
    Network(parts, seed).run()
    assert finish(parts)[0] == [50]
    assert max(each["most"] for each in parts[0].rendezvous.traffic()) <= 4


def test_keys_are_two_hashes_of_the_path():
    a, b = body_elsewhere(2)
    _, network = run_apart([[a], [b]], 3)
    loop = frame_id(0, 0, name_hash("loop")), path_hash(0, 0, name_hash("loop"))
    assert sorted(key for key, _ in network.carried) == [(c, *loop, i) for c in range(3) for i in range(3)]
    inner = [h(parent, 7, name_hash("inner")) for h, parent in zip((frame_id, path_hash), loop, strict=True)]
    assert len({*loop, *inner}) == 4


# ---- messages that are refused


def receiver():
    """Return a part that waits for an int32 on channel 0 and sends on channel 1; channel 2 has no peer."""
    plan = Planner()
    got = plan.recv(0)
    plan.send(plan.call(plus_one, got), 1)
    plan.fetch(plan.recv(2))
    plan.send(plan.const(5), 2)
    remote = [RemoteChannel(0, "/job:a/task:0", I32, "x:0"), RemoteChannel(1, "/job:a/task:0", I32, "y:0", True)]
    return start_part([plan_tables(plan)], 3, remote, [()])


def plan_tables(plan):
    return CompiledPlan(plan.plan())


ROOT = MessageKey(0, 0, 0, 0)
REFUSED = {
    "another dtype": (ROOT, np.float32(1), "wanted an array of int32"),
    "no array": (ROOT, "x", "wanted an array of int32"),
    "a channel that is sent": (MessageKey(1, 0, 0, 0), np.int32(1), "is sent to a peer"),
    "a channel without a peer": (MessageKey(2, 0, 0, 0), np.int32(1), "has no peer"),
    "no channel": (MessageKey(9, 0, 0, 0), np.int32(1), "has no peer"),
    "a negative channel": (MessageKey(-1, 0, 0, 0), np.int32(1), "four integers"),
    "a large number": (MessageKey(0, 1 << 64, 0, 0), np.int32(1), "four integers"),
    "no key": ((0, 0), np.int32(1), "four integers"),
    "another path of this frame id": (MessageKey(0, 0, 1, 0), np.int32(1), "another frame has this id"),
}


@pytest.mark.rule(122)
@pytest.mark.sampled(every=1)
@pytest.mark.parametrize("name", REFUSED)
def test_messages_that_do_not_fit_are_refused(name):
    key, value, text = REFUSED[name]
    part = receiver()
    part.drain(1.0)
    for each in (value, DEAD) if "channel" in name else (value,):
        with pytest.raises(MessageRefused, match=text):
            part.rendezvous.deliver(key, each)
    part.rendezvous.deliver(ROOT, np.int32(1))  # nothing has changed
    part.drain(1.0)
    assert [value for _, value in part.rendezvous.take_outbox()] == [2]
    part.drain(1.0)
    assert part.failure is None
    assert finish([part]) == [[5]]


@pytest.mark.rule(147)
def test_a_message_is_refused_while_one_of_its_key_waits():
    part = receiver()
    part.rendezvous.deliver(ROOT, np.int32(1))  # before its Recv has begun
    for value in (np.int32(1), np.int32(2), DEAD):
        with pytest.raises(MessageRefused, match=r"channel 0 \(x:0\) from /job:a/task:0: .*is here already"):
            part.rendezvous.deliver(ROOT, value)
    part.drain(1.0)
    assert [int(value) for _, value in part.rendezvous.take_outbox()] == [2]
    part.drain(1.0)
    assert finish([part]) == [[5]]


@pytest.mark.rule(147)
def test_a_second_message_after_the_first_was_taken_is_an_internal_error_at_the_end():
    part = receiver()
    part.drain(1.0)
    part.rendezvous.deliver(ROOT, np.int32(1))
    part.drain(1.0)
    part.rendezvous.deliver(ROOT, np.ones((), np.int32))
    assert [int(value) for _, value in part.rendezvous.take_outbox()] == [2]  # of the first
    part.drain(1.0)
    assert part.done
    with pytest.raises(RuntimeError, match=r"a scalar from /job:a/task:0 over channel 0 \(x:0\) waits for its Recv"):
        outcome(None, part, part.compiled.plan)
    part.close()


@every_order
@pytest.mark.rule(147)
@pytest.mark.parametrize("dtype", [I32, F32])
def test_a_transport_that_doubles_messages_changes_no_result(seed, window, dtype):
    wanted, _ = run_together(body_elsewhere(20, window, dtype), 3, seed)
    a, b = body_elsewhere(20, window, dtype)
    parts = parts_of([[a], [b]], 3, seed)
    network = Network(parts, seed or 0, double=0.5)
    network.run()
    assert network.doubled > 0
    left = sum(part.rendezvous.waiting for part in parts)
    assert (network.refused + left, len(network.carried) - left) == (network.doubled, 3 * 21)
    for part in parts:
        assert part.done
        assert part.failure is None
    np.testing.assert_array_equal(parts[0].fetches, wanted)
    for part in parts:
        part.close()


def test_messages_of_a_step_that_is_over_are_dropped():
    a, b = pair()
    b.fetch(b.recv(0, F32))
    a.send(a.const([1.0, 2.0], F32), 0)
    part_a, part_b = parts_of([[a], [b]], 1)
    part_a.drain(1.0)
    ((key, value),) = part_a.rendezvous.take_outbox()
    part_b.abort(ValueError("no"))
    part_b.rendezvous.deliver(key, value)
    assert part_b.rendezvous.waiting == 0
    part_b.close()
    part_b.rendezvous.deliver(key, value)
    part_b.rendezvous.fail(task_name(0), ValueError("later"))
    assert str(part_b.failure[2]) == "no"
    part_a.drain(1.0)
    finish([part_a])


def test_no_step_takes_messages_before_a_machine_has_joined():
    rendezvous = Rendezvous(1, [RemoteChannel(0, "/job:a", F32)])
    with pytest.raises(RuntimeError, match="no machine"):
        rendezvous.deliver(ROOT, np.zeros(2, np.float32))


@pytest.mark.parametrize("numbers", [[1], [-1], [0, 0]])
def test_remote_channels_are_numbered_once(numbers):
    with pytest.raises(ValueError, match="wanted remote channels below 1"):
        Rendezvous(1, [RemoteChannel(n, "/job:a", F32) for n in numbers])


# ---- peers that fail, or say nothing


@every_order
@pytest.mark.rule(44)
@pytest.mark.rule(121)
@pytest.mark.rule(150)
def test_the_error_of_a_peer_ends_the_step_and_frees_everything(seed, window):
    a, b = body_elsewhere(1000, window, F32)
    parts = parts_of([[a], [b]], 3, seed)
    network = Network(parts, seed or 0)
    for part in parts:
        part.drain(10.0)
    for _ in range(20):
        network.collect(task_name(0))
        network.collect(task_name(1))
        if network.under_way:
            network.deliver_one()
    assert not any(part.done for part in parts)
    error = ConnectionError("the cable was cut")
    part = parts[0]
    part.rendezvous.fail(task_name(1), error)
    assert part.failure == (-1, "", error, [])
    assert part.done
    assert not part.stuck
    assert (part.rendezvous.waiting, part.rendezvous.take_outbox(), part.peer_waits()) == (0, [], [])
    part.rendezvous.fail(task_name(1), ValueError("later"))  # the first stays
    with pytest.raises(ConnectionError) as caught:
        outcome(SimpleNamespace(graph=None), part, part.compiled.plan)
    assert caught.value is error
    parts[1].abort(ConnectionError("the other end"))
    assert {k: live_counts()[k] for k in ZEROS} == ZEROS
    for each in parts:
        each.close()


def test_an_error_of_an_unknown_peer_is_refused():
    part = receiver()
    with pytest.raises(ValueError, match="wanted a peer of this step, /job:a/task:0; got '/job:b'"):
        part.rendezvous.fail("/job:b", ConnectionError())
    assert part.failure is None
    part.close()


def test_a_peer_may_fail_before_the_part_has_begun():
    plan = Planner()
    plan.fetch(plan.recv(0))
    rendezvous = Rendezvous(1, [RemoteChannel(0, "/job:a", I32)])
    machine = plan.start(rendezvous=rendezvous)
    rendezvous.fail("/job:a", ConnectionError("gone"))
    part = MachineGroup([machine], [], rendezvous, [(0, 0)])
    assert str(part.failure[2]) == "gone"
    part.close()


def test_values_under_way_are_freed_with_the_group():
    """Neither the outbox nor messages that wait keep a part alive, or what they carry."""
    a, b = pair()
    array = np.arange(3, dtype=np.float32)
    a.send(a.call(lambda: array[:], outputs=(F32,)), 0)
    b.fetch(b.recv(0, F32))
    part_a, part_b = parts_of([[a], [b]], 1)
    part_a.drain(1.0)
    part_b.rendezvous.deliver(ROOT, np.arange(3, dtype=np.float32))
    gone = [weakref.ref(part) for part in (part_a, part_b)]
    del part_a, part_b
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert {k: live_counts()[k] for k in ZEROS} == ZEROS


@pytest.mark.rule(149)
def test_a_silent_peer_is_waited_for():
    a, b = body_elsewhere(3)
    parts = parts_of([[a], [b]], 3)
    waits = []
    for part in parts:
        part.drain(1.0)
        assert not part.done
        assert not part.stuck
        assert part.rendezvous.awaits_peers
        waits.append([str(each) for each in part.peer_waits()])
    assert [line.split("@")[1] for line in waits[1]] == [
        f"root/0/loop/0, a message over channel {n} (t{n}:0) from /job:worker/task:0" for n in (0, 1)
    ]
    parts[0].rendezvous.take_outbox()  # and lost
    parts[0].drain(1.0)
    # The control loop has begun the next iteration, whose Recv waits as well.
    assert [(each.channel.number, each.peer, each.is_sent) for each in parts[0].peer_waits()] == [
        (2, "/job:worker/task:1", False)
    ] * 2
    assert [line.split("@")[1] for line in parts[0].dump() if "channel" in line] == [
        f"root/0/loop/{i} waits for a message over channel 2 (t2:0) from /job:worker/task:1" for i in (0, 1)
    ]
    for part in parts:
        assert part.blocked_on_memory is False
        part.abort(TimeoutError())
        part.close()


def test_dumps_name_values_that_wait():
    a, b = pair()
    a.send(a.call(lambda: np.zeros((2, 3), np.float32), outputs=(F32,)), 0)
    a.send(a.switch(a.const(7), a.const(False, BOOL))[1], 1)
    b.fetch(b.recv(0, F32))
    b.fetch(b.recv(1))
    parts = parts_of([[a], [b]], 2)
    parts[0].drain(1.0)
    lines = [line for line in parts[0].dump() if "channel" in line]
    assert lines == [
        "n1@root/0 waits, sending float32[2, 3] over channel 0 (t0:0) to /job:worker/task:1",
        "n5@root/0 waits, sending a dead value over channel 1 (t1:0) to /job:worker/task:1",
    ]
    for part in parts:
        part.close()


def limited_part():
    """Return a part that has sent 400 bytes, of 4200, and waits for room for 4000 more."""
    plan = Planner()
    sent = plan.call(lambda: np.ones(100, np.float32), outputs=(F32,))
    plan.send(sent, 0)
    plan.fetch(plan.call(lambda: np.zeros(1000, np.float32), outputs=(F32,), controls=[sent]))
    contexts = KernelContexts(Pool(1 << 20, limit=4200))
    rendezvous = Rendezvous(1, [RemoteChannel(0, "/job:a", F32, "x:0", True)])
    step = StepContext(1, 0, ResourceManager(), contexts=contexts)
    machine = LimitedMachine(CompiledPlan(plan.plan()), step, [], rendezvous=rendezvous)
    part = MachineGroup([machine], [contexts], rendezvous, [(0, 0)])
    part.drain(1.0)
    assert "n2@root/0 waits for 4000 bytes of memory" in part.dump()
    return part


def test_errors_of_memory_name_messages_that_wait():
    part = limited_part()
    part.fail_out_of_memory()
    assert part.failure[1] == "n2@root/0"
    assert part.failure[2].allocations == [(400, "n0", "n0@root/0", None)]
    part.close()


def test_messages_that_leave_make_room():
    part = limited_part()
    assert not part.blocked_on_memory  # a peer has still to take something
    assert len(part.rendezvous.take_outbox()) == 1
    part.drain(1.0)
    ((got,),) = finish([part])
    assert got.tolist() == [0.0] * 1000


def test_a_local_deadlock_beside_a_silent_peer_becomes_an_error_when_the_peer_has_spoken():
    plan = Planner()
    plan.fetch(plan.recv(0))
    plan.fetch(plan.recv(1))  # nobody sends on this channel, which has no peer
    part = start_part([plan_tables(plan)], 2, [RemoteChannel(0, "/job:a", I32)], [()])
    part.drain(1.0)
    assert not part.stuck
    part.rendezvous.deliver(ROOT, np.int32(1))
    part.drain(1.0)
    assert part.stuck
    assert any("waits for a message over channel 1" in line for line in part.dump())
    part.close()

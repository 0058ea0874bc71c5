"""Errors, asynchronous instances, the end of a step."""

import numpy as np
import pytest
from tagloom.kernels.scheduler.state import live_counts

from tests.kernels.planning import BOOL, F32, I32, Planner, every_order, result


async def waiting(*arrays):
    """Stand for an asynchronous kernel; the tests answer for it."""


def failing(*arrays):
    raise ValueError("no")


def drained(plan, **keywords):
    machine = plan.start(**keywords)
    machine.drain(1)
    return machine


@every_order
@pytest.mark.rule(44)
def test_failing_kernel_stops_the_step(seed, window):
    plan = Planner(window)
    bad = plan.call(failing, plan.const(np.zeros((2, 3))), plan.const(1), name="bad")
    for _ in range(5):
        plan.fetch(plan.call(lambda x: x, bad))
    machine = drained(plan, seed=seed)
    node, tag, error, shapes = machine.failure
    assert (node, tag, str(error), shapes) == (bad.node, "bad@root/0", "no", [(2, 3), ()])
    assert machine.done
    assert live_counts() | {"frames": 0, "iterations": 0, "values": 0} == live_counts()


@every_order
@pytest.mark.rule(44)
def test_first_error_wins(seed, window):
    plan = Planner(window)
    for name in "abc":
        plan.call(failing, name=name)
    machine = drained(plan, seed=seed)
    first = machine.failure
    machine.abort(RuntimeError("later"))
    assert machine.failure is first


@every_order
def test_failure_deep_in_loops_releases_everything(seed, window):
    plan = Planner(window)
    outer = plan.frame("outer")
    inner = plan.frame("inner", parent=outer)
    array = plan.const(np.zeros(4), F32)

    def explode(i, j):
        if i == 3 and j == 4:
            raise ZeroDivisionError
        return np.int32(j + 1)

    def inner_body(j, x, i):
        return [plan.call(explode, i, j), plan.ufunc("negative", x)]

    def body(i, x):
        _, x = plan.loop(
            inner,
            [plan.call(lambda i: np.int32(0), i), x],
            lambda j, x, i: plan.call(lambda j: np.bool_(j < 6), j, outputs=(BOOL,)),
            inner_body,
            [i],
        )
        return [plan.call(lambda i: np.int32(i + 1), i), x]

    plan.loop(
        outer, [plan.const(0), array], lambda i, x: plan.call(lambda i: np.bool_(i < 6), i, outputs=(BOOL,)), body
    )
    machine = drained(plan, seed=seed)
    assert machine.failure[1].endswith("@root/0/outer/3/inner/4")
    assert machine.done
    assert live_counts()["iterations"] == 0


def test_asynchronous_instances_finish_in_any_order():
    plan = Planner()
    for value in range(4):
        plan.fetch(plan.ufunc("add", plan.call(waiting, plan.const(value), name=f"a{value}"), plan.const(0)))
    machine = drained(plan)
    assert machine.pending == 4
    assert not machine.done
    launched = sorted(machine.launches(), key=lambda launch: launch[2])
    assert [(node, tag) for _, _, node, tag in launched] == [(5 * k + 1, f"a{k}@root/0") for k in range(4)]
    for k, (ticket, awaitable, *_) in reversed(list(enumerate(launched))):
        awaitable.close()
        machine.finish(ticket, np.int32(10 * k))
        machine.drain(1)
    assert result(machine) == [0, 10, 20, 30]


def test_objects_with_await_are_asynchronous():
    class Soon:
        def __await__(self):
            yield

    plan = Planner()
    plan.fetch(plan.call(lambda: Soon()))
    machine = drained(plan)
    [(ticket, soon, _, _)] = machine.launches()
    assert isinstance(soon, Soon)
    machine.finish(ticket, np.int32(1))
    machine.drain(1)
    assert result(machine) == [1]


@pytest.mark.rule(44, 46)
def test_failed_instance_fails_the_step_which_waits_for_the_others():
    plan = Planner()
    for k in range(3):
        plan.fetch(plan.call(waiting, plan.const(np.zeros(k + 1)), name=f"a{k}"))
    machine = drained(plan)
    launched = machine.launches()
    for _, awaitable, _, _ in launched:
        awaitable.close()
    machine.fail(launched[1][0], KeyError("gone"))
    assert machine.failure[:2] == (launched[1][2], "a1@root/0")
    assert machine.failure[3] == [(2,)]
    assert (machine.pending, machine.done) == (2, False)
    assert live_counts()["values"] == 0
    machine.finish(launched[0][0], np.int32(0))
    machine.fail(launched[2][0], ValueError("later"))
    assert machine.done
    assert isinstance(machine.failure[2], KeyError)


def test_result_of_an_asynchronous_instance_is_checked():
    plan = Planner()
    plan.fetch(plan.call(waiting))
    machine = drained(plan)
    [(ticket, awaitable, *_)] = machine.launches()
    awaitable.close()
    machine.finish(ticket, np.float64(1))
    assert str(machine.failure[2]) == "wanted an array of int32, got one of float64"
    with pytest.raises(KeyError):
        machine.finish(ticket, np.int32(1))


@pytest.mark.rule(46)
def test_abort_discards_what_nobody_has_started():
    plan = Planner()
    plan.call(waiting)
    machine = drained(plan)
    machine.abort(TimeoutError())
    assert machine.done
    assert machine.launches() == []


@every_order
def test_abort_from_a_kernel(seed, window):
    plan, log = Planner(window), []

    def stop(i):
        machine.abort(RuntimeError("enough"))
        return i

    plan.call(lambda i: log.append("ran"), plan.call(stop, plan.const(np.zeros(2))), outputs=())
    machine = plan.start(seed=seed)
    assert machine.drain(1) is False
    assert machine.failure[0] == -1
    assert log == []


@pytest.mark.parametrize(("call", "message"), [("drain", "already running"), ("close", "abort it")])
def test_kernel_may_not_drain_or_close_its_step(call, message):
    plan = Planner()
    plan.call(lambda: machine.drain(1) if call == "drain" else machine.close(), outputs=())
    machine = plan.start()
    machine.drain(1)
    assert isinstance(machine.failure[2], RuntimeError)
    assert message in str(machine.failure[2])


@pytest.mark.parametrize("seed", [None, 1])
def test_keyboard_interrupt_leaves_drain(seed):
    def interrupt(x):
        raise KeyboardInterrupt

    plan = Planner()
    plan.fetch(plan.call(interrupt, plan.const(np.zeros(3))))
    machine = plan.start(seed=seed)
    with pytest.raises(KeyboardInterrupt):
        machine.drain(1)
    assert machine.done
    assert isinstance(machine.failure[2], KeyboardInterrupt)
    assert live_counts()["values"] == 0


def test_closed_step_can_not_be_drained():
    machine = drained(Planner())
    machine.close()
    machine.close()
    with pytest.raises(RuntimeError, match="closed"):
        machine.drain(1)


def test_forgotten_step_is_released():
    plan = Planner()
    plan.call(waiting, plan.const(np.zeros(3)))
    machine = drained(plan)
    assert live_counts()["values"] > 0
    del machine


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "wanted an array of int32, got None"),
        (1, "wanted an array of int32, got a int"),
        (np.int64(1), "wanted an array of int32, got one of int64"),
        (np.zeros(2), "wanted an array of int32, got one of float64"),
        ((np.int32(1),), "wanted an array of int32, got a tuple"),
    ],
)
def test_wrong_outputs(returned, message):
    plan = Planner()
    plan.call(lambda: returned)
    assert str(drained(plan).failure[2]) == message


def test_output_where_none_is_declared():
    plan = Planner()
    plan.call(lambda: np.int32(1), outputs=())
    assert str(drained(plan).failure[2]) == "wanted 0 outputs, got 1"


def test_second_output_of_wrong_dtype():
    plan = Planner()
    plan.call(lambda: (np.zeros(3, np.int32), np.zeros(3)), outputs=(I32, I32))
    assert "float64" in str(drained(plan).failure[2])


@pytest.mark.rule(50)
def test_dump():
    plan = Planner(2)
    frame = plan.frame("w")
    array = plan.const(np.zeros((2, 5)), F32)
    plan.loop(
        frame,
        [plan.const(0)],
        lambda i, _: plan.call(lambda i: np.bool_(i < 9), i, outputs=(BOOL,)),
        lambda i, a: [plan.call(lambda i, a, b: i, i, a, plan.call(waiting, i, name="slow"), name="late")],
        [array],
    )
    machine = drained(plan)
    assert machine.dump() == [
        "root/0: 0 bytes held",
        "root/0/w/0: late waits, holding (int32[], float32[2, 5], -)",
        "root/0/w/0: slow is active",
        "root/0/w/0: 48 bytes held",
    ]
    machine.close()
    assert machine.dump() == []


def test_dump_of_ready_instances():
    plan = Planner()
    plan.call(failing, name="first")
    machine = plan.start()
    assert machine.dump() == ["root/0: first is active", "root/0: 0 bytes held"]

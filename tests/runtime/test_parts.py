"""Steps over several tasks: parts that are planned alike and meet by messages alone (rules 115 to 123, 147 to 150)."""

import asyncio
import logging
import random

import numpy as np
import pytest
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.base.device_names import parse_device
from tagloom.base.settings import Settings
from tagloom.compile import DeviceTarget, Target
from tagloom.compile.step_plan import plan_step
from tagloom.runtime.steps import stalls

from tests.property.executors import compare
from tests.property.interpret import evaluate, initial_values
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.translate import build
from tests.support.execute import execute
from tests.support.part_executions import (
    Part,
    Transport,
    device_names,
    partitioned_over,
    plan_for,
    run_parts,
    tasks_of,
)
from tests.support.settings import ON
from tests.support.waiting import turns, until

ONE, TWO, THREE = device_names(3)


def on(place, function, *args, **options):
    with tg.device(place):
        return function(*args, **options)


def branches(x):
    """Return a cond whose branches are on two tasks, of a value of a third."""
    return tg.cond(
        on(TWO, tg.reduce_sum, x) > 3.0,
        lambda: on(ONE, tg.multiply, x, 2.0),
        lambda: on(THREE, tg.subtract, x, 1.0),
    )


def nested(x):
    """Return nested loops: sums on one task, products of the inner loop on another, a branch on the third."""

    def inner(j, y):
        y = on(TWO, tg.multiply, y, 1.5)
        return j + 1, tg.cond(tg.equal(j % 2, 0), lambda: on(THREE, tg.add, y, 1.0), lambda: y)

    def outer(i, y):
        _, z = tg.while_loop(lambda j, _: j < i, inner, [0, y])
        return i + 1, on(ONE, tg.add, z, y)

    with tg.device(ONE):
        return tg.while_loop(lambda i, _: i < 5, outer, [0, x])[1]


def untaken_loop(x):
    """Return a loop over two tasks in a branch that is not taken for small x: its control loops are dead."""

    def taken():
        return tg.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, on(TWO, tg.multiply, y, 2.0)), [0, x])[1]

    return tg.cond(on(THREE, tg.reduce_sum, x) > 3.0, lambda: on(ONE, taken), lambda: on(ONE, tg.identity, x))


def large_arrays(x):
    """Return what comes of arrays too large for a scalar or an inline copy."""
    wide = on(TWO, tg.add, tg.reshape(x, [2, 1]), tg.ones([2, 10_000]))
    return on(ONE, tg.reduce_sum, wide * 0.5, axis=1)


PROGRAMS = [branches, nested, untaken_loop, large_arrays]


@pytest.mark.rule(116, 117, 118, 120, 123)
@pytest.mark.sampled(every=1)
@pytest.mark.parametrize("start", [0.5, 2.5])
@pytest.mark.parametrize("program", PROGRAMS)
async def test_parts_give_what_the_whole_gives(program, start, graph):
    x = tg.placeholder("float32", [2])
    y = program(x)
    (gradient,) = tg.gradients(tg.reduce_sum(y * y), x)
    fetches, feeds = [y, gradient], {x: np.full(2, start, np.float32)}
    partitioned = partitioned_over(graph, fetches, feeds, [ONE, TWO, THREE])
    wanted = await execute(fetches, feeds)
    for seed in (None, 1, 2, 3):
        settings = Settings(**{**vars_of(ON), "shuffle_seed": seed})
        values, _, carried = await run_parts(partitioned, graph, fetches, feeds, settings, seed=seed or 0)
        for value, each in zip(values, wanted, strict=True):
            np.testing.assert_array_equal(value, each, strict=True)
        assert carried > 1


def vars_of(settings):
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def run_scattered(built, fetches, feeds, count, seed, targets=(), variables=()):
    """Return the values that the parts of a built program give, and what the variables hold then."""
    partitioned = partitioned_over(built.graph, fetches, feeds, device_names(count), targets=targets, soft=True)
    running = run_parts(partitioned, built.graph, fetches, feeds, variables=variables, seed=seed)
    values, variables, _ = asyncio.run(running)
    return values, variables


def scattered(program, draws, window, count):
    names = device_names(count)
    return build(program, window, lambda statement: tg.device(lambda op: draws.choice(names)))


@pytest.mark.rule(115, 116, 118, 119, 120, 123)
@batches(100)
@batch_settings(100)
@given(program=mixed_programs(), seed=st.integers(0, 999), count=st.integers(2, 4), window=st.sampled_from([1, 2, 32]))
def test_random_programs(batch, program, seed, count, window):
    note(show(program))
    built = scattered(program, random.Random(seed), window, count)
    fetches = list(dict.fromkeys(built.results))
    values, variables = run_scattered(
        built, fetches, built.feeds(program.values), count, seed, built.targets, initial_values(program)
    )
    compare(built.in_order(fetches, values), variables, evaluate(program), "in parts")


@batches(20)
@batch_settings(20)
@given(program=smooth_programs(), seed=st.integers(0, 999), window=st.sampled_from([1, 2, 32]))
def test_random_gradients(batch, program, seed, window):
    note(show(program))
    built = scattered(program, random.Random(seed), window, 3)
    xs = list(built.inputs.values())
    with built.graph.as_default():
        gradients = tg.gradients([tg.reduce_sum(y * y) for y in built.results], xs, unconnected_gradients="zero")
    feeds, fetches = built.feeds(program.values), list(dict.fromkeys([*built.results, *gradients]))
    values, _ = run_scattered(built, fetches, feeds, 3, seed)
    for value, wanted in zip(values, asyncio.run(execute(fetches, feeds)), strict=True):
        np.testing.assert_array_equal(value, wanted, strict=True)


# ---- plans


def two_tasks():
    """Return a loop over two devices of one task and one of another, with its partition."""
    graph = tg.Graph()
    names = [*device_names(1, 2), TWO]
    with graph.as_default():
        x = on(names[0], tg.placeholder, "float32", [2], name="x")
        body = lambda i, y: (i + 1, on(names[2], tg.multiply, on(names[1], tg.add, y, 1.0), 2.0))  # noqa: E731
        y = tg.while_loop(lambda i, _: i < 3, body, [0, on(names[0], tg.identity, x)])[1]
        z = on(names[2], tg.exp, y, name="z")
    return graph, [y, z], {x: np.zeros(2, np.float32)}, partitioned_over(graph, [y, z], [x], names)


def test_a_task_plans_its_own_devices_alone():
    _, fetches, feeds, partitioned = two_tasks()
    whole = plan_step(partitioned, Target(ON, tuple(DeviceTarget(each) for each in partitioned.programs)))
    plans = {str(task): plan_for(partitioned, task) for task in tasks_of(partitioned)}
    assert list(plans) == ["/job:worker/task:0", "/job:worker/task:1"]
    assert [len(plan.devices) for plan in plans.values()] == [2, 1]
    together = {part.plan.device: part for plan in plans.values() for part in plan.devices}
    assert sorted(together) == sorted(part.plan.device for part in whole.devices)
    for part in whole.devices:
        same = together[part.plan.device]
        assert same.plan.to_text() == part.plan.to_text()
        assert (same.feeds, same.fetches) == (part.feeds, part.fetches)
    assert sorted(k for part in together.values() for k in part.fetches) == list(range(len(fetches)))
    assert sorted(k for part in together.values() for k in part.feeds) == list(range(len(feeds)))


@pytest.mark.rule(147)
def test_channels_are_numbered_alike_in_all_tasks():
    _, _, _, partitioned = two_tasks()
    plans = {str(task): plan_for(partitioned, task) for task in tasks_of(partitioned)}
    for plan in plans.values():
        assert [(c.number, c.name, str(c.dtype)) for c in plan.channels] == [
            (c.number, c.name, str(c.dtype)) for c in partitioned.channels
        ]
        assert plan.remote == plan_for(partitioned, parse_device(next(iter(set(plans) - {plan.remote[0].peer})))).remote
    sent, received = (
        {(c.number, str(c.dtype), c.name) for plan in plans.values() for c in plan.remote if c.is_sent == is_sent}
        for is_sent in (True, False)
    )
    crossing = {c.number for c in partitioned.channels if c.source.task != c.destination.task}
    assert sent == received
    assert {number for number, _, _ in sent} == crossing
    assert 0 < len(crossing) < len(partitioned.channels)  # the others are within the first task
    assert {c.peer for c in plans["/job:worker/task:0"].remote} == {"/job:worker/task:1"}


def test_without_a_task_all_devices_are_planned():
    _, _, _, partitioned = two_tasks()
    whole = plan_step(partitioned, Target(ON, tuple(DeviceTarget(each) for each in partitioned.programs)))
    assert len(whole.devices) == 3
    assert whole.remote == ()


@pytest.mark.parametrize("count", [1, 3])
def test_a_task_without_operations_has_nothing_to_plan(count, graph):
    x = on(ONE, tg.constant, 1.0) + 1.0
    partitioned = partitioned_over(graph, [x], [], device_names(count))
    plan = plan_for(partitioned, parse_device("/job:worker/task:7"))
    assert (plan.devices, plan.remote) == ((), ())
    assert len(plan_for(partitioned, parse_device("/job:worker/task:0")).devices) == 1


# ---- peers that fail, or say nothing


async def start(timeout=None, silent=()):
    """Return the parts of a loop over two tasks under way, their tasks, and the transport."""
    graph, fetches, feeds, partitioned = two_tasks()
    parts = [Part(partitioned, task, graph, fetches, feeds) for task in tasks_of(partitioned)]
    transport = Transport(parts)
    transport.silent = {parts[k].name for k in silent}
    running = [asyncio.ensure_future(part.execution.run(timeout)) for part in parts]
    await turns()
    return parts, running, transport


@pytest.mark.rule(149)
async def test_a_part_waits_for_a_silent_peer_and_says_for_what():
    parts, running, _ = await start(silent=[1])
    waiting = parts[0].execution
    assert not any(task.done() for task in running)
    waits = waiting.machine.peer_waits()
    assert waits
    assert {each.peer for each in waits} == {"/job:worker/task:1"}
    for each in waits:
        assert "/Recv@root/0/while/" in each.tag
        assert str(each) in waiting.active()
        assert f"{each.tag} waits for a message over {each.channel} from {each.peer}" in waiting.activity()[1]
    for task in running:
        task.cancel()
    for task in running:
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.rule(149)
async def test_a_part_that_waits_times_out():
    _, running, _ = await start(timeout=0.01, silent=[1])
    for task in running:
        with pytest.raises(tg.StepTimeout) as caught:
            await task
        assert "a message over channel" in caught.value.got
        assert "/job:worker/task:" in caught.value.got
        assert "waits for a message over channel" in "".join(caught.value.__notes__)
        assert "internal error" not in str(caught.value)


@pytest.mark.rule(150)
async def test_the_error_of_a_peer_ends_a_part():
    parts, running, _ = await start(silent=[1])
    error = ConnectionError("no route to host")
    for part, peer in zip(parts, reversed(parts), strict=True):
        part.rendezvous.fail(peer.name, error)
        part.execution.wake()
    for task in running:
        with pytest.raises(ConnectionError) as caught:
            await task
        assert caught.value is error


async def test_a_part_that_stands_still_is_logged_once(monkeypatch, caplog):
    monkeypatch.setattr(stalls, "SECONDS", 0.001)
    with caplog.at_level(logging.WARNING, "tagloom"):
        _, running, _ = await start(silent=[1])
        await until(lambda: len({record.getMessage() for record in caplog.records}) == 2)
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert all("it waits for other processes: " in text and "over channel" in text for text in messages)
    assert sum("from /job:worker/task:1" in text for text in messages) == 1

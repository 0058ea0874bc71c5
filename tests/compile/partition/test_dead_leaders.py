"""Which messages are dead together: one speaks for all, and never waits for one that it speaks for."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.device_names import parse_device
from tagloom.base.tags import DEAD
from tagloom.compile.partition import partition
from tagloom.compile.place import place
from tagloom.ir.program import Program

from tests.compile.partition.machines import run_partitioned
from tests.support.compiling import lowered

pytestmark = pytest.mark.usefixtures("graph")

DEVICES = [parse_device(f"/device:CPU:{i}") for i in range(3)]


def on(index, function, *args, **options):
    with tg.device(f"/cpu:{index}"):
        return function(*args, **options)


def source(name, dtype="float32"):
    return on(0, tg.placeholder, dtype, [], name)


def cut(fetches, feeds, **options):
    program = lowered(Program(feeds[0].graph, list(feeds), list(fetches)))
    return partition(program, place(program, DEVICES), **options)


def run(partitioned, *feeds):
    """Return the fetched values, and the messages by channel: a list of values, one for each iteration."""
    values, sent = asyncio.run(run_partitioned(partitioned, [np.asarray(f) for f in feeds]))
    found = {channel.number: [] for channel in partitioned.channels}
    for number, _, _, value in sorted(sent, key=lambda message: message[2]):
        found[number].append(value)
    return values, found


def led(partitioned):
    return {c.number: c.dead_leader for c in partitioned.channels if c.is_dead_silent}


def branch(p, x, count):
    """Use `count` tensors of device 0 on device 1, in a branch."""

    def true():
        parts = [on(0, tg.multiply, x, float(k + 2)) for k in range(count)]
        return on(1, tg.add_n, [on(1, tg.exp, part) for part in parts])

    return tg.cond(p, true, lambda: tg.identity(x))


@pytest.mark.rule(132)
@pytest.mark.parametrize("taken", [True, False])
def test_one_dead_message_for_a_branch_and_device(taken):
    p, x = source("p", "bool"), source("x")
    found = cut([branch(p, x, 5)], [p, x])
    values, sent = run(found, np.bool_(taken), np.float32(0))
    assert values == [5.0 if taken else 0.0]
    groups = led(found)
    assert len(groups) == 4
    (dead_leader,) = set(groups.values())
    assert all(len(sent[number]) == taken for number in groups)
    assert sent[dead_leader] == [0.0] if taken else [DEAD]


@pytest.mark.rule(132, 135, 137)
def test_a_branch_in_a_loop_is_told_once_in_each_iteration():
    n, x = source("n", "int32"), source("x")
    _, y = tg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, branch(tg.equal(i, 2), y, 4)), [0, x])
    found = cut([y], [n, x])
    groups = led(found)
    assert len(groups) == 3
    _, sent = run(found, np.int32(5), np.float32(0.0))
    assert all(len(sent[number]) == 1 for number in groups)
    assert [value is DEAD for value in sent[min(groups.values())]] == [True, True, False, True, True, True]


def test_what_is_alive_in_every_iteration_is_told_by_itself():
    n, x = source("n", "int32"), source("x")

    def body(i, x):
        return i + 1, on(1, tg.add, on(0, tg.exp, x), on(0, tg.tanh, x))

    found = cut(tg.while_loop(lambda i, x: i < n, body, [0, x]), [n, x])
    assert len(found.channels) > 2
    assert led(found) == {}


def test_each_dead_value_may_be_sent_for_itself():
    p, x = source("p", "bool"), source("x")
    found = cut([branch(p, x, 5)], [p, x], coalesce_dead_signals=False)
    assert led(found) == {}
    values, sent = run(found, np.bool_(False), np.float32(0))
    assert values == [0.0]
    assert [messages for messages in sent.values() if messages == [DEAD]] == [[DEAD]] * 6


def test_both_branches_and_other_devices_are_told_each():
    p, x = source("p", "bool"), source("x")

    def side(index):
        parts = [on(0, tg.multiply, x, float(k + 2)) for k in range(2)]
        return on(index, tg.add, *parts)

    found = cut([tg.cond(p, lambda: side(1), lambda: side(2)), tg.cond(p, lambda: side(2), lambda: side(1))], [p, x])
    by_number = {c.number: c for c in found.channels}
    for number, dead_leader in led(found).items():
        assert by_number[number].destination == by_number[dead_leader].destination
    for taken in (True, False):
        values, _ = run(found, np.bool_(taken), np.float32(1.0))
        assert values == [5.0, 5.0]


def test_a_leader_never_waits_for_one_it_leads():
    """Values go to and fro within a branch; the one that needs the least speaks for the others."""
    p, x = source("p", "bool"), source("x")

    def zigzag():
        value = x
        for k in range(6):
            value = on(1 - k % 2, tg.negative, value, name=f"v{k}")
        return value

    found = cut([tg.cond(p, zigzag, lambda: tg.exp(x), name="choose")], [p, x])
    names = {c.number: c.name for c in found.channels}
    dead_leaders = {names[number]: names[dead_leader] for number, dead_leader in led(found).items()}
    first, back = "choose/Switch:1", "v0:0"
    assert dead_leaders == {"v1:0": first, "v2:0": back, "v3:0": first, "v4:0": back}
    for taken in (True, False):
        assert run(found, np.bool_(taken), np.float32(0.0))[0] == [0.0 if taken else 1.0]

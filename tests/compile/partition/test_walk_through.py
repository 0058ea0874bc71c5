"""The distributed loop of the white paper, message by message: its Op is on device B, all else on device A."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.tags import DEAD

from tests.compile.partition.building import cut, on, run, source
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

ZERO = """
0: while/LoopCond from 0 to 1: False
0: while/Switch:1 from 0 to 1: dead
0: Op from 1 to 0: dead
"""

TWO = """
0: while/LoopCond from 0 to 1: True
0: while/Switch:1 from 0 to 1: 3.0
0: Op from 1 to 0: 6.0
1: while/LoopCond from 0 to 1: True
1: while/Switch:1 from 0 to 1: 6.0
1: Op from 1 to 0: 12.0
2: while/LoopCond from 0 to 1: False
2: while/Switch:1 from 0 to 1: dead
2: Op from 1 to 0: dead
"""


def program():
    """Return ``while x < 10: x = Op(x)`` and its x."""
    x = source(0)

    def body(x):
        doubled = on(1, tg.multiply, x, 2.0, name="Op")
        return on(0, tg.identity, doubled)

    with tg.device("/cpu:0"):
        return x, tg.while_loop(lambda x: x < 10.0, body, [x])


def printed(found, sent):
    """Return the messages as text, iteration by iteration, the channels in the order of the white paper."""
    channels = {c.name: c for c in found.channels}
    names = ["while/LoopCond:0", "while/Switch:1", "Op:0"]
    lines = [""]
    for name, _, iteration, value in sorted(sent, key=lambda message: (message[2], names.index(message[0]))):
        ends = f"from {channels[name].source.index} to {channels[name].destination.index}"
        lines.append(f"{iteration}: {name.removesuffix(':0')} {ends}: {'dead' if value is DEAD else value}")
    return "\n".join(lines) + "\n"


@pytest.mark.rule(12, 19, 118, 120)
@pytest.mark.parametrize("seed", [None, *range(5)])
@pytest.mark.parametrize(("start", "wanted"), [(11.0, ZERO), (3.0, TWO)])
def test_messages_of_zero_iterations_and_of_more(start, wanted, seed):
    x, y = program()
    values, sent = run([y], {x: start}, shuffle_seed=seed)
    assert values == [11.0 if start == 11.0 else 12.0]
    assert printed(cut([y], [x]), sent) == wanted


@pytest.mark.rule(117, 118)
@pytest.mark.parametrize("seed", [None, *range(5)])
@pytest.mark.parametrize(("start", "trips"), [(11.0, 0), (3.0, 2), (np.float32(2.0**-30), 34)])
async def test_the_machines_send_as_many(graph, start, trips, seed):
    x, y = program()
    async with tg.Session(graph, devices=2, settings=replace(ON, shuffle_seed=seed)) as session:
        assert await session.run(y, {x: start}) == start * 2.0**trips
        there, back = session.report().traffic
        assert [loop.iterations for loop in session.report().loops] == [trips + 1] * 2
    assert (there.messages, there.dead) == (2 * (trips + 1), 1)
    assert (back.messages, back.dead) == (trips + 1, 1)


@pytest.mark.rule(19)
async def test_nothing_is_left_of_branches_not_taken(graph):
    """Their Recvs have got a dead message: they wait for nothing, and hold nothing."""
    p, x = source(0, "p", "bool"), source(0, shape=[64])
    y = tg.cond(p, lambda: on(2, tg.tanh, on(1, tg.exp, x)), lambda: on(1, tg.negative, x))
    async with tg.Session(graph, devices=3) as session:
        step = session.make_step(y, [p, x])
        for taken in (True, False):
            await step(taken, np.ones(64, np.float32))
        before = session.statistics().live_bytes
        for i in range(50):
            await step(i % 2 == 0, np.ones(64, np.float32))
        assert session.statistics().live_bytes == before
        dead = sum(pair.dead for pair in session.report().traffic)
    assert dead > 0

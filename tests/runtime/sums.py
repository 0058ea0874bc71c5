"""What tests of partial runs run: a small graph, and operations that are counted or kept waiting."""

import asyncio

import pytest
import tagloom as tg


class Sums:
    def __init__(self):
        self.a, self.b, self.c = (tg.placeholder("float32", [], name=name) for name in "abc")
        self.sum = tg.add(self.a, self.b, name="sum")
        self.product = tg.multiply(self.sum, self.c, name="product")
        self.feeds = [self.a, self.b, self.c]


def counted(calls, value):
    """An operation that notes its calls and returns what it is given."""

    def note(x):
        calls.append(float(x))
        return x

    return tg.py_function(note, [value], "float32", output_shapes=[])


def gated(gate, value):
    """An operation that waits for an event."""

    async def wait(x):
        await gate.wait()
        return x

    return tg.py_function(wait, [value], "float32", stateful=False, output_shapes=[])


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def raises(what):
    return pytest.raises(tg.GraphError, match=what)

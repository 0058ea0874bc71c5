"""What dies of a value that a `switch` left dead: the same with all passes as without any.

A pass that makes several operations one, or moves one elsewhere, may kill what was alive, or bring to life what was
dead. In each of these random programs the result of one operation, in whatever branch or loop, is dead or alive as a
feed says.
"""

import asyncio
from contextlib import nullcontext

import numpy as np
import pytest
import tagloom as tg
from hypothesis import assume, given, note
from hypothesis import strategies as st
from tagloom.ir import scopes

from tests.property.interpret import initial_values
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs
from tests.property.translate import build
from tests.support.clusters import of_any_size
from tests.support.settings import ON

PLAIN = ON.without("all")


class Deadly:
    """Sends the result of the operation with this number through a Switch that the feed ``alive`` decides."""

    def __init__(self, number):
        self.number, self.alive = number, None

    def __call__(self, statement, tensor):
        self.number -= 1
        if self.number != -1:
            return tensor
        with scopes.within(region=tensor.graph.root):
            self.alive = tg.placeholder("bool", [], "alive")
        return tg.switch(tensor, self.alive)[1]


def observers(built, seen):
    """Return operations that write each result that is alive into `seen`."""
    with built.graph.as_default():
        return [
            tg.py_function(lambda value, k=k: seen.update({k: np.array(value)}), [result], [], stateful=False)
            for k, result in enumerate(built.results)
        ]


async def run(built, fetches, feeds, initial, settings):
    async with tg.Session(built.graph, settings=settings) as session:
        await session.write_variables(initial)
        await session.run(fetches, feeds)
        return await session.read_variables()


@pytest.mark.rule(4, 7, 57)
@batches(150)
@batch_settings(150)
@given(program=mixed_programs(), number=st.integers(0, 12), alive=st.booleans())
def test_passes_change_nothing_about_what_is_dead(batch, program, number, alive):
    note(f"{show(program)}\n{program!r}")
    change = Deadly(number)
    built = build(program, 3, change=change)
    assume(change.alive is not None)
    feeds = {**built.feeds(program.values), change.alive: alive}
    seen = {}
    fetches = [*observers(built, seen), *built.targets]
    expected = asyncio.run(run(built, fetches, feeds, initial_values(program), PLAIN)), dict(seen)
    seen.clear()
    for clusters in (nullcontext(), of_any_size()):
        with clusters:
            found = asyncio.run(run(built, fetches, feeds, initial_values(program), ON)), dict(seen)
        seen.clear()
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.keys() == theirs.keys()
            for name, value in theirs.items():
                np.testing.assert_array_equal(ours[name], value, err_msg=str(name), strict=True)

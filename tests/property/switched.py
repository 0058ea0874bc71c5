"""Random programs in sessions with different settings, which change no result."""

import asyncio

import numpy as np
import tagloom as tg
from hypothesis import note
from tagloom.kernels.scheduler.state import live_counts

from tests.property.executors import compare, run_session
from tests.property.gradient_programs import build_gradients
from tests.property.interpret import evaluate
from tests.property.programs import show
from tests.property.translate import build


async def run_switched(graph, run, switches):
    """Yield the name of settings, and what running a session with these gives."""
    for name, settings in switches.items():
        async with tg.Session(graph, settings=settings) as session:
            yield name, await run(session)
        assert not any(live_counts()[key] for key in ("frames", "iterations", "values")), name


def check_programs(program, window, switches):
    """Hold what sessions with named settings give against what a program means, to the last bit."""

    async def check():
        expected = evaluate(program)
        built = build(program, window)
        feeds = built.feeds(program.values)
        async for name, found in run_switched(built.graph, lambda s: run_session(s, built, feeds), switches):
            compare(*found, expected, name)

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())


def check_gradients(program, window, switches, reference):
    """Hold the gradients of both orders against those with the settings of the name `reference`."""

    async def check():
        built, first, second = build_gradients(program, window)
        feeds = built.feeds(program.values)
        others = {tensor: value * value.dtype.type(0.75) for tensor, value in feeds.items()}

        async def run(session):
            """Return the gradients of a step behind one with other values: what is kept of a run holds none."""
            await session.run([first, second], others)
            return await session.run([first, second], feeds)

        found = {name: results async for name, results in run_switched(built.graph, run, switches)}
        wanted = found[reference][0] + found[reference][1]
        for name, results in found.items():
            for got, same in zip(results[0] + results[1], wanted, strict=True):
                np.testing.assert_allclose(got, same, rtol=1e-9, atol=1e-12, err_msg=name)

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())

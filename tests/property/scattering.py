"""Random programs whose operations ask for devices at random."""

import asyncio

import numpy as np
import tagloom as tg
from hypothesis import note

from tests.property.executors import compare, run_session
from tests.property.gradient_programs import build_gradients
from tests.property.interpret import evaluate
from tests.property.programs import show
from tests.property.translate import build
from tests.support.settings import ON

# the operation types that take time on devices that have it
TIMED = ("Add", "Sub", "Mul", "MatMul", "Tanh", "Less", "Greater", "Fused", "Maximum", "HostToDevice", "DeviceToHost")


def scatter(graph, count, seed):
    """Ask for a random device for each operation, handles included: soft placement keeps these together."""
    random = np.random.default_rng(seed)
    for op in graph.root.walk():
        if random.random() < 0.8:
            op.device = f"/cpu:{random.integers(count)}"


def check_program(program, window, count, seed, runs):
    """Hold what a program gives on devices, asked for at random, against what it means."""

    async def check():
        expected = evaluate(program)
        built = build(program, window)
        feeds = built.feeds(program.values)
        scatter(built.graph, count, seed)
        async for how, found in runs(built.graph, lambda session: run_session(session, built, feeds)):
            compare(*found, expected, how)

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())


def check_gradients(program, window, count, seed, runs):
    """Hold gradients on devices, asked for at random, against those on one CPU."""

    async def check():
        built, first, second = build_gradients(program, window)
        feeds = built.feeds(program.values)
        async with tg.Session(built.graph, settings=ON) as session:
            expected = await session.run([first, second], feeds)
        scatter(built.graph, count, seed)
        async for how, results in runs(built.graph, lambda session: session.run([first, second], feeds)):
            for got, wanted in zip(results[0] + results[1], expected[0] + expected[1], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=how)

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())

"""Random programs mean the same on devices whose arrays are not NumPy's, alone and cut with CPUs."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import numpy as np
import tagflow as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagflow.kernels.scheduler.state import live_counts

from tests.property.interpret import evaluate
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.test_random_devices import scatter
from tests.property.test_random_executors import compare, run_session
from tests.property.test_random_gradients import build_gradients
from tests.property.translate import build
from tests.settings import ON
from tests.strict.device import StrictDevice

PLACES = {"layout": st.sampled_from(["s", "sc", "cs", "scs"]), "seed": st.integers(0, 1 << 30),
          "window": st.sampled_from([1, 2, 7, 32])}  # fmt: skip


async def run_on(graph, layout, run, seed):
    """Return what running a session gives on devices: strict ones and CPUs."""
    async with AsyncExitStack() as stack:
        devices = []
        for i, kind in enumerate(layout):
            devices.append(await stack.enter_async_context(StrictDevice(f"/cpu:{i}")) if kind == "s" else f"/cpu:{i}")
        settings = replace(ON, shuffle_seed=seed % 3 or None)
        async with tg.Session(graph, devices=devices, soft_placement=True, settings=settings) as session:
            result = await run(session)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))
    return result


@batches(150)
@batch_settings(150)
@given(program=mixed_programs(), **PLACES)
def test_random_programs(batch, program, layout, seed, window):
    async def check():
        expected = evaluate(program)
        built = build(program, window)
        feeds = built.feeds(program.values)
        scatter(built.graph, len(layout), seed)
        found = await run_on(built.graph, layout, lambda session: run_session(session, built, feeds), seed)
        compare(*found, expected, f"on {layout}")

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())


@batches(50)
@batch_settings(50)
@given(program=smooth_programs(), **PLACES)
def test_random_gradients(batch, program, layout, seed, window):
    async def check():
        built, first, second = build_gradients(program, window)
        feeds = built.feeds(program.values)
        async with tg.Session(built.graph, settings=ON) as session:
            expected = await session.run([first, second], feeds)
        scatter(built.graph, len(layout), seed)
        results = await run_on(built.graph, layout, lambda session: session.run([first, second], feeds), seed)
        for got, wanted in zip(results[0] + results[1], expected[0] + expected[1], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=f"on {layout}")

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())

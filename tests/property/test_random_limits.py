"""Random programs in little memory mean what they mean in much, or end with DeviceMemoryError and leave nothing."""

import asyncio
import gc
from dataclasses import replace

import numpy as np
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.kernels.memory.store import block_counts
from tagloom.kernels.scheduler.state import live_counts

from tests.property.executors import compare, run_from
from tests.property.gradient_programs import build_gradients
from tests.property.interpret import evaluate, initial_values
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.scattering import scatter
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.translate import build
from tests.support.settings import ON


async def check(program, window, fraction, seed, executor):
    """Run a program without a limit, then with a part of the memory that took; say whether that was enough."""
    expected = evaluate(program)
    built = build(program, window)
    feeds, initial = built.feeds(program.values), initial_values(program)
    async with tg.Session(built.graph, settings=ON) as session:
        compare(*await run_from(session, built, feeds, initial), expected, "without a limit")
        peak = session.statistics().peak_bytes
    limit = max(1, int(fraction * peak))
    settings = replace(ON, shuffle_seed=seed)
    async with tg.Session(built.graph, memory_limit=limit, settings=settings, executor=executor) as session:
        try:
            compare(*await run_from(session, built, feeds, initial), expected, f"limit {limit}, window {window}")
            enough = True
        except tg.DeviceMemoryError:
            enough = False
        pool = session._steps.environment.devices[0].pool
        assert session.statistics().steps_running == 0
    if executor == "reference":
        gc.collect()  # an error and the tasks that it came through refer to each other
    assert pool.live_bytes == 0
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))
    return enough


def blocks():
    gc.collect()
    return block_counts()["blocks"]


@batches(30)
@batch_settings(30)
@given(
    program=mixed_programs(),
    window=st.sampled_from([1, 7, "auto"]),
    fraction=st.floats(0.5, 2.0),
    seed=st.sampled_from([None, None, 1]),
    executor=st.sampled_from(["machine", "machine", "machine", "reference"]),
)
def test_random_programs_in_little_memory(batch, program, window, fraction, seed, executor):
    note(f"{show(program)}\n{program!r}")
    before = blocks()
    asyncio.run(check(program, window, fraction, seed, executor))
    assert blocks() == before


async def check_gradients(program, count, seed, window, fraction):
    """Take gradients on several devices, each with a part of the memory that it took without a limit."""
    built, first, second = build_gradients(program, window)
    feeds = built.feeds(program.values)
    scatter(built.graph, count, seed)
    options = {"devices": count, "soft_placement": True, "settings": ON}
    async with tg.Session(built.graph, **options) as session:
        expected = await session.run([first, second], feeds)
        peaks = {name: figures.peak_bytes for name, figures in session.statistics().devices.items()}
    limits = {name: max(1, int(fraction * peak)) for name, peak in peaks.items()}
    async with tg.Session(built.graph, memory_limit=limits, **options) as session:
        try:
            results = await session.run([first, second], feeds, timeout=20)
        except tg.DeviceMemoryError as error:
            device = error.device
        else:
            device = None
            for got, wanted in zip(results[0] + results[1], expected[0] + expected[1], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
        pools = [each.pool for each in session._steps.environment.devices]
        assert all(pool.peak_bytes <= pool.limit for pool in pools)
    assert device is None or device in limits
    assert not any(pool.live_bytes for pool in pools)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


@batches(12)
@batch_settings(12)
@given(
    program=smooth_programs(),
    count=st.integers(1, 4),
    seed=st.integers(0, 1 << 30),
    window=st.sampled_from([1, 7, "auto"]),
    fraction=st.floats(0.5, 2.0),
)
def test_random_gradients_in_little_memory(batch, program, count, seed, window, fraction):
    note(f"{show(program)}\n{program!r}")
    before = blocks()
    asyncio.run(check_gradients(program, count, seed, window, fraction))
    assert blocks() == before

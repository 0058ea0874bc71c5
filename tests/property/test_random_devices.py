"""Random programs mean the same on any devices: cut anywhere, with any window, in any ready order."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.kernels.scheduler.state import live_counts
from tagloom.streams import LatencyDevice, VirtualClock

from tests.property.executors import compare, run_session
from tests.property.interpret import evaluate
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.scattering import TIMED, check_gradients, check_program, scatter
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.translate import build
from tests.support.settings import ON

SEEDS = (None, 1, 2)


async def run_scattered(graph, run, count):
    """Yield the ready orders, and what running a session of some devices gives so."""
    for seed in SEEDS:
        settings = replace(ON, shuffle_seed=seed)
        async with tg.Session(graph, devices=count, soft_placement=True, settings=settings) as session:
            yield f"shuffled by {seed}", await run(session)
        assert not any(live_counts()[key] for key in ("frames", "iterations", "values")), seed


PLACES = {"count": st.integers(2, 5), "seed": st.integers(0, 1 << 30), "window": st.sampled_from([1, 2, 7, 32])}


@pytest.mark.rule(115, 116, 117, 118, 119, 120, 123)
@batches(300)
@batch_settings(300)
@given(program=mixed_programs(), **PLACES)
def test_random_programs_on_random_devices(batch, program, count, seed, window):
    check_program(program, window, count, seed, lambda graph, run: run_scattered(graph, run, count))


@batches(60)
@batch_settings(60)
@given(program=smooth_programs(), **PLACES)
def test_random_gradients_on_random_devices(batch, program, count, seed, window):
    check_gradients(program, window, count, seed, lambda graph, run: run_scattered(graph, run, count))


@batches(40)
@batch_settings(40)
@given(program=mixed_programs(), **PLACES)
def test_random_programs_on_devices_with_time(batch, program, count, seed, window):
    async def check():
        expected = evaluate(program)
        built = build(program, window)
        feeds = built.feeds(program.values)
        scatter(built.graph, count, seed)
        random = np.random.default_rng(seed)
        async with VirtualClock() as clock:
            seconds = [dict(zip(TIMED, random.integers(0, 3, len(TIMED)) * 0.5, strict=True)) for _ in range(count)]
            devices = [LatencyDevice(f"/cpu:{d}", seconds=each, clock=clock) for d, each in enumerate(seconds)]
            async with tg.Session(built.graph, devices=devices, soft_placement=True, settings=ON) as session:
                compare(*await run_session(session, built, feeds), expected, "with time")
            assert all(stream.statistics().running == 0 for device in devices for stream in device.streams)
        assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())

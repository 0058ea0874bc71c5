"""Random programs mean the same on devices whose arrays are not NumPy's, alone and cut with CPUs."""

import asyncio
import gc
from contextlib import suppress
from dataclasses import replace

import tagloom as tg
from hypothesis import given
from hypothesis import strategies as st
from tagloom.kernels.scheduler.state import live_counts

from tests.property.executors import compare, run_from
from tests.property.interpret import evaluate, initial_values
from tests.property.runs import batch_settings, batches
from tests.property.scattering import check_gradients, check_program
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.strict_devices import PLACES, run_on
from tests.property.translate import build
from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON


@batches(150)
@batch_settings(150)
@given(program=mixed_programs(), **PLACES)
def test_random_programs(batch, program, layout, seed, window):
    check_program(program, window, len(layout), seed, lambda *run: run_on(*run, layout, seed))


@batches(50)
@batch_settings(50)
@given(program=smooth_programs(), **PLACES)
def test_random_gradients(batch, program, layout, seed, window):
    check_gradients(program, window, len(layout), seed, lambda *run: run_on(*run, layout, seed))


async def check_limit(program, window, fraction, seed):
    """Run a program without a limit, then with a part of the memory that took; nothing is left of either."""
    expected, built = evaluate(program), build(program, window)
    feeds, initial = built.feeds(program.values), initial_values(program)
    async with StrictDevice() as device, tg.Session(built.graph, devices=[device], settings=ON) as session:
        compare(*await run_from(session, built, feeds, initial), expected, "without a limit")
        limit = max(1, int(fraction * device.peak_bytes))
    settings = replace(ON, shuffle_seed=seed)
    async with StrictDevice(limit=limit) as device:
        async with tg.Session(built.graph, devices=[device], settings=settings, timeout=20) as session:
            with suppress(tg.DeviceMemoryError):
                compare(*await run_from(session, built, feeds, initial), expected, f"limit {limit}")
        del session
        gc.collect()
        assert (device.live_bytes, device.peak_bytes <= limit) == (0, True)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


@batches(30)
@batch_settings(30)
@given(
    program=mixed_programs(),
    window=st.sampled_from([1, 7, "auto"]),
    fraction=st.floats(0.3, 1.5),
    seed=st.sampled_from([None, None, 1]),
)
def test_random_programs_in_little_memory(batch, program, window, fraction, seed):
    asyncio.run(check_limit(program, window, fraction, seed))

"""Gradients of random programs whose loops save every k-th iteration are those of programs that save every one."""

import asyncio

import numpy as np
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.kernels.scheduler.state import live_counts

from tests.property.gradient_programs import build_gradients, type_shape
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.scattering import scatter
from tests.property.strategies import smooth_programs

FREE = ("frames", "iterations", "values")


def effects(period):
    """Return a change of a program that makes results random, or what has effects gives them."""

    def change(statement, tensor):
        number = int(statement.name.removeprefix("v")) * 7 % period
        if number == 0 and tensor.dtype.is_floating:
            return tensor * tg.random_uniform(type_shape(tensor), 0.5, 1.5, dtype=tensor.dtype)
        if number == 1 and tensor.dtype.is_floating:
            scale = tg.py_function(lambda x: 1.0 + 0.1 * np.tanh(x), [tensor], "float64", output_shapes=tensor.shape)
            return tensor * scale
        if number == 2 and tensor.dtype.is_floating:
            return tg.TensorArray(tensor.dtype, 2).write(1, tensor).read(1) * 1.5
        return tensor

    return change


async def run(built, first, second, values, **options):
    async with tg.Session(built.graph, **options) as session:
        found = await session.run([first, second, built.results], built.feeds(values), timeout=60)
        peaks = {name: figures.peak_bytes for name, figures in session.statistics().devices.items()}
    return [array for part in found for array in part], peaks


def compare(wanted, got):
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)


async def check(program, window, every, period, executor):
    """Compare a program with checkpoints and the one without."""
    found = []
    for kept in ((None,), every):
        graphs = build_gradients(program, window, every=kept, change=effects(period))
        found.append((await run(*graphs, program.values, executor=executor))[0])
    compare(*found)
    assert not any(live_counts()[key] for key in FREE)


async def check_elsewhere(program, every, count, seed):
    """Compare a program with checkpoints on several devices, and swapping, with itself on one."""
    graphs = build_gradients(program, 7, every=every, change=effects(9))
    wanted, _ = await run(*graphs, program.values)
    scatter(graphs[0].graph, count, seed)
    options = {"devices": count, "soft_placement": True}
    got, peaks = await run(*graphs, program.values, **options)
    compare(wanted, got)
    limits = {name: peak + 4096 for name, peak in peaks.items()}
    swap = tg.SwapPolicy(threshold=0.1, minimum=1)
    compare(wanted, (await run(*graphs, program.values, **options, memory_limit=limits, swap=swap))[0])
    assert not any(live_counts()[key] for key in FREE)


@batches(60)
@batch_settings(60)
@given(
    program=smooth_programs(),
    window=st.sampled_from([1, 2, 32]),
    every=st.lists(st.sampled_from([1, 2, 3, 5, None]), min_size=1, max_size=3),
    period=st.integers(3, 12),
    executor=st.sampled_from(["machine", "machine", "reference"]),
)
def test_random_gradients_with_checkpoints(batch, program, window, every, period, executor):
    note(f"{show(program)}\n{program!r}")
    asyncio.run(check(program, window, every, period, executor))


@batches(15)
@batch_settings(15)
@given(
    program=smooth_programs(),
    every=st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=2),
    count=st.integers(1, 3),
    seed=st.integers(0, 1 << 30),
)
def test_random_checkpoints_on_devices_with_swapping(batch, program, every, count, seed):
    note(f"{show(program)}\n{program!r}")
    asyncio.run(check_elsewhere(program, every, count, seed))

"""Each experiment computes what it says, in tagloom, at small sizes."""

import asyncio
import inspect
import time
from contextlib import AsyncExitStack

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program
from tagloom.kernels.core.table import Kind
from tagloom.streams import LatencyDevice, VirtualClock

from bench import (
    compile_time,
    cond_loop,
    dead_signals,
    loop_gradient,
    loop_lag,
    lstm_memory,
    lstm_train,
    matmul_loop,
    memory_window,
    model_parallel,
    nested_loop,
    null_ops,
    parallel_iterations,
    static_unroll,
    step_overhead,
)
from bench.__main__ import experiments
from tests.support.compiling import plan_of
from tests.support.settings import ON


async def run(factory, case, steps=1):
    """Return the values of the last step, and the step."""
    async with AsyncExitStack() as stack:
        step = factory(case, stack)
        step = await step if inspect.isawaitable(step) else step
        for _ in range(steps):
            values = await step()
        return [np.asarray(value) for value in values], step


def branching(iterations):
    x = 1
    for _ in range(iterations):
        x = x - 7 if x > 10 else x + 3
    return [iterations, x]


def multiplied(iterations):
    a, w, by_w = loop_gradient.START, loop_gradient.MATRIX, np.zeros((4, 4))
    steps = [a @ np.linalg.matrix_power(w, k) for k in range(iterations + 1)]
    cotangents = [loop_gradient.WEIGHTS @ np.linalg.matrix_power(w.T, k) for k in range(iterations + 1)]
    for k in range(iterations):
        by_w += steps[k].T @ cotangents[iterations - 1 - k]
    return [np.sum(steps[-1] * loop_gradient.WEIGHTS), cotangents[-1], by_w]


def chained(x, count):
    y = x
    for _ in range(count):
        y = np.sin(y) * x
    return y


COMPILED = chained(compile_time.VALUE, 4)
SMALL = [
    (null_ops, {"work": "scalar_add", "width": 3, "length": 4}, [1.0 + 4 * 1.0]),
    (null_ops, {"work": "matrix_add", "width": 3, "length": 4}, [np.arange(1.0, 17.0).reshape(4, 4) * 5]),
    (null_ops, {"work": "identity", "width": 3, "length": 4}, [1.0]),
    (matmul_loop, {"iterations": 6}, [[[1.0, 6.0], [0.5, 3.25]]]),
    (cond_loop, {"iterations": 12}, branching(12)),
    (loop_gradient, {"iterations": 3}, multiplied(3)),
    (step_overhead, {"operations": 5, "iterations": 3}, [np.tanh(step_overhead.VALUE * 3 + 0.5) * 2 - 1]),
    (compile_time, {"operations": 8}, [COMPILED]),
    (loop_lag, {"mode": "python_kernel", "iterations": 2}, [np.tanh(np.tanh(loop_lag.START))]),
]


@pytest.mark.parametrize(("module", "case", "wanted"), SMALL, ids=lambda part: getattr(part, "__name__", None))
async def test_values(module, case, wanted):
    values, _ = await run(module.tagloom, case)
    assert len(values) == len(wanted)
    for value, right in zip(values, wanted, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-6)


async def test_nested_loop_counts_as_its_data_says():
    case = {"iterations": 30}
    counts = nested_loop.counts(case)
    assert 0 in counts
    assert len(set(counts)) > 5
    (total,), _ = await run(nested_loop.tagloom, case)
    assert total == sum(n * (n - 1) // 2 for n in counts)
    assert nested_loop.EXPERIMENT.amount(case) == 30 + counts.sum()


@pytest.mark.parametrize("work", null_ops.SHAPES)
def test_every_operation_of_the_grid_is_in_the_plan(work):
    with tg.Graph().as_default() as graph:
        x, end = null_ops.grid(tg, {"work": work, "width": 5, "length": 7})
    plan = plan_of(Program(graph, [x], [end]), tg.Settings(fold=False, merge=False, fuse=False))
    adds = sum(node.type == "Add" for node in plan.nodes)
    identities = sum(node.kind is Kind.IDENTITY for node in plan.nodes)
    assert (adds, identities) == ((0, 36) if work == "identity" else (35, 1))


def test_five_operations_are_five():
    with tg.Graph().as_default() as graph:
        x, y = step_overhead.program(tg)
    nodes = plan_of(Program(graph, [x], [y]), tg.Settings(fuse=False)).nodes
    assert sum(node.kind is Kind.KERNEL for node in nodes) == step_overhead.EXPERIMENT.cases[0]["operations"]


async def test_the_unrolled_lstm_trains_like_the_loop_and_both_note_their_building():
    case = {"batch": 2, "units": 3, "length": 4}
    looped, loop = await run(static_unroll.tagloom, case)
    unrolled, _ = await run(static_unroll.unrolled, case)
    plain, _ = await run(lstm_train.tagloom, case)
    for a, b, c in zip(looped, unrolled, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(a, c)
    (built,) = loop.figures["build_milliseconds"]
    assert built > 0


def test_the_unrolled_lstm_has_no_loop():
    given = lstm_train.problem({"batch": 2, "units": 3, "length": 4})
    graph, _, feeds, fetches = lstm_train.training(tg, given, static_unroll.unrolled_loop)
    types = [node.type for node in plan_of(Program(graph, feeds, fetches), tg.Settings(fuse=False)).nodes]
    assert "Enter" not in types
    assert types.count("Tanh") == 2 * 4


async def test_a_sleeper_notes_how_late_it_wakes():
    async def blocking():
        time.sleep(0.05)
        return "done"

    sleeper = loop_lag.Sleeper()
    assert await sleeper.beside(blocking()) == "done"
    assert max(sleeper.late) > 0.04
    await sleeper.beside(asyncio.sleep(0.02))
    assert len(sleeper.late) >= 3


async def test_a_sleeper_ends_with_work_that_fails():
    async def failing():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await loop_lag.Sleeper().beside(failing())
    assert len(asyncio.all_tasks()) == 1


async def test_the_first_run_beside_a_sleeper_does_not_count():
    case = {"batch": 2, "units": 3, "length": 4}
    _, step = await run(loop_lag.tagloom, case)
    assert step.figures == {loop_lag.P99: [], loop_lag.WORST: []}
    _, step = await run(loop_lag.tagloom, case, steps=3)
    (p99,), (worst,) = step.figures[loop_lag.P99], step.figures[loop_lag.WORST]
    assert 0 <= p99 <= worst


@pytest.mark.parametrize(
    ("factory", "wanted"), [(dead_signals.tagloom, 1.0), (dead_signals.uncut, 0.0), (dead_signals.one_by_one, 5.0)]
)
async def test_dead_messages_are_counted_for_each_destination_and_iteration(factory, wanted):
    (trips, x), step = await run(factory, {"edges": 5, "iterations": 3})
    assert trips == 3
    np.testing.assert_allclose(x, np.eye(2) / 8)
    assert step.figures == {dead_signals.MESSAGES: [wanted]}


def test_heavy_takes_its_time():
    began = time.perf_counter()
    assert np.array_equal(loop_lag.heavy(loop_lag.START), np.tanh(loop_lag.START))
    assert time.perf_counter() - began >= loop_lag.KERNEL_SECONDS


def test_all_experiments_of_the_table_are_there():
    names = "null_ops counter_loop matmul_loop cond_loop nested_loop loop_gradient lstm_train static_unroll"
    found = experiments()
    assert set(names.split()) | {"step_overhead", "loop_lag", "dead_signals", "lstm_spellings"} <= set(found)
    assert list(found["static_unroll"].engines) == ["tagloom", "unrolled"]
    assert all(0 < len(e.quick().cases) <= len(e.cases) for e in found.values())


async def in_the_same_blocks(case, stack):
    """Train without a limit, in blocks as high as under one, unlike native programs: products may round otherwise."""
    most = lstm_memory.LIMIT // 12
    settings, swaps = tg.Settings(hoist_bytes=most, block_bytes=most, straight=False), case["mode"] != "none"
    given = lstm_memory.problem(200)
    return (await lstm_memory.trained(tg, given, case["mode"], stack, swap=swaps, settings=settings))[1]


@pytest.mark.usefixtures("fast_paths")
@pytest.mark.parametrize("mode", ["none", "host", "disk"])
async def test_an_lstm_in_little_memory_learns_the_same(mode, monkeypatch):
    monkeypatch.setattr(lstm_memory, "BATCH", 16)
    monkeypatch.setattr(lstm_memory, "UNITS", 64)
    monkeypatch.setattr(lstm_memory, "FITS", 15)
    monkeypatch.setattr(lstm_memory, "SAVED", 36_000)
    monkeypatch.setattr(lstm_memory, "LIMIT", 20_000_000 if mode == "none" else 5_000_000)
    case = {"length": 200, "mode": mode}
    got, _ = await run(lstm_memory.limited, case, steps=2)
    wanted, _ = await run(in_the_same_blocks, case)
    assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
    async with AsyncExitStack() as stack:
        observed = await lstm_memory.limited(case, stack)
        await observed()
        notes = observed.notes()
    assert {"none": "off", "host": "host out", "disk": "disk out"}[mode] in notes[lstm_memory.SWAP]
    assert (lstm_memory.BEYOND in notes) == (mode == "none")


@pytest.mark.usefixtures("fast_paths")
def test_a_length_that_does_not_fit_is_said(monkeypatch):
    for name, value in {"BATCH": 4, "UNITS": 32, "FITS": 100, "LIMIT": 200_000}.items():
        monkeypatch.setattr(lstm_memory, name, value)
    assert asyncio.run(lstm_memory.beyond(tg)).startswith("120 steps end with DeviceMemoryError")


async def test_layers_on_devices_note_what_limits_them():
    case = {"parallel_iterations": 2, "iterations": 3}
    async with AsyncExitStack() as stack:
        step = await parallel_iterations.tagloom(case, stack)
        count, *got = await step()
        assert step.notes() == {parallel_iterations.LIMITER: "the window, parallel_iterations=2"}
    states = [parallel_iterations.MATRIX] * parallel_iterations.LAYERS
    for _ in range(3):
        below = states[0]
        for d, state in enumerate(states):
            below = states[d] = np.tanh(state @ below)
    assert count == 3
    np.testing.assert_allclose(got, states, rtol=1e-5)
    (over,) = step.figures[parallel_iterations.OVER_IDEAL]
    assert over > 0.99


@pytest.mark.parametrize(("window", "seconds"), [(1, 24.0), (2, 16.0), (3, 10.0), (8, 10.0)])
def test_the_ideal_of_a_pipeline(window, seconds):
    case = {"parallel_iterations": window, "iterations": 3}
    assert parallel_iterations.ideal(case, seconds=1.0) == seconds


async def test_layers_on_two_devices_compute_what_they_do_on_one():
    alone, step = await run(model_parallel.tagloom, {"devices": 1, "length": 3})
    apart, _ = await run(model_parallel.tagloom, {"devices": 2, "length": 3})
    assert len(alone) == 1 + model_parallel.LAYERS
    for a, b in zip(alone, apart, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    assert step.figures[parallel_iterations.OVER_IDEAL][0] > 0.99


@pytest.mark.parametrize(("window", "most"), [(2, 2), ("auto", 6)])
async def test_iterations_keep_to_a_budget(window, most):
    async with AsyncExitStack() as stack:
        step = await memory_window.tagloom({"parallel_iterations": window, "iterations": 12}, stack)
        count, total = await step()
        assert step.notes()[memory_window.IN_FLIGHT] == f"at most {most}"
        assert (step.notes()[memory_window.LIMITER] == "memory") == (window == "auto")
    assert (count, total) == (12, sum(range(12)))
    (over,) = step.figures[memory_window.OVER_BUDGET]
    assert most - 0.5 <= 6 * over <= most


async def milliseconds(window, limit):
    """Return what an iteration of bench memory_window takes in virtual time, and the peak beside the budget."""
    with tg.Graph().as_default() as graph:
        n, results = memory_window.program(tg, {"parallel_iterations": window})
    async with VirtualClock() as clock, AsyncExitStack() as stack:
        seconds = {"Sign": memory_window.SECONDS}
        devices = [LatencyDevice(f"/cpu:{d}", seconds=seconds, clock=clock) for d in range(memory_window.DEVICES)]
        for device in devices:
            await stack.enter_async_context(device)
        session = await stack.enter_async_context(tg.Session(graph, devices=devices, memory_limit=limit, settings=ON))
        await session.run(results, {n: 50})
        peak = max(figures.peak_bytes for figures in session.statistics().devices.values())
        return clock.now() / 50 * 1e3, peak / memory_window.BUDGET


async def test_iterations_under_a_budget_are_as_fast_as_any_window_within_it():
    best, over = await milliseconds(4, None)
    beyond = (await milliseconds(8, None))[1]
    auto, peak = await milliseconds("auto", memory_window.BUDGET)
    assert over <= 1 < beyond
    assert peak <= 1
    assert auto <= 1.05 * best

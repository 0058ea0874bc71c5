"""Gradients of random programs whose saved values swap are the same to the last bit, or there is no room for them."""

import asyncio
import gc
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, suppress
from unittest import mock

import numpy as np
import pytest
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.kernels.memory.store import block_counts
from tagloom.kernels.scheduler.state import live_counts
from tagloom.streams import CpuDevice, LatencyDevice, ManualDevice, VirtualClock
from tagloom.swap import swapper

from tests.property.functions import ALL
from tests.property.program_kinds import Limits
from tests.property.programs import FLOAT, INT, Block, Const, Op, Program, Type, While, show
from tests.property.runs import batch_settings, batches
from tests.property.scattering import TIMED, scatter
from tests.property.strategies import smooth_programs
from tests.property.translate import build
from tests.support.settings import ON
from tests.swap.observing import bytes_in_tiers, watched

SHARE = 0.25  # of the programs have something that moves, at least
SMALL = Limits(trips=3, instances=40, depth=3)

POLICIES = st.fixed_dictionaries(
    {
        "threshold": st.sampled_from([0.3, 0.01, 0.1, 0.5, 0.7, 0.9, 1.0]),
        "minimum": st.sampled_from([0, 1, 1, 1, 24, 25, 4096, 4096]),
        "prefetch": st.one_of(st.just("auto"), st.integers(0, 64)),
    }
)
TIERS = st.sampled_from(["host limit and disk", "disk", "host", "host limit", "both limited"])
BY_CUDA = "tests.simcuda.sessions" in sys.modules  # in a process of its own
DEVICES = st.sampled_from(["cpu"] if BY_CUDA else ["cpu", "latency", "latency", "manual"])


@pytest.fixture(autouse=True, scope="module")
def small_values_move():
    """The programs have no values as large as those that may move in earnest."""
    with mock.patch.object(swapper, "NEGLIGIBLE", 1):
        yield


def types_of(program):
    """Return the types of a program's inputs and of what its statements assign, as far as plain functions give it."""
    types = dict(program.inputs)
    for each in program.body.statements:
        if isinstance(each, Const):
            types[each.name] = each.type
        elif isinstance(each, Op) and all(arg in types for arg in each.args):
            types[each.name] = ALL[each.function].rule(*(types[arg] for arg in each.args))
    return types


def repeated(program, trips, size):
    """Return a loop around a program, with a vector more that each iteration changes by what the program gives."""
    vector, types = Type("float64", (size,)), types_of(program)
    statements, given = list(program.body.statements), list(program.body.results)
    floats = [name for name in given if types.get(name) == FLOAT] or [name for name, t in types.items() if t == FLOAT]

    def apply(function, *args):
        statements.append(Op(f"again{len(statements)}", function, args))
        return statements[-1].name

    factor = floats[0] if floats else apply("average", given[0]) if given[0] in types else "again"
    grown = apply("mean", apply("tanh", apply("mul", "again", factor)), apply("sin", "again"))
    names = [name for name, _ in program.inputs]
    following = [next((r for r in given if types.get(r) == types[name]), name) for name in names]
    following = [apply("mean", name, apply("tanh", r)) for name, r in zip(names, following, strict=True)]
    one, count = Const("again_one", INT, 1), Op("again_next", "add", ("again_count", "again_one"))
    body = Block((*statements, one, count), (count.name, grown, *following))
    predicate = Block((Op("again_less", "less", ("again_count", "again_trips")),), ("again_less",))
    params = ("again_count", "again", *names)
    loop = While(tuple(f"{p}_end" for p in params), params, ("again_zero", *params[1:]), predicate, body)
    outside = Const("again_zero", INT, 0), Const("again_trips", INT, trips), loop
    values = program.values | {"again": np.cos(np.arange(size, dtype=float))}
    return Program((("again", vector), *program.inputs), Block(outside, loop.names[1:]), values)


def build_gradients(program, rows, window):
    """Build a program and a loop over fed rows behind it; return what to feed, and gradients of both orders."""
    built = build(program, window)
    size = program.inputs[0][1].shape[0]
    with built.graph.as_default():
        fed = tg.placeholder("float64", [rows, size])
        array = tg.TensorArray("float64", rows).unstack(fed)
        body = lambda i, a: (i + 1, tg.sin(tg.exp(array.read(i)) * a))  # noqa: E731
        start = (0, built.results[0])
        y = tg.while_loop(lambda i, _: i < rows, body, start, parallel_iterations=window)[1]
        ys, xs = [*built.results, y], [*built.inputs.values(), fed]
        first = tg.gradients([tg.reduce_sum(tg.tanh(each)) for each in ys], xs, unconnected_gradients="zero")
        inner = [tg.reduce_sum(g * g) for g in first]
        second = tg.gradients(inner, xs, unconnected_gradients="zero")
    values = 0.5 * np.cos(np.arange(rows * size, dtype=float)).reshape(rows, size)
    return built.graph, [first, second], built.feeds(program.values) | {fed: values}


def policy_of(fields, tiers, directory, size):
    """Return a policy whose tiers take about `size` bytes where they are limited."""
    limits = {"host_limit": 1 if tiers == "disk" else max(1, size)} if tiers != "host" else {}
    if tiers in ("host limit and disk", "disk", "both limited"):
        limits["disk"] = directory
    if tiers == "both limited":
        limits["disk_limit"] = max(1, size)
    return tg.SwapPolicy(**fields, **limits)


async def release(devices, random):
    """Let the work of manual devices end, a piece now and then."""
    while True:
        for stream in (stream for device in devices for stream in device.streams):
            if random.random() < 0.4:
                stream.release(int(random.integers(1, 3)))
        await asyncio.sleep(0)


async def opened(stack, kind, count, seed):
    """Return devices of a kind, closed by the stack."""
    random = np.random.default_rng(seed)
    names = [f"/cpu:{d}" for d in range(count)]
    if kind == "latency":
        clock = await stack.enter_async_context(VirtualClock())
        seconds = [dict(zip(TIMED, random.integers(0, 4, len(TIMED)) * 0.5, strict=True)) for _ in names]
        return [LatencyDevice(name, seconds=each, clock=clock) for name, each in zip(names, seconds, strict=True)]
    devices = [{"cpu": CpuDevice, "manual": ManualDevice}[kind](name) for name in names]
    for device in devices:
        await stack.enter_async_context(device)
    if kind == "manual":
        releasing = asyncio.ensure_future(release(devices, random))
        stack.push_async_callback(ended, releasing)
    return devices


async def ended(task):
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def peaks_of(graph, fetches, feeds, count):
    """Run a step without limits; return what it gave and the most bytes that each device had."""
    async with tg.Session(graph, devices=count, soft_placement=True, swap=True, settings=ON) as session:
        results = await session.run(fetches, feeds)
        return results, [each.peak_bytes for each in session.statistics().devices.values()]


async def check(program, rows, window, count, seed, fraction, fields, tiers, kind):
    """Take gradients without limits and with little memory; return what moved, None if it was not enough."""
    graph, fetches, feeds = build_gradients(program, rows, window)
    scatter(graph, count, seed)
    expected, peaks = await peaks_of(graph, fetches, feeds, count)
    limits = {f"/cpu:{d}": max(1, int(fraction * peak)) for d, peak in enumerate(peaks)}
    moved = Counter()
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory()) if "disk" in tiers or "both" in tiers else None
        devices = await opened(stack, kind, count, seed)
        policy = policy_of(fields, tiers, directory, sum(peaks) // 4)
        swaps = stack.enter_context(watched())
        session = await stack.enter_async_context(
            tg.Session(graph, devices=devices, soft_placement=True, memory_limit=limits, swap=policy, settings=ON)
        )
        for _ in range(2):
            with suppress(tg.DeviceMemoryError):
                results = await session.run(fetches, feeds, timeout=20)
                moved["enough"] += 1
                for got, wanted in zip(results[0] + results[1], expected[0] + expected[1], strict=True):
                    np.testing.assert_array_equal(got, wanted, strict=True)
                del results, got
            assert not any(swap.copies for swap in swaps)
        pools = [device.pool for device in devices]
        assert all(pool.peak_bytes <= pool.limit for pool in pools)
        gc.collect()
        assert bytes_in_tiers(session) == 0
    assert not any(pool.live_bytes for pool in pools)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))
    for swap in swaps:
        moved.update(swap.counts.bytes_out)
        moved["hits"] += swap.counts.hits
    return moved


def blocks():
    gc.collect()
    return block_counts()["blocks"]


@pytest.mark.rule(104)
@batches(16)
def test_random_gradients_of_what_swaps(batch, capsys):
    tally = Counter()

    @batch_settings(16)
    @given(
        program=st.builds(repeated, smooth_programs(SMALL), st.integers(1, 16), st.sampled_from([3, 50, 700])),
        rows=st.integers(1, 12),
        window=st.sampled_from([1, 7, 32, "auto"]),
        count=st.sampled_from([1, 1, 1, 2, 3]),
        seed=st.integers(0, 1 << 30),
        fraction=st.sampled_from([0.8, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0, 1.2, 1.5, 2.5]),
        fields=POLICIES,
        tiers=TIERS,
        kind=DEVICES,
    )
    def run(program, **how):
        note(f"{show(program)}\n{program!r}")
        before = blocks()
        moved = asyncio.run(check(program, **how))
        assert blocks() == before
        tally.update({"programs": 1, "moved": bool(moved["host"] or moved["disk"])})
        tally.update({key: bool(moved[key]) for key in ("enough", "host", "disk", "hits")})

    run()
    with capsys.disabled():
        print(f" {dict(tally)} ", end="")
    if tally["programs"] >= 10:  # fewer need not have all of it
        assert tally["moved"] >= SHARE * tally["programs"]
        assert tally["host"] + tally["disk"] > 0
    if tally["programs"] >= 50:
        assert min(tally["host"], tally["disk"]) > 0

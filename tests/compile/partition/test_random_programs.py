"""Random programs with a random device for every operation mean what they mean on one, gradients included."""

import asyncio
import random

import numpy as np
import pytest
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.base.device_names import parse_device
from tagloom.compile.partition import partition
from tagloom.compile.place import place
from tagloom.compile.plan.build import build_plan
from tagloom.ir.frames import ROOT, assign_frames
from tagloom.ir.program import Program
from tagloom.ir.verify import check
from tagloom.runtime.resources.manager import ResourceManager

from tests.compile.partition.machines import run_partitioned
from tests.property.executors import compare
from tests.property.interpret import evaluate, initial_values
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.translate import build
from tests.support.compiling import lowered
from tests.support.execute import execute

DEVICES = [parse_device(f"/job:localhost/task:0/device:CPU:{i}") for i in range(5)]
WINDOWS = (1, 2, 32)


def scattered(program, draws, window):
    """Build a program with a random device for every operation of it."""
    return build(program, window, lambda statement: tg.device(lambda op: f"/cpu:{draws.randrange(len(DEVICES))}"))


def cut(graph, fetches, feeds, count, targets=()):
    program = lowered(Program(graph, feeds, fetches, targets))
    placement = place(program, DEVICES[:count], soft=count < len(DEVICES))
    found = partition(program, placement)
    check_parts(found)
    return found


def check_parts(partitioned):
    """Each channel has one Send and one Recv, on its devices, and a Recv in a loop is started by a control loop."""
    ends = {}
    for device, program in partitioned.programs.items():
        check(program.graph, "partitioned")  # every input is on the same device
        build_plan(program)
        operations = program.graph.get_operations()
        frames = assign_frames(operations)
        for op in operations:
            if op.type in ("Send", "Recv"):
                assert (op.type, op.attrs["channel"]) not in ends
                ends[op.type, op.attrs["channel"]] = device, frames.of[op], op
    assert len(ends) == 2 * len(partitioned.channels)
    for channel in partitioned.channels:
        check_channel(channel, ends["Send", channel.number], ends["Recv", channel.number], ends)


def check_channel(channel, send, recv, ends):
    assert (send[0], recv[0]) == (channel.source, channel.destination)
    assert channel.source != channel.destination
    assert send[1] == recv[1] == channel.frame
    starts = [op for op in recv[2].control_inputs if op.type == "Merge" and "control" in op.name]
    assert len(starts) == (channel.frame != ROOT and not channel.is_dead_silent)
    dead_leaders = [op for op in recv[2].control_inputs if op.type == "Recv"]
    assert dead_leaders == ([ends["Recv", channel.dead_leader][2]] if channel.is_dead_silent else [])
    assert send[2].attrs["dead_silent"] == recv[2].attrs["dead_silent"] == channel.is_dead_silent
    assert send[2].inputs[0].dtype is channel.dtype is recv[2].outputs[0].dtype


@pytest.mark.rule(115, 116, 118, 119, 120, 123)
@batches(150)
@batch_settings(150)
@given(program=mixed_programs(), seed=st.integers(0, 999), count=st.integers(2, 5), window=st.sampled_from(WINDOWS))
def test_random_devices(batch, program, seed, count, window):
    note(show(program))
    built = scattered(program, random.Random(seed), window)
    feeds = built.feeds(program.values)
    fetches = list(dict.fromkeys(built.results))
    partitioned = cut(built.graph, fetches, list(feeds), count, built.targets)
    resources, expected = ResourceManager(), evaluate(program)
    resources.restore({"variables": initial_values(program)})
    running = run_partitioned(partitioned, list(feeds.values()), seed % 3 or None, resources=resources)
    compare(
        built.in_order(fetches, asyncio.run(running)[0]),
        resources.snapshot().get("variables", {}),
        expected,
        "partitioned",
    )


@pytest.mark.rule(115, 116, 118, 119, 120, 123)
@batches(20)
@batch_settings(20)
@given(program=smooth_programs(), seed=st.integers(0, 999), window=st.sampled_from(WINDOWS))
def test_gradients_on_random_devices(batch, program, seed, window):
    note(show(program))
    built = scattered(program, random.Random(seed), window)
    xs = list(built.inputs.values())
    with built.graph.as_default():
        first = tg.gradients([tg.reduce_sum(y * y) for y in built.results], xs, unconnected_gradients="zero")
        second = tg.gradients([tg.reduce_sum(g * g) for g in first], xs, unconnected_gradients="zero")
    feeds = built.feeds(program.values)
    fetches = list(dict.fromkeys([*built.results, *first, *second]))
    partitioned = cut(built.graph, fetches, xs, len(DEVICES))
    values, _ = asyncio.run(run_partitioned(partitioned, list(feeds.values()), seed % 3 or None))
    for result, wanted in zip(values, asyncio.run(execute(fetches, feeds)), strict=True):
        np.testing.assert_array_equal(result, wanted, strict=True)

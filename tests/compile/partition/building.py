"""Graphs on several devices, cut and run."""

import asyncio
from dataclasses import replace

import numpy as np
import tagloom as tg
from tagloom.base.device_names import parse_device
from tagloom.compile.partition import partition
from tagloom.compile.place import place
from tagloom.compile.plan.build import build_plan
from tagloom.ir.program import Program
from tagloom.ir.verify import check

from tests.compile.partition.machines import run_partitioned
from tests.support.compiling import lowered
from tests.support.settings import ON

DEVICES = [parse_device(f"/device:CPU:{i}") for i in range(4)]


def on(index, function, *args, **options):
    """Call a function in the scope of a device."""
    with tg.device(f"/cpu:{index}"):
        return function(*args, **options)


def source(index, name="x", dtype="float32", shape=()):
    """Return a placeholder on a device."""
    return on(index, tg.placeholder, dtype, shape, name)


def cut(fetches, feeds=(), targets=()):
    """Cut what fetches and targets need; every part is legal and makes a plan."""
    graph = [*fetches, *targets][0].graph
    program = lowered(
        Program(graph, list(feeds), list(fetches), list(targets)), replace(ON, straight=False, cluster=False)
    )
    found = partition(program, place(program, DEVICES))
    for part in found.programs.values():
        check(part.graph, "partitioned")
        build_plan(part)
    return found


def operations(partitioned, index, *types):
    """Return the operations of some types on a device."""
    program = partitioned.programs[DEVICES[index]]
    return [op for op in program.graph.get_operations() if op.type in types]


def run(fetches, feeds=None, shuffle_seed=None):
    """Return the fetched values and the messages, as (channel's name, frame path, iteration, value)."""
    feeds = feeds or {}
    partitioned = cut(fetches, list(feeds))
    arrays = [np.asarray(value, tensor.dtype.numpy) for tensor, value in feeds.items()]
    values, sent = asyncio.run(run_partitioned(partitioned, arrays, shuffle_seed))
    names = [channel.name for channel in partitioned.channels]
    return values, [(names[number], *rest) for number, *rest in sent]


def counted(n, body, start, window=32):
    """Return what `body` makes of `start` in `n` iterations."""
    return tg.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, body(x)), [0, start], parallel_iterations=window)[1]


def two_devices(n, window=32):
    """Count on device 0, multiply on device 1."""
    return counted(n, lambda x: on(1, tg.multiply, x, 2.0), on(1, tg.constant, 1.0), window)

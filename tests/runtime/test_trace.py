"""Traces: a span for each instance, as Chrome's format wants it, the same on both executors."""

import asyncio
import gzip
import json
from collections import Counter

import numpy as np
import pytest
import tagloom as tg


def branching_loop():
    """A loop of four iterations of which two take each branch."""

    def body(i, a):
        return i + 1, tg.cond(i < 2, lambda: tg.multiply(a, 2.0, name="twice"), lambda: tg.negative(a, name="turn"))

    return tg.while_loop(lambda i, _: i < 4, body, [0, tg.constant(1.0)], name="loop")[1]


async def traced(graph, executor, fetches, feeds=None, **options):
    trace = tg.Trace(**options)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(fetches, feeds, trace=trace)
    return trace


async def test_a_span_for_each_instance(graph, executor):
    trace = await traced(graph, executor, branching_loop())
    spans = {span.tag: span for span in trace.spans}
    assert len(spans) == len(trace.spans)
    assert {spans[f"twice@root/0/loop/{i}"].live for i in (0, 1)} == {True}
    assert {spans[f"twice@root/0/loop/{i}"].live for i in (2, 3, 4)} == {False}
    assert {spans[f"turn@root/0/loop/{i}"].live for i in (2, 3)} == {True}
    turn = spans["turn@root/0/loop/3"]
    assert (turn.path, turn.iteration, turn.step, turn.device, turn.stream) == ("root/0/loop", 3, 0, "cpu:0", "compute")
    assert all(span.begin <= span.end for span in trace.spans)


async def test_both_executors_run_the_same_instances(graph):
    y = branching_loop()
    counts = [
        Counter((span.tag, span.live) for span in (await traced(graph, executor, y)).spans)
        for executor in ("machine", "reference")
    ]
    assert counts[0] == counts[1]


async def test_causes_end_before_effects_begin(graph, executor):
    spans = {span.tag: span for span in (await traced(graph, executor, branching_loop())).spans}
    assert spans["twice@root/0/loop/0"].end <= spans["twice@root/0/loop/1"].begin
    assert spans["twice@root/0/loop/1"].end <= spans["turn@root/0/loop/2"].begin


async def test_awaited_instances_overlap(graph, executor):
    everybody = asyncio.Event()
    here = 0

    async def meet(i):
        nonlocal here
        here += 1
        if here == 3:
            everybody.set()
        await everybody.wait()
        return i

    def body(i, total):
        return i + 1, total + tg.py_function(meet, [i], "int32", name="meet", output_shapes=[], stateful=False)

    y = tg.while_loop(lambda i, _: i < 3, body, [0, 0])[1]
    trace = await traced(graph, executor, y)
    spans = [span for span in trace.spans if span.operation == "meet" and span.live]
    assert {span.stream for span in spans} == {"awaited"}
    assert max(span.begin for span in spans) < min(span.end for span in spans)
    events = [event for event in trace.events if event["name"] == "meet" and event["cat"] == "live"]
    assert Counter(event["ph"] for event in events) == {"b": 3, "e": 3}
    assert len({event["id"] for event in events}) == 3


async def test_file_is_what_viewers_read(graph, executor, tmp_path):
    trace = await traced(graph, executor, branching_loop())
    trace.save(tmp_path / "trace.json")
    saved = json.loads((tmp_path / "trace.json").read_text())
    assert saved["traceEvents"] == trace.events
    trace.save(tmp_path / "trace.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == saved
    phases = {event["ph"]: event for event in trace.events}
    assert set(phases) == {"M", "X", "C"}
    assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= set(phases["X"])
    assert {"path", "iteration", "step", "type", "live"} == set(phases["X"]["args"])


async def test_counters_of_bytes_and_iterations(graph, executor):
    def body(i, a):
        return i + 1, a + 1.0

    y = tg.while_loop(lambda i, _: i < 40, body, [0, tg.zeros([1000])], parallel_iterations=3)[1]
    trace = await traced(graph, executor, y)
    values = {name: [] for name in ("live bytes", "iterations in flight")}
    for event in trace.events:
        if event["ph"] == "C":
            values[event["name"]].append(event["args"]["value"])
    assert max(values["live bytes"]) >= 4000
    assert 1 <= max(values["iterations in flight"]) <= 3
    assert values["iterations in flight"][0] == 0


async def test_the_newest_spans_stay(graph, executor):
    y = branching_loop()
    whole = await traced(graph, executor, y)
    short = await traced(graph, executor, y, capacity=10)
    assert short.dropped == len(whole.spans) - 10
    assert [span.tag for span in short.spans] == [span.tag for span in whole.spans[-10:]]
    assert whole.dropped == 0


async def test_a_failed_step_leaves_its_trace(graph, executor):
    def refuse(a):
        raise ValueError("no")

    y = tg.py_function(refuse, [1.0], "float32", name="refuse") + 1.0
    trace = tg.Trace()
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError):
            await session.run(y, trace=trace)
    assert "refuse" in {span.operation for span in trace.spans}
    assert "Add" not in {span.type for span in trace.spans}


async def test_several_steps_share_a_trace(graph, executor):
    x = tg.placeholder("float32", [], name="x")
    y = tg.negative(x, name="y")
    trace = tg.Trace()
    async with tg.Session(graph, executor=executor) as session:
        await session.run(y, {x: 1.0}, trace=trace)
        step = session.make_step(y, [x])
        await asyncio.gather(*(step(2.0, trace=trace) for _ in range(3)), step(3.0))
    assert sorted(span.step for span in trace.spans if span.operation == "y") == [0, 1, 2, 3]


def test_sync_session_traces(graph):
    trace = tg.Trace()
    with tg.SyncSession(graph) as session:
        session.run(tg.constant(1.0), trace=trace)
    assert trace.spans


def test_a_trace_keeps_something():
    with pytest.raises(tg.GraphError, match="capacity"):
        tg.Trace(capacity=0)


async def test_arrays_of_a_traced_step_are_let_go(graph, executor):
    """A trace holds names and numbers, never values."""
    trace = tg.Trace()
    x = tg.placeholder("float32", [4], name="x")
    async with tg.Session(graph, executor=executor) as session:
        await session.run(tg.exp(x), {x: np.ones(4, np.float32)}, trace=trace)
    assert {type(field) for row in trace.recorder.rows() for field in row} == {int, str, bool}

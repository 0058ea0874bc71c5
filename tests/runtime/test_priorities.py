"""Priorities of steps that wait for a place or for memory, and the histogram of how long steps took."""

import asyncio
import itertools
import math

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.memory.arbiter import MemoryArbiter
from tagloom.runtime.observe.latency import BOUNDS, Latency, LatencyCounter
from tagloom.runtime.scheduling.admission import Admission
from tagloom.runtime.scheduling.priorities import current_priority

from tests.support.waiting import until


class Gate:
    """A step that notes when it begins, and stays until it is let go."""

    def __init__(self):
        self.order, self.gates = [], {}
        with tg.Graph().as_default() as self.graph:
            self.x = tg.placeholder("int32", [])
            self.y = tg.py_function(self._stay, [self.x], "int32", output_shapes=[])

    async def _stay(self, k):
        self.order.append(int(k))
        await self.gates.setdefault(int(k), asyncio.Event()).wait()
        return k

    async def let_all_go(self, count):
        for place in range(count):
            await until(lambda place=place: len(self.order) > place)
            self.gates[self.order[place]].set()


async def order_of(make, session, gate, priorities):
    """Return in which order steps of some priorities begin that come while one is inside."""
    tasks = [asyncio.ensure_future(make(99, None))]
    await until(lambda: gate.order)
    for k, level in enumerate(priorities):
        tasks.append(asyncio.ensure_future(make(k, level)))
        await until(lambda k=k: session.statistics().steps_waiting == k + 1)
    await gate.let_all_go(len(tasks))
    await asyncio.gather(*tasks)
    return gate.order[1:]


@pytest.mark.parametrize("way", ["run", "step", "stream", "block"])
async def test_higher_ones_are_next_and_equals_in_turn(way):
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1) as session:
        step = session.make_step(gate.y, [gate.x])

        async def make(k, level):
            if way == "run":
                return await session.run(gate.y, {gate.x: k}, priority=level)
            if way == "step":
                return await step(k, priority=level)
            if way == "stream":
                return await step.stream(gate.y, k, priority=level).result()
            with tg.priority(level or 0):
                return await step(k)

        assert await order_of(make, session, gate, [0, 5, -1, 5, 0, 7]) == [5, 1, 3, 0, 4, 2]


async def test_an_explicit_priority_wins_over_the_block_and_reaches_what_the_step_calls():
    seen = []
    with tg.Graph().as_default() as graph:
        y = tg.py_function(lambda: seen.append(current_priority()) or np.int32(1), [], "int32", output_shapes=[])
    async with tg.Session(graph) as session:
        with tg.priority(3):
            await session.run(y)
            await session.run(y, priority=8)
            assert current_priority() == 3
            with tg.priority(-1):
                await session.make_step(y)()
        await session.run(y)
    assert seen == [3, 8, -1, 0]
    assert current_priority() == 0


def test_blocking_sessions_and_functions():
    seen = []
    with tg.Graph().as_default() as graph:
        y = tg.py_function(lambda: seen.append(current_priority()) or np.int32(1), [], "int32", output_shapes=[])
    with tg.SyncSession(graph) as session:
        session.run(y, priority=2)
        session.make_step(y)(priority=4)
        with tg.priority(6):
            session.run(y)

    @tg.function
    def noted(x):
        return tg.py_function(lambda a: seen.append(current_priority()) or a, [x], "float32", output_shapes=[])

    with tg.priority(9):
        noted.sync(np.float32(1))
    assert seen == [2, 4, 6, 9]


@pytest.mark.parametrize("wrong", [1.5, True, "high"])
async def test_a_priority_is_a_whole_number(wrong):
    with tg.Graph().as_default() as graph:
        y = tg.constant(1)
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match="whole number"):
            await session.run(y, priority=wrong)
        with pytest.raises(tg.GraphError, match="whole number"):
            await session.make_step(y)(priority=wrong)
    with pytest.raises(tg.GraphError, match="whole number"), tg.priority(wrong):
        pass


async def test_whoever_gives_up_leaves_the_line_in_order():
    admission = Admission(1, 60.0)
    place = await admission.enter("first")
    order = []

    async def visit(k, level):
        with tg.priority(level):
            taken = await admission.enter(str(k))
        order.append(k)
        admission.leave(taken)

    tasks = [asyncio.ensure_future(visit(k, level)) for k, level in enumerate([1, 2, 2, 0])]
    await until(lambda: admission.waiting == 4)
    tasks[1].cancel()
    await until(lambda: admission.waiting == 3)
    admission.leave(place)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [2, 0, 3]
    assert admission.waiting == 0
    assert not admission._lines


async def test_steps_that_wait_for_memory():
    gate = Gate()
    with gate.graph.as_default():
        big = tg.placeholder("float32", [None])
        y = gate.y + tg.cast(tg.reduce_sum(big), "int32")
    one = np.zeros(60_000, np.float32)
    async with tg.Session(gate.graph, memory_limit=400_000) as session:

        def make(k, level):
            return session.run(y, {gate.x: k, big: one.copy()}, priority=level)

        tasks = [asyncio.ensure_future(make(99, 0))]
        await until(lambda: gate.order)
        arbiter: MemoryArbiter = session._steps.environment.arbiter
        for k, level in enumerate([0, 5, -1, 5]):
            tasks.append(asyncio.ensure_future(make(k, level)))
            await until(lambda k=k: len(arbiter._line) == k + 1)
        await gate.let_all_go(len(tasks))
        await asyncio.gather(*tasks)
    assert gate.order[1:] == [1, 3, 0, 2]


async def test_a_refused_step_of_high_priority_need_not_wait_for_the_line():
    admission = Admission(1, 0.0)
    place = await admission.enter("first")
    waiting = Admission(1, 60.0)
    waiting._lines = {0: {asyncio.get_running_loop().create_future(): None for _ in range(50)}}
    low = waiting._ahead_of(0)
    with tg.priority(1):
        assert (low, waiting._ahead_of(1)) == (50, 0)
    with pytest.raises(tg.Overloaded):
        await admission.enter("second")
    admission.leave(place)


def test_buckets_and_quantiles():
    counter = LatencyCounter()
    for seconds in [1e-3] * 90 + [1.0] * 9 + [1000.0]:
        counter.add(seconds)
    found = counter.snapshot()
    assert (found.count, len(found.counts)) == (100, len(BOUNDS) + 1)
    assert found.sum == pytest.approx(90e-3 + 9 + 1000)
    assert found.mean == pytest.approx(found.sum / 100)
    for q, wanted in [(0.5, 1e-3), (0.9, 1e-3), (0.95, 1.0), (0.99, 1.0)]:
        assert wanted / math.sqrt(2) <= found.quantile(q) <= wanted * math.sqrt(2)
    assert found.quantile(1) == math.inf
    assert math.isnan(Latency().quantile(0.5))
    assert math.isnan(Latency().mean)
    with pytest.raises(tg.GraphError, match="share of the steps"):
        found.quantile(99)
    ratios = [b / a for a, b in itertools.pairwise(BOUNDS)]
    np.testing.assert_allclose(ratios, math.sqrt(2))


@pytest.mark.parametrize("max_steps", [None, 2])
async def test_a_session_counts_the_steps_that_finished(max_steps):
    with tg.Graph().as_default() as graph:
        y, broken = tg.constant(1.0) + 1.0, tg.py_function(lambda: 1 / 0, [], "float32")
    async with tg.Session(graph, max_steps=max_steps) as session:
        for _ in range(3):
            await session.run(y)
        with pytest.raises(tg.OpError):
            await session.run(broken)
        found = session.statistics()
        text = tg.monitoring.prometheus_text({"s": session})
    assert found.latency.count == found.steps_finished == 3
    assert found.latency.sum > 0
    assert "# TYPE tagloom_step_seconds histogram\n" in text
    assert text.count("# TYPE tagloom_step_seconds") == 1
    assert 'tagloom_step_seconds_bucket{session="s",le="+Inf"} 3\n' in text
    assert 'tagloom_step_seconds_count{session="s"} 3\n' in text
    buckets = [line for line in text.splitlines() if line.startswith("tagloom_step_seconds_bucket")]
    values = [int(line.rsplit(" ", 1)[1]) for line in buckets]
    assert len(values) == len(BOUNDS) + 1
    assert values == sorted(values)


def test_the_collector_gives_a_histogram():
    core = pytest.importorskip("prometheus_client")
    with tg.Graph().as_default() as graph:
        y = tg.constant(1.0) + 1.0
    registry = core.CollectorRegistry()
    with tg.SyncSession(graph) as session:
        registry.register(tg.monitoring.Collector(session))
        session.run(y)
        assert registry.get_sample_value("tagloom_step_seconds_count") == 1
        assert registry.get_sample_value("tagloom_step_seconds_bucket", {"le": "+Inf"}) == 1
        assert 0 < registry.get_sample_value("tagloom_step_seconds_sum") < 60
        (family,) = [each for each in registry.collect() if each.name == "tagloom_step_seconds"]
        assert family.type == "histogram"

"""Many steps on one event loop: all get their turn, and so does everyone else."""

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler import time_slices as waiting
from tagloom.kernels.scheduler.time_slices import TimeSlices

from tests.support.settings import ON


class Heartbeat:
    """Counts turns of the event loop, and how much `work` is noted between two of them at most."""

    current = None

    def __init__(self):
        self.turns = self.since = self.most = 0
        self.alive = True
        Heartbeat.current = self
        asyncio.get_running_loop().call_soon(self._beat)

    def work(self):
        self.since += 1

    def _beat(self):
        self.turns += 1
        self.most = max(self.most, self.since)
        self.since = 0
        if self.alive:
            asyncio.get_running_loop().call_soon(self._beat)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.alive = False


def counting_loop(work):
    """A loop whose length is fed and that calls `work` in each iteration."""
    n = tg.placeholder("int32", [])

    def body(i):
        with tg.control_dependencies([tg.py_function(work, [], [])]):
            return tg.identity(i + 1)

    return n, tg.while_loop(lambda i: i < n, body, [0], parallel_iterations=1)


async def test_two_hundred_steps_of_mixed_length_share_each_turn(graph):
    """With slices of no time each drain runs one kernel: between two turns there may be few, whoever is waiting."""
    n, result = counting_loop(lambda: Heartbeat.current.work())
    async with tg.Session(graph, settings=tg.Settings(drain_seconds=0.0)) as session:
        step = session.make_step(result, [n])
        lengths = [1 + k % 7 for k in range(200)]
        with Heartbeat() as beat:
            results = await asyncio.gather(*(step(length) for length in lengths))
    assert [int(r) for r in results] == lengths
    assert beat.most <= 2
    assert beat.turns >= sum(lengths) / 2


async def test_a_short_step_ends_long_before_a_long_one(graph):
    ended = []
    n, result = counting_loop(lambda: None)
    async with tg.Session(graph, settings=tg.Settings(drain_seconds=0.0)) as session:

        async def run(length):
            await session.run(result, feeds={n: length})
            ended.append(length)

        await asyncio.gather(*map(run, [200, 3, 150, 2, 1]))
    assert ended == [1, 2, 3, 150, 200]


async def test_steps_of_several_sessions_share_the_turns_too(graph):
    n, result = counting_loop(lambda: Heartbeat.current.work())
    settings = tg.Settings(drain_seconds=0.0)
    sessions = [tg.Session(graph, settings=settings) for _ in range(20)]
    with Heartbeat() as beat:
        await asyncio.gather(*(session.run(result, feeds={n: 5}) for session in sessions))
    assert beat.most <= 2
    for session in sessions:
        await session.aclose()


async def test_a_quick_step_does_not_give_up_the_loop(graph):
    x = tg.placeholder("float32", [])
    async with tg.Session(graph, settings=tg.Settings(drain_seconds=60.0)) as session:
        step = session.make_step(x + 1.0, [x])
        with Heartbeat() as beat:
            for _ in range(100):
                await step(1.0)
        assert beat.turns == 0


async def test_quick_steps_in_a_row_let_others_run(graph):
    """A program that only awaits quick steps still lets the loop turn, once a slice."""
    x = tg.placeholder("float32", [])
    async with tg.Session(graph, settings=tg.Settings(drain_seconds=0.0)) as session:
        step = session.make_step(x + 1.0, [x])
        with Heartbeat() as beat:
            for _ in range(100):
                await step(1.0)
        assert beat.turns >= 50


async def test_a_waiter_that_was_cancelled_is_passed_over():
    turns = TimeSlices()
    assert turns.take(0.0) == 0.0
    tasks = [asyncio.ensure_future(turns.wait(0.0)) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()
    done, _ = await asyncio.wait(tasks, timeout=20)
    assert [task.cancelled() for task in tasks] == [False, True, True, False]
    assert len(done) == 4


@pytest.mark.rule(51)
@pytest.mark.parametrize("seed", range(3))
async def test_results_do_not_depend_on_the_ready_order(graph, executor, seed):
    def body(i, a, b):
        return i + 1, a + tg.cond(tg.equal(i % 2, 0), lambda: b, lambda: -b), b * 2.0

    result = tg.while_loop(lambda i, a, b: i < 10, body, [0, 0.0, 1.0])
    async with tg.Session(graph, executor=executor, settings=tg.Settings(shuffle_seed=seed)) as session:
        values = await asyncio.gather(*(session.run(result) for _ in range(3)))
    assert [[float(v) for v in value] for value in values] == [[10.0, -341.0, 1024.0]] * 3


@pytest.mark.parametrize(("size", "least", "most"), [(100, 40, 200), (2, 5, 20)])
async def test_the_clock_is_looked_at_after_each_large_kernel(graph, size, least, most):
    """With slices of no time: large kernels have a turn each, small ones share it."""
    start = tg.constant(np.eye(size, dtype=np.float32))
    w = tg.placeholder("float32", [size, size])
    _, result = tg.while_loop(lambda i, a: i < 40, lambda i, a: (i + 1, tg.matmul(a, w)), [0, start])
    async with tg.Session(graph, settings=replace(ON, drain_seconds=0.0, straight=False)) as session:
        with Heartbeat() as beat:
            values = await session.run(result, feeds={w: np.eye(size, dtype=np.float32)})
        assert least <= beat.turns <= most
    np.testing.assert_array_equal(values, np.eye(size))


class Round:
    """How many turns of the loop a step that could compute had to wait for its slice, at most."""

    def __init__(self, beat):
        self.beat, self.since, self.longest = beat, {}, 0

    def ready(self, k):
        """Step `k` could go on from now."""
        self.since[int(k)] = self.beat.turns

    def work(self, k):
        """Step `k` computes; a slice of no time is over after that, so that it could go on from now."""
        self.longest = max(self.longest, self.beat.turns - self.since[int(k)])
        self.ready(k)


def rounds_loop(rounds):
    """A loop of fed length that works in each iteration, and waits for something in every second."""
    k, n = tg.placeholder("int32", []), tg.placeholder("int32", [])

    def compute(k, i):
        rounds[0].work(k)
        return i

    def wait(k, i):
        rounds[0].work(k)
        return pause(k, i)

    async def pause(k, i):
        await asyncio.sleep(0)
        rounds[0].ready(k)
        return i

    def call(function, i):
        return lambda: tg.py_function(function, [k, i], "int32", output_shapes=[])

    def body(i, waits):
        return 1 + tg.cond(waits, call(wait, i), call(compute, i)), tg.logical_not(waits)

    return k, n, tg.while_loop(lambda i, waits: i < n, body, [0, False], parallel_iterations=1)[0]


@pytest.mark.parametrize("together", [1, 10, 200])
async def test_nobody_waits_longer_than_a_round(graph, together):
    """The bound that the documents state: of n steps on a loop each gets a slice within n + 1 turns.

    Two hundred steps of mixed length and kind, so many at once that the next begins when one ends.
    """
    rounds = []
    k, n, result = rounds_loop(rounds)
    lengths = [1 + (7 * j) % 23 for j in range(200)]
    async with tg.Session(graph, settings=replace(ON, drain_seconds=0.0)) as session:
        step, places = session.make_step(result, [k, n]), asyncio.Semaphore(together)

        async def run(j):
            async with places:
                rounds[0].ready(j)
                return int(await step(j, lengths[j]))

        with Heartbeat() as beat:
            rounds.append(Round(beat))
            assert await asyncio.gather(*map(run, range(200))) == lengths
    assert rounds[0].longest <= together + 1


async def test_newcomers_do_not_hold_those_who_wait_up(graph):
    """A stream of quick steps, ten at each turn, beside a long one: the long one still gets its slices."""
    rounds = []
    k, n, result = rounds_loop(rounds)
    async with tg.Session(graph, settings=replace(ON, drain_seconds=0.0)) as session:
        step = session.make_step(result, [k, n])
        with Heartbeat() as beat:
            rounds.append(Round(beat))
            rounds[0].ready(0)
            long, quick = asyncio.ensure_future(step(0, 40)), []
            most = 0
            while not long.done():
                running = session.statistics().steps_running
                most = max(most, running)
                for _ in range(10 if running < 50 else 0):
                    quick.append(asyncio.ensure_future(step(len(quick) + 1, 1)))
                    rounds[0].ready(len(quick))
                await asyncio.sleep(0)
            assert [int(value) for value in await asyncio.gather(*quick)] == [1] * len(quick)
    assert len(quick) > 100
    assert rounds[0].longest <= most + 11, "ten may have come since they were counted"


class Clock:
    """Seconds that pass only where work is done; notes how many do between two turns of the loop at most."""

    def __init__(self):
        self.now, self.turned, self.longest = 0.0, 0.0, 0.0
        self.alive = True
        self._beat()

    def _beat(self):
        self.longest, self.turned = max(self.longest, self.now - self.turned), self.now
        if self.alive:
            asyncio.get_running_loop().call_soon(self._beat)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.alive = False

    def drain(self, work, kernel, seconds):
        """Run kernels until there is no work or the slice is over; return the work that is left."""
        end = self.now + seconds
        while work > 0:
            self.now += kernel
            work -= kernel
            if self.now >= end:
                break
        return work


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("kernel", [0.1, 0.7, 2.5])
async def test_the_loop_turns_within_two_slices_and_a_kernel_each(monkeypatch, count, kernel):
    """In virtual time, with slices of 1: steps of all lengths, begun one after another or woken while they wait."""
    chance, turns = random.Random(count), TimeSlices()
    with Clock() as clock:
        monkeypatch.setattr(waiting, "monotonic", lambda: clock.now)

        async def step(work):
            mine = turns.take(1.0)
            while work > 0:
                work = clock.drain(work, kernel, await turns.wait(1.0) if mine is None else mine)
                mine = None
                if chance.random() < 0.3:
                    await asyncio.sleep(0)
                    mine = turns.take(1.0)

        async def caller():
            for _ in range(20):
                await step(chance.choice([0.1, 0.9, 5.0]))

        await asyncio.gather(*(caller() for _ in range(count)))
        monkeypatch.undo()
    assert 1.0 <= clock.longest <= 2 * (1.0 + kernel) + 1e-9

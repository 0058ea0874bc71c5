"""Many steps on one event loop: all get their turn, and so does everyone else."""

import asyncio

import pytest
import tagflow as tg
from tagflow.runtime.waiting import Turns


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
    turns = Turns()
    assert turns.is_mine(0.0)
    waiting = [asyncio.ensure_future(turns.wait(0.0)) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    waiting[2].cancel()
    done, _ = await asyncio.wait(waiting, timeout=20)
    assert [task.cancelled() for task in waiting] == [False, True, True, False]
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

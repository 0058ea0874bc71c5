"""A training step, cancelled anywhere: each variable is before or after its own update, and nothing else is left.

``TAGLOOM_CANCELLATIONS=1000`` runs as many random instants.
"""

import asyncio
import gc
import os
import random

import anyio
import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts
from tagloom.training import AdamOptimizer

from tests.runtime.tasks import only_this_task

INSTANTS = int(os.environ.get("TAGLOOM_CANCELLATIONS", 60))
BATCH, UNITS, LENGTH = 3, 4, 5


class Training:
    """A recurrent layer with dropout, whose input comes from a coroutine and leaves through a future; Adam."""

    def __init__(self):
        numbers = np.random.default_rng(5)
        with tg.Graph(seed=3).as_default() as self.graph:
            self.x = tg.placeholder("float32", [LENGTH, BATCH, UNITS])
            self.w = tg.Variable(numbers.normal(size=[2 * UNITS, UNITS]).astype(np.float32), name="w")
            self.b = tg.Variable(np.zeros(UNITS, np.float32), name="b")
            self.rows = tg.TensorArray("float32", LENGTH).unstack(self.x)
            _, state = tg.while_loop(lambda t, h: t < LENGTH, self._cell, [0, tg.zeros([BATCH, UNITS])])
            self.loss = tg.reduce_mean(tg.square(state - 0.5))
            self.train = AdamOptimizer(0.1).minimize(self.loss)
            self.init = tg.global_variables_initializer()
        self.batch = numbers.normal(size=[LENGTH, BATCH, UNITS]).astype(np.float32)
        self.inside = 0

    def _cell(self, t, h):
        row = tg.py_function(self._load, [self.rows.read(t)], "float32", output_shapes=[BATCH, UNITS])
        noise = tg.py_function(
            self._later, [tg.random_uniform([BATCH, UNITS])], "float32", output_shapes=[BATCH, UNITS]
        )
        kept = h * tg.cast(noise > 0.2, "float32")
        return t + 1, tg.tanh(tg.matmul(tg.concat([row, kept], 1), self.w) + self.b)

    async def _load(self, row):
        self.inside += 1
        try:
            for _ in range(2):
                await asyncio.sleep(0)
            return row * 1.0
        finally:
            self.inside -= 1

    def _later(self, value):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(lambda: future.cancelled() or future.set_result(value * 1.0))
        return future


class Case:
    """A session in the state from which each step starts, and what an undisturbed step makes of it."""

    def __init__(self, program, session):
        self.program, self.session = program, session
        self.step = session.make_step([program.loss, program.train], [program.x])

    async def prepare(self):
        await self.session.run(self.program.init)
        await self.run()  # so that Adam's moments are not zero
        self.before, self.number = await self.session.read_variables(), self.session.statistics().steps_started
        self.result, self.turns = await self.run(), 0
        self.after = await self.session.read_variables()
        await self.restore()
        step = asyncio.ensure_future(self.run())
        while not step.done():
            await asyncio.sleep(0)
            self.turns += 1
        await self.restore()

    async def run(self, **options):
        return (await self.step(self.program.batch, **options))[0].tobytes()

    async def restore(self):
        """Put the variables and the number of the next step back."""
        await self.session.write_variables(self.before)
        self.session._steps.counts.started = self.number

    async def check(self):
        """After a step that was ended early; return how many variables it had updated."""
        values = await self.session.read_variables()
        assert values.keys() == self.before.keys()
        for name, value in values.items():
            assert value.tobytes() in (self.before[name].tobytes(), self.after[name].tobytes()), name
        updated = sum(value.tobytes() != self.before[name].tobytes() for name, value in values.items())
        self.check_nothing_is_left()
        await self.restore()
        assert await self.run() == self.result
        values = await self.session.read_variables()
        assert {n: v.tobytes() for n, v in values.items()} == {n: v.tobytes() for n, v in self.after.items()}
        await self.restore()
        return updated

    def check_nothing_is_left(self):
        statistics, counts = self.session.statistics(), live_counts()
        assert (statistics.steps_running, statistics.steps_waiting, statistics.orphaned) == (0, 0, 0)
        assert not any(counts[key] for key in ("frames", "iterations", "values")), counts
        assert self.program.inside == 0
        assert only_this_task()
        assert all(waiter.done() for waiter in self.session._steps.running.enter_loop().waiting)


async def cancelled_after(case, turns):
    """Cancel a step after so many turns of the loop; say whether it was still running."""
    step = asyncio.ensure_future(case.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    early = step.cancel()
    await asyncio.wait([step])
    assert step.cancelled() == early
    return early


async def timed_out_after(case, seconds):
    try:
        await case.run(timeout=seconds)
    except tg.StepTimeout:
        return True
    return False


async def left_by_a_scope_after(case, seconds):
    with anyio.move_on_after(seconds) as scope:
        await case.run()
    return scope.cancelled_caught


async def failed_beside_after(case, turns):
    """End a step by the failure of another task of its group."""

    async def fail():
        for _ in range(turns):
            await asyncio.sleep(0)
        raise ValueError("elsewhere")

    try:
        async with asyncio.TaskGroup() as group:
            step = group.create_task(case.run())
            group.create_task(fail())
    except* ValueError:
        pass
    return step.cancelled()


@pytest.fixture(scope="module")
def program():
    return Training()


@pytest.mark.rule(45, 46)
async def test_cancelled_at_every_await_point(program):
    """With slices of no time a step gives up the loop after each kernel or so: cancel it in each of these turns."""
    async with tg.Session(program.graph, settings=tg.Settings(drain_seconds=0.0), max_steps=1) as session:
        case = Case(program, session)
        await case.prepare()
        updated = set()
        for turns in range(case.turns + 1):
            early = await cancelled_after(case, turns)
            updated.add(await case.check())
        assert not early
        assert case.turns > 30
        assert updated > {0, len(case.before)}, "some were cancelled between two updates"


@pytest.mark.rule(45, 46)
@pytest.mark.parametrize(("executor", "share"), [("machine", 1), ("reference", 6)], ids=["machine", "reference"])
async def test_ended_at_random_instants(program, executor, share):
    """By whoever may end a step, with slices of any length and in any order of what is ready."""
    chance = random.Random(11)
    count, early = max(INSTANTS // share, 8), 0
    for _ in range(4):
        settings = tg.Settings(drain_seconds=chance.choice([0.0, 1e-5, 1e-3]), shuffle_seed=chance.randrange(100))
        async with tg.Session(program.graph, executor=executor, settings=settings) as session:
            case = Case(program, session)
            await case.prepare()
            for _ in range(count // 4):
                early += await at_random(case, chance)
                await case.check()
    assert early >= count // 8, "too few steps were ended early to show anything"


async def at_random(case, chance):
    end = chance.choice([cancelled_after, cancelled_after, timed_out_after, left_by_a_scope_after, failed_beside_after])
    if end in (cancelled_after, failed_beside_after):
        return await end(case, chance.randrange(case.turns))
    return await end(case, chance.random() ** 2 * 5e-3)


async def test_cancelled_steps_beside_others_disturb_nobody(program):
    """Eight at once through four places, half of them cancelled; those that end leave an update behind each."""
    chance = random.Random(2)
    settings = tg.Settings(drain_seconds=0.0)
    async with tg.Session(program.graph, settings=settings, max_steps=4) as session:
        case = Case(program, session)
        await case.prepare()
        for _ in range(max(INSTANTS // 20, 3)):
            steps = [asyncio.ensure_future(case.run()) for _ in range(8)]
            for step in chance.sample(steps, 4):
                for _ in range(chance.randrange(case.turns // 4)):
                    await asyncio.sleep(0)
                step.cancel()
            await asyncio.wait(steps)
            assert sum(not step.cancelled() for step in steps) >= 4
            assert all(step.cancelled() or step.exception() is None for step in steps)
            case.check_nothing_is_left()
            assert all(np.isfinite(value).all() for value in (await session.read_variables()).values())
            await case.restore()
            assert await case.run() == case.result
            await case.restore()
    gc.collect()

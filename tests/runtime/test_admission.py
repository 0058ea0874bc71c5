"""max_steps: who is let in, in which order, and what happens to those who give up."""

import asyncio
import random
from contextlib import asynccontextmanager

import anyio
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts
from tagloom.runtime.scheduling.admission import Admission

from tests.support.waiting import until

LONG = 20.0  # seconds; never over in these tests


class Gate:
    """A step that stays inside until it is let go; notes the order in which steps came in."""

    def __init__(self):
        self.inside, self.order, self.most = {}, [], 0
        with tg.Graph().as_default() as self.graph:
            self.x = tg.placeholder("int32", [])
            self.result = tg.py_function(self._stay, [self.x], "int32", output_shapes=[])
            self.quick = tg.constant(1.0) + 1.0

    async def _stay(self, k):
        k = int(k)
        self.order.append(k)
        self.inside[k] = asyncio.Event()
        self.most = max(self.most, len(self.inside))
        try:
            await self.inside[k].wait()
        finally:
            del self.inside[k]
        return k

    def run(self, session, k, **options):
        return asyncio.ensure_future(session.run(self.result, feeds={self.x: k}, **options))

    async def has(self, count):
        """Wait until so many steps are inside."""
        while len(self.inside) < count:
            await asyncio.sleep(0)

    async def let_go(self, k):
        """Let a step end, as soon as it is inside."""
        while k not in self.inside:
            await asyncio.sleep(0)
        self.inside[k].set()


@asynccontextmanager
async def place_in(admission):
    place = await admission.enter("visitor")
    try:
        yield
    finally:
        admission.leave(place)


async def turns(count=4):
    for _ in range(count):
        await asyncio.sleep(0)


def counts(session):
    """Return how many steps run, wait, and were refused."""
    s = session.statistics()
    return s.steps_running, s.steps_waiting, s.steps_refused


def settings(seconds=LONG):
    return tg.Settings(admission_seconds=seconds)


async def test_so_many_at_once_and_the_others_in_order(executor):
    gate = Gate()
    async with tg.Session(gate.graph, executor=executor, max_steps=2, settings=settings()) as session:
        steps = [gate.run(session, k) for k in range(5)]
        await gate.has(2)
        assert counts(session) == (2, 3, 0)
        for k in range(5):
            await gate.let_go(k)
        assert [int(v) for v in await asyncio.gather(*steps)] == list(range(5))
        assert gate.order == list(range(5))
        assert gate.most == 2
        assert counts(session) == (0, 0, 0)


async def test_steps_of_make_step_wait_too():
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1, settings=settings()) as session:
        first = gate.run(session, 0)
        await turns()
        second = asyncio.ensure_future(session.make_step(gate.quick)())
        await turns()
        assert not second.done()
        await gate.let_go(0)
        assert (await first, await second) == (0, 2.0)


async def test_one_who_gives_up_leaves_the_places_of_the_others():
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1, settings=settings()) as session:
        steps = [gate.run(session, k) for k in range(5)]
        await turns()
        steps[1].cancel()
        steps[3].cancel()
        await turns()
        assert counts(session) == (1, 2, 0)
        for k in (0, 2, 4):
            await gate.let_go(k)
        await asyncio.wait(steps)
        assert [step.cancelled() for step in steps] == [False, True, False, True, False]
        assert gate.order == [0, 2, 4]


async def test_cancelled_when_its_place_was_given_already():
    """Between the grant and the wake-up lies a turn of the loop; a place must not be lost in it."""
    admission = Admission(1, LONG)

    async def enter():
        async with place_in(admission):
            pass

    place = await admission.enter("first")
    first, second = asyncio.ensure_future(enter()), asyncio.ensure_future(enter())
    await turns()
    admission.leave(place)
    first.cancel()
    await asyncio.wait([first, second], timeout=LONG)
    assert first.cancelled()
    assert second.exception() is None
    async with asyncio.timeout(LONG), place_in(admission):
        assert admission.waiting == 0


async def test_a_newcomer_does_not_overtake():
    admission = Admission(1, LONG)
    order = []

    async def enter(name):
        async with place_in(admission):
            order.append(name)

    place = await admission.enter("first")
    waiting = asyncio.ensure_future(enter("waiting"))
    await turns()
    admission.leave(place)
    await enter("newcomer")
    await waiting
    assert order == ["waiting", "newcomer"]


async def test_refused_at_once_without_a_wait():
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1, settings=settings(0.0)) as session:
        first = gate.run(session, 0)
        await turns()
        for refused in (1, 2):
            with pytest.raises(tg.Overloaded, match="1 steps are running and 0 waiting") as caught:
                await session.run(gate.quick)
            assert counts(session) == (1, 0, refused)
        assert caught.value.retry_after > 0
        assert caught.value.source.file == __file__
        await gate.let_go(0)
        await first
        assert await session.run(gate.quick) == 2.0


async def test_refused_after_the_wait_with_an_estimate():
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1, settings=settings(0.01)) as session:
        first = gate.run(session, 0)
        await turns()
        others = [asyncio.ensure_future(session.run(gate.quick)) for _ in range(3)]
        await asyncio.wait(others)
        errors = [step.exception() for step in others]
        assert all(isinstance(error, tg.Overloaded) for error in errors)
        assert all(error.retry_after >= 0.01 for error in errors), "the step inside has lasted that long already"
        assert counts(session) == (1, 0, 3)
        await gate.let_go(0)
        await first


async def test_the_timeout_of_a_step_starts_when_it_is_admitted():
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1, settings=settings()) as session:
        first = gate.run(session, 0)
        await turns()
        second = gate.run(session, 1, timeout=0.05)
        later = asyncio.get_running_loop().time() + 0.1
        await until(lambda: asyncio.get_running_loop().time() > later)  # it would be out of time
        assert counts(session) == (1, 1, 0)
        await gate.let_go(0)
        await first
        with pytest.raises(tg.StepTimeout):
            await second
        assert gate.order == [0, 1]


async def test_a_timeout_around_a_waiting_step_covers_the_wait():
    gate = Gate()
    async with tg.Session(gate.graph, max_steps=1, settings=settings()) as session:
        first = gate.run(session, 0)
        await turns()
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await session.run(gate.quick)
        assert not isinstance(caught.value, tg.StepTimeout)
        with anyio.move_on_after(0.01) as scope:
            await session.run(gate.quick)
        assert scope.cancelled_caught
        assert counts(session) == (1, 0, 0)
        await gate.let_go(0)
        await first


async def test_closing_sends_those_who_wait_away():
    gate = Gate()
    session = tg.Session(gate.graph, max_steps=1, settings=settings())
    steps = [gate.run(session, k) for k in range(3)]
    await gate.has(1)
    await session.aclose()
    await asyncio.wait(steps)
    assert all(isinstance(step.exception(), tg.SessionClosed) for step in steps)
    assert len({id(step.exception()) for step in steps}) == 3
    assert counts(session) == (0, 0, 0)
    assert gate.order == [0]


async def test_a_failing_step_gives_its_place_back():
    def fail():
        raise ValueError("no")

    with tg.Graph().as_default() as graph:
        broken = tg.py_function(fail, [], [])
    async with tg.Session(graph, max_steps=1, settings=settings()) as session:
        for _ in range(3):
            with pytest.raises(tg.OpError):
                await session.run(broken)
        assert counts(session) == (0, 0, 0)


async def test_no_limit_admits_all():
    gate = Gate()
    async with tg.Session(gate.graph) as session:
        steps = [gate.run(session, k) for k in range(50)]
        await gate.has(50)
        assert counts(session) == (50, 0, 0)
        for k in range(50):
            await gate.let_go(k)
        await asyncio.gather(*steps)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_positive(limit):
    with pytest.raises(tg.GraphError, match="max_steps"):
        tg.Session(tg.Graph(), max_steps=limit)


async def test_two_hundred_steps_of_mixed_length_through_eight_places():
    """All are right; the k-th starts before any later one; what they hold is bounded by the places."""
    order, most = [], 0

    def note(i, k):
        nonlocal most
        if i == 0:
            order.append(int(k))
        most = max(most, live_counts()["frames"])
        return i + 1

    with tg.Graph().as_default() as graph:
        k, n = tg.placeholder("int32", []), tg.placeholder("int32", [])
        result = tg.while_loop(lambda i: i < n, lambda i: tg.py_function(note, [i, k], "int32", output_shapes=[]), [0])
    lengths = [1 + (7 * j) % 31 for j in range(200)]
    async with tg.Session(
        graph, max_steps=8, settings=tg.Settings(drain_seconds=0.0, admission_seconds=LONG)
    ) as session:
        step = session.make_step(result, [k, n])
        values = await asyncio.gather(*(step(j, length) for j, length in enumerate(lengths)))
        assert counts(session) == (0, 0, 0)
    assert [int(value) for value in values] == lengths
    assert sorted(order) == list(range(200))
    assert all(abs(place - j) < 8 for place, j in enumerate(order)), "only those inside together may change places"
    assert most <= 8 * 2, "a root frame and a loop each"


async def test_random_comings_and_goings_lose_no_place():
    chance = random.Random(3)
    admission = Admission(3, LONG)
    inside = most = 0

    async def visit(stay):
        nonlocal inside, most
        async with place_in(admission):
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(stay):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    visits = []
    for _ in range(500):
        visits.append(asyncio.ensure_future(visit(chance.randrange(6))))
        if chance.random() < 0.5:
            chance.choice(visits).cancel()
        if chance.random() < 0.3:
            await turns(chance.randrange(3))
    await asyncio.wait(visits, timeout=LONG)
    assert all(visit.done() for visit in visits)
    assert (inside, most, admission.waiting) == (0, 3, 0)
    await asyncio.gather(*(visit(1) for _ in range(3)))
    assert most == 3


@pytest.mark.parametrize("way", ["run", "task", "partial run"])
async def test_a_refused_step_that_a_step_with_a_place_asks_for(executor, way):
    async def ask():
        asking = session.run(inner)
        return float(await (asyncio.ensure_future(asking) if way == "task" else asking))

    with tg.Graph().as_default() as graph:
        inner = tg.constant(1.0, name="inner") + 1.0
        outer = tg.py_function(ask, [], "float32", name="outer")
    session = tg.Session(graph, executor=executor, max_steps=1, settings=settings(0.01))
    async with session:
        handle = await session.partial_run_setup(outer) if way == "partial run" else None
        with pytest.raises(tg.OpError) as caught:
            await (session.run(outer) if handle is None else session.partial_run(handle, outer))
        refusal = caught.value.__cause__
        assert isinstance(refusal, tg.Overloaded)
        assert refusal.got == "none, but the step of outer:0, a function of which asks for this one, has a place itself"
        async with await session.partial_run_setup(outer, trace=tg.Trace()):
            with pytest.raises(tg.Overloaded) as caught:
                await session.run(inner)
        assert caught.value.got == "none"
        assert await session.run(inner) == 2.0

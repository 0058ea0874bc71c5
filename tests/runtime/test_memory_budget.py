"""Sessions that share a budget of memory: together they stay within it, in one line, whoever ends in between."""

import asyncio
import gc
import os
import random
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.pool import Pool, SharedLimit
from tagloom.streams.cpu import CpuDevice

from tests.support.forks import in_child
from tests.support.waiting import turns, until

N = 50_000
SIZE = 4 * N
PLAIN = tg.Settings(fuse=False, straight=False)
EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


def ones(count=N):
    return np.ones(count, np.float32)


def summing():
    """Return a graph, its placeholder, and a step that holds one array more than it is fed while it waits."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        doubled = x * 2.0
        with tg.control_dependencies([doubled]):
            waited = tg.py_function(soon, [tg.constant(1.0)], "float32", output_shapes=[])
        y = tg.reduce_sum(doubled) * waited
    return graph, x, y


async def soon(value):
    await asyncio.sleep(0.001)
    return value


class Holding:
    """A graph with a step that holds what it is fed until it is released."""

    def __init__(self):
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        with tg.Graph().as_default() as self.graph:
            self.x = tg.placeholder("float32", [None])
            waited = tg.py_function(self._wait, [self.x[0]], "float32", output_shapes=[])
            self.y = tg.reduce_sum(self.x) * waited

    async def _wait(self, value):
        self.begun.set()
        await self.release.wait()
        return value


async def test_steps_of_two_sessions_take_turns_and_never_exceed_the_budget():
    graph, x, y = summing()
    budget = tg.MemoryBudget(3 * SIZE)
    options = {"memory_limit": budget, "settings": PLAIN}
    async with tg.Session(graph, **options) as one, tg.Session(graph, **options) as two:
        calls = [session.run(y, {x: ones()}) for _ in range(8) for session in (one, two)]
        assert await asyncio.gather(*calls) == [2 * N] * 16
        assert SIZE < budget.peak_bytes <= budget.limit_bytes == 3 * SIZE
        assert budget.live_bytes == one.statistics().live_bytes + two.statistics().live_bytes == 0
        assert one.statistics().peak_bytes <= budget.peak_bytes
        assert one.list_devices()[0].memory_limit_bytes == 3 * SIZE


@pytest.mark.parametrize("seed", range(3))
async def test_random_steps_of_several_sessions_stay_within_the_budget(seed):
    draw = random.Random(seed)
    graph, x, y = summing()
    budget = tg.MemoryBudget(4 * SIZE)
    sessions = [tg.Session(graph, memory_limit=budget, settings=PLAIN) for _ in range(4)]
    steps = []
    for _ in range(40):
        session = draw.choice(sessions)
        count = draw.choice([N // 10, N // 2, N])
        steps.append((count, asyncio.ensure_future(session.run(y, {x: ones(count)}))))
        if draw.random() < 0.2:
            draw.choice(steps)[1].cancel()
        await turns(draw.choice([0, 1, 5]))
    closed = sessions.pop()
    await closed.aclose()
    results = await asyncio.gather(*(step for _, step in steps), return_exceptions=True)
    for (count, _), found in zip(steps, results, strict=True):
        assert isinstance(found, tg.SessionClosed | asyncio.CancelledError) or found == 2 * count, found
    assert budget.peak_bytes <= budget.limit_bytes
    for session in sessions:
        await session.aclose()
    assert budget.live_bytes == 0


def with_constant(how):
    """Return a graph and a step with a constant of SIZE bytes, run as a call, prepared, or specialized for a shape."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("int32", [None])
        y = tg.reduce_sum(tg.gather(tg.constant(ones()), x))
    options = tg.Settings(fuse=False, straight=False, specialize=8 if how == "specialized" else 0)
    return graph, x, y, options


@EXECUTORS
@pytest.mark.parametrize("how", ["run", "prepared", "compiled", "specialized"])
async def test_constants_of_a_new_step_wait_for_the_steps_under_way(executor, how):
    """Memory that running steps will release is no reason to refuse a step."""
    holding, (graph, x, y, settings) = Holding(), with_constant(how)
    budget = tg.MemoryBudget(2 * SIZE + SIZE // 2)
    options = {"memory_limit": budget, "executor": executor}
    async with (
        tg.Session(holding.graph, settings=PLAIN, **options) as one,
        tg.Session(graph, settings=settings, **options) as two,
    ):
        first = asyncio.ensure_future(one.run(holding.y, {holding.x: ones(2 * N)}))
        await holding.begun.wait()

        async def run():
            if how == "prepared":
                return await two.make_step(y, [x])([1, 2, 3])
            if how == "compiled":
                await two.compile(y, [x])
            return await two.run(y, {x: [1, 2, 3]})

        calls = [asyncio.ensure_future(run()) for _ in range(3)]
        await turns()
        assert not any(call.done() for call in calls)
        holding.release.set()
        assert await first == 2 * N
        assert await asyncio.gather(*calls) == [3] * 3
        assert budget.live_bytes >= SIZE  # while the step is kept
        assert budget.peak_bytes <= budget.limit_bytes
    assert budget.live_bytes == 0


async def test_constants_that_never_fit_are_refused_although_others_run():
    holding, (graph, x, y, settings) = Holding(), with_constant("run")
    budget = tg.MemoryBudget(SIZE // 2)
    async with (
        tg.Session(holding.graph, memory_limit=budget, settings=PLAIN) as one,
        tg.Session(graph, memory_limit=budget, settings=settings) as two,
    ):
        first = asyncio.ensure_future(one.run(holding.y, {holding.x: ones(10)}))
        await holding.begun.wait()
        with pytest.raises(tg.DeviceMemoryError, match="constants of a step do not fit"):
            await two.run(y, {x: [1, 2, 3]})
        with pytest.raises(tg.DeviceMemoryError, match="constants of a step do not fit"):
            await two.partial_run_setup(y, [x])
        holding.release.set()
        assert await first == 10


async def test_a_step_that_waits_with_its_constants_is_cancelled_and_leaves_nothing():
    holding, (graph, x, y, settings) = Holding(), with_constant("run")
    budget = tg.MemoryBudget(2 * SIZE + SIZE // 2)
    async with (
        tg.Session(holding.graph, memory_limit=budget, settings=PLAIN) as one,
        tg.Session(graph, memory_limit=budget, settings=settings) as two,
    ):
        first = asyncio.ensure_future(one.run(holding.y, {holding.x: ones(2 * N)}))
        await holding.begun.wait()
        with pytest.raises(tg.StepTimeout):
            await two.run(y, {x: [1, 2, 3]}, timeout=0.01)
        waits = asyncio.ensure_future(two.run(y, {x: [1, 2, 3]}))
        await turns()
        waits.cancel()
        holding.release.set()
        assert await first == 2 * N
        assert budget.live_bytes == 0
        assert await two.run(y, {x: [1, 2, 3]}) == 3


@EXECUTORS
async def test_a_waiter_in_line_is_cancelled_and_leaves_nothing(executor):
    holding, (graph, x, y) = Holding(), summing()
    budget = tg.MemoryBudget(2 * SIZE + SIZE // 2)
    options = {"memory_limit": budget, "settings": PLAIN, "executor": executor}
    async with tg.Session(holding.graph, **options) as one, tg.Session(graph, **options) as two:
        first = asyncio.ensure_future(one.run(holding.y, {holding.x: ones(N * 7 // 4)}))
        await holding.begun.wait()
        waits = asyncio.ensure_future(two.run(y, {x: ones()}))
        late = asyncio.ensure_future(two.run(y, {x: ones()}))
        with pytest.raises(tg.StepTimeout, match="did not end within"):
            await two.run(y, {x: ones()}, timeout=0.01)
        await turns()
        assert not waits.done()
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        assert waits.cancelled()
        holding.release.set()
        assert await first == N * 7 // 4
        assert await late == 2 * N
        assert budget.live_bytes == 0


# In the reference executor no step waits for memory once it has begun, which is before the variables are given back.
@pytest.mark.parametrize(("executor", "held"), [("machine", "feeds"), ("machine", "variables"), ("reference", "feeds")])
async def test_a_session_that_is_closed_wakes_those_that_wait(executor, held):
    """Its step has the memory, or its variables do, which are given back last."""
    holding, (graph, x, y) = Holding(), summing()
    budget = tg.MemoryBudget(2 * SIZE + SIZE // 2)
    options = {"memory_limit": budget, "settings": PLAIN, "executor": executor}
    with holding.graph.as_default():
        v = tg.Variable(ones(N if held == "variables" else 1), name="v")
    one = tg.Session(holding.graph, **options)
    async with tg.Session(graph, **options) as two:
        await one.write_variables({v: ones(N if held == "variables" else 1)})
        first = asyncio.ensure_future(one.run(holding.y, {holding.x: ones(N if held == "variables" else N * 2)}))
        await holding.begun.wait()
        waits = asyncio.ensure_future(two.run(y, {x: ones()}))
        await turns()
        assert not waits.done()
        await one.aclose()
        with pytest.raises(tg.SessionClosed):
            await first
        assert await waits == 2 * N
        assert budget.live_bytes == 0


async def test_what_does_not_fit_beside_another_session_says_so():
    with tg.Graph().as_default() as graph:
        v = tg.Variable(ones(2 * N), name="v")
        x = tg.placeholder("float32", [None])
        y = tg.reduce_sum(tg.concat([x, x], 0))
    budget = tg.MemoryBudget(3 * SIZE)
    one, two = (tg.Session(graph, memory_limit=budget, settings=PLAIN) for _ in range(2))
    await one.write_variables({v: ones(2 * N)})
    for count in (2 * N, N // 2 + 1000):  # the feed alone does not fit; what is made of it
        with pytest.raises(tg.DeviceMemoryError) as caught:
            await two.run(y, {x: ones(count)})
        assert any("shares the memory budget" in each.operation for each in caught.value.allocations)
        assert caught.value.limit == 3 * SIZE
        assert caught.value.live >= 2 * SIZE
    await one.aclose()
    assert await two.run(y, {x: ones()}) == 2 * N
    await two.aclose()


async def test_values_from_outside_count_in_the_budget():
    with tg.Graph().as_default() as graph:
        tg.Variable(ones(), name="v"), tg.Variable(ones(), name="w")
    budget = tg.MemoryBudget(2 * SIZE)
    async with tg.Session(graph, memory_limit=budget) as one, tg.Session(graph, memory_limit=budget) as two:
        for session in (one, two):
            await session.write_variables({"v": ones()})
        assert budget.live_bytes == 2 * SIZE
        with pytest.raises(tg.DeviceMemoryError, match="do not fit"):
            await two.write_variables({"w": ones()})
        assert budget.live_bytes <= 2 * SIZE


async def test_devices_of_a_session_count_together():
    with tg.Graph().as_default() as graph:
        sums = []
        for name in ("/cpu:0", "/cpu:1"):
            with tg.device(name):
                x = tg.placeholder("float32", [None])
                sums.append((x, tg.reduce_sum(x * 3.0)))
    budget = tg.MemoryBudget(5 * SIZE)
    async with tg.Session(graph, devices=2, memory_limit=budget, settings=PLAIN) as session:
        feeds = {x: ones() for x, _ in sums}
        calls = [session.run([y for _, y in sums], feeds) for _ in range(6)]
        assert await asyncio.gather(*calls) == [[3 * N, 3 * N]] * 6
        assert budget.peak_bytes <= budget.limit_bytes
    limits = {"/cpu:0": budget, "/cpu:1": "1MB"}
    async with tg.Session(graph, devices=2, memory_limit=limits, settings=PLAIN) as session:
        assert [each.memory_limit_bytes for each in session.list_devices()] == [5 * SIZE, 10**6]
        assert await session.run(sums[0][1], {sums[0][0]: ones()}) == 3 * N
    assert budget.live_bytes == 0


async def test_loops_of_sessions_share_a_budget_with_swapping():
    length, row = 30, 4096
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [row])
        _, last = tg.while_loop(
            lambda t, _: t < length, lambda t, h: (t + 1, tg.tanh(h * 1.1)), [0, x], swap_memory=True
        )
        gradient = tg.gradients(tg.reduce_sum(last), [x])[0]
    given = {x: np.linspace(-1, 1, row, dtype=np.float32)}
    async with tg.Session(graph, memory_limit="10MB", settings=PLAIN) as alone:
        wanted = await alone.run(gradient, given)
    budget = tg.MemoryBudget(24 * 4 * row)
    options = {"memory_limit": budget, "settings": PLAIN}
    async with tg.Session(graph, **options) as one, tg.Session(graph, **options) as two:
        for found in await asyncio.gather(*(session.run(gradient, given) for session in (one, two) * 2)):
            np.testing.assert_array_equal(found, wanted)
        assert budget.peak_bytes <= budget.limit_bytes


def test_sessions_of_two_event_loops_share_a_budget_one_after_the_other():
    graph, x, y = summing()
    budget = tg.MemoryBudget(3 * SIZE)
    with graph.as_default():
        v = tg.Variable(ones(N), name="v")
    with tg.SyncSession(graph, memory_limit=budget) as one, tg.SyncSession(graph, memory_limit=budget) as two:
        for session in (one, two, one):
            assert session.run(y, {x: ones()}) == 2 * N
        one.write_variables({v: ones()})
        two.write_variables({v: ones()})
        with pytest.raises(tg.DeviceMemoryError):  # what the other loop has is not exceeded either
            two.run(y, {x: ones(2 * N)})
        assert budget.peak_bytes <= budget.limit_bytes
    for _ in range(2):  # one loop after the other
        asyncio.run(_once(graph, x, y, budget))
    assert budget.live_bytes == 0


def test_steps_of_two_event_loops_at_one_time_are_refused():
    holding, (graph, x, y) = Holding(), summing()
    budget = tg.MemoryBudget(3 * SIZE)

    def elsewhere():
        asyncio.run(_once(graph, x, y, budget))

    async def hold():
        async with tg.Session(holding.graph, memory_limit=budget) as session:
            first = asyncio.ensure_future(session.run(holding.y, {holding.x: ones()}))
            await holding.begun.wait()
            with pytest.raises(tg.TagloomError, match="serves one event loop at a time") as caught:
                await asyncio.to_thread(elsewhere)
            assert "SyncSession" in caught.value.hint
            holding.release.set()
            assert await first == N
            await asyncio.to_thread(elsewhere)

    asyncio.run(hold())
    assert budget.live_bytes == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_has_the_budget_for_its_own_sessions():
    graph, x, y = summing()
    with graph.as_default():
        v = tg.Variable(ones(N), name="v")
    budget = tg.MemoryBudget(3 * SIZE)

    def use_in_child():
        assert budget.live_bytes == 0
        asyncio.run(_once(graph, x, y, budget))
        return budget.live_bytes == 0

    with tg.SyncSession(graph, memory_limit=budget) as session:
        session.write_variables({v: ones()})
        assert session.run(y, {x: ones()}) == 2 * N
        assert in_child(use_in_child)
        assert budget.live_bytes == SIZE
        assert session.run(y, {x: ones()}) == 2 * N


def test_threads_that_share_a_sync_session_share_its_budget():
    graph, x, y = summing()
    budget = tg.MemoryBudget(3 * SIZE)
    found = []
    with tg.SyncSession(graph, memory_limit=budget, settings=PLAIN) as session:
        threads = [threading.Thread(target=lambda: found.append(session.run(y, {x: ones()}))) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert found == [2 * N] * 4
    assert budget.peak_bytes <= budget.limit_bytes


async def _once(graph, x, y, budget):
    async with tg.Session(graph, memory_limit=budget) as session:
        assert await session.run(y, {x: ones()}) == 2 * N


@pytest.mark.filterwarnings("ignore:unclosed")
async def test_a_dropped_session_gives_its_bytes_back():
    with tg.Graph().as_default() as graph:
        tg.Variable(ones(), name="v")
    budget = tg.MemoryBudget(SIZE)
    session = tg.Session(graph, memory_limit=budget)
    await session.write_variables({"v": ones()})
    assert budget.live_bytes == SIZE
    del session
    gc.collect()
    await until(lambda: budget.live_bytes == 0)


async def test_a_device_keeps_one_limit():
    with tg.Graph().as_default() as graph:
        tg.constant(1.0)
    budget = tg.MemoryBudget("1MB")
    async with CpuDevice("/cpu:0") as device, CpuDevice("/cpu:0", limit="2MB") as limited:
        for options in ({"memory_limit": budget}, {"memory_limit": budget}, {}):
            async with tg.Session(graph, devices=[device], **options) as session:
                assert session.list_devices()[0].memory_limit_bytes == 10**6
        for given, limit in [(device, tg.MemoryBudget("1MB")), (device, "1MB"), (limited, budget)]:
            with pytest.raises(tg.GraphError, match="keeps a limit already"):
                tg.Session(graph, devices=[given], memory_limit=limit)


@pytest.mark.parametrize("limit", [0, -1, "much", None, 1.5, True])
def test_no_budget(limit):
    with pytest.raises(tg.GraphError, match="not a size in bytes: limit of a MemoryBudget"):
        tg.MemoryBudget(limit)


def test_a_budget_needs_a_pool():
    with pytest.raises(tg.GraphError, match="cannot be limited"):
        tg.Session(tg.Graph(), memory_limit=tg.MemoryBudget(100), settings=tg.Settings(pool=False))


def test_a_budget_says_what_is_in_use():
    budget = tg.MemoryBudget("2KiB")
    assert (budget.limit_bytes, budget.live_bytes, budget.peak_bytes) == (2048, 0, 0)
    with tg.SyncSession(tg.Graph(), memory_limit=budget):
        assert repr(budget) == "<MemoryBudget of 2 KiB: 0 B in use by 1 device of sessions>"


def test_pools_that_share_a_limit():
    shared = SharedLimit(1000)
    one, two = Pool(1 << 20), Pool(1 << 20)
    for pool in (one, two):
        pool.share(shared)
        pool.share(shared)
    assert shared.pools == 2
    arrays = [np.zeros(size, np.uint8) for size in (600, 300, 200)]
    first, second = one.charge_external(arrays[:1]), two.charge_external(arrays[1:2])
    assert (one.live_bytes, two.live_bytes, one.used_bytes, shared.used_bytes) == (600, 300, 900, 900)
    with pytest.raises(MemoryError, match="900 of 1000 are in use"):
        two.charge_external(arrays[2:])
    with pytest.raises(ValueError, match="limit that pools share"):
        two.limit = 5
    one.close()
    assert (shared.pools, shared.used_bytes, one.limit, two.limit) == (1, 300, 1000, 1000)
    third = two.charge_external(arrays[2:])
    del first, second, third
    assert (shared.used_bytes, shared.peak_bytes) == (0, 900)


def test_free_blocks_of_all_pools_stay_near_a_limit_that_they_share():
    """What one keeps for new arrays goes back to the system when another takes as much."""
    size = 8 << 20
    shared = SharedLimit(10 * size)
    pools = [Pool(1 << 30) for _ in range(3)]
    for pool in pools:
        pool.share(shared)
        arrays = [KernelContexts(pool).run(np.empty, size, np.uint8) for _ in range(8)]
        del arrays
        assert shared.used_bytes == 0
    assert pools[-1].cached_bytes >= 8 * size
    assert sum(pool.cached_bytes for pool in pools) <= 14 * size  # the limit, a quarter, and the rest of blocks

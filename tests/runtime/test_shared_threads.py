"""Sessions share the worker threads of the process: one does not disturb, delay or outlive another."""

import asyncio
import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.scheduling import core_threads
from tagloom.runtime.scheduling.blocking_calls import BlockingCalls
from tagloom.runtime.scheduling.call_threads import CallThreads

from tests.support.forks import in_child
from tests.support.settings import ON
from tests.support.waiting import turns, until, until_in_thread

WORKERS = 2
SETTINGS = replace(ON, workers=WORKERS, offload_seconds=1e-6)
A = np.random.default_rng(0).standard_normal((192, 192)).astype(np.float32)
GRADED = np.random.default_rng(1).standard_normal((20, 100, 100)).astype(np.float32)

linux_only = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")


def products(count):
    """Return a graph, what to feed and to fetch: products that the workers do, which all differ."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", A.shape, name="x")
        fetches = [tg.matmul(x, x + float(k)) for k in range(count)]
    return graph, {x: A}, fetches


def in_python():
    """Return the same of a Python kernel that threads call once it is known to take long."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", GRADED.shape, name="x")
        y = tg.matmul(x, x)
    return graph, {x: GRADED}, y


def own_threads():
    """Return the ids of the process's threads."""
    return {int(name) for name in os.listdir("/proc/self/task")}


def assert_products(found, count):
    for k in range(count):
        np.testing.assert_allclose(found[k], A @ (A + float(k)), rtol=1e-3, atol=1e-3)


@linux_only
async def test_eight_sessions_have_the_threads_of_one():
    workers = WORKERS + 1  # sessions that other tests have left open have other threads
    graph, feeds, fetches = products(2)
    with graph.as_default():
        rows = tg.placeholder("float32", GRADED.shape)
        fetches.append(tg.matmul(rows, rows))
    feeds[rows] = GRADED
    before = own_threads()
    sessions = [tg.Session(graph, settings=replace(SETTINGS, workers=workers)) for _ in range(8)]
    for _ in range(2):  # only then it is known that the Python kernel takes long
        for found in await asyncio.gather(*(session.run(fetches, feeds) for session in sessions)):
            assert_products(found, 2)
    assert workers < len(own_threads() - before) < 4 * workers  # others may begin threads beside; not 8 times as many
    for session in sessions[:-1]:
        await session.aclose()
    assert_products(await sessions[-1].run(fetches, feeds), 2)
    await sessions[-1].aclose()
    await until(lambda: len(own_threads() - before) < workers)


async def test_equal_numbers_share_and_others_do_not():
    with tg.Graph().as_default() as graph:
        tg.constant(1.0)

    def session(workers):
        return tg.Session(graph, settings=replace(ON, workers=workers))

    async with session(6) as one, session(6) as two, session(7) as three, session(0) as none:
        assert one._steps.environment.worker_pool.workers.count == two._steps.environment.worker_pool.workers.count == 6
        assert none._steps.environment.worker_pool.workers is None
        assert core_threads._open[6].users == 2
        assert core_threads._open[7].users == 1
        assert three._steps.environment.worker_pool.workers.count == 7
    assert 6 not in core_threads._open
    assert 7 not in core_threads._open


@pytest.mark.filterwarnings("ignore:unclosed")
async def test_a_dropped_session_gives_its_threads_up():
    graph, feeds, fetches = products(2)
    session = tg.Session(graph, settings=replace(SETTINGS, workers=6))
    await session.run(fetches, feeds)
    unused = tg.Session(graph, settings=replace(SETTINGS, workers=6))
    del unused
    gc.collect()
    assert core_threads._open[6].users == 1
    del session
    gc.collect()
    assert 6 not in core_threads._open


@pytest.mark.parametrize("ending", ["fails", "is cancelled", "is closed"])
async def test_what_ends_in_one_session_goes_on_in_another(ending):
    graph, feeds, fetches = products(10)
    with graph.as_default():
        began = asyncio.Event()

        async def fail():
            began.set()
            await until(lambda: ending == "fails")
            raise RuntimeError("broken")

        broken = tg.py_function(fail, [], "float32", output_shapes=[])
    async with tg.Session(graph, settings=SETTINGS) as other:
        session = tg.Session(graph, settings=SETTINGS)
        ends = asyncio.ensure_future(session.run([*fetches, broken], feeds))
        goes_on = asyncio.ensure_future(other.run(fetches, feeds))
        await began.wait()
        if ending == "is cancelled":
            ends.cancel()
        elif ending == "is closed":
            await session.aclose()
        expected = {"fails": tg.OpError, "is cancelled": asyncio.CancelledError, "is closed": tg.SessionClosed}
        with pytest.raises(expected[ending]):
            await ends
        assert_products(await goes_on, 10)
        await session.aclose()
        assert session.statistics().orphaned == other.statistics().orphaned == 0
        assert_products(await other.run(fetches, feeds), 10)


async def test_a_session_that_floods_the_workers_does_not_starve_another():
    size = 400
    many = 30
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [size, size])
        flood = [tg.matmul(x, x + float(k)) for k in range(many)]
        one = tg.matmul(x, x)
    given = {x: np.ones([size, size], np.float32)}
    settings = replace(SETTINGS, workers=1)
    async with tg.Session(graph, settings=settings) as first, tg.Session(graph, settings=settings) as second:
        flooding = asyncio.ensure_future(first.run(flood, given))
        await until(lambda: first._steps.environment.worker_pool.workers.busy)
        assert (await second.run(one, given))[0, 0] == size
        assert not flooding.done()  # one at a time, the flood first: it would have ended before
        assert len(await flooding) == many


async def test_users_of_threads_that_call_have_turns():
    threads, order = CallThreads(1, "turns"), []
    begun, go = threading.Event(), threading.Event()
    flood, other = BlockingCalls(threads), BlockingCalls(threads)

    def call(name):
        begun.set()
        assert go.wait(60)
        order.append(name)

    calls = [flood(call, "flood 0")]
    await asyncio.to_thread(begun.wait)
    calls += [flood(call, f"flood {k}") for k in range(1, 6)]
    calls += [other(call, f"other {k}") for k in range(2)]
    assert calls[3].withdraw()
    go.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert order == ["flood 0", "flood 1", "other 0", "flood 2", "other 1", "flood 4", "flood 5"]
    await flood.aclose(None)
    with pytest.raises(tg.SessionClosed, match="closed"):
        flood(call, "late")
    await other(call, "other goes on")
    assert order[-1] == "other goes on"
    await other.aclose(None)
    threads.shutdown()
    threads.join()


async def test_calls_that_have_not_begun_end_with_their_user_alone():
    threads, begun, go = CallThreads(1, "ends"), threading.Event(), threading.Event()
    one, two = BlockingCalls(threads), BlockingCalls(threads)

    def hold():
        begun.set()
        assert go.wait(60)
        return "held"

    running, waiting, others = one(hold), one(hold), two(lambda: "other")
    await asyncio.to_thread(begun.wait)
    closing = asyncio.ensure_future(one.aclose(None))
    with pytest.raises(tg.SessionClosed):
        await waiting
    assert not closing.done()
    go.set()
    await closing
    assert await running == "held"
    assert await others == "other"
    threads.shutdown()
    threads.join()


@pytest.mark.parametrize("seed", range(3))
async def test_sessions_are_opened_and_closed_at_random_with_work_under_way(seed):
    draw = random.Random(seed)
    graph, feeds, fetches = products(4)
    long_graph, long_feeds, long = in_python()
    async with tg.Session(graph, settings=SETTINGS) as keeper:
        before = core_threads._open[WORKERS].users
        open_ones, steps = [], []
        for _ in range(25):
            kind = draw.choice(["open", "open", "run", "run", "cancel", "close"])
            if kind == "open":
                open_ones.append(tg.Session(draw.choice([graph, long_graph]), settings=SETTINGS))
            elif kind == "run" and open_ones:
                session = draw.choice(open_ones)
                what = (fetches, feeds) if session.graph is graph else (long, long_feeds)
                steps.append(asyncio.ensure_future(session.run(*what)))
            elif kind == "cancel" and steps:
                draw.choice(steps).cancel()
            elif kind == "close" and open_ones:
                await open_ones.pop(draw.randrange(len(open_ones))).aclose()
            await turns(draw.choice([0, 1, 100]))
        kept = asyncio.ensure_future(keeper.run(fetches, feeds))
        await asyncio.gather(*(session.aclose() for session in open_ones))
        for each in await asyncio.gather(*steps, return_exceptions=True):
            assert isinstance(each, list | np.ndarray | tg.SessionClosed | asyncio.CancelledError), each
            if isinstance(each, list):
                assert_products(each, 4)
        assert_products(await kept, 4)
        assert core_threads._open[WORKERS].users == before


def test_sync_sessions_of_several_threads_share_the_workers():
    graph, feeds, fetches = products(4)
    settings = replace(SETTINGS, workers=6)
    together = threading.Barrier(4)

    def use(_):
        with tg.SyncSession(graph, settings=settings) as session:
            together.wait(60)
            users = core_threads._open[6].users
            together.wait(60)
            return users, [session.run(fetches, feeds) for _ in range(3)]

    with ThreadPoolExecutor(4) as threads:
        for users, runs in threads.map(use, range(4)):
            assert users == 4
            for found in runs:
                assert_products(found, 4)
    assert 6 not in core_threads._open


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_child_has_threads_of_its_own(is_busy):
    """It uses the session that nobody has used before, and new ones; that of the parent is closed there."""
    graph, feeds, fetches = products(8)
    settings = replace(SETTINGS, workers=6)
    used, unused = tg.SyncSession(graph, settings=settings), tg.SyncSession(graph, settings=settings)
    assert_products(used.run(fetches, feeds), 8)

    def use_in_child():
        assert core_threads._open[6].users == 1  # that of the parent's session is given up
        with pytest.raises(tg.SessionClosed):
            used.run(fetches, feeds)
        with tg.SyncSession(graph, settings=settings) as new:
            assert core_threads._open[6].workers.started == 0
            assert_products(new.run(fetches, feeds), 8)
            assert_products(unused.run(fetches, feeds), 8)
            assert core_threads._open[6].workers.started == 6
        unused.close()
        used.close()
        gc.collect()
        return 6 not in core_threads._open

    if is_busy:
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(used.run, fetches, feeds)
            until_in_thread(lambda: core_threads._open[6].workers.busy or running.done())
            assert in_child(use_in_child)
            assert_products(running.result(60), 8)
    else:
        assert in_child(use_in_child)
    used.close()
    unused.close()


def test_dropping_a_session_does_not_wait_for_its_threads(tmp_path):
    """The collector may run while its thread holds a lock of `threading`, without which no other thread can end."""
    program = """
        import asyncio
        import gc
        import threading
        from tagloom.base.settings import Settings
        from tagloom.runtime.scheduling.worker_pool import WorkerPool

        async def call(function):
            await pool.calls(function)

        pool = WorkerPool(Settings(workers=2))
        asyncio.run(call(gc.collect))
        with threading._active_limbo_lock:
            del pool
            gc.collect()
        print("dropped")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (found.stdout, found.stderr) == ("dropped\n", "")

"""What functions keep is the same wherever they are called: by .sync(), on event loops, in forked processes."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.functions.sessions import state_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("collected"),  # which ends the threads of functions
]


@pytest.fixture
def count():
    @tg.function(graph=tg.Graph())
    def count(x):
        total = tg.Variable(0.0, name="total")
        return total.assign_add(x)

    return count


def test_variables_follow_the_calls(count):
    assert [float(count.sync(1.0)) for _ in range(2)] == [1, 2]

    async def main():
        here = float(await count(1.0))
        in_a_thread = float(await asyncio.to_thread(count.sync, 1.0))
        return here, in_a_thread, float(await count(1.0))

    assert asyncio.run(main()) == (3, 4, 5)
    assert asyncio.run(main()) == (6, 7, 8)
    assert float(count.sync(1.0)) == 9
    assert float(asyncio.run(count(1.0))) == 10


def test_variables_follow_the_calls_to_a_loop_in_another_thread(count):
    found = [float(count.sync(1.0))]
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append(float(asyncio.run(count(1.0)))))
        thread.start()
        thread.join()
    assert found == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_variables_outlive_a_loop_that_is_closed_without_its_generators(count):
    for k in (1, 2, 3):
        loop = asyncio.new_event_loop()
        assert float(loop.run_until_complete(count(1.0))) == k
        loop.close()
    assert float(count.sync(1.0)) == 4


def test_functions_that_share_variables_share_them_everywhere():
    with tg.Graph().as_default() as graph:
        w, other = tg.Variable([1.0, 2.0], name="w"), tg.Variable(7, name="other")
    read = tg.function(lambda: w.value(), graph=graph)
    write = tg.function(lambda x: w.assign(x), graph=graph)
    touch = tg.function(lambda: other.assign_add(1), graph=graph)
    assert read.sync().tolist() == [1, 2]
    asyncio.run(write([3.0, 4.0]))
    assert read.sync().tolist() == [3, 4]
    assert int(asyncio.run(touch())) == 8
    assert int(touch.sync()) == 9


def test_training_goes_on_in_another_loop():
    graph = tg.Graph()
    with graph.as_default():
        w = tg.Variable(tg.zeros([3, 1]), name="w")
        optimizer = tg.training.AdamOptimizer(0.05)

    def loss(x, y):
        return tg.reduce_mean(tg.square(x @ w - y))

    @tg.function(graph=graph)
    def train(x, y):
        value = loss(x, y)
        optimizer.minimize(value)
        return value

    x = np.random.default_rng(0).normal(size=(32, 3)).astype("f")
    y = x @ np.float32([[1], [2], [3]])

    async def epoch():
        return [float(await train(x, y)) for _ in range(5)]

    apart = asyncio.run(epoch()) + asyncio.run(epoch()) + [float(train.sync(x, y)) for _ in range(5)]
    assert sorted(apart, reverse=True) == apart
    assert apart[-1] < apart[0]


def test_sessions_of_functions_have_what_the_functions_keep(count):
    count.sync(5.0)

    async def main():
        session = await count.session()
        before = await session.read_variables()
        await session.write_variables({"count/total": 20.0})
        return before, float(await count(1.0))

    assert asyncio.run(main()) == ({"count/total": 5}, 21)
    assert count.sync_session().read_variables() == {"count/total": 21}
    count.sync_session().write_variables({"count/total": 1.0})
    assert float(asyncio.run(count(1.0))) == 2


def test_random_operations_draw_on_in_another_loop():
    draw = tg.function(lambda: tg.random_uniform([]), graph=tg.Graph())

    async def main():
        return [float(await draw()) for _ in range(2)]

    drawn = asyncio.run(main()) + asyncio.run(main()) + [float(draw.sync())]
    assert len(set(drawn)) == 5


async def test_calls_on_two_loops_at_one_time_are_refused_where_they_share_variables(count):
    waiting, go = asyncio.Event(), asyncio.Event()
    graph = count.graph

    @tg.function(graph=graph)
    def slow(x):
        async def wait(x):
            waiting.set()
            await go.wait()
            return x

        return count(tg.py_function(wait, [x], "float32", []))

    @tg.function(graph=graph)
    def stateless(x):
        return x * 2.0

    @tg.function(graph=graph)
    def apart(x):
        return tg.Variable(0.0).assign_add(x)

    call = asyncio.create_task(slow(1.0))
    await waiting.wait()
    with pytest.raises(tg.TagloomError, match="calls on another event loop") as caught:
        await asyncio.to_thread(count.sync, 1.0)
    assert caught.value.got == "count/total"
    assert float(await asyncio.to_thread(stateless.sync, 1.0)) == 2
    assert float(await asyncio.to_thread(apart.sync, 1.0)) == 1
    assert float(await count(1.0)) == 1  # on the same loop
    go.set()
    assert float(await call) == 2
    assert float(await asyncio.to_thread(count.sync, 1.0)) == 3
    assert float(await count(1.0)) == 4


async def test_a_step_of_a_function_keeps_its_variables_while_it_runs(count):
    waiting, go = asyncio.Event(), asyncio.Event()

    @tg.function(graph=count.graph)
    def slow(x):
        async def wait(x):
            waiting.set()
            await go.wait()
            return x

        return count(tg.py_function(wait, [x], "float32", []))

    running = asyncio.create_task((await slow.step(1.0))(1.0))
    await waiting.wait()
    with pytest.raises(tg.TagloomError, match="calls on another event loop"):
        await asyncio.to_thread(count.sync, 1.0)
    go.set()
    assert float(await running) == 1


async def test_elements_of_queues_follow_the_calls():
    graph = tg.Graph()
    with graph.as_default():
        queue = tg.FIFOQueue(4, ["float32"], [[]])
    put = tg.function(lambda x: queue.enqueue(x), graph=graph)
    take = tg.function(lambda: queue.dequeue(), graph=graph)
    await put(3.0)
    await put(4.0)
    assert float(await asyncio.to_thread(take.sync)) == 3
    await asyncio.to_thread(put.sync, 5.0)
    assert [float(await take()), float(await take())] == [4, 5]
    waiting = asyncio.create_task(take())
    while not (await take.session()).statistics().steps_running:
        await asyncio.sleep(0)
    with pytest.raises(tg.TagloomError, match="calls on another event loop"):
        await asyncio.to_thread(put.sync, 6.0)
    await put(6.0)
    assert float(await waiting) == 6


def test_a_function_with_a_session_of_its_own_keeps_its_variables_there():
    graph = tg.Graph()
    count = None
    with tg.SyncSession(graph) as session:
        count = tg.function(lambda: tg.Variable(0.0).assign_add(1.0), session=session)
        other = tg.function(lambda: tg.Variable(0.0).assign_add(1.0), graph=graph)
        assert [float(count.sync()), float(other.sync()), float(count.sync())] == [1, 1, 2]


# ---- fork

FORK = """
    import asyncio, os, sys, threading, warnings
    import numpy as np
    import tagloom as tg

    warnings.simplefilter("ignore", DeprecationWarning)

    @tg.function
    def count(x):
        return tg.Variable(0.0).assign_add(x)

    def loss(x):
        return tg.reduce_sum(tg.matmul(x, x))

    big = np.ones((400, 400), np.float32)
    slope = tg.grad(loss)
    area = tg.function(loss)

    async def main():
        async with asyncio.timeout(60):
            return float(await count(1.0)), float((await slope(big))[0, 0]), float(await area(big))

    def child_of(use, leave=sys.exit):  # with all that the end of an interpreter closes
        pid = os.fork()
        if not pid:
            try:
                use()
            except BaseException as error:
                print(f"child: {error!r}", flush=True)
                os._exit(1)
            leave(7)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status

    def check(*wanted):
        assert wanted == (float(count.sync(1.0)), *asyncio.run(main())), wanted

"""


def run(script, tmp_path):
    path = tmp_path / "forks.py"
    path.write_text(textwrap.dedent(FORK) + textwrap.dedent(script) + '\nprint("fine")\n')
    found = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("fine\n", "")


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@forks
def test_a_forked_child_goes_on_with_the_functions_state(tmp_path):
    run(
        """
        check(1.0, 2.0, 800.0, 64e6)
        for _ in range(2):  # each child begins with the same
            child_of(lambda: check(3.0, 4.0, 800.0, 64e6))
        check(3.0, 4.0, 800.0, 64e6)
        child_of(lambda: child_of(lambda: check(5.0, 6.0, 800.0, 64e6), os._exit))
        """,
        tmp_path,
    )


@forks
def test_a_child_forked_in_a_running_loop_has_the_state_in_loops_of_its_own(tmp_path):
    run(
        """
        async def forking():
            assert float(await count(1.0)) == 1.0
            child_of(lambda: check(2.0, 3.0, 800.0, 64e6), os._exit)
            assert float(await count(1.0)) == 2.0
            await asyncio.to_thread(child_of, lambda: check(3.0, 4.0, 800.0, 64e6), os._exit)
            return float(await count(1.0))

        assert asyncio.run(forking()) == 3.0
        """,
        tmp_path,
    )


@forks
def test_children_of_multiprocessing_use_functions(tmp_path):
    run(
        """
        import multiprocessing

        def work(k):
            return float(count.sync(k)), float(area.sync(big))

        assert work(1.0) == (1.0, 64e6)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(work, [1.0, 1.0])
        assert {total for total, _ in found} <= {2.0, 3.0}, found
        assert work(1.0) == (2.0, 64e6)
        """,
        tmp_path,
    )


@forks
def test_a_child_forked_while_a_function_is_traced_traces_it_itself(tmp_path):
    run(
        """
        begun, forked = threading.Event(), threading.Event()

        def traced(x):
            begun.set()
            assert forked.wait(60)
            return x + 1.0

        f = tg.function(traced)
        thread = threading.Thread(target=lambda: f.sync(1.0))
        thread.start()
        begun.wait()

        def use():
            forked.set()
            assert float(f.sync(1.0)) == 2.0
            check(1.0, 2.0, 800.0, 64e6)

        child_of(use)
        forked.set()
        thread.join()
        """,
        tmp_path,
    )


@forks
def test_a_variable_that_a_thread_wrote_to_at_the_fork_begins_anew_with_a_warning(tmp_path):
    run(
        """
        import logging
        told = []
        logging.getLogger("tagloom").addFilter(lambda record: told.append(record.getMessage()) or False)
        check(1.0, 2.0, 800.0, 64e6)

        async def forking():
            assert float(await count(1.0)) == 3.0
            (slot,) = (await count.session()).resources
            async with slot.turns.turn():
                child_of(lambda: (check(1.0, 2.0, 800.0, 64e6), told.pop().index("initial values")), os._exit)

        asyncio.run(forking())
        check(4.0, 5.0, 800.0, 64e6)
        assert not told
        """,
        tmp_path,
    )


@forks
def test_a_session_belongs_to_the_process_that_uses_it_first(tmp_path):
    run(
        """
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("float32", [None, None])
            y = tg.reduce_sum(tg.matmul(x, x))
        session, sync, closed = tg.Session(graph), tg.SyncSession(graph), tg.SyncSession(graph)
        step = session.make_step(y, [x])
        closed.close()

        async def use():
            async with session:
                assert float(await session.run(y, {x: big})) == 64e6
                assert float(await step(big)) == 64e6
            assert session.statistics().steps_finished == 2

        def both():
            asyncio.run(use())
            with sync:
                assert sync.run(y, {x: big}) == 64e6
                assert sync.make_step(y, [x])(big) == 64e6
            assert sync.closed and closed.closed

        child_of(both)
        child_of(lambda: (sync.close(), asyncio.run(session.aclose())))
        both()
        """,
        tmp_path,
    )


def serving_of(function):
    """Return the thread's holder of the session for scripts of a function that was called by .sync()."""
    return state_of(function.graph)._script.session._serving


def test_dropping_a_function_does_not_wait_for_its_session():
    """The session's loop may be busy, or need a lock that is held by the code in which the collector runs."""
    add = tg.function(lambda x: x + 1.0, graph=tg.Graph())
    add.sync(1.0)
    serving, goes_on = serving_of(add), threading.Event()
    serving.loop.call_soon_threadsafe(goes_on.wait)
    del add
    gc.collect()
    assert serving.thread.is_alive()
    goes_on.set()
    serving.thread.join(60)
    assert not serving.thread.is_alive()


def test_a_function_dropped_in_the_thread_of_its_session_is_closed():
    """The collector may run there between two turns of the event loop, where no loop is running."""
    functions = [tg.function(lambda x: x + 1.0, graph=tg.Graph())]
    functions[0].sync(1.0)
    serving = serving_of(functions[0])

    def drop():
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            functions.clear()
            gc.collect()
        finally:
            asyncio._set_running_loop(loop)

    serving.loop.call_soon_threadsafe(drop)
    serving.thread.join(60)
    assert not functions
    assert not serving.thread.is_alive()


def test_sessions_for_scripts_are_closed_at_exit(tmp_path):
    """Of functions that are still there, and of functions dropped just before."""
    program = """
        import asyncio
        import gc
        import os
        import tagloom as tg

        kept, dropped = (tg.function(lambda x: x + 1.0, graph=tg.Graph()) for _ in range(2))
        kept.sync(1.0), dropped.sync(2.0)
        closed = tg.Session.aclose

        async def tell(session, **options):
            name = "kept" if session.graph is kept.graph else "dropped"
            if name == "dropped":
                for _ in range(20_000):  # longer than the interpreter takes to end
                    await asyncio.sleep(0)
            await closed(session, **options)
            os.write(1, f"{name}\\n".encode())  # at once, as two threads write

        tg.Session.aclose = tell
        del dropped
        gc.collect()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (sorted(found.stdout.split()), found.stderr) == (["dropped", "kept"], "")

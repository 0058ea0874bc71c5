"""Steps whose event loop was closed under them, and synchronous sessions that threads close while others run steps."""

import subprocess
import sys
import threading

import pytest
import tagloom as tg


@pytest.fixture
def endless(graph):
    return tg.while_loop(lambda i: i < 10**8, lambda i: i + 1, [0])


DEAD_LOOP = """
import asyncio
import tagloom as tg

with tg.Graph().as_default() as graph:
    endless = tg.while_loop(lambda i: i < 10**8, lambda i: i + 1, [0])
session = tg.Session(graph, executor={executor!r}, max_steps=1)


async def begin():
    if {in_parts}:
        return await session.partial_run(await session.partial_run_setup(endless), endless)
    return await session.run(endless)


async def close():
    async with asyncio.timeout(20):
        await session.aclose()


loop = asyncio.new_event_loop()
task = loop.create_task(begin())
loop.run_until_complete(asyncio.sleep(0.02))
loop.close()
assert session.statistics().steps_running == 1
asyncio.run(close())
assert session.statistics().steps_running == 0
print("closed")
"""


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("in_parts", [False, True])
def test_closing_gives_up_the_steps_of_a_closed_loop(executor, in_parts):
    """In a process of its own, since tasks that are left by a closed loop complain when they go."""
    script = DEAD_LOOP.format(executor=executor, in_parts=in_parts)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "closed" in ended.stdout, ended.stderr


def ended(threads):
    for thread in threads:
        thread.join(20)
    return not any(thread.is_alive() for thread in threads)


def test_threads_that_run_steps_while_another_closes():
    for _ in range(10):
        with tg.Graph().as_default() as graph:
            y = tg.constant(1.0) + 1.0
        session, ends, began = tg.SyncSession(graph), [], threading.Barrier(4)

        def work(session=session, y=y, ends=ends, began=began):
            began.wait()
            try:
                while True:
                    session.run(y)
            except tg.SessionClosed:
                ends.append("closed")

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        began.wait()
        session.close()
        assert ended(threads)
        assert ends == ["closed"] * 3


def test_threads_that_close_at_the_same_time(graph, endless):
    for _ in range(10):
        session, errors, began = tg.SyncSession(graph), [], threading.Event()

        def run(session=session, errors=errors, began=began):
            began.set()
            with pytest.raises(tg.SessionClosed):
                session.run(endless)

        def close(session=session, errors=errors):
            try:
                session.close()
            except BaseException as error:
                errors.append(error)

        runner = threading.Thread(target=run, daemon=True)
        runner.start()
        began.wait()
        closers = [threading.Thread(target=close, daemon=True) for _ in range(3)]
        for thread in closers:
            thread.start()
        assert ended([runner, *closers])
        assert errors == []
        session.close()

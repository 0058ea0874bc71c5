"""The socket over which a session tells of itself."""

import asyncio
import gc
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tagloom as tg
import uvloop
from tagloom.base.settings import DEFAULTS
from tagloom.monitoring import client
from tagloom.runtime.observe import serving, sockets

from tests.support.waiting import turns


@pytest.fixture(autouse=True)
def runtime_directory(monkeypatch):
    """A directory of this test alone, whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="tf-") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)


def graph_of_one():
    with tg.Graph().as_default() as graph:
        graph.y = tg.constant(1.0) + 1.0
    return graph


async def ask(path, request=b"GET /statistics HTTP/1.1\r\n\r\n"):
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(request)
        answer = await reader.read()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def left(directory):
    return os.listdir(directory / "tagloom")


async def test_statistics_are_told(executor):
    graph = graph_of_one()
    async with tg.Session(graph, executor=executor) as session, session.observe("one") as path:
        await session.run(graph.y)
        head, body = await ask(path)
        assert head[0] == "HTTP/1.1 200 OK"
        assert f"Content-Length: {len(body)}" in head
        told = json.loads(body)
        assert (told["version"], told["pid"], told["session"]) == (1, os.getpid(), "one")
        assert told["statistics"]["steps_finished"] == 1
        head, body = await ask(path, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
        assert b'tagloom_steps_ended_total{session="one",outcome="finished"} 1\n' in body
    assert not path.exists()


async def test_loops_and_iterations_are_told():
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(i):
        begun.set()
        await go.wait()
        return i

    with tg.Graph().as_default() as graph:

        def body(i):
            with tg.control_dependencies([tg.py_function(wait, [i], "int32", stateful=False, output_shapes=[])]):
                return tg.identity(i + 1)

        y = tg.while_loop(lambda i: i < 3, body, [0], name="slow")
    async with tg.Session(graph) as session, session.observe() as path:
        step = asyncio.ensure_future(session.run(y))
        await begun.wait()
        told = json.loads((await ask(path))[1])
        assert told["statistics"]["steps_running"] == 1
        assert told["iterations"] >= 1
        go.set()
        await step
        (loop,) = json.loads((await ask(path))[1])["loops"]
        assert (loop["name"], loop["iterations"], loop["limiter"]) == ("slow", 4, "loop variable i")


async def test_numbers_of_numpy_are_numbers():
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(np.int64(4), "int32", shapes=[[]], shared_name="q")
        put = queue.enqueue(1)
    async with tg.Session(graph) as session:
        await session.run(put)
        async with session.observe() as path:
            told = json.loads((await ask(path))[1])
    assert told["statistics"]["figures"]["queues"]["q"]["capacity"] == 4


async def test_only_this_user_may_open_it(runtime_directory):
    old = os.umask(0)  # with which all may do everything
    try:
        async with tg.Session(graph_of_one()) as session, session.observe() as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert path.parent == runtime_directory / "tagloom"
    finally:
        os.umask(old)


async def test_another_user_is_sent_away(monkeypatch):
    """Who connects has the credentials of this process, so the process takes itself for another's."""
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        monkeypatch.setattr(sockets.os, "geteuid", lambda: 12345)
        with suppress(OSError):
            assert (await ask(path))[1] == b""
        monkeypatch.undo()
        assert (await ask(path))[1]


def broken_directories(path):
    path.mkdir(mode=0o755)
    yield path
    path.rmdir()
    path.write_text("")
    yield path
    path.unlink()
    path.symlink_to(path.parent)
    yield path
    path.unlink()


async def test_a_directory_that_others_may_enter_is_refused(runtime_directory, caplog):
    for _ in broken_directories(runtime_directory / "tagloom"):
        async with tg.Session(graph_of_one()) as session:
            with pytest.raises(tg.TagloomError, match=r"not this user's alone|cannot be used"):
                async with session.observe():
                    pass
    broken = broken_directories(runtime_directory / "tagloom")
    next(broken)
    async with tg.Session(graph_of_one(), settings=replace(DEFAULTS, observe=True)) as session:
        assert "cannot be observed" in caplog.text, "and the session works all the same"
        assert await session.run(session.graph.y) == 2.0


async def test_a_directory_that_is_not_there_is_said(runtime_directory, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_directory / "gone"))
    async with tg.Session(graph_of_one()) as session:
        with pytest.raises(tg.TagloomError, match="No such file"):
            async with session.observe():
                pass
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_directory / ("long" * 20)))
        (runtime_directory / ("long" * 20)).mkdir()
        with pytest.raises(tg.TagloomError, match="too long"):
            async with session.observe():
                pass


async def test_without_a_runtime_directory_there_is_one_for_each_user(runtime_directory, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(sockets.tempfile, "gettempdir", lambda: str(runtime_directory))
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        assert path.parent == runtime_directory / f"tagloom-{os.geteuid()}"
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# ---- beginnings and ends


async def test_several_sessions_are_shown(runtime_directory):
    async with tg.Session(graph_of_one()) as one, tg.Session(graph_of_one()) as other:
        async with one.observe("one"), other.observe("other"):
            answers = [await asyncio.to_thread(client.ask_session, path) for path in client.sockets_of(None)]
            names = {answer.told["session"] for answer in answers}
            assert names == {"one", "other"}
            assert len(client.sockets_of(str(os.getpid()))) == 2
        assert left(runtime_directory) == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_settings_let_sessions_be_looked_at_until_they_are_closed(run, runtime_directory, monkeypatch):
    async def main():
        graph = graph_of_one()
        session = tg.Session(graph, settings=tg.Settings())
        async with session:
            await session.run(graph.y)
            (path,) = client.sockets_of(None)
            told = (await asyncio.to_thread(client.ask_session, path)).told
            assert told["statistics"]["steps_finished"] == 1
        assert left(runtime_directory) == []

    monkeypatch.setenv("TAGLOOM_OBSERVE", "1")
    assert tg.Settings().observe
    run(main())
    monkeypatch.setenv("TAGLOOM_OBSERVE", "0")
    assert not tg.Settings().observe


def test_sessions_of_scripts_are_looked_at(runtime_directory):
    graph = graph_of_one()
    with tg.SyncSession(graph, settings=replace(DEFAULTS, observe=True)) as session:
        session.run(graph.y)
        (path,) = client.sockets_of(None)
        assert client.ask_session(path).told["statistics"]["steps_finished"] == 1
    assert left(runtime_directory) == []


async def test_nothing_is_there_where_nobody_asked_for_it(runtime_directory):
    graph = graph_of_one()
    async with tg.Session(graph) as session:
        await session.run(graph.y)
        assert os.listdir(runtime_directory) == []


async def test_who_serves_has_no_task():
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await ask(path)
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("turn", range(3))
async def test_a_beginning_that_is_cancelled_leaves_nothing(runtime_directory, turn):
    async with tg.Session(graph_of_one()) as session:

        async def observe():
            async with session.observe():
                await asyncio.Event().wait()

        task = asyncio.ensure_future(observe())
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert not (runtime_directory / "tagloom").exists() or left(runtime_directory) == []


async def test_a_closed_session_is_not_looked_at():
    session = tg.Session(graph_of_one())
    await session.aclose()
    with pytest.raises(tg.SessionClosed):
        async with session.observe():
            pass


async def test_the_figures_of_a_session_that_was_closed_meanwhile_are_its_last():
    graph = graph_of_one()
    session = tg.Session(graph)
    async with session.observe() as path:
        await session.run(graph.y)
        await session.aclose()
        assert json.loads((await ask(path))[1])["statistics"]["steps_finished"] == 1


async def test_what_a_dead_process_has_left_is_removed(runtime_directory):
    script = (
        "import asyncio, os, tagloom as tg\n"
        "async def main():\n"
        "    async with tg.Session(tg.Graph()) as session, session.observe():\n"
        "        os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    (name,) = left(runtime_directory)
    dead = int(name.split("-")[0])
    (runtime_directory / "tagloom" / f".new-{dead}-01234567").write_text("")
    (runtime_directory / "tagloom" / "other").write_text("")
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        assert sorted(left(runtime_directory)) == sorted([path.name, "other"])
        async with session.observe() as second:
            assert sorted(left(runtime_directory)) == sorted([path.name, second.name, "other"])


def test_a_process_that_ends_without_closing_its_session_leaves_no_file(runtime_directory):
    script = (
        "import asyncio, warnings, tagloom as tg\n"
        "async def main():\n"
        "    await tg.Session(tg.Graph(), settings=tg.Settings(observe=True)).__aenter__()\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)
    assert left(runtime_directory) == []


@pytest.mark.filterwarnings("ignore:.*fork")  # of libraries that other tests have imported
async def test_a_child_process_lets_go_of_the_socket(runtime_directory):
    """It neither answers nor removes it; and when the parent has closed it, nobody listens."""
    async with tg.Session(graph_of_one()) as session:
        async with session.observe() as path:
            go, gone = os.pipe()
            ready, told = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(gone)
                os.write(told, b"x")
                os.read(go, 1)  # until the parent has closed the socket
                os._exit(0)
            os.read(ready, 1)
            assert json.loads((await ask(path))[1])["pid"] == os.getpid()
            copy = path.with_name("copy")
            os.link(path, copy)
        try:
            assert sockets.is_left(copy)
        finally:
            copy.unlink()
            for each in (gone, go, ready, told):
                os.close(each)
            os.waitpid(child, 0)


# ---- who asks


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /../statistics HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /statistics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"\r\n\r\n", "400 Bad Request"),
        (b"\xff\xfe \x00 x\r\n\r\n", "400 Bad Request"),
        (b"GET /statistics\r\n\r\n", "400 Bad Request"),
    ],
)
async def test_other_requests_are_refused(request_, status):
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        assert (await ask(path, request_))[0][0] == f"HTTP/1.1 {status}"


async def test_a_request_may_come_in_pieces():
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        for piece in (b"GET /stat", b"istics HTTP/1.1\r", b"\nHost: x\r\n", b"\r\n"):
            writer.write(piece)
            await turns()
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()


async def test_a_request_that_does_not_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(serving, "SECONDS", 0.02)
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        for sent in (b"", b"GET /statistics", b"x" * (serving.LONGEST_REQUEST + 1)):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(sent)
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()


async def test_many_who_ask_at_once_are_sent_away_and_then_served():
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        held = [await asyncio.open_unix_connection(str(path)) for _ in range(serving.MOST_CONNECTIONS)]
        await turns()
        with suppress(OSError):
            assert (await ask(path))[1] == b""
        for _, writer in held:
            writer.close()
        await turns()
        assert (await ask(path))[1]


async def test_those_who_ask_at_the_end_are_cut_off():
    async with tg.Session(graph_of_one()) as session:
        async with session.observe() as path:
            reader, writer = await asyncio.open_unix_connection(str(path))
            await turns()
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_who_connects_waits_until_there_is_a_descriptor(monkeypatch):
    monkeypatch.setattr(serving, "_PAUSE", 0.01)
    async with tg.Session(graph_of_one()) as session, session.observe() as path:
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(str(path))
            old = resource.getrlimit(resource.RLIMIT_NOFILE)
            free = os.dup(own.fileno())
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, old[1]))
            try:
                with pytest.raises(OSError, match="Too many open files"):
                    os.dup(own.fileno())
                for _ in range(20):
                    await asyncio.sleep(0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, old)
            own.sendall(b"GET /statistics HTTP/1.1\r\n\r\n")
            own.setblocking(False)
            assert (await asyncio.get_running_loop().sock_recv(own, 100)).startswith(b"HTTP/1.1 200 OK")


async def test_an_answer_may_be_larger_than_what_is_taken_at_once():
    """Whoever reads slowly holds nobody up."""
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(2, "int32", shapes=[[]], shared_name="q" * 4_000_000)
        put = queue.enqueue(1)
    async with tg.Session(graph) as session, session.observe() as path:
        await session.run(put)
        reader, writer = await asyncio.open_unix_connection(str(path), limit=1000)
        writer.write(b"GET /statistics HTTP/1.1\r\n\r\n")
        await turns()
        assert len((await ask(path))[1]) > 4_000_000
        answer = await reader.read()
        writer.close()
        assert json.loads(answer.split(b"\r\n\r\n")[1])["statistics"]["steps_finished"] == 1


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("turns", range(4))
def test_a_loop_that_ends_meanwhile_leaves_no_connection_open(run, turns):
    """However far those have come who connect just then: an unclosed socket is a warning, and that an error here."""

    async def main():
        async with tg.Session(graph_of_one()) as session, session.observe() as path:
            for _ in range(3):
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].connect(str(path))
            for _ in range(turns):
                await asyncio.sleep(0)

    held = []
    run(main())
    gc.collect()
    for each in held:
        each.settimeout(10)
        with suppress(ConnectionResetError):
            assert each.recv(1) == b""
        each.close()


async def test_a_session_that_can_not_tell_says_so(monkeypatch, caplog):
    async with tg.Session(graph_of_one()) as session, session.observe() as path:

        def fail():
            raise ValueError("no figures")

        monkeypatch.setattr(session, "statistics", fail)
        head, body = await ask(path)
        assert (head[0], body) == ("HTTP/1.1 500 Internal Server Error", b"ValueError\n")
        assert "no figures" in caplog.text
        monkeypatch.undo()
        assert (await ask(path))[0][0] == "HTTP/1.1 200 OK"


async def test_names_may_be_any_text():
    with tg.Graph().as_default() as graph:
        put = tg.FIFOQueue(2, "int32", shapes=[[]], shared_name='\ud800"\n\\é').enqueue(1)
    async with tg.Session(graph) as session, session.observe() as path:
        await session.run(put)
        (name,) = json.loads((await ask(path))[1])["statistics"]["figures"]["queues"]
        assert name == '\ud800"\n\\é'
        assert b'queue="?\\"\\n\\\\' in (await ask(path, b"GET /metrics HTTP/1.1\r\n\r\n"))[1]


def test_a_socket_that_nobody_listens_at_is_known(runtime_directory):
    path = str(runtime_directory / "s")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)
        made.listen(0)
        assert not sockets.is_left(Path(path))
    assert sockets.is_left(Path(path))

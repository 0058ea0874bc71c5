"""`tagloom top`: asking running processes, and showing what they tell."""

import asyncio
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import tagloom as tg
from tagloom.cli import main
from tagloom.monitoring import client, top

OBSERVED = tg.Settings(observe=True)


@pytest.fixture(autouse=True)
def runtime_directory(monkeypatch):
    """A directory of this test alone, whose path is short enough for sockets; a terminal that is wide."""
    with tempfile.TemporaryDirectory(prefix="tf-") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        monkeypatch.setenv("COLUMNS", "240")
        yield Path(path)


@contextmanager
def busy_session(directory, name="batches"):
    """A session with all that is shown, in the loop of a thread of its own."""
    with tg.Graph().as_default() as graph:
        w = tg.Variable(np.ones(1000, np.float32), name="w")
        queue = tg.FIFOQueue(8, "float32", shapes=[[2]], shared_name=name)
        put, take = queue.enqueue_many(np.ones((3, 2), np.float32)), queue.dequeue()
        mean = tg.ConditionalAccumulator("float32", shape=[], shared_name="mean")
        loop = tg.while_loop(
            lambda i: i < 3,
            lambda i: tg.py_function(lambda i: i + 1, [i], "int32", output_shapes=[]),
            [0],
            name="count",
        )
        steps = [w.initializer, put, take, mean.apply_grad(1.0), loop]
    with tg.SyncSession(graph, settings=OBSERVED, memory_limit="1MiB") as session:
        for each in steps:
            session.run(each)
        checkpointer = tg.training.Checkpointer(directory)
        session.call(checkpointer.save, 100).result()
        yield session


@contextmanager
def process(script="pass"):
    """A process whose session may be looked at."""
    code = (
        "import sys, tagloom as tg\n"
        "with tg.Graph().as_default() as graph:\n"
        "    y = tg.constant(1.0) + 1.0\n"
        "with tg.SyncSession(graph, settings=tg.Settings(observe=True)) as session:\n"
        f"    {script}\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with opened(code) as running:
        yield running


@contextmanager
def opened(code, **environment):
    """A process that says when its session is open, and ends when its input does."""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as running:
        assert running.stdout.readline() == "open\n"
        yield running
        running.stdin.close()
        assert running.wait() == 0


def test_all_is_shown_once(tmp_path, capsys):
    with busy_session(tmp_path):
        assert main(["top", "--once"]) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in shown.splitlines()}
    assert f"process {os.getpid()}, session " in shown
    assert "0 running, 0 waiting, 5 finished, 0 failed" in shown
    assert " of 1 MiB" in shown
    assert rows["count"][1] == "4"
    assert rows["batches"][1:] == ["2", "of", "8", "#####", "16", "B", "0", "0", "-", "-"]
    assert rows["mean"][1:] == ["1", "0", "0", "0"]
    assert rows[str(tmp_path)][1] == "100"


def test_pipelines_and_runners_are_shown(capsys):
    with tg.Graph().as_default() as graph:
        number = tg.data.from_arrays(np.arange(5)).next(shared_name="numbers")

    async def main_():
        async with tg.Session(graph) as session, session.observe():
            async with tg.runners(session) as group:
                group.add(number, name="taking", times=2)
            assert await asyncio.to_thread(main, ["top", "--once"]) == 0

    asyncio.run(main_())
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert rows["numbers"][2:] == ["0", "2", "-"]
    assert rows["taking"][1:] == ["ended", "2", "-", "0"]


def test_scripts_get_json(tmp_path, capsys):
    with busy_session(tmp_path):
        assert main(["top", "--once", "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)
        assert told["statistics"]["figures"]["queues"]["batches"]["dequeued"] == 1
        (path,) = client.sockets_of(None)
        for target in (str(os.getpid()), str(path)):
            assert main(["top", target, "--once", "--json"]) == 0
            assert json.loads(capsys.readouterr().out)[0]["pid"] == os.getpid()


def test_another_process_is_looked_at():
    with process("[session.run(y) for _ in range(5)]") as running:
        done = subprocess.run(
            [sys.executable, "-m", "tagloom", "top", str(running.pid), "--once", "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        (told,) = json.loads(done.stdout)
        assert (told["pid"], told["statistics"]["steps_finished"]) == (running.pid, 5)
        assert "-c" in told["command"]


SESSION = """
    with tg.Graph().as_default() as graph:
        y = tg.constant(1.0) + 1.0
    async with tg.Session(graph) as session:
        await session.run(y)
        await wait()
"""
FUNCTION = """
    await tg.function(lambda x: x * 2.0)(1.0)
    await wait()
"""


@pytest.mark.parametrize("body", [SESSION, FUNCTION])
def test_the_environment_lets_a_process_be_looked_at_as_it_is(body, runtime_directory):
    code = (
        "import asyncio, sys, tagloom as tg\n"
        "async def wait():\n"
        "    print('open', flush=True)\n"
        "    await asyncio.to_thread(sys.stdin.read)\n"
        f"async def main():{body}"
        "asyncio.run(main())\n"
    )
    with opened(code, TAGLOOM_OBSERVE="1") as running:
        (path,) = client.sockets_of(str(running.pid))
        assert client.ask_session(path).told["statistics"]["steps_finished"] == 1
    assert os.listdir(runtime_directory / "tagloom") == []
    with opened(code):
        assert os.listdir(runtime_directory / "tagloom") == []


def test_several_processes_are_a_list(tmp_path, capsys):
    with process() as running, busy_session(tmp_path):
        assert main(["top", "--once"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["pid", "session", "steps/s", "running", "failed", "memory", "command"]
        assert {line.split()[0] for line in lines[1:3]} == {str(running.pid), str(os.getpid())}
        assert main(["top", str(running.pid), "--once"]) == 0
        assert f"process {running.pid}, session " in capsys.readouterr().out


def test_it_is_live_until_the_process_ends(capsys):
    """Where the output is no terminal each look is printed; steps a second are known from the second one on."""
    printed = []

    def look():
        printed.append(main(["top", "--interval", "0.05"]))

    with tg.Graph().as_default() as graph:
        y = tg.constant(1.0) + 1.0
    with tg.SyncSession(graph, settings=OBSERVED) as session:
        watching = threading.Thread(target=look)
        watching.start()
        shown = ""
        while shown.count("steps/s;") < 4:
            session.run(y)
            shown += capsys.readouterr().out
    watching.join(60)
    shown += capsys.readouterr().out
    assert printed == [0]
    assert shown.endswith("nothing to look at any longer\n")
    first, *rest = [line.split(": ")[1].split()[0] for line in shown.splitlines() if "steps/s;" in line]
    assert first == "-"
    assert max(float(each.replace(",", "")) for each in rest) > 0


def test_a_terminal_is_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    looks = iter([None, None])
    monkeypatch.setattr(top.time, "sleep", lambda seconds: next(looks))
    with busy_session(tmp_path), pytest.raises((StopIteration, RuntimeError)):
        main(["top"])
    shown = capsys.readouterr().out
    assert "\x1b[?25l" in shown
    assert "\x1b[?25h" in shown, "the cursor is there again, whatever ends it"


def test_an_interrupt_ends_it(tmp_path, monkeypatch, capsys):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", interrupt)
    with busy_session(tmp_path):
        assert main(["top"]) == 130


@pytest.mark.parametrize("target", [[], ["1"], ["no/such/socket"]])
def test_nothing_to_look_at_is_said(target, capsys):
    assert main(["top", "--once", *target]) == 1
    assert "tagloom: there is no" in capsys.readouterr().err


def test_an_interval_is_a_time(capsys):
    assert main(["top", "--interval", "0"]) == 1
    assert "interval is no time" in capsys.readouterr().err


def test_without_rich_there_is_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tagloom.base.extras.find_spec", lambda name: None)
    with busy_session(tmp_path):
        assert main(["top", "--once"]) == 1
        assert 'pip install "tagloom[top]"' in capsys.readouterr().err
        assert main(["top", "--once", "--json"]) == 0


def test_names_of_others_are_but_text(tmp_path, capsys):
    with busy_session(tmp_path, "\x1b]0;owned\x07[red]:smile:\x1b[2J"):
        assert main(["top", "--once"]) == 0
    shown = capsys.readouterr().out
    assert "?]0;owned?[red]:smile:?[2J" in shown
    assert "\x1b" not in shown


# ---- strange answers


@contextmanager
def answering(path, answer):
    """Something else that listens at a socket."""
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def handle(reader, writer):
        handlers.append(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await stop.wait()
        else:
            writer.write(answer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def serve():
        async with await asyncio.start_unix_server(handle, path):
            ready.set()
            await stop.wait()
        await asyncio.gather(*handlers)
        await asyncio.sleep(0.01)

    stop, handlers = asyncio.Event(), []
    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


OK = b"HTTP/1.1 200 OK\r\n\r\n"
STRANGE = {
    "no JSON": (OK + b"{", "no JSON"),
    "deep JSON": (OK + b"[" * 100_000, "no JSON"),
    "a list": (OK + b"[]", "another version"),
    "another version": (OK + b'{"version": 2}', "another version"),
    "too little": (OK + b'{"version": 1, "pid": 3}', "another version"),
    "an error": (b"HTTP/1.1 500 Oops\r\n\r\n", "500 Oops"),
    "no HTTP": (b"hello", "hello"),
    "very much": (OK + b"x" * (1 << 16), "more than"),
    "no answer": (None, "its event loop is busy"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_strange_answers_are_said(what, runtime_directory, monkeypatch, capsys):
    monkeypatch.setattr(client, "_LONGEST", 1000 if what == "very much" else 1 << 20)
    monkeypatch.setattr(client, "_SECONDS", 0.2 if what == "no answer" else 30.0)
    answer, problem = STRANGE[what]
    path = str(runtime_directory / "7-strange.sock")
    with answering(path, answer):
        assert problem in client.ask_session(Path(path)).problem
        assert main(["top", path, "--once"]) == 1
        assert capsys.readouterr().out.startswith("process 7: ")
        assert main(["top", path, "--once", "--json"]) == 1
        assert problem in json.loads(capsys.readouterr().out)[0]["problem"]


ODD = [
    {"loops": [3]},
    {"loops": [{"mean_in_flight": "x"}]},
    {"statistics": {"steps_finished": "a"}},
    {"statistics": {"devices": {"d": 3}}},
    {"statistics": {"devices": {"d": {"live_bytes": math.inf, "limit_bytes": 1}}}},
    {"statistics": {"figures": {"queues": {"q": {"size": "a", "capacity": "b"}}}}},
    {"statistics": {"figures": {"checkpoints": {"q": {"last_time": "x"}}}}},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_answers_of_odd_types_are_said(odd, runtime_directory, capsys):
    told = {"version": 1, "pid": 7, "session": "s", "statistics": {}, "loops": [], **odd}
    path = str(runtime_directory / "7-odd.sock")
    with answering(path, OK + json.dumps(told).encode()):
        assert main(["top", path, "--once"]) == 0
        assert capsys.readouterr().out.startswith("process 7: the answer is of another version")
        other = dataclasses.replace(client.ask_session(Path(path)), pid=8)
        strange = top.draw_screen([client.ask_session(Path(path)), other], top.Rates())
    assert len(strange.renderables) == 2  # a list of processes


def test_who_ends_meanwhile_is_passed_over(runtime_directory):
    assert client.ask_session(runtime_directory / "7-gone.sock") is None
    with answering(str(runtime_directory / "s"), b""):
        assert client.ask_session(runtime_directory / "s") is None

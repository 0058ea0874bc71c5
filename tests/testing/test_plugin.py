"""The pytest plugin: a graph and sessions, for plain tests and coroutines of any runner; what they leave is found."""

import os
import subprocess
import sys

import pytest

from tests.architecture.layers import ROOT

GRAPH_AND_SYNC = """
import pytest, tagloom as tg

def test_graph_is_current(tagloom_graph):
    assert tg.constant(1.0).graph is tagloom_graph

def test_each_test_has_its_own(tagloom_graph):
    assert tagloom_graph.num_operations == 0

@pytest.fixture
def model(tagloom_graph):
    x = tg.placeholder("float32", [], name="x")
    return x, x * 2.0

def test_session_runs_what_a_fixture_built(tagloom_sync_session, model):
    x, y = model
    assert tagloom_sync_session.run(y, {x: 3.0}) == 6.0

@pytest.mark.tagloom(devices=2)
class TestMarked:
    def test_options(self, tagloom_sync_session):
        assert len(tagloom_sync_session.list_devices()) == 2

    @pytest.mark.tagloom(devices=3)
    def test_nearest_mark_decides(self, tagloom_sync_session):
        assert len(tagloom_sync_session.list_devices()) == 3
"""

COROUTINES = """
import asyncio, pytest, tagloom as tg
{marks}
sessions = []

async def test_session_is_open_and_its_graph_current(tagloom_session, tagloom_graph):
    y = tg.constant(2.0) * 3.0
    assert y.graph is tagloom_graph
    assert await tagloom_session.run(y) == 6.0
    sessions.append(tagloom_session)

async def test_the_last_one_is_closed(tagloom_graph):
    assert tg.constant(2.0).graph is tagloom_graph
    with pytest.raises(tg.SessionClosed):
        await sessions[0].run(sessions[0].graph.get_operations()[0])

@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.tagloom(executor="reference")
async def test_parameters_and_options(tagloom_session, n):
    assert await tagloom_session.run(tg.while_loop(lambda i: i < n, lambda i: i + 1, [0])) == n
    assert "open" in repr(tagloom_session)
"""

FAILURES = """
import asyncio, pytest, threading, tagloom as tg

async def test_own_error_comes_through(tagloom_session):
    raise KeyError("mine")

def test_plain_test_is_told(tagloom_session):
    pass

stop = threading.Event()

@pytest.mark.tagloom(settings=tg.Settings(close_seconds=0.0))
async def test_left_functions_are_found(tagloom_session):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    def wait():
        loop.call_soon_threadsafe(begun.set)
        stop.wait(60)
        return 1.0
    step = asyncio.ensure_future(tagloom_session.run(tg.py_function(wait, [], "float64", blocking=True)))
    await begun.wait()
    step.cancel()
    await asyncio.wait([step])

def test_last():
    stop.set()
"""

NEITHER = """
import sys

def test_engine_is_not_imported():
    assert [name for name in sys.modules if name.partition(".")[0] == "tagloom"] == []
"""


def run(folder, text, *options):
    """Run a file of tests in a process of its own; return the counts of outcomes, and what was printed."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", *options, "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)
    return found.returncode, found.stdout + found.stderr


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", ["pytest_tagloom", "tagloom.testing.plugin"])
def test_plain_tests_have_graphs_and_sessions(tmp_path, name):
    status, text = run(tmp_path, GRAPH_AND_SYNC, "-p", name, "-p", "no:asyncio", "--strict-markers", "-W", "error")
    assert status == 0, text
    assert "5 passed" in text


SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
RUNNERS = {
    "asyncio, strict": ("pytestmark = pytest.mark.asyncio", ["-o", "asyncio_mode=strict", *SCOPE]),
    "asyncio, auto": ("", ["-o", "asyncio_mode=auto", *SCOPE]),
    "anyio": (
        "pytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'",
        ["-p", "no:asyncio"],
    ),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("runner", RUNNERS)
def test_coroutines_have_sessions_whoever_runs_them(tmp_path, runner):
    marks, options = RUNNERS[runner]
    status, text = run(tmp_path, COROUTINES.format(marks=marks), "-p", "pytest_tagloom", "-W", "error", *options)
    assert status == 0, text
    assert "4 passed" in text


def test_errors_and_what_is_left_are_told(tmp_path):
    status, text = run(tmp_path, FAILURES, "-p", "pytest_tagloom", "-o", "asyncio_mode=auto")
    assert status == 1
    assert "KeyError: 'mine'" in text
    assert "others take tagloom_sync_session" in text
    assert "the closed session left 1 blocking functions that still run" in text
    assert "1 passed" in text, text


def test_pytest_starts_without_the_engine(tmp_path):
    status, text = run(tmp_path, NEITHER, "-p", "pytest_tagloom")
    assert status == 0, text

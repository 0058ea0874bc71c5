"""Child processes whose parent has threads at work: they go on, and end."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import tagloom as tg
from tagloom import streams
from tagloom.base import forks
from tagloom.runtime.scheduling.blocking_calls import BlockingCalls
from tagloom.runtime.steps import compiler
from tagloom.training.checkpoints.saving import Saving

from tests.support.forks import in_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

IMPORTING = """
    import os, sys, threading
    from importlib.util import find_spec
    import tagloom as tg
    from tagloom.kernels.native.jit import compilation

    begun, go = threading.Event(), threading.Event()

    class Importing:
        \"\"\"Holds the import of LLVM, with the lock of its module, as long as it is told to.\"\"\"

        def find_spec(self, name, path=None, target=None):
            if name != "llvmlite" or threading.get_ident() not in compilation._compiling._threads:
                return None
            sys.meta_path.remove(self)
            spec = find_spec(name)
            execute = spec.loader.exec_module

            def held(module):
                begun.set()
                go.wait(60)
                execute(module)

            spec.loader.exec_module = held
            return spec

    sys.meta_path.insert(0, Importing())
    with tg.Graph().as_default() as graph:
        n = tg.placeholder("int32", [])
        y = tg.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tg.sin(s) + 1.0), [0, 0.0])[1]
    settings = tg.Settings(llvm_seconds=1e-4)

    def child():
        with tg.SyncSession(graph, settings=settings) as session:
            session.run(y, {n: 100_000})
        sys.exit(7)

    with tg.SyncSession(graph, settings=settings) as session:
        session.run(y, {n: 20_000})
        if not begun.wait(10):
            print("fine")  # there is no LLVM here
            os._exit(0)
        RELEASE
        pid = os.fork()
        if not pid:
            child()
        go.set()
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
    print("fine")
"""


@pytest.mark.parametrize(
    "release",
    ["threading.Timer(0.05, go.set).start()", "compilation._compiling._seconds = 0.05"],
    ids=["the fork waits", "it waited too long"],
)
def test_a_child_forked_while_llvm_is_imported_compiles_or_does_without(tmp_path, release):
    script = tmp_path / "importing.py"
    script.write_text(textwrap.dedent(IMPORTING.replace("RELEASE", release)))
    environment = {**os.environ, "TAGLOOM_CACHE": ""}
    command = [sys.executable, "-W", "ignore", script]
    found = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment)
    assert (found.stdout, found.stderr) == ("fine\n", "")


async def test_threads_for_functions_begin_anew_in_a_child():
    calls = BlockingCalls(1)
    assert await calls(lambda: 5) == 5

    async def use():
        async with asyncio.timeout(30):
            found = await calls(lambda: 7)
            await calls.aclose(5.0)
            return found

    assert in_child(lambda: asyncio.run(use()) == 7)
    await calls.aclose(5.0)


@pytest.mark.parametrize("used", [False, True])
def test_a_device_that_sessions_share_works_in_a_child(used):
    device = streams.CpuDevice("/cpu:0")
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.reduce_sum(x * 2.0)

    async def submit():
        async with asyncio.timeout(30):
            return await device.compute.submit(lambda: 5)

    def use():
        with tg.SyncSession(graph, devices=[device]) as session:
            return session.run(y, {x: [1.0, 2.0]}) == 6 and asyncio.run(submit()) == 5

    if used:
        assert use()
    assert in_child(use)
    assert use()
    asyncio.run(device.aclose())


def test_a_device_at_work_is_free_in_a_child():
    device, begun, released = streams.CpuDevice("/cpu:0"), threading.Event(), threading.Event()

    def work():
        begun.set()
        assert released.wait(60)

    async def submit():
        async with asyncio.timeout(30):
            return await device.compute.submit(lambda: 5)

    async def main():
        event = device.compute.submit(work)
        await asyncio.to_thread(begun.wait)
        assert await asyncio.to_thread(in_child, lambda: asyncio.run(submit()) == 5)
        released.set()
        await event
        await device.aclose()

    asyncio.run(main())


def test_a_checkpoint_that_is_being_written_is_the_parents():
    begun, released = threading.Event(), threading.Event()

    def write(check):
        begun.set()
        assert released.wait(60)
        return Path("written")

    saving = Saving(3, write, None, 0)
    assert begun.wait(60)

    def refused():
        with pytest.raises(tg.CheckpointError, match=f"step 3 is written by process {os.getppid()}"):
            saving.result(30)
        asyncio.run(asyncio.wait_for(saving.wait_until_ended(), 30))
        return saving.done

    assert in_child(refused)
    released.set()
    assert saving.result(60) == Path("written")
    assert in_child(lambda: saving.result(30) == Path("written"))


async def test_a_compilation_under_way_is_begun_anew_in_a_child(monkeypatch):
    begun, released, make_compiled_step = threading.Event(), threading.Event(), compiler.make_compiled_step

    def held(*args):
        begun.set()
        assert released.wait(60)
        return make_compiled_step(*args)

    with tg.Graph().as_default() as graph:
        y = tg.constant(2.0) * 3.0
    monkeypatch.setattr(compiler, "make_compiled_step", held)
    monkeypatch.setattr(forks.building, "_seconds", 0.01)
    session = tg.Session(graph)
    compiling = asyncio.create_task(session.compile(y))
    await asyncio.to_thread(begun.wait)

    async def use():
        released.set()
        async with asyncio.timeout(30), session:
            return float(await (await session.compile(y))()) == float(await session.run(y)) == 6

    assert await asyncio.to_thread(in_child, lambda: asyncio.run(use()))
    released.set()
    assert float(await (await compiling)()) == 6
    await session.aclose()

"""Sessions and functions that wait for results where an event loop runs: in notebooks, and where they are told to."""

import asyncio
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("collected")  # which ends the threads of functions


@pytest.fixture
def graph():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None], name="x")
        tg.reduce_sum(x * 2.0, name="y")
    return graph


@pytest.fixture
def in_notebook(monkeypatch):
    """What IPython looks like in its kernel, whose loop is the one that runs when this is called."""

    def pretend():
        kernel = SimpleNamespace(io_loop=SimpleNamespace(asyncio_loop=asyncio.get_running_loop()))
        shell = SimpleNamespace(kernel=kernel)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    return pretend


def count():
    @tg.function(graph=tg.Graph())
    def count(x):
        return tg.Variable(0.0).assign_add(x)

    return count


async def test_a_cell_of_a_notebook_uses_all_that_waits(graph, in_notebook):
    in_notebook()
    with tg.SyncSession(graph) as session:
        assert session.run("y:0", {"x:0": [1.0, 2.0]}) == 6
        assert session.make_step("y:0", ["x:0"])([1.0]) == 2
    f = count()
    assert float(f.sync(1.0)) == 1
    assert float(await f(1.0)) == 2
    assert float(f.sync(1.0)) == 3
    assert f.sync_session().statistics().steps_finished > 0


async def test_another_loop_than_the_notebooks_is_refused(graph, in_notebook):
    in_notebook()

    async def elsewhere():
        with pytest.raises(tg.TagloomError, match="running event loop"):
            tg.SyncSession(graph)
        with pytest.raises(tg.TagloomError, match="running event loop"):
            count().sync(1.0)

    await asyncio.to_thread(lambda: asyncio.run(elsewhere()))


async def test_a_shell_without_a_kernel_is_no_notebook(graph, monkeypatch):
    for shell in (None, SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        with pytest.raises(tg.TagloomError, match="running event loop"):
            tg.SyncSession(graph)


async def test_the_hint_is_for_what_was_called(graph):
    with pytest.raises(tg.TagloomError, match=r"async with Session.*blocking=True"):
        tg.SyncSession(graph)
    f = count()
    with pytest.raises(tg.TagloomError, match=r"count\.sync\(\)") as caught:
        f.sync(1.0)
    assert caught.value.hint.startswith("`await count(...)`")
    assert "tagloom.function(blocking=True)" in caught.value.hint
    session = await asyncio.to_thread(tg.SyncSession, f.graph)
    with pytest.raises(tg.TagloomError) as caught:
        tg.function(lambda x: x, session=session).sync(1.0)
    assert "SyncSession(..., blocking=True)" in caught.value.hint
    await asyncio.to_thread(session.close)


async def test_a_loop_waits_if_it_is_told_to(graph):
    with tg.SyncSession(graph, blocking=True) as session:
        assert session.run("y:0", {"x:0": [1.0, 2.0]}) == 6
        f = tg.function(lambda x: x + 1.0, session=session)
        assert float(f.sync(1.0)) == 2
    f = tg.function(lambda x: x * 2.0, graph=tg.Graph(), blocking=True)
    assert float(f.sync(1.0)) == 2
    assert tg.grad(f).sync(1.0) == 2
    assert float(await f(2.0)) == 4


async def test_what_may_not_wait_does_not_in_a_notebook_either(graph, in_notebook):
    in_notebook()
    with pytest.raises(tg.TagloomError, match="running event loop"):
        tg.SyncSession(graph, blocking=False)
    with pytest.raises(tg.TagloomError, match="running event loop"):
        tg.function(lambda x: x, blocking=False).sync(1.0)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_session_is_not_kept_waiting_for_itself(asynchronous):
    with tg.Graph().as_default() as graph:
        inner = tg.constant(1.0)

        def use():
            return session.run(inner)

        async def wait():
            return use()

        y = tg.py_function(wait if asynchronous else use, [], "float32", [])
    with tg.SyncSession(graph, blocking=True) as session:
        with pytest.raises(tg.OpError) as caught:
            session.run(y, timeout=30)
        assert "its own steps call" in str(caught.value.__cause__)
        assert session.run(inner) == 1


CELLS = [
    "import numpy as np, tagloom as tg",
    """
@tg.function
def count(x):
    return tg.Variable(0.0).assign_add(x)
count.sync(1.0), await count(1.0), count.sync(1.0)
""",
    """
with tg.Graph().as_default() as graph:
    w = tg.Variable([1.0, 2.0], name="w")
    loss = tg.reduce_sum(w * w)
    train = tg.training.AdamOptimizer(0.1).minimize(loss)
with tg.SyncSession(graph) as session:
    session.run(tg.global_variables_initializer())
    losses = [float(session.run([loss, train])[0]) for _ in range(5)]
assert losses == sorted(losses, reverse=True), losses
""",
    "count(1.0)",
    "%timeit -n 1 -r 2 count.sync(1.0)",
    "count.sync(0.0)",
]


def execute(cells, directory, monkeypatch):
    """Run cells in a real kernel; return them with their outputs."""
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    monkeypatch.setenv("IPYTHONDIR", str(directory))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    client.NotebookClient(notebook, timeout=120).execute()
    return notebook.cells


def test_cells_run_in_a_real_kernel(tmp_path, monkeypatch):
    shown = [
        "".join(each["data"]["text/plain"] for each in cell.outputs if each["output_type"] == "execute_result")
        for cell in execute(CELLS, tmp_path, monkeypatch)
    ]
    assert [float(part.split("(")[1].split(",")[0]) for part in shown[1].split("array")[1:]] == [1, 2, 3]
    assert "await it" in shown[3]
    assert "5." in shown[5]
    assert threading.active_count() < 50


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_blocks_of_the_first_pages_run_in_a_real_kernel(page, tmp_path, monkeypatch):
    """As they stand, except that a notebook awaits where a script calls ``asyncio.run``."""
    text = (Path(__file__).parents[2] / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    cells = execute([re.sub(r"asyncio\.run\((\w+\(\))\)", r"await \1", each) for each in blocks], tmp_path, monkeypatch)
    printed = [part["text"] for cell in cells for part in cell.outputs if part["output_type"] == "stream"]
    assert len(cells) > 2
    assert printed

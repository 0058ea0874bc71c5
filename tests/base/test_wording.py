"""How errors and objects are written: lines of the user's program, numbers, devices, one line for each object."""

import asyncio

import pytest
import tagloom as tg
from tagloom.base.sizes import format_size
from tagloom.base.source_lines import Source
from tagloom.base.wording import format_number, short_device
from tagloom.training import AdamOptimizer


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1030.4, "1030"),
        (999.96, "1000"),
        (99.96, "100"),
        (99.9, "99.9"),
        (0.01234, "0.0123"),
        (0, "0"),
        (-2e3, "-2000"),
    ],
)
def test_numbers(value, text):
    assert format_number(value) == text


def test_sizes_of_four_digits():
    assert format_size(1000 * 1024 - 1) == "1000 KiB"


def test_devices():
    assert short_device("/job:localhost/replica:0/task:0/device:GPU:3") == "gpu:3"
    for other in ("/job:worker/task:0/device:GPU:3", "/job:localhost/task:1/device:CPU:0", "/device:CPU:*", "disk"):
        assert short_device(other) == other


def where(error):
    """Return the label of the line that an error quotes."""
    return next(line.split(":")[0].strip() for line in str(error).splitlines() if " at: " in line)


async def test_lines_that_built_and_lines_that_called(graph):
    x = tg.placeholder("float32", [2], name="x")
    fails = tg.py_function(lambda: 1 / 0, [], "float32")
    waits = tg.py_function(lambda: asyncio.sleep(60), [], [])
    session = tg.Session(graph)
    async with session:
        step = session.make_step(x, [x])
        uses = {
            "built at": [lambda: session.run(x), lambda: step([1.0]), lambda: session.run(fails)],
            "called at": [lambda: session.run("y"), step, lambda: session.run(waits, timeout=0.01)],
        }
        for label, calls in uses.items():
            for call in calls:
                with pytest.raises(tg.TagloomError) as caught:
                    await call()
                assert where(caught.value) == label
                assert caught.value.source.file == __file__
    with pytest.raises(tg.SessionClosed) as caught:
        await session.run(x)
    assert where(caught.value) == "called at"


def test_long_lines_are_cut(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("x = 1\n    y = " + "+".join(["x"] * 300) + "\n")
    lines = [str(Source(str(program), number, "main")) for number in (1, 2)]
    assert lines[0] == f"{program}:1 in main: x = 1"
    assert lines[1].partition(": ")[2] == ("y = " + "+".join(["x"] * 300))[:117] + "..."


async def test_objects_in_one_line(graph):
    x = tg.placeholder("float32", [], name="x")
    y = tg.multiply(x, tg.Variable(1.0, name="w"), name="y")
    trace, optimizer = tg.Trace(), AdamOptimizer(0.1)
    optimizer.minimize(y)
    async with tg.Session(graph, devices=2) as session:
        step = session.make_step([y, y.op], feeds=[x])
        await session.write_variables({"w": 2.0})
        watch = session.watch(y)
        await step(1.0, trace=trace)
        found = [session, step, trace, watch, step.stream(y, 1.0), optimizer]
        assert [repr(each) for each in found] == [
            "<Session on cpu:0, cpu:1, open: 1 steps started, 0 running>",
            "<Step of y:0, y; feeds: x:0>",
            f"<Trace: {len(trace.spans)} spans, 0 dropped>",
            "<Watch of y:0, ended: 1 values kept, 0 dropped>",
            "<StepStream of y:0: not begun>",
            "<AdamOptimizer Adam, learning_rate=0.1: 4 slots>",
        ]
    assert repr(session).startswith("<Session on cpu:0, cpu:1, closed")


def test_a_synchronous_session_in_one_line(graph):
    with tg.SyncSession(graph) as session:
        assert repr(session) == "<SyncSession on cpu:0, open: 0 steps started, 0 running>"

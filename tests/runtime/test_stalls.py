"""Steps that stand still say what they wait for, and what is held up behind that."""

import asyncio

import pytest
import tagloom as tg

from tests.support.waiting import turns


class Meeting:
    """Two functions of which the first waits for the second, and a third."""

    def __init__(self, stateful=True, nested=False):
        self.met = asyncio.Event()
        with tg.Graph().as_default() as self.graph:
            if nested:
                _, *self.fetches = tg.while_loop(
                    lambda i, *_: i < 1, lambda i, *x: (i + 1, *self.build(x, stateful)), [0, 1.0, 1.0, 1.0]
                )
            else:
                self.fetches = self.build([tg.constant(1.0)] * 3, stateful)

    def build(self, inputs, stateful):
        async def first(x):
            await self.met.wait()
            return x

        async def second(x):
            self.met.set()
            return x

        def third(x):
            return x

        functions = first, second, third
        return [
            tg.py_function(f, [x], "float32", stateful=stateful, name=f.__name__, output_shapes=[])
            for f, x in zip(functions, inputs)
        ]


@pytest.mark.parametrize("nested", [False, True])
async def test_a_timeout_names_what_is_held_up(executor, nested):
    meeting = Meeting(nested=nested)
    async with tg.Session(meeting.graph, executor=executor) as session:
        with pytest.raises(tg.StepTimeout) as caught:
            await session.run(meeting.fetches, timeout=0.3)
    assert "still waiting for" in caught.value.got
    assert "holds up" in caught.value.got
    assert "second" in caught.value.got
    assert "third" in caught.value.got
    assert __file__ in caught.value.got
    assert "stateful=False" in caught.value.hint


async def test_a_step_that_stands_still_is_told_of(executor, caplog, monkeypatch):
    monkeypatch.setattr("tagloom.runtime.steps.stalls.SECONDS", 0.01)
    meeting = Meeting()
    async with tg.Session(meeting.graph, executor=executor) as session:
        step = asyncio.create_task(session.run(meeting.fetches))
        while "stands still" not in caplog.text:
            await asyncio.sleep(0.01)
        await turns(1000)
        meeting.met.set()
        await step
    assert caplog.text.count("stands still") == 1
    assert "holds up second, third" in caplog.text


async def test_what_is_not_ordered_holds_up_nothing(executor):
    meeting = Meeting(stateful=False)
    async with tg.Session(meeting.graph, executor=executor) as session:
        assert await session.run(meeting.fetches, timeout=20.0) == [1.0, 1.0, 1.0]


async def test_what_uses_a_result_is_not_held_up_by_order(graph, executor):
    async def wait(x):
        await asyncio.Event().wait()

    first = tg.py_function(wait, [tg.constant(1.0)], "float32", name="first", output_shapes=[])
    second = tg.py_function(lambda x: x, [first], "float32", name="second", output_shapes=[])
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.StepTimeout) as caught:
            await session.run(second, timeout=0.1)
    assert caught.value.got == "still waiting for first@root/0"


async def test_a_watch_that_nobody_reads_is_told_of(graph, executor, caplog, monkeypatch):
    monkeypatch.setattr("tagloom.runtime.steps.stalls.SECONDS", 0.01)
    inside = []
    y = tg.while_loop(lambda i: i < 9, lambda i: inside.append(i * i) or i + 1, [0])
    async with tg.Session(graph, executor=executor) as session:
        watch = session.watch(inside[0], limit=1)
        step = asyncio.create_task(session.run(y))
        while "waits for the reader of the watch of" not in caplog.text:
            await asyncio.sleep(0.01)
        assert inside[0].name in caplog.text
        watch.close()
        assert await step == 9

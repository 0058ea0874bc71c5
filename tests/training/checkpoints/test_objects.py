"""Objects beside a session: with it all of them are restored, or nothing is."""

import asyncio
import threading
from collections import namedtuple

import numpy as np
import pytest
import tagloom as tg
from tagloom.data.stages import saved_items
from tagloom.training import Checkpointer

from tests.training.checkpoints.models import variables

GRAPH = variables(w=np.arange(3, dtype=np.float32))


class Kept:
    def __init__(self, state, refuses=()):
        self.state, self.refuses = state, refuses

    def state_dict(self):
        return {"state": self.state}

    async def load_state_dict(self, state):
        await asyncio.sleep(0)
        self.state = state["state"]
        if self.state in self.refuses:
            raise KeyError("unknown")


async def save(directory, **objects):
    async with tg.Session(GRAPH) as session, Checkpointer(directory) as checkpointer:
        await session.run(GRAPH.init)
        for name, each in objects.items():
            checkpointer.add(name, each)
        return await (await checkpointer.save(session, 1))


async def restore(directory, **objects):
    """Restore into a session that has other values; return these and what went wrong."""
    error = None
    async with tg.Session(GRAPH) as session, Checkpointer(directory) as checkpointer:
        await session.write_variables({"w": np.full(3, 7, np.float32)})
        state = session.random_state
        for name, each in objects.items():
            checkpointer.add(name, each)
        try:
            await checkpointer.restore(session)
        except tg.CheckpointError as caught:
            error = caught
            assert session.random_state == state
        return error, (await session.read_variables())["w"].tolist()


async def test_an_object_that_refuses_its_state_leaves_all_as_it_was(tmp_path, caplog):
    path = await save(tmp_path, a=Kept(1), b=Kept(2))
    a, b = Kept(10), Kept(20, refuses=[2])
    error, w = await restore(tmp_path, a=a, b=b)
    assert w == [7, 7, 7]
    assert (a.state, b.state) == (10, 20)
    assert (error.file, error.variable) == (str(path), "objects/b")
    assert isinstance(error.__cause__, KeyError)
    error, _ = await restore(tmp_path, b=Kept(20, refuses=[2, 20]))
    assert error.variable == "objects/b"
    assert "'b' may not have what it had" in caplog.text


async def test_a_pipeline_that_is_another_leaves_all_as_it_was(tmp_path):
    numbers = tg.data.from_iterable(range(6))
    async with numbers.iterator() as saved, numbers.shuffle(3).iterator() as other:
        await save(tmp_path, data=saved)
        error, w = await restore(tmp_path, data=other)
    assert w == [7, 7, 7]
    assert isinstance(error.__cause__, tg.GraphError)


async def test_objects_have_what_they_had_when_variables_are_not_restored(tmp_path, monkeypatch):
    await save(tmp_path, a=Kept(1))
    a = Kept(10)

    async def fails(*_, **options):
        assert a.state == 1
        raise MemoryError

    async with tg.Session(GRAPH) as session, Checkpointer(tmp_path) as checkpointer:
        checkpointer.add("a", a)
        monkeypatch.setattr(tg.Session, "restore", fails)
        with pytest.raises(MemoryError):
            await checkpointer.restore(session)
    assert a.state == 10


@pytest.mark.parametrize("place", ["object", "graph"])
async def test_elements_of_a_pipeline_are_put_together_by_the_thread_that_writes(place, tmp_path, monkeypatch):
    """Thousands of them take many milliseconds, which the event loop lacked."""
    makers, put_together = [], saved_items._save_items

    def noting(items):
        makers.append(threading.current_thread().name)
        return put_together(items)

    monkeypatch.setattr(saved_items, "_save_items", noting)
    numbers = tg.data.from_arrays(np.arange(100)).shuffle(50, seed=1)
    with tg.Graph().as_default() as graph:
        following = numbers.next()

    async def drawn(session, iterator, count):
        return [int(await (session.run(following) if place == "graph" else anext(iterator))) for _ in range(count)]

    async with tg.Session(graph) as session, Checkpointer(tmp_path) as saver, numbers.iterator() as iterator:
        if place == "object":
            saver.add("numbers", iterator)
        await drawn(session, iterator, 3)
        saving = await saver.save(session, 7)
        later = await drawn(session, iterator, 50)  # of elements that are being written
        await saving
        assert makers
        assert set(makers) == {"tagloom-checkpoint-7"}
        await saver.restore(session)
        assert await drawn(session, iterator, 50) == later
        snapshot, captured = await session.snapshot(), await session.capture()
        assert "Deferred" not in repr(snapshot)
        later = await drawn(session, iterator, 5)
        for state in (snapshot, captured.values) if place == "graph" else ():
            await session.restore(state)
            assert await drawn(session, iterator, 5) == later


async def test_what_can_not_be_saved_of_a_pipeline_is_said_when_it_is_written(tmp_path):
    data = tg.data.from_iterable([1j, 2j, 3j]).shuffle(3)
    async with tg.Session(GRAPH) as session, Checkpointer(tmp_path) as saver, data.iterator() as iterator:
        await session.run(GRAPH.init)
        saver.add("data", iterator)
        await anext(iterator)
        with pytest.raises(tg.CheckpointError, match="cannot be saved") as caught:
            await (await saver.save(session, 1))
        assert caught.value.variable == "objects/data"
        assert saver.latest() is None


async def test_named_tuples_are_refused(tmp_path):
    """They would come back as tuples, and fail where somebody asks for a name."""
    place = namedtuple("place", "file line")
    with pytest.raises(tg.CheckpointError, match="cannot be saved") as caught:
        await save(tmp_path, a=Kept([place(1, 2)]))
    assert caught.value.variable == "objects/a"
    assert caught.value.hint == "make tuples or dicts of named tuples"


async def test_an_object_need_have_no_state_before(tmp_path):
    class Later(Kept):
        def state_dict(self):
            raise AttributeError("it has not begun")

    await save(tmp_path, a=Kept(1))
    later = Later(None)
    assert await restore(tmp_path, a=later) == (None, [0, 1, 2])
    assert later.state == 1

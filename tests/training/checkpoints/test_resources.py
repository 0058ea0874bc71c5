"""Checkpoints of what a session keeps besides variables: elements of queues, sums of accumulators."""

import asyncio
import json

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer

from tests.support.waiting import turns
from tests.training.checkpoints.models import variables

NUMBERS = np.arange(12, dtype=np.float32).reshape(6, 2)


def queue_of(kind):
    """Return a queue of pairs of a row and a number, of one kind."""
    dtypes, shapes = ["float32", "int64"], [[2], []]
    return {
        "ring": lambda: tg.FIFOQueue(9, dtypes, shapes, shared_name="q"),
        "bytes": lambda: tg.FIFOQueue(-1, dtypes, shapes, shared_name="q", capacity_bytes=160),
        "padding": lambda: tg.PaddingFIFOQueue(9, dtypes, [[None], []], shared_name="q"),
        "shuffle": lambda: tg.RandomShuffleQueue(9, 0, dtypes, shapes, shared_name="q", seed=5),
        "priority": lambda: tg.PriorityQueue(9, ["float32"], [[2]], shared_name="q"),
    }[kind]()


KINDS = ("ring", "bytes", "padding", "shuffle", "priority")


class Model:
    def __init__(self, kind):
        with tg.Graph().as_default() as self.graph:
            queue = queue_of(kind)
            rows, numbers = tg.constant(NUMBERS), tg.constant(range(6), "int64")
            pairs = [numbers, rows] if kind == "priority" else [rows, numbers]
            self.put_many, self.take, self.close = queue.enqueue_many(pairs), queue.dequeue(), queue.close()
            self.put = queue.enqueue([pair[5] for pair in pairs])
            self.size, self.is_closed = queue.size(), queue.is_closed()
            self.take_many = queue.dequeue_many(4)

    async def rest(self, session):
        """Take all that is left."""
        return [
            [part.tolist() for part in await session.run(self.take)] for _ in range(int(await session.run(self.size)))
        ]


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_elements_of_a_queue_come_back(tmp_path, kind, early):
    """As they would have come, whether a step has used the queue before it is restored or not."""
    model = Model(kind)
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.put_many)
        await session.run(model.take)
        await (await checkpointer.save(session, 1))
        wanted = await model.rest(session)
        assert len(wanted) == 5
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        if early:
            await session.run(model.put)
        await checkpointer.restore(session)
        assert int(await session.run(model.size)) == 5
        assert session.statistics().queues["q"].bytes == 5 * 16
        assert await model.rest(session) == wanted
        await session.run(model.put_many)  # it goes on
        assert int(await session.run(model.size)) == 6


@pytest.mark.parametrize("kind", KINDS)
async def test_a_queue_that_was_closed_or_empty_is_so_again(tmp_path, kind):
    model = Model(kind)
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.close)
        await (await checkpointer.save(session, 1))
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.put_many)
        await checkpointer.restore(session)
        assert await session.run(model.is_closed)
        assert int(await session.run(model.size)) == 0
        with pytest.raises(tg.QueueClosed):
            await session.run(model.take)


async def test_elements_of_many_shapes_and_texts_come_back(tmp_path):
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(9, ["float32", "string"], shared_name="q")
        x, s = tg.placeholder("float32"), tg.placeholder("string")
        put, take = queue.enqueue([x, s]), queue.dequeue()
    given = [(np.float32(1), "a"), (np.ones((2, 0), np.float32), ["b", "é"]), (NUMBERS, [["c"]])]
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        for value, text in given:
            await session.run(put, {x: value, s: text})
        await (await checkpointer.save(session, 1))
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await checkpointer.restore(session)
        for value, text in given:
            found = await session.run(take)
            np.testing.assert_array_equal(found[0], value)
            assert found[1].tolist() == text


async def test_who_waits_takes_what_is_restored(tmp_path):
    model = Model("ring")
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.put_many)
        await (await checkpointer.save(session, 1))
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        waiting = asyncio.ensure_future(session.run(model.take_many))
        await turns()
        await checkpointer.restore(session)
        assert (await waiting)[1].tolist() == [0, 1, 2, 3]
        assert int(await session.run(model.size)) == 2


async def test_what_a_waiting_batch_has_gathered_is_saved_too(tmp_path):
    model = Model("ring")
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        waiting = asyncio.ensure_future(session.run(model.take_many))
        await turns()
        await session.run(model.put)
        assert int(await session.run(model.size)) == 0
        await (await checkpointer.save(session, 1))
        waiting.cancel()
        await asyncio.wait([waiting])
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await checkpointer.restore(session)
        assert await model.rest(session) == [[[10.0, 11.0], 5]]


async def test_a_large_queue_is_a_few_arrays(tmp_path):
    """However many elements there are: a manifest has no line for each."""
    count = 20_000
    for kind in ("ring", "padding"):
        with tg.Graph().as_default() as graph:
            make = tg.FIFOQueue if kind == "ring" else tg.PaddingFIFOQueue
            queue = make(count, "float32", [[2]], shared_name="q")
            put, size = queue.enqueue_many(np.ones((count, 2), np.float32)), queue.size()
        async with tg.Session(graph) as session, Checkpointer(tmp_path / kind) as checkpointer:
            await session.run(put)
            path = await (await checkpointer.save(session, 1))
            assert len(json.loads((path / "manifest.json").read_text())["tensors"]) == 1
            assert checkpointer.statistics().last_bytes == count * 8
        async with tg.Session(graph) as session, Checkpointer(tmp_path / kind) as checkpointer:
            await checkpointer.restore(session)
            assert int(await session.run(size)) == count


async def test_the_sum_of_an_accumulator_comes_back(tmp_path):
    with tg.Graph().as_default() as graph:
        mean = tg.ConditionalAccumulator("float32", shape=[2], shared_name="a")
        put, take, count = mean.apply_grad([1.0, 3.0], local_step=1), mean.take_grad(2), mean.num_accumulated()
        set_step = mean.set_global_step(1)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(set_step)
        await session.run(put)
        await (await checkpointer.save(session, 1))
    for early in (True, False):
        async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
            if early:
                await session.run(count)
            await checkpointer.restore(session)
            assert await session.run(count) == 1
            found = session.statistics().accumulators["a"]
            assert (found.step, found.bytes) == (1, 8)
            await session.run(put)
            assert (await session.run(take)).tolist() == [1.0, 3.0]


async def test_what_belongs_to_a_step_is_not_saved(tmp_path):
    """A TensorArray ends with its step: a checkpoint that is taken meanwhile has none of it, and harms none."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(x):
        begun.set()
        await go.wait()
        return x

    with tg.Graph().as_default() as graph:
        array = tg.TensorArray("float32", 2).write(0, tg.constant(1.0))
        array = array.write(1, tg.py_function(wait, [2.0], "float32", output_shapes=[]))
        y = array.stack()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        step = asyncio.ensure_future(session.run(y))
        await begun.wait()
        path = await (await checkpointer.save(session, 1))
        assert json.loads((path / "manifest.json").read_text())["tensors"] == {}
        go.set()
        assert (await step).tolist() == [1.0, 2.0]


# ---- what does not fit


async def saved(directory, make, feed):
    with tg.Graph().as_default() as graph:
        put = make().enqueue_many(feed)
    async with tg.Session(graph) as session, Checkpointer(directory) as checkpointer:
        await session.run(put)
        return await (await checkpointer.save(session, 1))


OTHERS = {
    "another dtype": (lambda: tg.FIFOQueue(9, "int32", [[]], shared_name="q"), tg.DtypeError, "float32"),
    "another shape": (lambda: tg.FIFOQueue(9, "float32", [[3]], shared_name="q"), tg.OpError, "another shape"),
    "more components": (
        lambda: tg.FIFOQueue(9, ["float32"] * 2, [[], []], shared_name="q"),
        tg.GraphError,
        "2 components",
    ),
    "another order": (
        lambda: tg.RandomShuffleQueue(9, 0, "float32", [[]], shared_name="q", seed=1),
        tg.GraphError,
        "another order",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
async def test_a_queue_of_another_kind_is_refused_and_nothing_changes(tmp_path, what):
    make, error, text = OTHERS[what]
    await saved(tmp_path, lambda: tg.FIFOQueue(9, "float32", [[]], shared_name="q"), np.ones(3, np.float32))
    with tg.Graph().as_default() as graph:
        w = tg.Variable(1.0, name="w")
        size = make().size()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run([w.initializer, size])
        with pytest.raises(error, match=text):
            await checkpointer.restore(session, partial=True)
        assert await session.run([w, size]) == [1.0, 0]


HOSTILE = {
    "no dict": lambda state: [],
    "other keys": lambda state: {"dict": [["elements", []], ["closed", False], ["state", []]]},
    "no components": lambda state: _with(state, "components", []),
    "a text": lambda state: _with(state, "components", "rows"),
    "a component that is a number": lambda state: _with(state, "components", [3]),
    "a component of other keys": lambda state: _with(state, "components", [{"dict": [["lines", 3]]}]),
    "rows that are a number": lambda state: _with(state, "components", [{"dict": [["rows", 3]]}]),
    "draws of another order": lambda state: _with(state, "state", [7]),
    "draws that are a text": lambda state: _with(state, "state", "7"),
}


def _with(state, key, value):
    """Return JSON of a dict with another value."""
    return {"dict": [[name, value if name == key else each] for name, each in state["dict"]]}


@pytest.mark.parametrize("what", HOSTILE)
async def test_the_state_of_a_queue_is_not_believed(tmp_path, what):
    path = await saved(tmp_path, lambda: tg.FIFOQueue(9, "float32", [[]], shared_name="q"), np.ones(3, np.float32))
    manifest = json.loads((path / "manifest.json").read_text())
    state = manifest["resources"]["queues"]["q"]
    manifest["resources"]["queues"]["q"] = HOSTILE[what](state)
    (path / "manifest.json").write_text(json.dumps(manifest))
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(9, "float32", [[]], shared_name="q")
        put, size = queue.enqueue(5.0), queue.size()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(put)
        with pytest.raises(tg.TagloomError):
            await checkpointer.restore(session, path)
        assert int(await session.run(size)) == 1


BROKEN = {
    "too many values": ([3.0] * 5, [0, 1], [2]),
    "too few values": ([3.0] * 2, [0, 1], [2]),
    "a negative size": ([3.0], [1, 1], [-1, 2]),
    "a negative rank": ([3.0], [-1], []),
    "sizes of nobody": ([3.0], [0], [1]),
    "huge sizes": ([3.0], [3], [1 << 40, 1 << 40, 1 << 40]),
    "huge ranks": ([3.0], [1 << 62, 1 << 62], [1]),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_shapes_of_elements_are_held_against_their_values(what):
    values, ranks, shapes = BROKEN[what]
    column = {
        "values": np.array(values, np.float32),
        "ranks": np.array(ranks, np.int64),
        "shapes": np.array(shapes, np.int64),
    }
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(9, "float32", shared_name="q")
        put, size = queue.enqueue(5.0), queue.size()
    async with tg.Session(graph) as session:
        await session.run(put)
        with pytest.raises(tg.GraphError, match="does not fit"):
            await session.restore({"queues": {"q": {"components": [column], "closed": False, "state": []}}})
        assert int(await session.run(size)) == 1


@pytest.mark.parametrize(
    "state",
    [
        {"total": [np.ones(2, np.float64)], "count": 1, "step": 0},
        {"total": [np.ones(3, np.float32)], "count": 1, "step": 0},
        {"total": [], "count": 1, "step": 0},
        {"total": [np.ones(2, np.float32)], "count": 0, "step": 0},
        {"total": [np.ones(2, np.float32)], "count": "1", "step": 0},
        {"total": 3, "count": 1, "step": 0},
        {"total": [], "count": 0, "step": "x"},
        {"total": [], "count": -1, "step": 0},
        {"count": 1, "step": 0},
        3,
    ],
)
async def test_the_state_of_an_accumulator_is_not_believed(state):
    with tg.Graph().as_default() as graph:
        mean = tg.ConditionalAccumulator("float32", shape=[2], shared_name="a")
        put, count = mean.apply_grad([1.0, 1.0]), mean.num_accumulated()
    async with tg.Session(graph) as session:
        await session.run(put)
        with pytest.raises(tg.GraphError, match="does not fit"):
            await session.restore({"accumulators": {"a": state}})
        assert await session.run(count) == 1


async def test_names_of_many_arrays_are_found_at_once(tmp_path):
    """An object's state may have thousands of arrays of one name."""

    class Many:
        def state_dict(self):
            return [np.full(1, i, np.int32) for i in range(5000)]

        def load_state_dict(self, state):
            self.loaded = [int(each[0]) for each in state]

    graph, many = variables(w=np.float32(1)), Many()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        checkpointer.add("many", many)
        await session.run(graph.init)
        await (await checkpointer.save(session, 1))
        await checkpointer.restore(session)
    assert many.loaded == list(range(5000))

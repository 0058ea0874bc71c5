"""What waits in queues and their kin is in a checkpoint."""

import asyncio
import math

import numpy as np
import pytest
import tagloom as tg
from tagloom import data
from tagloom.compat import tf1
from tagloom.training import Checkpointer


def test_elements_of_all_kinds_are_saved_and_restored(tmp_path):
    async def main():
        with tg.Graph().as_default() as graph:
            queue = tg.PriorityQueue(9, "string", shapes=[[]])
            area, by_key = tf1.StagingArea("float32", [[2]]), tf1.MapStagingArea(["int32", "bool"], [[], []])
            barrier = tf1.Barrier(["int32", "float32"], shapes=[[], []])
            sums = tg.SparseConditionalAccumulator("float32")
            fill = [
                queue.enqueue_many([[2, 1], ["b", "a"]]),
                area.put([[1.0, 2.0]]),
                by_key.put(5, [7, True]),
                by_key.put(6, [8], [0]),
                barrier.insert_many(0, ["x", "y"], [1, 2]),
                barrier.insert_many(1, ["y"], [20.0]),
                sums.apply_grad([3], [[1.0]], [4, 1]),
            ]
            complete = [by_key.put(6, [False], [1]), barrier.insert_many(1, ["x"], [10.0])]
            take = {
                "queue": queue.dequeue_many(2)[1],
                "area": area.get()[0],
                "map": by_key.get(5)[1],
                "later": by_key.get(6)[1],
                "barrier": barrier.take_many(2)[1],
                "sums": sums.take_grad(1),
            }
        async with Checkpointer(tmp_path) as checkpointer:
            async with tg.Session(graph) as session:
                for each in fill:
                    await session.run(each)
                await (await checkpointer.save(session, 1))
            async with tg.Session(graph) as session:
                await checkpointer.restore(session)
                for each in complete:
                    await session.run(each)
                return await session.run(take)

    found = asyncio.run(main())
    assert found["queue"].tolist() == ["a", "b"]
    assert found["area"].tolist() == [1, 2]
    assert found["map"] == [7, True]
    assert found["later"] == [8, False]
    assert found["barrier"].tolist() == ["x", "y"]
    assert [np.asarray(each).tolist() for each in found["sums"]] == [[3], [[1.0]], [4, 1]]


DAMAGED = {
    "iterators": lambda state: {**state, "stage": "none"},
    "queues": lambda state: {**state, "components": state["components"] * 2},
    "accumulators": lambda state: {**state, "total": [np.zeros(3, np.float32)]},
    "barriers": lambda state: {**state, "next": [1]},
    "staging areas": lambda state: {**state, "components": 7},
    "map staging areas": lambda state: {**state, "whole": [(5, [0, 1], [np.float32(7), np.bool_(True)])]},
    "readers": lambda state: {**state, "start": None},
}
GONE = [(kind, lambda state: None) for kind in DAMAGED]
OTHERS = [
    ("barriers", lambda state: {**state, "incomplete": [("y", 1, 1, [True], [np.float32(0)])]}),
    ("barriers", lambda state: {**state, "next": [math.inf, 0]}),
    ("map staging areas", lambda state: {**state, "incomplete": [(1, [7], [np.bool_(True)])]}),
    ("map staging areas", lambda state: {**state, "whole": [(5, [1], [np.bool_(True)])]}),
]


@pytest.mark.parametrize(("kind", "damaged"), [*DAMAGED.items(), *GONE, *OTHERS])
async def test_a_state_that_does_not_fit_is_seen_before_anything_changes(tmp_path, kind, damaged):
    """In a session that has run no step too, in which nobody has asked for the queue."""
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    with tg.Graph().as_default() as graph:
        w = tg.Variable([1.0], name="w")
        names, reader = tg.FIFOQueue(2, "string", shapes=[[]]), tf1.TextLineReader(shared_name="readers 1")
        queue = tg.FIFOQueue(9, "int32", shapes=[[]], shared_name="queues 1")
        sums = tg.ConditionalAccumulator("float32", [2], shared_name="accumulators 1")
        area = tf1.StagingArea("int32", [[]], shared_name="staging areas 1")
        by_key = tf1.MapStagingArea(["int32", "bool"], [[], []], shared_name="map staging areas 1")
        barrier = tf1.Barrier("int32", shapes=[[]], shared_name="barriers 1")
        element = data.from_arrays(np.arange(5)).batch(2).next("iterators 1")
        fill = [names.enqueue(str(tmp_path / "lines")), queue.enqueue(1), sums.apply_grad([1.0, 2.0])]
        fill += [area.put([3]), by_key.put(5, [7, True]), barrier.insert_many(0, ["x"], [1])]
        sizes = [queue.size(), sums.num_accumulated(), area.size(), by_key.size(), barrier.ready_size()]
        read, change = reader.read(names)[1], w.assign([2.0])
    async with tg.Session(graph) as session:
        for each in (w.initializer, *fill, element, read):
            await session.run(each)
        good = await session.snapshot()
    name = f"{kind} 1"
    bad = {**good, kind: {**good[kind], name: damaged(good[kind][name])}}
    async with tg.Session(graph) as session:
        await session.run(change)
        with pytest.raises(tg.GraphError, match=name):
            await session.restore(bad)
        assert await session.run(w) == [2]
        await session.restore(good)
        assert await session.run(w) == [1]
        assert await session.run(sizes) == [1, 1, 1, 1, 1]
        assert (await session.run(element)).tolist() == [2, 3]
        assert await session.run(read) == "two"


async def test_a_runner_that_saves_is_tried_again_where_training_waits_for_data(tmp_path):
    with tg.Graph().as_default() as graph:
        queue, x = tg.FIFOQueue(2, "float32", shapes=[[]]), tg.placeholder("float32", [])
        put, close = queue.enqueue(x), queue.close()
        w = tg.Variable(0.0, name="w")
        train = w.assign_add(queue.dequeue())
        init = w.initializer
    async with (
        tg.Session(graph) as session,
        Checkpointer(tmp_path, consistent=True, wait_seconds=0.001) as checkpointer,
    ):
        await session.run(init)

        async def save():
            await (await checkpointer.save(session, training.steps))

        async with tg.runners(session) as group:
            training = group.add(train)
            saving = group.add(save, restarts=math.inf, backoff=0, until=lambda: training.has_ended)
            while saving.statistics().restarts < 3:
                await asyncio.sleep(0)
            assert "did not end within 0.001 s" in saving.statistics().last_error
            assert not checkpointer.checkpoints()
            puts = 0
            while not checkpointer.checkpoints():  # some step ends while the saver waits, and not between two tries
                await session.run(put, {x: 2.0})
                puts += 1
                await asyncio.sleep(0)
            await session.run(close)
        assert (training.steps, training.state, saving.state) == (puts, "ended", "ended")

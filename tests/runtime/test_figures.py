"""What queues, accumulators and others beside a session's steps add to its statistics."""

import asyncio
import gc
from dataclasses import dataclass, replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.settings import DEFAULTS
from tagloom.compat import tf1

KINDS = {
    "ring": lambda: tg.FIFOQueue(8, "int32", shapes=[[]], shared_name="q"),
    "bytes": lambda: tg.FIFOQueue(-1, "int32", shapes=[[]], shared_name="q", capacity_bytes=32),
    "padding": lambda: tg.PaddingFIFOQueue(8, "int32", shapes=[[]], shared_name="q"),
    "shuffle": lambda: tg.RandomShuffleQueue(8, 0, "int32", shapes=[[]], shared_name="q", seed=1),
}


class Queue:
    """A queue of one kind in a graph, and steps on it."""

    def __init__(self, kind):
        with tg.Graph().as_default() as self.graph:
            queue = KINDS[kind]()
            self.x = tg.placeholder("int32", [])
            self.xs = tg.placeholder("int32", [None])
            self.put, self.put_many = queue.enqueue(self.x), queue.enqueue_many(self.xs)
            self.take, self.take_many, self.up_to = queue.dequeue(), queue.dequeue_many(3), queue.dequeue_up_to(3)
            self.close = queue.close()


def figures(session):
    return session.statistics().queues["q"]


async def rest():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_goes_in_and_out_is_counted(kind, native, executor):
    """By kernels in C and in Python, one at a time, in batches, and for those who had to wait."""
    queue = Queue(kind)
    async with tg.Session(queue.graph, executor=executor, settings=replace(DEFAULTS, native=native)) as session:
        assert session.statistics().queues == {}, "no step has used it yet"
        await session.run(queue.put, {queue.x: 1})
        await session.run(queue.put_many, {queue.xs: [2, 3, 4]})
        found = figures(session)
        assert (found.size, found.bytes, found.enqueued, found.dequeued, found.closed) == (4, 16, 4, 0, False)
        assert (found.capacity, found.capacity_bytes) == ((None, 32) if kind == "bytes" else (8, None))
        await session.run(queue.take)
        await session.run(queue.take_many)
        assert (figures(session).enqueued, figures(session).dequeued, figures(session).size) == (4, 4, 0)
        takers = [asyncio.ensure_future(session.run(each)) for each in (queue.take, queue.take_many, queue.take)]
        await rest()
        assert (figures(session).waiting_takers, figures(session).waiting_putters) == (3, 0)
        takers[2].cancel()
        await asyncio.wait([takers[2]])
        assert figures(session).waiting_takers == 2
        for i in range(4):
            await session.run(queue.put, {queue.x: i})
        await asyncio.gather(*takers[:2])
        assert (figures(session).enqueued, figures(session).dequeued) == (8, 8)
        await session.run(queue.put_many, {queue.xs: range(6)})
        putter = asyncio.ensure_future(session.run(queue.put_many, {queue.xs: range(5)}))
        await rest()
        found = figures(session)
        assert (found.size, found.waiting_putters, found.enqueued) == (8, 1, 16)
        await session.run(queue.take_many)
        await putter
        found = figures(session)
        assert (found.size, found.enqueued, found.dequeued, found.waiting_putters) == (8, 19, 11, 0)
        await session.run(queue.close)
        await session.run(queue.take_many)
        await session.run(queue.take_many)
        await session.run(queue.up_to)
        found = figures(session)
        assert (found.size, found.bytes, found.enqueued, found.dequeued, found.closed) == (0, 0, 19, 19, True)
        saved = await session.snapshot()
    assert session.statistics().queues == {}, "it went with its session"
    assert saved["queues"]["q"]["closed"]


async def test_elements_that_a_step_takes_in_a_loop_are_counted():
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(4, "float32", shapes=[[3]], shared_name="q")

        def body(i, total):
            with tg.control_dependencies([queue.enqueue(tg.fill([3], tg.cast(i, "float32")))]):
                return i + 1, total + tg.reduce_sum(queue.dequeue())

        total = tg.while_loop(lambda i, _: i < 50, body, [0, 0.0], parallel_iterations=1)[1]
    async with tg.Session(graph) as session:
        assert await session.run(total) == 3 * sum(range(50))
        found = figures(session)
        assert (found.enqueued, found.dequeued, found.size, found.bytes) == (50, 50, 0, 0)


async def test_a_batch_that_is_given_up_has_taken_nothing():
    queue = Queue("ring")
    async with tg.Session(queue.graph) as session:
        await session.run(queue.put_many, {queue.xs: [1, 2]})
        with pytest.raises(tg.StepTimeout):
            await session.run(queue.take_many, timeout=0.01)
        assert (figures(session).dequeued, figures(session).size) == (0, 2)


async def test_what_is_restored_was_not_put_in():
    queue = Queue("ring")
    async with tg.Session(queue.graph) as session:
        await session.run(queue.put_many, {queue.xs: [1, 2]})
        saved = await session.snapshot()
        await session.run(queue.take)
        await session.restore(saved)
        found = figures(session)
        assert (found.size, found.enqueued, found.dequeued) == (2, 2, 1)


async def test_a_queue_by_priority():
    with tg.Graph().as_default() as graph:
        queue = tg.PriorityQueue(4, ["float32"], shapes=[[]], shared_name="q")
        put, take = queue.enqueue((tg.constant(3, "int64"), 1.0)), queue.dequeue()
    async with tg.Session(graph) as session:
        await session.run(put)
        await session.run(put)
        await session.run(take)
        found = figures(session)
        assert (found.size, found.bytes, found.enqueued, found.dequeued) == (1, 12, 2, 1)


async def test_accumulators_are_counted(executor):
    with tg.Graph().as_default() as graph:
        mean = tg.ConditionalAccumulator("float32", shape=[2], shared_name="a")
        step = tg.placeholder("int64", [])
        put, take = mean.apply_grad([1.0, 2.0], local_step=step), mean.take_grad(2)
    async with tg.Session(graph, executor=executor) as session:
        waiting = asyncio.ensure_future(session.run(take))
        await rest()
        assert session.statistics().accumulators["a"].waiting_takers == 1
        await session.run(put, {step: 0})
        found = session.statistics().accumulators["a"]
        assert (found.count, found.bytes, found.step, found.applied) == (1, 8, 0, 1)
        await session.run(put, {step: 0})
        await waiting
        await session.run(put, {step: 0})
        found = session.statistics().accumulators["a"]
        assert (found.count, found.bytes, found.step, found.waiting_takers) == (0, 0, 1, 0)
        assert (found.applied, found.dropped, found.taken) == (2, 1, 1)


async def test_staging_areas_and_barriers_are_counted():
    with tg.Graph().as_default() as graph:
        area = tf1.StagingArea("int32", shapes=[[]], shared_name="s", capacity=3)
        stage, unstage = area.put([1]), area.get()
        by_key = tf1.MapStagingArea(["int32", "int32"], shapes=[[], []], shared_name="m", capacity=4)
        whole, part = by_key.put(1, [1, 2]), by_key.put(2, [1], indices=[0])
        waits = by_key.get(3)
        barrier = tf1.Barrier(["int32", "int32"], shapes=[[], []], shared_name="b")
        first, second = barrier.insert_many(0, ["a", "b"], [1, 2]), barrier.insert_many(1, ["b"], [3])
        more, close = barrier.take_many(2), barrier.close()
    async with tg.Session(graph) as session:
        for each in (stage, stage, unstage, whole, part, first, second):
            await session.run(each)
        waiting = [asyncio.ensure_future(session.run(each)) for each in (waits, more)]
        await rest()
        found = session.statistics().figures
        staged = found["staging areas"]["s"]
        assert (staged.size, staged.capacity, staged.bytes, staged.enqueued, staged.dequeued) == (1, 3, 4, 2, 1)
        keyed = found["map staging areas"]["m"]
        assert (keyed.size, keyed.incomplete, keyed.capacity, keyed.capacity_bytes) == (1, 1, 4, None)
        assert (keyed.bytes, keyed.waiting_putters, keyed.waiting_takers, keyed.closed) == (12, 0, 1, False)
        keyed = found["barriers"]["b"]
        assert (keyed.size, keyed.incomplete, keyed.waiting_takers, keyed.closed) == (1, 1, 1, False)
        await session.run(close)
        assert session.statistics().figures["barriers"]["b"].closed
        text = tg.monitoring.prometheus_text(session)
        assert 'tagloom_staging_area_size{area="s"} 1\n' in text
        assert 'tagloom_map_staging_area_incomplete{area="m"} 1\n' in text
        assert 'tagloom_barrier_waiting{barrier="b",side="take"} 1\n' in text
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


async def test_figures_of_a_session_are_its_own():
    queue = Queue("ring")
    async with tg.Session(queue.graph) as one, tg.Session(queue.graph) as other:
        await one.run(queue.put, {queue.x: 1})
        assert figures(one).size == 1
        assert other.statistics().queues == {}


# ---- what is included


@dataclass(frozen=True)
class Count:
    count: int


class Pipeline:
    def __init__(self, count):
        self.count = count

    def statistics(self):
        return Count(self.count)


async def test_others_are_included_as_long_as_they_live(graph):
    async with tg.Session(graph) as session:
        first, second = Pipeline(1), Pipeline(2)
        for _ in range(2):
            session.include_statistics("pipelines", "digits", first)
        session.include_statistics("pipelines", "digits", second)
        assert session.statistics().figures == {"pipelines": {"digits": Count(1), "digits (2)": Count(2)}}
        del first
        gc.collect()
        assert session.statistics().figures == {"pipelines": {"digits": Count(2)}}
        del second
        gc.collect()
        assert session.statistics().figures == {}


async def test_what_is_included_stands_beside_resources_of_its_kind():
    queue = Queue("ring")
    async with tg.Session(queue.graph) as session:
        await session.run(queue.put, {queue.x: 1})
        other = Pipeline(3)
        session.include_statistics("queues", "q", other)
        found = session.statistics().queues
        assert (found["q"].size, found["q (2)"]) == (1, Count(3))


async def test_what_was_swapped_is_told():
    """Looked at between a loop and its gradient, which wants what the loop has saved."""
    seen = []

    def look(gradient, _):
        seen.append(session.statistics().swapped_bytes)
        return gradient

    @tg.custom_gradient
    def looked_at(x):
        return tg.identity(x), lambda g: tg.py_function(look, [g, x], "float32", output_shapes=[16384])

    with tg.Graph().as_default() as graph:
        x = tg.ones([16384])
        _, y = tg.while_loop(lambda i, a: i < 40, lambda i, a: (i + 1, tg.sin(a)), [0, x], swap_memory=True)
        (g,) = tg.gradients(looked_at(y), [x])
    async with tg.Session(graph, memory_limit="1MiB") as session:
        assert session.statistics().swapped_bytes == {}
        await session.run(g)
        assert session.statistics().swapped_bytes["host"] == 0
    (found,) = seen
    assert found["host"] > 1 << 20


async def test_checkpoints_are_told(tmp_path):
    with tg.Graph().as_default() as graph:
        w = tg.Variable(np.zeros(100, np.float32), name="w")
    async with tg.Session(graph) as session, tg.training.Checkpointer(tmp_path) as checkpointer:
        await session.run(w.initializer)
        assert session.statistics().checkpoints == {}
        saving = await checkpointer.save(session, 7)
        await saving
        found = session.statistics().checkpoints[str(tmp_path)]
        assert (found.written, found.failed, found.last_step, found.last_bytes) == (1, 0, 7, 400)
        assert (found.written_bytes, found.writing_step, found.restored, found.last_error) == (400, None, 0, None)
        assert found.written_seconds == found.last_seconds > 0
        await checkpointer.restore(session)
        assert session.statistics().checkpoints[str(tmp_path)].restored == 1

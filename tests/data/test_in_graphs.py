"""Elements of pipelines as operations of a graph."""

import asyncio
import pickle
from collections.abc import Awaitable

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer

from tests.data.running import plain

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])
NUMBERS = tg.data.from_arrays(np.arange(10))


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


@EXECUTORS
async def test_structures_dtypes_and_shapes(executor):
    data = tg.data.from_arrays({"x": np.ones([3, 2], np.float32), "y": (np.arange(3), np.array(["a", "b", "c"]))})
    with tg.Graph().as_default() as graph:
        element = data.next()
        assert [str(t.shape) for t in (element["x"], *element["y"])] == ["[2]", "[]", "[]"]
        fetches = {"sum": tg.reduce_sum(element["x"]), "y": element["y"]}
    async with tg.Session(graph, executor=executor) as session:
        found = [plain(await session.run(fetches)) for _ in range(3)]
    assert found == [{"sum": 2, "y": (i, c)} for i, c in enumerate("abc")]


@EXECUTORS
async def test_the_end_is_that_of_a_closed_queue(executor):
    with tg.Graph().as_default() as graph:
        x = NUMBERS.take(1).next(name="numbers")
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(x) == 0
        for _ in range(2):
            with pytest.raises(tg.QueueClosed, match="numbers has no element left") as caught:
                await session.run(x)
            assert caught.value.operation.type == "IteratorGetNext"
            assert "test_in_graphs.py" in str(caught.value)


@EXECUTORS
async def test_a_step_that_waits_does_not_hold_others_and_loses_nothing(executor):
    gate = asyncio.Event()

    async def gated():
        await gate.wait()
        for i in range(3):
            yield i

    with tg.Graph().as_default() as graph:
        x = tg.data.from_async(gated, output=tg.TensorSpec([], "int32")).next()
        two = tg.constant(1) + 1
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.StepTimeout):
            await session.run(x, timeout=0.01)
        waits = []
        for _ in range(3):
            waits.append(asyncio.create_task(session.run(x)))
            await settle()
        assert await session.run(two) == 2
        waits[0].cancel()
        await settle()
        gate.set()
        assert [int(value) for value in await asyncio.gather(*waits[1:])] == [0, 1]
        assert await session.run(x) == 2


async def test_closing_the_session_ends_who_waits_and_all_tasks():
    closed = []

    async def never():
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            closed.append(1)

    with tg.Graph().as_default() as graph:
        x = tg.data.from_async(never, output=tg.TensorSpec([], "int32")).prefetch(2).next()
    before = asyncio.all_tasks()
    async with tg.Session(graph) as session:
        waiting = asyncio.create_task(session.run(x))
        await settle()
    (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(outcome, tg.SessionClosed)
    assert asyncio.all_tasks() == before
    assert closed == [1]


async def test_an_element_that_does_not_fit_names_itself_and_the_operation():
    data = tg.data.from_iterable([1, "two", 3], output=tg.TensorSpec([], "int32"))
    with tg.Graph().as_default() as graph:
        x = data.next()
    async with tg.Session(graph) as session:
        assert await session.run(x) == 1
        with pytest.raises(tg.PipelineError, match="another dtype") as caught:
            await session.run(x)
        assert (caught.value.element, caught.value.origin) == (1, "element 1 of the source")
        assert caught.value.operation.name == "iterator/next"
        assert await session.run(x) == 3


def test_a_spec_must_be_known():
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="dtypes and shapes"):
        tg.data.from_iterable([1]).next()


async def test_two_calls_have_an_iterator_each_unless_they_share_a_name():
    data = NUMBERS.map(int, output=tg.TensorSpec([], "int64"))
    with tg.Graph().as_default() as graph:
        a, b = data.next(), data.next()
        c, d = data.next("shared"), data.next("shared")
        other = NUMBERS.next("shared")
    async with tg.Session(graph) as session:
        assert [int(each) for each in await session.run([a, b])] == [0, 0]
        assert sorted(int(each) for each in await session.run([c, d])) == [0, 1]
        with pytest.raises(tg.OpError, match="shared by what differs"):
            await session.run(other)


def test_two_sessions_in_two_loops_have_iterators_of_their_own():
    with tg.Graph().as_default() as graph:
        x = NUMBERS.next()

    async def main(count):
        async with tg.Session(graph) as one, tg.Session(graph) as other:
            return [int(await one.run(x)) for _ in range(count)], int(await other.run(x))

    assert asyncio.run(main(3)) == ([0, 1, 2], 0)
    assert asyncio.run(main(2)) == ([0, 1], 0)


@EXECUTORS
async def test_a_loop_takes_an_element_in_each_iteration(executor):
    with tg.Graph().as_default() as graph:
        handle = NUMBERS.repeat()
        total = tg.while_loop(lambda i, s: i < 25, lambda i, s: (i + 1, s + handle.next("it")), [0, np.int64(0)])[1]
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(total) == sum(i % 10 for i in range(25))


def model():
    """Return a graph that adds up shuffled batches, and its fetches."""
    data = (
        tg.data.from_arrays(np.arange(12, dtype=np.float32))
        .shuffle(12, seed=3)
        .repeat()
        .map(lambda x, rng: np.float32(x + rng.random()), seed=4, output=tg.TensorSpec([]))
    )
    with tg.Graph().as_default() as graph:
        x = data.batch(5).prefetch(3).next()
        total = tg.Variable(0.0, name="total")
        update = total.assign_add(tg.reduce_sum(tg.dropout(x, 0.5)) / 7.0)
    return graph, total, update


async def train(directory, steps, every=4):
    graph, total, update = model()
    async with Checkpointer(directory, every_steps=every) as checkpointer, tg.Session(graph) as session:
        await session.run(total.initializer)
        restored = await checkpointer.restore(session)
        found = []
        for step in range(restored.step if restored else 0, steps):
            found.append(float(await session.run(update)))
            await checkpointer.save_if_due(session, step + 1)
        return found


async def test_a_run_that_is_resumed_goes_on_bit_for_bit(tmp_path):
    wanted = await train(tmp_path / "whole", 14)
    begin = await train(tmp_path / "parts", 10)
    rest = await train(tmp_path / "parts", 14)
    assert wanted == begin[:8] + rest
    assert len(rest) == 6


async def test_a_snapshot_is_restored_into_the_same_session():
    with tg.Graph().as_default() as graph:
        x = NUMBERS.shuffle(10, seed=1).repeat().batch(3).prefetch(2).next(name="batches")
    before = asyncio.all_tasks()
    async with tg.Session(graph) as session:
        await session.run(x)
        saved = await session.snapshot()
        assert list(saved["iterators"]) == ["batches"]
        wanted = [(await session.run(x)).tolist() for _ in range(6)]
        for _ in range(2):
            await session.restore(saved)
            assert [(await session.run(x)).tolist() for _ in range(6)] == wanted
    assert asyncio.all_tasks() == before


async def test_an_iterator_outside_of_the_graph_is_saved_beside_the_session(tmp_path):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("int64", [])
        double = 2 * x

    async def go(count):
        data = NUMBERS.shuffle(5, seed=1).repeat()
        async with data.iterator() as iterator, Checkpointer(tmp_path) as checkpointer, tg.Session(graph) as session:
            checkpointer.add("data", iterator)
            restored = await checkpointer.restore(session)
            found = [int(await session.run(double, {x: await iterator.next()})) for _ in range(count)]
            await (await checkpointer.save(session, (restored.step if restored else 0) + count))
            return found

    parts = await go(7) + await go(9)
    async with NUMBERS.shuffle(5, seed=1).repeat().iterator() as iterator:
        assert parts == [2 * int(await iterator.next()) for _ in range(16)]


async def test_arrays_of_elements_count_as_memory_of_the_session():
    data = tg.data.from_iterable(lambda: (np.zeros(1 << 16) for _ in range(3)), output=tg.TensorSpec([None], "float64"))
    with tg.Graph().as_default() as graph:
        x = data.next()
        y = tg.reduce_sum(x + 1.0)
    async with tg.Session(graph, memory_limit="64KiB") as session:
        with pytest.raises(tg.DeviceMemoryError):
            await session.run(y)


def test_graphs_with_pipelines_are_printed_and_pickled():
    with tg.Graph().as_default() as graph:
        x = NUMBERS.shuffle(10, seed=1).next()
    assert "iterator/handle = IteratorHandle() dataset=<object Sources>" in graph.to_text()
    again = pickle.loads(pickle.dumps(graph))
    with tg.SyncSession(graph) as one, tg.SyncSession(again) as other:
        assert [int(one.run(x)) for _ in range(3)] == [int(other.run(x.name)) for _ in range(3)]


@EXECUTORS
@pytest.mark.parametrize("is_there", [True, False])
async def test_what_a_step_fetches_that_ends_early_comes_back_in_order(executor, is_there):
    async def numbers():
        for i in range(200):
            await asyncio.sleep(0)
            yield i

    source = tg.data.from_arrays(np.arange(200, dtype=np.int32))
    with tg.Graph().as_default() as graph:
        x = (source if is_there else tg.data.from_async(numbers, output=tg.TensorSpec([], "int32"))).next()
    found = []
    async with tg.Session(graph, executor=executor) as session:
        for turns in range(16):
            steps = [asyncio.create_task(session.run(x)) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for step in steps:
                step.cancel()
            await asyncio.wait(steps)
            found += [int(step.result()) for step in steps if not step.cancelled()]
        found += [int(await session.run(x)) for _ in range(20)]
    assert found == list(range(len(found)))


async def _awaited(result):
    return await result if isinstance(result, Awaitable) else result


async def test_what_comes_back_is_in_the_state_and_in_front():
    async with NUMBERS.iterator() as iterator:
        loans = [await _awaited(iterator.take_loan("test")) for _ in range(2)]
        iterator.put_back(loans[1])
        iterator.put_back(loans[0])
        state = iterator.state()
        assert await iterator.next() == 0
        iterator.restore(state)
        iterator.put_back(loans[0])  # which is of another state
        assert [int(x) async for x in iterator] == list(range(10))
        assert state["delivered"] == 0

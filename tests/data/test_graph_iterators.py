"""Iterators of a graph that begin again."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


def shuffled(count=8, seed=1):
    return tg.data.from_arrays(np.arange(count)).shuffle(count, seed=seed)


async def rest(session, x):
    found = []
    while True:
        try:
            found.append(int(await session.run(x)))
        except tg.QueueClosed:
            return found


@EXECUTORS
async def test_epochs_in_one_session(executor):
    with tg.Graph().as_default() as graph:
        iterator = shuffled().graph_iterator()
        x = iterator.next()
    async with tg.Session(graph, executor=executor) as session:
        epochs = [await rest(session, x)]
        for _ in range(2):
            await session.run(iterator.reset)
            epochs.append(await rest(session, x))
        with pytest.raises(tg.QueueClosed):
            await session.run(x)
    assert [sorted(epoch) for epoch in epochs] == [list(range(8))] * 3
    assert len(set(map(tuple, epochs))) == 3
    async with tg.Session(graph, executor=executor) as session:
        assert await rest(session, x) == epochs[0]


@EXECUTORS
async def test_training_and_validation_in_one_graph(executor):
    validation = tg.data.from_arrays(np.arange(100, 103))
    with tg.Graph().as_default() as graph:
        iterator = shuffled().graph_iterator()
        x = iterator.next() + 0
        validate = iterator.begin(validation)
        assert iterator.reset is iterator.reset
    async with tg.Session(graph, executor=executor) as session:
        orders = []
        for _ in range(2):
            await session.run(iterator.reset)
            orders.append(await rest(session, x))
            await session.run(validate)
            assert await rest(session, x) == [100, 101, 102]
    async with tg.Session(graph, executor=executor) as session:
        for order in orders:  # by iterations over its own Dataset alone
            await session.run(iterator.reset)
            assert await rest(session, x) == order


async def test_resetting_before_the_end_drops_what_is_left_and_closes_it():
    closed = []

    def source():
        try:
            yield from range(1000)
        finally:
            closed.append(1)

    with tg.Graph().as_default() as graph:
        iterator = tg.data.from_iterable(source, output=tg.TensorSpec([], "int64")).prefetch(2).graph_iterator()
        x = iterator.next()
    async with tg.Session(graph) as session:
        assert [int(await session.run(x)) for _ in range(3)] == [0, 1, 2]
        await session.run(iterator.reset)
        assert [int(await session.run(x)) for _ in range(3)] == [0, 1, 2]
    assert closed == [1, 1]


async def test_who_waits_gets_an_element_of_the_new_iteration():
    gate, begun = asyncio.Event(), []

    async def source():
        begun.append(1)
        if len(begun) == 1:
            await gate.wait()
        yield len(begun)

    with tg.Graph().as_default() as graph:
        iterator = tg.data.from_async(source, output=tg.TensorSpec([], "int64")).graph_iterator()
        x = iterator.next()
    async with tg.Session(graph) as session:
        waiting = asyncio.create_task(session.run(x))
        while not begun:
            await asyncio.sleep(0)
        await session.run(iterator.reset)
        assert await waiting == 2


@pytest.mark.parametrize("consumed", [0, 3, 8])
async def test_a_checkpoint_has_the_iteration_and_the_dataset(tmp_path, consumed):
    def build():
        with tg.Graph().as_default() as graph:
            iterator = shuffled().graph_iterator()
            x = iterator.next()
            return graph, x, iterator.begin(shuffled(6, seed=2)), iterator.reset

    graph, x, validate, reset = build()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await rest(session, x)
        await session.run(validate)
        await session.run(validate)
        for _ in range(min(consumed, 6)):
            await session.run(x)
        await (await checkpointer.save(session, 1))
        wanted = [await rest(session, x)]
        for operation in (reset, validate):
            await session.run(operation)
            wanted.append(await rest(session, x))
    graph, x, validate, reset = build()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await checkpointer.restore(session)
        found = [await rest(session, x)]
        for operation in (reset, validate):
            await session.run(operation)
            found.append(await rest(session, x))
    assert found == wanted


async def test_a_state_of_a_dataset_that_the_graph_lacks_is_refused():
    with tg.Graph().as_default() as graph:
        iterator = shuffled().graph_iterator(name="data")
        x, validate = iterator.next(), iterator.begin(shuffled(6))
    async with tg.Session(graph) as session:
        await session.run(validate)
        await session.run(x)
        saved = await session.snapshot()
    with tg.Graph().as_default() as graph:
        x = shuffled().graph_iterator(name="data").next()
    async with tg.Session(graph) as session:
        await session.run(x)
        with pytest.raises(tg.GraphError, match="of a Dataset that the graph does not have"):
            await session.restore(saved)


async def test_iterators_of_one_shared_name_are_one():
    data = shuffled()
    with tg.Graph().as_default() as graph:
        one, other = data.graph_iterator("shared"), data.graph_iterator("shared")
        x, y, plain = one.next(), other.next(), data.next("shared")
    async with tg.Session(graph) as session:
        found = [int(await session.run(each)) for each in (x, y, plain)]
        assert sorted(found + await rest(session, x)) == list(range(8))
        await session.run(other.reset)
        assert sorted(await rest(session, y)) == list(range(8))


def test_another_spec_is_refused():
    with tg.Graph().as_default():
        iterator = shuffled().graph_iterator()
        with pytest.raises(tg.GraphError, match="one element_spec"):
            iterator.begin(tg.data.from_arrays(np.zeros(3)))
        with pytest.raises(tg.GraphError, match="one element_spec"):
            iterator.begin([1, 2])
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="dtypes and shapes"):
        tg.data.from_iterable([1]).graph_iterator()

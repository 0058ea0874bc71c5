"""Compiling beside the event loop, and what the log says of it."""

import asyncio
import logging

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task


async def test_a_step_is_compiled_in_a_thread(graph, executor, caplog):
    x = tg.placeholder("float32", [4], name="x")
    y = x
    for _ in range(2000):
        y = tg.sin(y) * x
    async with tg.Session(graph, executor=executor) as session:
        with caplog.at_level(logging.DEBUG, "tagloom"):
            compiling = asyncio.ensure_future(session.compile(y, feeds=[x]))
            turns = 0
            while not compiling.done():
                await asyncio.sleep(0)
                turns += 1
            step = await compiling
        assert turns > 2
        assert session.statistics().cached_steps == 1
        np.testing.assert_array_equal(await step(np.zeros(4, np.float32)), np.zeros(4))
        assert await session.compile(y, feeds=["x:0"]) is not step
        assert session.statistics().cached_steps == 1
        assert only_this_task()
    assert f"compiled {y.name} in " in caplog.text
    assert "operations" in caplog.text


async def test_every_compilation_is_logged(graph, caplog):
    x = tg.placeholder("float32", [], name="x")
    async with tg.Session(graph) as session:
        with caplog.at_level(logging.DEBUG, "tagloom"):
            for _ in range(3):
                await session.run(x + 1.0, {x: 1.0})
                await session.run(x, {x: 1.0})
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 4


async def test_errors_of_the_thread_name_the_callers_line(graph):
    x = tg.placeholder("float32", [], name="x")
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match="you must feed a value for placeholder x") as caught:
            await session.compile(x * 2.0)
        assert caught.value.operation is x.op
        assert caught.value.source.file == __file__
    with pytest.raises(tg.SessionClosed):
        await session.compile(x)


async def test_a_session_closed_meanwhile_keeps_nothing(graph):
    x = tg.placeholder("float32", [4], name="x")
    y = x
    for _ in range(1000):
        y = tg.sin(y) * x
    session = tg.Session(graph)
    compiling = asyncio.ensure_future(session.compile(y, feeds=[x]))
    await asyncio.sleep(0)
    await session.aclose()
    with pytest.raises(tg.SessionClosed):
        await compiling
    assert session.statistics().cached_steps == 0


async def test_a_program_that_builds_between_its_steps_is_told_once(graph, caplog):
    x = tg.placeholder("float32", [], name="x")
    async with tg.Session(graph) as session:
        with caplog.at_level(logging.WARNING, "tagloom"):
            for k in range(40):  # at first without any step between
                session.make_step(x + float(k), [x])
            for _ in range(40):
                await session.run(x, {x: 1.0})
            assert not caplog.records
            for k in range(80):
                await session.run(x * float(k), {x: 1.0})
    (record,) = caplog.records
    assert "32 times" in record.message
    assert "graph.finalize()" in record.message


async def test_a_finalized_graph(graph, executor):
    x = tg.placeholder("float32", [None], name="x")
    w = tg.Variable(2.0, name="w")
    y = tg.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * w), [0, x])[1]
    (slope,) = tg.gradients(y, [x])
    initialize = tg.global_variables_initializer()
    graph.finalize()
    async with tg.Session(graph, executor=executor) as session:
        await session.run(initialize)
        for _ in range(3):  # specialized for the shape meanwhile, in copies of the graph
            assert (await session.run([y, slope, w], {x: [1.0]}))[:2] == [8.0, 8.0]
        before = graph.to_text()
        for build in (
            lambda: y + 1.0,
            lambda: tg.constant(1.0),
            lambda: tg.gradients(y, [w]),
            lambda: tg.cond(w > 0.0, lambda: 1, lambda: 2),
            lambda: tg.Variable(1.0),
            lambda: y.op.update_input(0, x),
        ):
            with pytest.raises(tg.GraphError, match="is finalized") as caught:
                build()
            assert caught.value.source.file == __file__
        assert graph.to_text() == before
        assert graph.finalized
        assert (await session.run(y, {x: [2.0]})).tolist() == [16.0]

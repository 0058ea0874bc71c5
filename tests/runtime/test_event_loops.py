"""Sessions on asyncio, on uvloop, on several loops one after the other and at once."""

import asyncio
import threading

import pytest
import tagloom as tg
import uvloop

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def program():
    """A graph whose step computes, waits in a loop, and updates a variable."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [], name="x")

        async def wait(value):
            await asyncio.sleep(0)
            return value

        def body(i, a):
            return i + 1, tg.py_function(wait, [a + x], "float32", output_shapes=[])

        _, result = tg.while_loop(lambda i, a: i < 5, body, [0, 0.0])
        w = tg.Variable(0.0, name="w")
        tg.identity(result, name="result")
        w.assign_add(result, name="update")
    return graph


async def train(session, steps):
    await session.write_variables({"w": 0.0})
    step = session.make_step(["result:0", "update"], ["x:0"])
    results = await asyncio.gather(*(step(float(k)) for k in range(steps)))
    assert [float(value) for value, _ in results] == [5.0 * k for k in range(steps)]
    assert (await session.read_variables())["w"] == 5.0 * sum(range(steps))


@pytest.mark.parametrize("factory", LOOPS)
def test_a_session_on_each_kind_of_loop(factory, executor):
    async def main():
        async with tg.Session(program(), executor=executor) as session:
            await train(session, 8)
            with pytest.raises(tg.StepTimeout):
                await session.run("result:0", feeds={"x:0": 1.0}, timeout=0.0)
            await train(session, 3)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


def test_one_session_on_one_loop_after_another(executor):
    session = tg.Session(program(), executor=executor)
    for factory in LOOPS * 2:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(train(session, 4))
    asyncio.run(session.aclose())


def test_a_loop_that_ended_in_the_middle_of_a_slice_holds_nobody_up():
    """What the session knows of one loop's turn must not be believed on the next loop."""
    with tg.Graph().as_default() as graph:
        value = tg.constant(1.0) + 1.0
    session = tg.Session(graph, settings=tg.Settings(drain_seconds=0.0))
    for _ in range(3):
        loop = asyncio.new_event_loop()
        for _ in range(3):
            assert loop.run_until_complete(asyncio.wait_for(session.run(value), 20)) == 2.0
        loop.close()
    asyncio.run(session.aclose())


def test_sessions_in_several_threads_at_once():
    graph, failures = program(), []

    async def main():
        async with tg.Session(graph) as session:
            for _ in range(5):
                await train(session, 5)

    def thread(factory):
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(main())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=thread, args=[factory]) for factory in LOOPS * 2]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failures


def test_leaving_asyncio_run_with_a_step_running_does_not_hang(executor):
    """asyncio.run cancels what is left, steps and their tasks alike."""
    ended = []

    async def main():
        with tg.Graph().as_default() as graph:

            async def wait():
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append(1)

            result = tg.py_function(wait, [], [])
        main.session = tg.Session(graph, executor=executor)
        main.step = asyncio.ensure_future(main.session.run(result))
        for _ in range(4):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert main.step.cancelled()
    assert ended
    asyncio.run(main.session.aclose())


def test_building_in_concurrent_tasks_keeps_graphs_apart():
    async def build(k):
        with tg.Graph().as_default() as graph:
            value = tg.constant(float(k))
            for _ in range(3):
                await asyncio.sleep(0)
                value = value + 1.0
            assert value.graph is graph
            async with tg.Session() as session:
                return float(await session.run(value))

    async def main():
        return await asyncio.gather(*map(build, range(5)))

    assert asyncio.run(main()) == [3.0, 4.0, 5.0, 6.0, 7.0]

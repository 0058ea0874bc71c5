"""New values of variables between two steps that use them: each step has one set of weights."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer


class Late:
    """A graph whose step reads `a`, comes to a point in its middle, and reads `b` when the test lets it go on."""

    def __init__(self):
        self.here, self.go = asyncio.Event(), asyncio.Event()
        with tg.Graph().as_default() as self.graph:
            a, b = tg.Variable(0.0, name="a"), tg.Variable(0.0, name="b")
            waited = tg.py_function(self.wait, [a * 1.0], "float32", output_shapes=[])
            with tg.control_dependencies([waited]):
                self.pair = [waited, b * 1.0]
            self.other = tg.constant(1.0)
            self.init = tg.global_variables_initializer()

    async def wait(self, value):
        self.here.set()
        await self.go.wait()
        return value


async def write(session, value, **options):
    await session.write_variables({"a": value, "b": value}, **options)


async def restore(session, value, **options):
    await session.restore({"variables": {"a": np.float32(value), "b": np.float32(value)}}, **options)


async def restore_checkpoint(session, value, consistent=False):
    await Checkpointer(CHECKPOINTS[0]).restore(session, consistent=consistent)


CHECKPOINTS = []


@pytest.fixture(params=[write, restore, restore_checkpoint])
async def change(request, tmp_path):
    """What gives both variables another value: 1 in the checkpoint that is restored."""
    if request.param is restore_checkpoint:
        CHECKPOINTS[:] = [tmp_path]
        late = Late()
        async with tg.Session(late.graph) as session, Checkpointer(tmp_path) as checkpointer:
            await write(session, 1.0)
            await (await checkpointer.save(session, 1))
    return request.param


async def test_a_step_under_way_has_the_old_values_and_the_next_the_new_ones(change, executor):
    late = Late()
    async with tg.Session(late.graph, executor=executor) as session:
        await session.run(late.init)
        first = asyncio.ensure_future(session.run(late.pair))
        await late.here.wait()
        changing = asyncio.ensure_future(change(session, 1.0, consistent=True))
        while not session._steps.boundary.is_held:
            await asyncio.sleep(0)
        second = asyncio.ensure_future(session.run(late.pair))
        assert await session.run(late.other) == 1.0  # a step without variables goes its way
        assert not changing.done()
        late.go.set()
        assert await first == [0.0, 0.0]
        await changing
        assert await second == [1.0, 1.0]


async def test_without_being_asked_a_step_may_have_some_of_each(executor):
    late = Late()
    async with tg.Session(late.graph, executor=executor) as session:
        await session.run(late.init)
        running = asyncio.ensure_future(session.run(late.pair))
        await late.here.wait()
        await write(session, 1.0)
        late.go.set()
        assert await running == [0.0, 1.0]


async def test_many_steps_see_one_set_each():
    with tg.Graph().as_default() as graph:
        weights = [tg.Variable(np.zeros([4, 4], np.float32), name=f"w{i}") for i in range(60)]
        all_sums = tg.stack([tg.reduce_mean(w) for w in weights])
        init = tg.global_variables_initializer()
    async with tg.Session(graph, max_steps=4, settings=tg.Settings(drain_seconds=1e-6)) as session:
        await session.run(init)

        async def serve():
            return [set((await session.run(all_sums)).tolist()) for _ in range(6)]

        async def update():
            for value in range(6):
                new = {w.name: np.full([4, 4], value, np.float32) for w in weights}
                await session.write_variables(new, consistent=True)

        *seen, _ = await asyncio.gather(serve(), serve(), update())
    assert all(len(values) == 1 for sets in seen for values in sets)


async def test_a_step_that_does_not_end_is_named_and_nothing_has_changed(change):
    if change is restore_checkpoint:
        pytest.skip("its seconds are those of the Checkpointer")
    late = Late()
    async with tg.Session(late.graph) as session:
        await session.run(late.init)
        running = asyncio.ensure_future(session.run(late.pair))
        await late.here.wait()
        with pytest.raises(tg.CheckpointError, match="steps that use variables did not end") as caught:
            await change(session, 1.0, consistent=True, seconds=0.01)
        assert late.pair[1].op.name.rpartition("/")[0] in caught.value.got
        late.go.set()
        assert await running == [0.0, 0.0]
        assert not session._steps.boundary.is_held


async def test_values_that_do_not_fit_let_steps_go_on():
    late = Late()
    late.go.set()
    async with tg.Session(late.graph) as session:
        await session.run(late.init)
        with pytest.raises(tg.ShapeError):
            await session.write_variables({"a": [1.0, 2.0]}, consistent=True)
        assert await session.run(late.pair) == [0.0, 0.0]

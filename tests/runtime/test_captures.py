"""What a session holds at one time, between two steps or between two updates, without a copy."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.scheduling.boundary import StepBoundary
from tagloom.runtime.steps.request import make_request

from tests.runtime.tasks import only_this_task
from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON
from tests.support.tiers import choose
from tests.support.waiting import until


class Meeting:
    """Steps that come to a point in their middle, and go on from there when the test lets them."""

    def __init__(self):
        self.here, self.go = 0, asyncio.Event()

    async def wait(self, *_):
        self.here += 1
        await self.go.wait()
        return np.float32(0)

    async def until(self, count):
        while self.here < count:
            await asyncio.sleep(0)


def two_updates(meeting):
    """Return the graph of a step that adds 1 to a, waits, and adds 1 to b."""
    with tg.Graph().as_default() as graph:
        a, b = tg.Variable(0.0, name="a"), tg.Variable(0.0, name="b")
        added = a.assign_add(1.0)
        waited = tg.py_function(meeting.wait, [added], "float32", output_shapes=[])
        graph.step = b.assign_add(1.0 + waited).op
        graph.read = a + b
        graph.init = tg.global_variables_initializer()
    return graph


def values(capture):
    return {name: float(value) for name, value in capture.values["variables"].items()}


async def test_a_weak_capture_may_have_some_updates_of_a_step(executor):
    meeting = Meeting()
    graph = two_updates(meeting)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(graph.init)
        running = asyncio.ensure_future(session.run(graph.step))
        await meeting.until(1)
        assert values(await session.capture()) == {"a": 1, "b": 0}
        meeting.go.set()
        await running
        assert values(await session.capture()) == {"a": 1, "b": 1}


async def test_a_consistent_capture_has_all_updates_of_each_step_or_none(executor):
    """It waits for the step under way, and lets none begin until it is taken."""
    meeting = Meeting()
    graph = two_updates(meeting)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(graph.init)
        first = asyncio.ensure_future(session.run(graph.step))
        await meeting.until(1)
        capturing = asyncio.ensure_future(session.capture(consistent=True))
        second = asyncio.ensure_future(session.run(graph.step))
        for _ in range(20):
            await asyncio.sleep(0)
        assert meeting.here == 1  # the second is held back
        assert float(await session.run(graph.read)) == 1.0  # who only reads is not
        meeting.go.set()
        assert values(await capturing) == {"a": 1, "b": 1}
        await asyncio.gather(first, second)
        assert values(await session.capture(consistent=True)) == {"a": 2, "b": 2}
    assert only_this_task()


async def test_many_steps_and_captures_at_once(executor):
    meeting = Meeting()
    meeting.go.set()
    graph = two_updates(meeting)
    seen = []
    async with tg.Session(graph, executor=executor, max_steps=4) as session:
        await session.run(graph.init)

        async def train():
            for _ in range(10):
                await session.run(graph.step)

        async def look():
            for _ in range(10):
                seen.append(values(await session.capture(consistent=True)))
                await asyncio.sleep(0)

        await asyncio.gather(*(train() for _ in range(4)), *(look() for _ in range(3)))
        assert values(await session.capture()) == {"a": 40, "b": 40}
    assert all(each["a"] == each["b"] for each in seen)
    assert len({each["a"] for each in seen}) > 3


@pytest.mark.parametrize("in_parts", [False, True])
async def test_a_step_that_a_step_asks_for_is_not_held_back(executor, in_parts):
    """The step that is waited for waits for it."""
    with tg.Graph().as_default() as graph:
        a, b = tg.Variable(0.0, name="a"), tg.Variable(0.0, name="b")
        inner = a.assign_add(1.0).op
        asked = asyncio.Event()

        async def ask(_):
            asked.set()
            await asyncio.sleep(0)
            await until(lambda: capturing is not None)
            await asyncio.sleep(0)
            await session.run(inner)
            return np.float32(1)

        outer = b.assign_add(tg.py_function(ask, [0.0], "float32", output_shapes=[])).op
        init = tg.global_variables_initializer()
    capturing = None
    async with tg.Session(graph, executor=executor) as session:
        await session.run(init)
        if in_parts:
            handle = await session.partial_run_setup(outer)
            running = asyncio.ensure_future(session.partial_run(handle, outer))
        else:
            running = asyncio.ensure_future(session.run(outer))
        await asked.wait()
        capturing = asyncio.ensure_future(session.capture(consistent=True))
        await running
        assert values(await capturing) == {"a": 1, "b": 1}


async def test_a_step_that_does_not_end_is_named(executor):
    meeting = Meeting()
    graph = two_updates(meeting)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(graph.init)
        running = asyncio.ensure_future(session.run(graph.step))
        await meeting.until(1)
        with pytest.raises(tg.CheckpointError, match="did not end") as caught:
            await session.capture(consistent=True, seconds=1e-3)
        assert graph.step.name in caught.value.got
        meeting.go.set()
        await running
        await session.run(graph.step)  # nothing is held back any longer


async def test_a_partial_run_is_waited_for():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [])
        v = tg.Variable(0.0, name="v")
        added = v.assign_add(x)
        init = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(init)
        handle = await session.partial_run_setup([added], [x])
        capturing = asyncio.ensure_future(session.capture(consistent=True))
        setting = asyncio.ensure_future(session.partial_run_setup([added], [x]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not capturing.done()
        assert not setting.done()
        await session.partial_run(handle, added, {x: 2.0})
        assert values(await capturing) == {"v": 2}
        await (await setting).aclose()


async def test_a_session_that_is_closed_ends_those_who_wait():
    meeting = Meeting()
    graph = two_updates(meeting)
    async with tg.Session(graph) as session:
        await session.run(graph.init)
        waiting = [session.run(graph.step), session.capture(consistent=True), session.run(graph.step)]
        waiting = list(map(asyncio.ensure_future, waiting))
        await meeting.until(1)
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in found] == [tg.SessionClosed] * 3
    assert only_this_task()


@pytest.mark.parametrize("turn", range(12))
async def test_a_capture_that_is_cancelled_holds_nothing_back(executor, turn):
    meeting = Meeting()
    graph = two_updates(meeting)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(graph.init)
        first = asyncio.ensure_future(session.run(graph.step))
        await meeting.until(1)
        capturing = asyncio.ensure_future(session.capture(consistent=True))
        held = asyncio.ensure_future(session.run(graph.step))
        for k in range(turn):
            if k == 6:
                meeting.go.set()
            await asyncio.sleep(0)
        capturing.cancel()
        meeting.go.set()
        await asyncio.gather(first, held, return_exceptions=True)
        await asyncio.gather(capturing, return_exceptions=True)
        assert values(await session.capture(consistent=True)) == {"a": 2, "b": 2}
    assert only_this_task()


async def test_a_held_step_that_is_cancelled_leaves_the_others():
    boundary = StepBoundary(set())

    class Step:
        updates = True

    async with boundary.hold(1.0):
        held = [asyncio.ensure_future(boundary.pass_by(Step())) for _ in range(3)]
        await asyncio.sleep(0)
        held[0].cancel()
        await asyncio.sleep(0)
        assert [each.done() for each in held] == [True, False, False]
    await asyncio.gather(*held[1:])
    assert not boundary.is_held


# ---- without copies


def added_once(v, value):
    """Return 1, when a value has been added."""
    return tg.cast(v.assign_add(value)[0, 0] > -1e9, "int32")


def kinds_of_updates(v, rows):
    """Return operations that change a variable, by name."""
    large = np.full(v.shape.as_tuple(), 2, np.float32)
    yield "assign", v.assign(large)
    yield "assign from itself", v.assign(v * 2.0)
    yield "assign_add", v.assign_add(large)
    yield "assign_sub", v.assign_sub(large)
    yield "in a loop", tg.while_loop(lambda i: i < 3, lambda i: i + added_once(v, large), [0])
    yield "in a branch", tg.cond(v[0, 0] > -1e9, lambda: v.assign_add(large), lambda: v * 1.0)
    for name in ("update", "add", "sub", "mul", "div", "min", "max"):
        yield f"scatter_{name}", getattr(tg, f"scatter_{name}")(v, *rows)
    for name in ("update", "add", "sub"):
        yield f"scatter_nd_{name}", getattr(tg, f"scatter_nd_{name}")(v, rows[0][:, None], rows[1])
    for optimizer in ("Adam", "Momentum", "RMSProp", "Adagrad", "Ftrl", "GradientDescent", "Adadelta", "AdamW", "Lamb"):
        make = getattr(tg.training, f"{optimizer}Optimizer")
        extra = {"momentum": 0.9} if optimizer == "Momentum" else {}
        yield optimizer, make(0.1, **extra).minimize(tg.reduce_sum(tg.square(v - 3.0)), var_list=[v])
        yield (
            f"{optimizer}, rows",
            make(0.1, **extra).minimize(tg.reduce_sum(tg.square(tg.gather(v, rows[0]) - 3.0)), var_list=[v]),
        )


SMALL, LARGE = (4, 3), (512, 1024)  # of which threads change the second


def updates_of(shape):
    with tg.Graph().as_default() as graph:
        v = tg.Variable(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), name="v")
        rows = np.int32([2, 0]), np.full((2, shape[1]), 5, np.float32)
        graph.updates = dict(kinds_of_updates(v, rows))
        graph.init = tg.global_variables_initializer()
    return graph


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["small", "large"])
async def test_no_update_changes_what_a_capture_holds(executor, shape):
    """Every operation that changes variables, of any kind and size; the other updates go on in place."""
    graph = updates_of(shape)
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        await session.run(graph.init)
        every = choose(thorough=1, default=6 if shape is LARGE else 1)
        for name, update in list(graph.updates.items())[::every]:
            await session.run(update)  # so that what it keeps has values of its own
            capture = await session.capture()
            held = capture.values["variables"]
            copies = {each: value.copy() for each, value in held.items()}
            assert not any(value.flags.writeable for value in held.values()), name
            await session.run(update)
            now = (await session.capture()).values["variables"]
            for each, value in held.items():
                np.testing.assert_array_equal(value, copies[each], err_msg=f"{name}: {each}")
            assert any(now[each] is not held[each] for each in held), name


async def test_a_capture_copies_nothing_and_lets_updates_be_in_place_again():
    graph, one = updates_of(LARGE), 4 * 512 * 1024
    async with tg.Session(graph, settings=ON) as session:
        await session.run(graph.init)
        add = graph.updates["assign_add"].op
        await session.run(add)
        (slot,) = [each for each in session.resources if each.name == "v"]

        def place():
            return slot.read().__array_interface__["data"]

        size, began = session.statistics().live_bytes, place()
        capture = await session.capture()
        assert session.statistics().live_bytes == size
        await session.run(add)
        assert session.statistics().live_bytes == size + one
        assert place() != began
        del capture
        assert session.statistics().live_bytes == size
        moved = place()
        await session.run(add)
        assert place() == moved


async def test_arrays_of_other_devices_are_copied_out():
    with tg.Graph().as_default() as graph:
        v = tg.Variable(np.arange(1000, dtype=np.float32), name="v")
        update = v.assign_add(np.ones(1000, np.float32)).op
        init = tg.global_variables_initializer()
    device = StrictDevice("/gpu:0")
    async with tg.Session(graph, devices=["/cpu:0", device], settings=ON) as session:
        with_device = session
        await with_device.run(init)
        capture = await session.capture()
        await session.run(update)
        assert isinstance(capture.values["variables"]["v"], np.ndarray)
        np.testing.assert_array_equal(capture.values["variables"]["v"], np.arange(1000))


def test_every_step_that_updates_a_variable_is_known():
    """Those are held back while a consistent capture is taken; who reads is not."""
    graph = updates_of(SMALL)
    with graph.as_default():
        read = tg.reduce_sum(tg.global_variables()[0] * 2.0)
    with tg.SyncSession(graph) as session:
        runner = session._session._steps

        def updates(fetch):
            return runner.prepare_step(make_request(graph, fetch), ()).updates

        assert [name for name, update in graph.updates.items() if not updates(update)] == []
        assert updates(graph.init)
        assert not updates(read)


# ---- random state


async def test_random_numbers_go_on_where_they_were(executor):
    with tg.Graph(seed=5).as_default() as graph:
        drawn = tg.random_uniform([3])
        other = tg.constant(1.0) + 1.0
    async with tg.Session(graph, executor=executor) as session:
        first = [(await session.run(drawn)).tolist() for _ in range(3)]
        state = (await session.capture()).random_state
        assert (state, session.random_state) == ((5, 3), (5, 3))
        rest = [(await session.run(drawn)).tolist() for _ in range(3)]
    with tg.Graph(seed=6).as_default() as graph:
        drawn = tg.random_uniform([3])
        other = tg.constant(1.0) + 1.0
    async with tg.Session(graph, executor=executor) as session:
        for _ in range(7):
            await session.run(other)
        session.random_state = state
        assert session.random_state == (5, 3)
        assert [(await session.run(drawn)).tolist() for _ in range(3)] == rest
        session.random_state = (5, 0)
        assert [(await session.run(drawn)).tolist() for _ in range(3)] == first
        assert session.statistics().steps_started == 13

"""py_function with ``async def``: overlap, order, context, errors."""

import asyncio
import contextvars

import pytest
import tagloom as tg

from tests.runtime.tasks import only_this_task

REQUEST = contextvars.ContextVar("request", default="none")


class Gate:
    """An async function that holds its callers until `width` of them are in it at once."""

    def __init__(self, width):
        self.width = width
        self.inside = self.most = 0
        self.order = []
        self.open = asyncio.Event()

    async def __call__(self, i):
        self.order.append(int(i))
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == self.width:
            self.open.set()
        await self.open.wait()
        self.inside -= 1
        return i * 10


def gated_loop(gate, count, window):
    """A loop that calls the gate in each iteration and collects its results in order."""
    array = tg.TensorArray("int32", count)
    _, array = tg.while_loop(
        lambda i, a: i < count,
        lambda i, a: (i + 1, a.write(i, tg.py_function(gate, [i], "int32", output_shapes=[], stateful=False))),
        [0, array],
        parallel_iterations=window,
    )
    return array.stack()


@pytest.mark.rule(33, 34, 36)
@pytest.mark.parametrize("window", [1, 3, 8])
async def test_iterations_overlap_up_to_the_window(graph, executor, window):
    gate = Gate(window)
    result = gated_loop(gate, 8, window)
    async with tg.Session(graph, executor=executor) as session:
        assert (await session.run(result, timeout=20)).tolist() == [10 * i for i in range(8)]
    assert gate.most == window
    assert gate.order == list(range(8))


@pytest.mark.rule(36, 51)
async def test_values_are_in_order_when_calls_end_out_of_order(graph, executor):
    ended = []
    events = [asyncio.Event() for _ in range(5)]

    async def late_first(i):
        if i < 4:
            await events[int(i) + 1].wait()
        ended.append(int(i))
        events[int(i)].set()
        return i * 10

    result = gated_loop(late_first, 5, 32)
    async with tg.Session(graph, executor=executor) as session:
        assert (await session.run(result, timeout=20)).tolist() == [0, 10, 20, 30, 40]
    assert ended == [4, 3, 2, 1, 0]


async def test_tasks_are_named_by_instance(graph, executor):
    names = []

    async def note(i):
        names.append(asyncio.current_task().get_name())
        return i

    _, result = tg.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, tg.py_function(note, [i], "int32", output_shapes=[])), [0, 0]
    )
    async with tg.Session(graph, executor=executor) as session:
        await session.run(result)
    assert len(set(names)) == 2
    for i, name in enumerate(sorted(names)):
        assert "note@root/0/" in name
        assert name.endswith(f"/{i}")


async def test_context_variables_reach_functions(graph, executor):
    async def asynchronous():
        return REQUEST.get()

    fetches = [
        tg.py_function(REQUEST.get, [], "string"),
        tg.py_function(asynchronous, [], "string"),
    ]
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(fetches)

        async def request(name):
            REQUEST.set(name)
            return [str(value) for value in await step()]

        assert await asyncio.gather(request("a"), request("b")) == [["a", "a"], ["b", "b"]]
        assert [str(value) for value in await step()] == ["none", "none"]


def returns_coroutine(function):
    return lambda *values: function(*values)


class Callable:
    def __init__(self, function):
        self.function = function

    async def __call__(self, *values):
        return await self.function(*values)


def returns_task(function):
    return lambda *values: asyncio.ensure_future(function(*values))


WRAPPERS = [lambda function: function, returns_coroutine, Callable, returns_task]


@pytest.mark.rule(46)
@pytest.mark.parametrize("wrap", WRAPPERS)
async def test_a_function_that_never_starts_is_closed(graph, executor, wrap):
    """An error in the same drain, or a cancellation before the task's first step, leaves no coroutine behind."""

    async def double(value):
        return value * 2.0

    def fail(value):
        raise ValueError("no")

    x = tg.placeholder("float32", [])
    doubled, failed = (tg.py_function(f, [x], "float32", stateful=False) for f in (wrap(double), fail))
    async with tg.Session(graph, executor=executor) as session:
        for fetches in ([doubled, failed], [failed, doubled]):
            with pytest.raises(tg.OpError):
                await session.run(fetches, feeds={x: 1.0})
        for turns in range(4):
            task = asyncio.ensure_future(session.run(doubled, feeds={x: 1.0}))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert await session.run(doubled, feeds={x: 1.0}) == 2.0
        await asyncio.sleep(0)
        assert only_this_task()


async def test_an_error_in_a_function_is_the_cause(graph, executor):
    async def fail(i):
        await asyncio.sleep(0)
        raise KeyError("nothing here")

    result = gated_loop(fail, 3, 32)
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError, match="KeyError: 'nothing here'") as caught:
            await session.run(result)
        assert isinstance(caught.value.__cause__, KeyError)
        assert caught.value.tag.startswith("fail@root/0/")
        assert only_this_task()


@pytest.mark.rule(44, 45, 46)
async def test_the_first_error_wins_and_the_others_are_stopped(graph, executor):
    started, stopped = set(), set()

    async def fail(i):
        started.add(int(i))
        try:
            await asyncio.sleep(0 if i == 2 else 60)
            raise ValueError(f"number {i}")
        except asyncio.CancelledError:
            stopped.add(int(i))
            raise RuntimeError("while stopping") from None

    result = gated_loop(fail, 4, 32)
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError, match="number 2"):
            await session.run(result)
        assert stopped == started - {2} != set()
        assert only_this_task()


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_cancellation_raised_by_a_function_is_not_wrapped(graph, executor, asynchronous):
    def plain(value):
        raise asyncio.CancelledError("mine")

    async def later(value):
        await asyncio.sleep(0)
        raise asyncio.CancelledError("mine")

    result = tg.py_function(later if asynchronous else plain, [tg.constant(1.0)], "float32")
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(asyncio.CancelledError):
            await session.run(result)
        assert asyncio.current_task().cancelling() == 0
        assert session.statistics().steps_running == 0
        assert await session.run(tg.constant(1.0)) == 1.0
        assert only_this_task()


async def test_a_timeout_inside_a_function_is_its_own(graph, executor):
    async def impatient(value):
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    result = tg.py_function(impatient, [tg.constant(1.0)], "float32")
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError) as caught:
            await session.run(result, timeout=60)
        assert not isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value.__cause__, TimeoutError)


async def test_a_step_inside_a_function_of_another(graph, executor):
    x = tg.placeholder("float32", [])
    inner = tg.log(tg.check_numerics(x, "inner"))
    async with tg.Session(graph, executor=executor) as session:

        async def nested(value):
            return await session.run(inner, feeds={x: value})

        outer = tg.py_function(nested, [x], "float32", name="outer")
        assert await session.run(outer, feeds={x: 1.0}) == 0.0
        with pytest.raises(tg.OpError) as caught:
            await session.run(outer, feeds={x: float("nan")})
        assert caught.value.operation is outer.op
        assert caught.value.__cause__.operation.type == "CheckNumerics"

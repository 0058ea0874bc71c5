"""OpTasks: waiting instances that are no coroutines, before the tools that expect a Task."""

import asyncio
import contextvars
import gc
import sys
import weakref

import anyio
import pytest
import tagloom as tg
import uvloop
from tagloom.kernels.scheduler.optask import OpTask

NUMBER = contextvars.ContextVar("number", default=0)
EAGER = pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
RUNS = [
    pytest.param(asyncio.run, id="asyncio"),
    pytest.param(lambda main: _run_with(lambda: _eager(asyncio.new_event_loop()), main), id="eager", marks=EAGER),
    pytest.param(lambda main: _run_with(lambda: _eager(uvloop.new_event_loop()), main), id="eager-uvloop", marks=EAGER),
    pytest.param(lambda main: _run_with(uvloop.new_event_loop, main), id="uvloop"),
    pytest.param(lambda main: anyio.run(_awaited, main), id="anyio"),
    pytest.param(lambda main: anyio.run(_awaited, main, backend_options={"use_uvloop": True}), id="anyio-uvloop"),
]


def _run_with(factory, main):
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def _eager(loop):
    def factory(loop, coro, *, eager_start=None, **options):  # uvloop passes what Python 3.13.0 does not take yet
        return asyncio.eager_task_factory(loop, coro, **options)

    loop.set_task_factory(factory)
    return loop


async def _awaited(awaitable):
    return await awaitable


def make(convert=None):
    source = asyncio.get_running_loop().create_future()
    return source, OpTask(source, "recv@root/0", convert)


def named(name):
    """Return the tasks that asyncio lists under a name."""
    return [task for task in asyncio.all_tasks() if name in task.get_name()]


async def all_waiting(program):
    """Wait until all instances of a program's step wait; return their tasks."""
    while len(tasks := named("waiting")) < program.count:
        await asyncio.sleep(0)
    return tasks


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


class Waiting:
    """A graph with a loop whose instances wait for futures that the test holds."""

    def __init__(self, count=3):
        self.futures, self.count = [], count
        with tg.Graph().as_default() as self.graph:
            array = tg.TensorArray("int32", count)
            _, array = tg.while_loop(lambda i, a: i < count, self._body, [0, array])
            self.result = array.stack()
            self.quick = tg.constant(1.0) + 1.0

    def _body(self, i, array):
        return i + 1, array.write(i, tg.py_function(self.waiting, [i], "int32", output_shapes=[], stateful=False))

    def waiting(self, i):
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


@pytest.mark.parametrize("run", RUNS)
def test_waiting_instances_are_listed_by_name(run):
    program = Waiting()

    async def main():
        async with tg.Session(program.graph) as session:
            step = asyncio.ensure_future(session.run(program.result))
            waiting = await all_waiting(program)
            assert all(isinstance(task, OpTask) for task in waiting)
            assert sorted(task.get_name().rpartition("/")[2] for task in waiting) == ["0", "1", "2"]
            assert all("@root/0/" in task.get_name() for task in waiting)
            for k, future in enumerate(program.futures):
                future.set_result(10 * k)
            del waiting
            assert (await step).tolist() == [0, 10, 20]
            assert named("waiting") == []

    run(main())


@pytest.mark.parametrize("run", RUNS)
def test_a_loop_ends_cleanly_with_an_instance_left_waiting(run):
    program = Waiting()
    session = tg.Session(program.graph)

    async def main():
        main.step = asyncio.ensure_future(session.run(program.result))
        main.tasks = [weakref.ref(task) for task in await all_waiting(program)]

    run(main())
    assert main.step.cancelled()
    assert all(future.cancelled() for future in program.futures)
    del main.step
    gc.collect()
    assert [ref() for ref in main.tasks] == [None] * 3
    run(session.aclose())


@pytest.mark.parametrize("run", RUNS)
def test_a_loop_ends_cleanly_with_a_lone_optask_left(run):
    async def main():
        source, main.task = make()
        main.source = source

    run(main())
    assert main.task.cancelled()
    assert main.source.cancelled()


async def test_one_cancelled_from_outside_fails_its_step_alone():
    program = Waiting()
    async with tg.Session(program.graph) as session:
        step = asyncio.ensure_future(session.run(program.result))
        (await all_waiting(program))[0].cancel()
        with pytest.raises(asyncio.CancelledError, match="was cancelled"):
            await step
        assert named("waiting") == []
        assert await session.run(program.quick) == 2.0


async def test_results_are_converted_in_the_makers_context():
    NUMBER.set(5)
    source, task = make(lambda value: value + NUMBER.get())
    NUMBER.set(100)
    source.set_result(1)
    assert await task == 6
    assert task.get_context()[NUMBER] == 5


@pytest.mark.parametrize("error", [ValueError("no"), KeyError(3)])
async def test_errors_of_the_source_are_its_errors(error):
    source, task = make()
    source.set_exception(error)
    with pytest.raises(type(error)) as caught:
        await task
    assert caught.value is error


async def test_errors_of_the_conversion_are_its_errors():
    source, task = make(lambda value: 1 // value)
    source.set_result(0)
    with pytest.raises(ZeroDivisionError):
        await task


async def test_a_stop_iteration_ends_it_too():
    source, task = make(lambda value: next(iter(())))
    source.set_result(0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("of_source", [True, False])
async def test_an_error_keeps_nothing_of_what_failed(of_source):
    """What the frames of a failed kernel hold is let go of with the error, not when the garbage is collected."""

    class Large:
        pass

    def fail(value):
        large = Large()
        kept.append(weakref.ref(large))
        raise ZeroDivisionError

    kept = []
    gc.disable()
    try:
        source, task = make(None if of_source else fail)
        if of_source:
            try:
                fail(0)
            except ZeroDivisionError as error:
                source.set_exception(error)
        else:
            source.set_result(0)
        await turns()
        assert isinstance(task.exception(), ZeroDivisionError)
        assert kept[0]() is not None
        del source, task
        assert kept[0]() is None
    finally:
        gc.enable()


def test_an_exit_raised_by_the_conversion_leaves_the_loop():
    async def main():
        def leave(value):
            raise SystemExit(3)

        source, main.task = make(leave)
        source.set_result(0)
        await turns()

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert isinstance(main.task.exception(), SystemExit)


async def test_cancelling_hands_the_message_on():
    source, task = make()
    assert task.cancel("enough")
    assert source.cancelled()
    assert not task.done()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.args == ("enough",)
    assert task.cancelled()
    assert not task.cancel()


async def test_cancelled_after_its_source_has_ended():
    """The result is there, the wake-up is not: the cancellation wins, as with a Task."""
    source, task = make()
    source.set_result(1)
    assert task.cancel("late")
    assert task._must_cancel
    with pytest.raises(asyncio.CancelledError, match="late"):
        await task


async def test_a_cancellation_taken_back_in_time_has_no_effect():
    source, task = make()
    source.set_result(1)
    task.cancel()
    task.cancel()
    assert task.cancelling() == 2
    assert [task.uncancel(), task.uncancel(), task.uncancel()] == [1, 0, 0]
    assert await task == 1


async def test_a_source_that_resists_decides_the_outcome():
    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "stayed"

    source = asyncio.ensure_future(stubborn())
    await turns()
    task = OpTask(source, "stubborn@root/0")
    task.cancel()
    assert await task == "stayed"
    assert task.cancelling() == 1


async def test_asyncio_waits_gathers_and_shields_it():
    pairs = [make() for _ in range(3)]
    for k, (source, _) in enumerate(pairs[:2]):
        source.set_result(k)
    done, pending = await asyncio.wait([task for _, task in pairs], timeout=0.01)
    assert {task.result() for task in done} == {0, 1}
    assert pending == {pairs[2][1]}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.shield(pairs[2][1])
    assert not pairs[2][1].done()
    pairs[2][1].cancel()
    results = await asyncio.gather(*(task for _, task in pairs), return_exceptions=True)
    assert results[:2] == [0, 1]
    assert isinstance(results[2], asyncio.CancelledError)


async def test_anyio_lists_it_and_knows_that_it_waits():
    source, task = make()
    (info,) = [info for info in anyio.get_running_tasks() if info.name == "recv@root/0"]
    assert not info.has_pending_cancellation()
    with anyio.fail_after(20):
        await anyio.wait_all_tasks_blocked()
    source.cancel()
    assert info.has_pending_cancellation()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_has_the_public_methods_of_a_task():
    source, task = make()
    missing = [name for name in dir(asyncio.Task) if not name.startswith("_") and not hasattr(task, name)]
    private = ["_cancel_message", "_must_cancel", "_fut_waiter", "_make_cancelled_error", "_asyncio_future_blocking"]
    missing += [name for name in private if not hasattr(task, name)]
    assert missing == []
    task.set_name("other")
    assert (task.get_name(), task.get_stack(), task.get_coro()) == ("other", [], source)
    assert repr(task) == "<OpTask other waiting>"
    for refused in (task.set_result, task.set_exception):
        with pytest.raises(RuntimeError, match="does not support"):
            refused(1)
    task.cancel()
    await asyncio.wait([task])
    assert repr(task) == "<OpTask other cancelled>"


async def test_print_stack_says_that_there_is_none(capsys):
    _, task = make()
    task.print_stack()
    assert capsys.readouterr().err == "No stack for <OpTask recv@root/0 waiting>\n"
    task.cancel()


async def test_nobody_but_its_source_keeps_it():
    source, task = make()
    ref = weakref.ref(task)
    del source, task
    gc.collect()
    assert ref() is None
    assert named("recv") == []


async def test_a_future_of_another_loop_is_an_error():
    other = asyncio.new_event_loop()
    future = other.create_future()
    with tg.Graph().as_default() as graph:
        result = tg.py_function(lambda: future, [], "int32")
    async with tg.Session(graph) as session:
        with pytest.raises(tg.OpError, match="different loop"):
            await session.run(result)
    other.close()


@EAGER
async def test_eager_tasks(executor):
    """Instances that start, and even end, where they are launched."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    program = Waiting()

    async def at_once(i):
        assert asyncio.current_task() is not None
        return i + 1

    with program.graph.as_default():
        _, count = tg.while_loop(
            lambda i, a: i < 5, lambda i, a: (i + 1, tg.py_function(at_once, [a], "int32", output_shapes=[])), [0, 0]
        )
    async with tg.Session(program.graph, executor=executor) as session:
        me = asyncio.current_task()
        assert await session.run(count) == 5
        assert asyncio.current_task() is me
        step = loop.create_task(session.run(program.result))
        while len(program.futures) < 3:
            await asyncio.sleep(0)
        for future in program.futures:
            future.set_result(1)
        assert (await step).tolist() == [1, 1, 1]
        assert asyncio.current_task() is me


async def test_kernels_run_in_the_callers_task():
    """A plain function sees the task that awaits the step, and that task is current again afterwards."""
    seen = []
    with tg.Graph().as_default() as graph:
        fine = tg.py_function(lambda: seen.append(asyncio.current_task()), [], [])
        broken = tg.py_function(lambda: seen.append(asyncio.current_task()) or 1 // 0, [], [])
    async with tg.Session(graph) as session:
        for _ in range(3):
            await session.run(fine)
            with pytest.raises(tg.OpError):
                await session.run(broken)
            assert asyncio.current_task() is not None
    assert set(seen) == {asyncio.current_task()}


@EAGER
async def test_a_kernel_that_starts_an_eager_task_leaves_the_caller_current():
    loop, seen, others = asyncio.get_running_loop(), [], []
    loop.set_task_factory(asyncio.eager_task_factory)

    async def other():
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)

    def start():
        others.append(loop.create_task(other()))
        seen.append(asyncio.current_task())

    with tg.Graph().as_default() as graph:
        result = tg.py_function(start, [], [])
    async with tg.Session(graph) as session:
        await session.run(result)
    assert seen == [others[0], asyncio.current_task()]
    await others[0]

"""Calls of functions that are not awaited, and arguments that do not fit."""

import array
import asyncio
import collections.abc
import warnings

import anyio
import numpy as np
import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("collected")  # which ends the threads of functions


@pytest.fixture
def double():
    def double(x):
        return x * 2.0

    return tg.function(double)


async def test_a_call_is_taken_by_whatever_takes_a_coroutine(double):
    assert asyncio.iscoroutine(double(1.0).close() or (call := double(1.0)))
    assert isinstance(call, collections.abc.Coroutine)
    assert float(await call) == 2
    assert float(await asyncio.create_task(double(2.0))) == 4
    assert [float(y) for y in await asyncio.gather(double(1.0), double(2.0))] == [2, 4]
    assert float(await asyncio.wait_for(double(3.0), 30)) == 6
    async with asyncio.TaskGroup() as group:
        task = group.create_task(double(4.0))
    assert float(task.result()) == 8
    found = []

    async def keep(x):
        found.append(float(await double(x)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, 5.0)
    assert found == [10]


def test_a_call_is_run_by_a_loop_that_begins_with_it(double):
    assert float(asyncio.run(double(3.0))) == 6


async def test_a_task_of_a_call_shows_itself(double):
    """Tasks ask for the truth of their coroutine from Python 3.12 on, where `asyncio.run` shows one as it begins."""
    call = double(2.0)
    truth = {"__name__": "asyncio.base_tasks", "call": call}
    exec("found = bool(call)", truth)
    assert truth["found"] is True
    task = asyncio.create_task(call)
    assert "double" in repr(task)
    assert await task == 4


async def test_a_task_of_a_call_is_named_and_can_be_cancelled():
    waiting = asyncio.Event()

    @tg.function
    def forever():
        async def wait():
            waiting.set()
            await asyncio.Event().wait()

        return tg.py_function(wait, [], [])

    task = asyncio.create_task(forever())
    await waiting.wait()
    assert "forever" in repr(task)
    assert "under way" in repr(task.get_coro())
    assert task.get_stack()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "ended" in repr(task.get_coro())


USES = [
    lambda call: call + 1,
    lambda call: 1 + call,
    lambda call: np.float32([1, 2]) * call,
    lambda call: -call,
    lambda call: call @ call,
    lambda call: call > 1,
    lambda call: call == 1,
    lambda call: call[0],
    lambda call: float(call),
    lambda call: list(call),
    lambda call: len(call),
    lambda call: "yes" if call else "no",
    lambda call: f"{call:.2f}",
    lambda call: np.asarray(call),
    lambda call: np.sin(call),
    lambda call: np.sum(call),
]


@pytest.mark.parametrize("use", USES)
async def test_a_call_used_as_its_result_says_that_it_is_to_be_awaited(double, use):
    call = double(1.0)
    with pytest.raises(tg.DtypeError, match=r"await double\(\.\.\.\)"):
        use(call)
    assert float(await call) == 2


async def test_a_call_that_is_shown_says_that_it_is_to_be_awaited(double):
    call = double(1.0)
    assert "await it" in repr(call)
    assert "await it" in f"{call}"
    with pytest.raises(AttributeError, match=r"\(await double\(\.\.\.\)\)\.shape"):
        call.shape  # noqa: B018
    assert not hasattr(call, "__array_interface__")
    assert call in {call}  # as tasks may be kept
    await call


async def test_a_call_given_to_a_function_or_fed_says_that_it_is_to_be_awaited(double):
    inner = tg.function(lambda x: x)(1.0)
    with pytest.raises(tg.DtypeError, match="not awaited") as caught:
        double(inner)
    assert "argument x of double" in caught.value.__notes__[0]
    with pytest.raises(tg.DtypeError, match="argument x of double is not awaited"):
        double(waiting := asyncio.sleep(0))
    waiting.close()
    with tg.Graph().as_default():
        x = tg.placeholder("float32", [])
        async with tg.Session() as session:
            with pytest.raises(tg.DtypeError, match="await"):
                await session.run(x + 1.0, {x: inner})
    await inner


async def test_a_call_that_nobody_awaits_is_warned_about_by_its_name(double):
    with pytest.warns(RuntimeWarning, match=r"double was called and its result was never awaited"):
        double(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        double(1.0).close()
        await double(1.0)


# ---- arguments


def test_arguments_that_do_not_fit_name_the_function_and_what_it_takes(double):
    @tg.function
    def area(width, height):
        return width * height

    with pytest.raises(TypeError) as caught:
        area(2.0)
    assert str(caught.value).splitlines() == [
        "area: missing a required argument: 'height'",
        "  wanted: area(width, height)",
        "  got: area(float)",
    ]
    for wrong in (lambda: area(1, 2, 3), lambda: area(1, 2, depth=3)):
        with pytest.raises(TypeError, match="area"):
            wrong()
    for face in (area.sync, area.concrete, lambda x: area.stream("y", x), tg.grad(area)):
        with pytest.raises(TypeError, match="area: missing a required argument: 'height'"):
            face(1.0)


class NeedsGradient:
    """What a tensor of PyTorch that requires a gradient looks like from here."""

    dtype, requires_grad, shape = "torch.float32", True, (2,)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def __dlpack__(self, **_):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"w": x}])
def test_a_tensor_that_requires_a_gradient_says_what_to_give(double, wrap):
    f = tg.function(lambda x: x)
    with pytest.raises(tg.DtypeError, match=r"tensor\.detach\(\)") as caught:
        f.sync(wrap(NeedsGradient()))
    assert "argument x of" in caught.value.__notes__[0]
    signed = tg.function(lambda x: x, input_signature=[tg.TensorSpec([None])])
    with pytest.raises(tg.DtypeError, match=r"tensor\.detach\(\)"):
        signed.sync(NeedsGradient())


def test_buffers_are_arrays(double):
    assert double.sync(memoryview(np.float32([1, 2]))).tolist() == [2, 4]
    assert double.sync(memoryview(bytearray(np.float64([1]).tobytes())).cast("d")).tolist() == [2]
    assert double.sync(array.array("d", [3.0])).tolist() == [6]
    signed = tg.function(lambda x: x * 2.0, input_signature=[tg.TensorSpec([None], "float64")])
    assert signed.sync(memoryview(np.float64([1, 2]))).tolist() == [2, 4]


async def test_operations_of_a_trace_in_a_thread_know_the_callers_line():
    f = tg.function(tg.square)
    await f(1.0)
    assert f.concrete(1.0).placeholders[0].op.source.file == __file__

"""Ways through a Dataset: errors, waits, states, and the end."""

import asyncio
import gc
import os
import threading
import time
import warnings

import numpy as np
import pytest
import tagloom as tg

from tests.data.running import collect, rest_of, run, through_a_file
from tests.support.waiting import until

NUMBERS = tg.data.from_iterable(range(10))


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def picky(x):
    if x % 4 == 2:
        raise ValueError(f"not {x}")
    return x


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "async", "threads"])
def test_an_error_stands_in_the_place_of_its_element(kind, parallel):
    async def later(x):
        await asyncio.sleep(0)
        return picky(x)

    data = NUMBERS.map(later if kind == "async" else picky, parallel=parallel, threads=kind == "threads" or None)
    found = asyncio.run(collect(data))
    errors = [x for x in found if isinstance(x, Exception)]
    assert [x if isinstance(x, int) else "error" for x in found] == [0, 1, "error", 3, 4, 5, "error", 7, 8, 9]
    assert [error.element for error in errors] == [2, 6]
    assert [repr(error.__cause__) for error in errors] == ["ValueError('not 2')", "ValueError('not 6')"]
    assert "element 6 of the source" in str(errors[1])
    assert "ignore_errors()" in str(errors[1])
    assert "test_iterators.py" in str(errors[1].source)
    assert "map(later if" in str(errors[1].source)
    assert run(data.ignore_errors()) == [0, 1, 3, 4, 5, 7, 8, 9]


def test_errors_go_through_all_stages():
    failing = NUMBERS.map(picky)

    def kinds(dataset):
        return [type(x) is tg.PipelineError for x in asyncio.run(collect(dataset))]

    assert sum(kinds(failing.shuffle(3, seed=0))) == 2
    assert kinds(failing.batch(4)) == [True, False, True, False]
    assert run(failing.batch(4).ignore_errors()) == [[0, 1, 3, 4], [5, 7, 8, 9]]
    assert sum(kinds(failing.prefetch(2).map(lambda x: x).filter(bool))) == 2
    assert kinds(failing.take(3)) == [False, False, True, False]
    assert kinds(failing.skip(3)) == [True, False, False, True, False, False, False]
    assert kinds(tg.data.zip_datasets(NUMBERS, failing)) == kinds(failing)
    pairs = [x for x in asyncio.run(collect(failing.enumerate())) if isinstance(x, tuple)]
    assert pairs == list(enumerate([0, 1, 3, 4, 5, 7, 8, 9]))
    assert sum(kinds(failing.interleave(lambda x: tg.data.from_iterable([x]), 2))) == 2
    assert sum(kinds(failing.repeat(2))) == 4


def test_ignored_errors_can_be_logged(caplog):
    assert run(NUMBERS.map(picky).ignore_errors(log=True).take(3)) == [0, 1, 3]
    assert "not 2" in caplog.text


def test_a_source_that_raises_ends_with_that():
    def numbers():
        yield 1
        raise OSError("gone")

    async def later():
        for x in numbers():
            yield x

    def never():
        raise OSError("gone")

    for data, wanted in (
        (tg.data.from_iterable(numbers), 1),
        (tg.data.from_async(later), 1),
        (tg.data.from_iterable(never), 0),
    ):
        found = asyncio.run(collect(data))
        assert [repr(each.__cause__) for each in found[wanted:]] == ["OSError('gone')"]


def test_an_error_survives_in_a_state():
    async def main():
        data = NUMBERS.map(picky).prefetch(8)
        async with data.iterator() as one, data.iterator() as other:
            await one.next()
            await settle()
            other.restore(through_a_file(one.state()))
            assert await other.next() == 1
            with pytest.raises(tg.PipelineError, match="not 2") as caught:
                await other.next()
            return caught.value.element, caught.value.origin, await other.next()

    assert asyncio.run(main()) == (2, "element 2 of the source", 3)


async def test_the_end_is_that_of_a_closed_queue():
    async with NUMBERS.take(1).iterator("numbers") as iterator:
        assert await iterator.next() == 0
        for _ in range(2):
            with pytest.raises(tg.QueueClosed, match="numbers has no element left"):
                await iterator.next()
        with pytest.raises(StopAsyncIteration):
            await anext(iterator)


async def test_a_cancelled_wait_does_not_end_the_users_generator():
    async def slow():
        for i in range(3):
            await ready.wait()
            yield i

    ready = asyncio.Event()
    async with tg.data.from_async(slow).iterator() as iterator:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(iterator.next(), 0.001)
        ready.set()
        assert [x async for x in iterator] == [0, 1, 2]


async def test_who_waits_is_served_in_the_order_of_coming():
    gate = asyncio.Event()

    async def gated():
        await gate.wait()
        for i in range(4):
            yield i

    async with tg.data.from_async(gated).iterator() as iterator:
        waits = []
        for _ in range(4):
            waits.append(asyncio.create_task(iterator.next()))
            await settle()
        waits.pop(1).cancel()
        gate.set()
        assert await asyncio.gather(*waits) == [0, 1, 2]
        assert await iterator.next() == 3


async def test_closing_wakes_who_waits_and_leaves_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("x\n" * 100_000)
    closed = []

    async def endless():
        try:
            while True:
                await asyncio.sleep(0.001)
                yield 1
        finally:
            closed.append("generator")

    async def forever(_):
        await asyncio.Event().wait()

    def files():
        return {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}

    before = asyncio.all_tasks()
    lines = tg.data.from_text(tmp_path / "a.txt").map(str.upper, threads=True, parallel=2)
    data = tg.data.zip_datasets(tg.data.from_async(endless).prefetch(4), lines).prefetch(2)
    iterator = data.map(forever, parallel=3).iterator()
    waits = [asyncio.create_task(iterator.next()) for _ in range(2)]
    await until(lambda: str(tmp_path / "a.txt") in files())
    await iterator.aclose()
    for outcome in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(outcome, tg.SessionClosed)
    assert asyncio.all_tasks() == before
    assert closed == ["generator"]
    assert str(tmp_path / "a.txt") not in files()
    assert not [t for t in threading.enumerate() if t.name.startswith("tagloom-data") and t.is_alive()]
    with pytest.raises(tg.SessionClosed):
        await iterator.next()
    await iterator.aclose()


async def test_a_loop_that_is_left_closes_its_iterator():
    closed = []

    async def endless():
        try:
            while True:
                yield 1
        finally:
            closed.append(1)

    before = asyncio.all_tasks()
    async for _ in tg.data.from_async(endless).prefetch(2):
        break
    gc.collect()
    await until(lambda: closed)
    await until(lambda: asyncio.all_tasks() == before)
    assert closed == [1]
    assert asyncio.all_tasks() == before


def test_each_loop_has_an_iterator_of_its_own():
    iterator = NUMBERS.iterator()
    assert asyncio.run(iterator.next()) == 0

    async def other():
        with pytest.raises(tg.GraphError, match="another event loop"):
            await iterator.next()
        return [x async for x in NUMBERS]

    assert asyncio.run(other()) == list(range(10))
    asyncio.run(iterator.aclose())


def test_an_iterator_that_is_not_closed_is_warned_of():
    def forget():
        asyncio.run(NUMBERS.iterator("forgotten").next())
        gc.collect()

    with pytest.warns(ResourceWarning, match="unclosed <DatasetIterator forgotten, 1 elements given>"):
        forget()


@pytest.mark.parametrize("state", [None, {}, {"version": 1}, 3])
async def test_what_is_no_state_is_refused(state):
    async with NUMBERS.iterator() as iterator:
        await iterator.next()
        with pytest.raises(tg.GraphError, match="no state of a pipeline"):
            iterator.restore(state)
        assert await iterator.next() == 1


async def test_the_state_of_another_pipeline_is_refused():
    async with NUMBERS.batch(2).iterator() as batches, NUMBERS.iterator() as numbers:
        with pytest.raises(tg.GraphError, match="another pipeline"):
            numbers.restore(batches.state())
        state = numbers.state()
        state["version"] = 2
        with pytest.raises(tg.GraphError, match="another version"):
            numbers.restore(state)


async def test_restoring_while_somebody_waits_serves_him_from_there():
    async def slow(x):
        await asyncio.sleep(0.01)
        return x

    before = asyncio.all_tasks()
    async with NUMBERS.map(slow).iterator() as iterator:
        begin = iterator.state()
        for _ in range(5):
            await iterator.next()
        waiting = asyncio.create_task(iterator.next())
        await settle()
        iterator.restore(begin)
        assert await waiting == 0
        assert await rest_of(iterator) == list(range(1, 10))
    assert asyncio.all_tasks() == before


async def test_a_state_with_what_no_file_can_hold_is_one_in_memory():
    class Thing:
        pass

    things = [Thing() for _ in range(3)]
    data = tg.data.from_iterable(things).shuffle(3, seed=0)
    async with data.iterator() as one, data.iterator() as other:
        first = await one.next()
        other.restore(one.state())
        assert {first, *[x async for x in other]} == set(things)
        with pytest.raises(tg.CheckpointError, match="cannot be saved"):
            through_a_file(one.state())


def test_functions_run_in_the_context_of_who_opened():
    import contextvars

    variable = contextvars.ContextVar("variable", default="none")

    async def main():
        variable.set("mine")
        async with NUMBERS.take(2).map(lambda _: variable.get(), threads=True).iterator() as iterator:
            variable.set("later")
            return await rest_of(iterator)

    assert asyncio.run(main()) == ["mine", "mine"]


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_function_that_cancels_itself_is_an_error(parallel):
    async def cancelled(x):
        raise asyncio.CancelledError

    async def gone():
        yield 1
        raise asyncio.CancelledError

    found = asyncio.run(collect(NUMBERS.take(2).map(cancelled, parallel=parallel)))
    assert [type(each) for each in found] == [tg.PipelineError] * 2
    assert [type(each) for each in asyncio.run(collect(tg.data.from_async(gone)))] == [int, tg.PipelineError]


def test_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = tg.data.from_arrays(np.arange(1000)).shuffle(100, seed=1).batch(8).prefetch(2)
        assert sum(len(batch) for batch in run(data)) == 1000
        gc.collect()


@pytest.mark.parametrize("turns", range(12))
async def test_what_comes_late_of_before_a_restored_state_is_dropped(turns):
    async def slow(x):
        for _ in range(3):
            await asyncio.sleep(0)
        return x

    async with NUMBERS.map(slow).iterator() as iterator:
        begin = iterator.state()
        for _ in range(3):
            await iterator.next()
        waiting = asyncio.create_task(iterator.next())
        for _ in range(turns):
            await asyncio.sleep(0)
        iterator.restore(begin)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await rest_of(iterator) == list(range(10))


async def test_what_fails_while_it_is_closed_leaves_nothing_open(caplog):
    closed = []

    def stubborn(name):
        def numbers():
            try:
                yield from range(100)
            finally:
                closed.append(name)
                raise OSError(name)

        return numbers

    async def later():
        try:
            for i in range(100):
                yield i
        finally:
            closed.append("c")
            raise OSError("c")

    sources = [tg.data.from_iterable(stubborn(name)) for name in "ab"]
    iterator = tg.data.zip_datasets(*sources, tg.data.from_async(later)).iterator()
    assert await iterator.next() == (0, 0, 0)
    with pytest.raises(OSError, match="a"):
        await iterator.aclose()
    assert closed == ["a", "b", "c"]
    assert "OSError: c" in caplog.text
    with pytest.raises(tg.SessionClosed):
        await anext(iterator)


async def test_a_function_that_does_not_end_is_left_behind_with_a_warning(caplog, monkeypatch):
    from dataclasses import replace

    from tagloom.data import iterator as module

    monkeypatch.setattr(module, "DEFAULTS", replace(module.DEFAULTS, close_seconds=0.01))
    gate = threading.Event()
    calls = []
    iterator = NUMBERS.map(lambda x: calls.append(x) or gate.wait(20), threads=True).iterator()
    waiting = asyncio.create_task(iterator.next())
    await until(lambda: calls)
    await iterator.aclose()
    gate.set()
    assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], tg.SessionClosed)
    assert "blocking functions still run" in caplog.text


@pytest.mark.parametrize("threads", [False, True])
async def test_a_source_that_raises_a_cancellation_ends_with_that(threads):
    def numbers():
        yield 1
        raise asyncio.CancelledError

    async with tg.data.from_iterable(numbers, threads=threads).iterator() as iterator:
        assert await iterator.next() == 1
        with pytest.raises(tg.PipelineError, match="CancelledError"):
            await iterator.next()


async def test_a_source_that_becomes_slow_is_iterated_in_a_thread():
    threads = []

    def numbers():
        for i in range(60):
            if i > 20:
                time.sleep(0.006)  # longer than the event loop may be held
            threads.append(threading.current_thread())
            yield i

    assert [int(i) async for i in tg.data.from_iterable(numbers)] == list(range(60))
    assert threads[0] is threading.main_thread()
    assert threads[-1] is not threading.main_thread()


async def test_a_function_that_cancels_its_task_is_an_error_of_its_element():
    async def picky(x):
        if x == 1:
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        return x

    found = await asyncio.wait_for(collect(tg.data.from_iterable(range(4)).map(picky, parallel=2)), 5)
    assert [x if isinstance(x, int) else x.element for x in found] == [0, 1, 2, 3]
    assert isinstance(found[1], tg.PipelineError)


async def test_what_is_gone_through_once_is_not_repeated_by_an_outer_repeat():
    found = await collect(tg.data.from_iterable(iter([1, 2])).repeat(1).repeat(2))
    assert found[:2] == [1, 2]
    assert "only once" in str(found[2])

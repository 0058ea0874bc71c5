"""Native loops: the same results as on the step machine, to the last bit, and what happens when a program gives up."""

import asyncio
import gc
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.native_programs import F64, PROGRAMS, below, scanned
from tests.support.settings import MACHINE, ON
from tests.support.waiting import turns, until


async def values(graph, fetches, feeds, settings):
    async with tg.Session(graph, settings=settings) as session:
        found = [await session.run(list(fetches), feeds) for _ in range(2)]
        assert [len(each) for each in found] == [len(found[0])] * 2
        report = session.report()
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    return found[0], report


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("settings", [ON, replace(ON, workers=0), replace(ON, reuse=False), replace(ON, pool=False)])
async def test_the_same_values_as_on_the_step_machine(graph, program, settings):
    fetches, feeds = program()
    native, report = await values(graph, fetches, feeds, settings)
    wanted, _ = await values(graph, fetches, feeds, replace(settings, straight=False))
    assert {"native"} == {loop.limited_by for loop in report.loops}
    for one, other in zip(native, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


async def test_a_long_loop_runs_in_slices(graph):
    n = 2_000_000
    y = tg.while_loop(below(n), lambda i, x: (i + 1, x * 0.5 + 1.0), [0, tg.constant(0.0, "float64")])
    for workers in (0, 1):
        async with tg.Session(graph, settings=replace(ON, workers=workers)) as session:
            assert await session.run(y) == [n, 2.0]


async def test_several_may_close_a_session_whose_threads_are_at_work(graph):
    y = tg.while_loop(lambda i: i >= 0, lambda i: tg.maximum(i - 1, 0), [5])
    session = tg.Session(graph, settings=replace(ON, workers=2))
    steps = [asyncio.ensure_future(session.run(y)) for _ in range(2)]
    await until(lambda: session.statistics().steps_running == 2)
    await turns()
    async with asyncio.timeout(20):
        await asyncio.gather(*(session.aclose() for _ in range(3)))
    for step in steps:
        with pytest.raises(tg.SessionClosed):
            await step


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("end", ["cancel", "timeout", "close"])
async def test_an_endless_loop_ends(graph, workers, end):
    y = tg.while_loop(lambda i: i >= 0, lambda i: tg.maximum(i - 1, 0), [5])
    async with tg.Session(graph, settings=replace(ON, workers=workers)) as session:
        if end == "timeout":
            with pytest.raises(tg.StepTimeout):
                await session.run(y, timeout=0.05)
            return
        step = asyncio.ensure_future(session.run(y))
        await until(lambda: session.statistics().steps_running == 1)
        await turns()
        if end == "cancel":
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
        else:
            await session.aclose()
            with pytest.raises(tg.TagloomError):
                await step


async def fails(graph, fetches, feeds, settings):
    async with tg.Session(graph, settings=settings) as session:
        with pytest.raises(tg.TagloomError) as caught:
            await session.run(fetches, feeds)
        return str(caught.value)


async def test_an_error_is_that_of_the_step_machine(graph):
    x = tg.placeholder("int32", [])
    array = tg.TensorArray("int32", 40)

    def body(i, y, array):
        return i + 1, y + 100 // (x - i), array.write(i, y)

    _, y, array = tg.while_loop(below(40), body, [0, 0, array])
    fetches = [y, array.stack()]
    messages = [await fails(graph, fetches, {x: np.int32(30)}, each) for each in (ON, MACHINE)]
    assert messages[0] == messages[1]
    assert "30" in messages[0]
    native, _ = await values(graph, fetches, {x: np.int32(50)}, ON)
    wanted, _ = await values(graph, fetches, {x: np.int32(50)}, MACHINE)
    np.testing.assert_array_equal(native[1], wanted[1])


@pytest.mark.parametrize(("index", "size"), [(7, 6), (-9, 6)])
async def test_an_index_out_of_range(graph, index, size):
    x, at = tg.placeholder("float64", [size]), tg.placeholder("int32", [])
    zero = tg.constant(0.0, "float64")
    y = tg.while_loop(below(5), lambda i, y: (i + 1, y + x[tg.where(i == 4, at, 0)]), [0, zero])[1]
    feeds = {x: np.arange(6.0), at: np.int32(index)}
    messages = [await fails(graph, y, feeds, each) for each in (ON, MACHINE)]
    assert messages[0] == messages[1]


async def test_elements_that_are_summed_are_left_to_the_step_machine(graph):
    x = tg.placeholder("float64", [3])
    array = tg.TensorArray("float64", 3, clear_after_read=False).unstack(x)
    y = tg.while_loop(below(6), lambda i, y: (i + 1, y + array.read(i % 3) * y), [0, tg.constant(1.0, "float64")])[1]
    fetches = [y, *tg.gradients(y, [x])]
    native, _ = await values(graph, fetches, {x: np.arange(3.0)}, ON)
    wanted, _ = await values(graph, fetches, {x: np.arange(3.0)}, MACHINE)
    for one, other in zip(native, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_a_variable_that_changes_its_shape(graph):
    x = tg.placeholder("float64", [1])
    y = tg.while_loop(
        lambda i, _: i < 4,
        lambda i, y: (i + 1, tg.concat([y, x], 0)),
        [0, x],
        shape_invariants=[tg.Shape([]), tg.Shape([None])],
    )[1]
    async with tg.Session(graph, settings=ON) as session:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(y, {x: [2.0]}), [2.0] * 5)
        (loop,) = session.report().loops
    assert loop.not_native.endswith("changes its shape")
    assert f"; no native program: {loop.not_native}" in str(loop)


async def test_all_memory_is_given_back(graph):
    fetches, feeds = scanned()
    async with tg.Session(graph, settings=ON) as session:
        for _ in range(3):
            found = await session.run(fetches, feeds)
        del found
        gc.collect()
        assert session.statistics().live_bytes < 1000


async def test_a_trace_shows_every_instance(graph):
    y = tg.while_loop(below(5), lambda i: i + 1, [0], name="count")
    trace = tg.Trace()
    async with tg.Session(graph, settings=ON) as session:
        await session.run(y, trace=trace)
        assert sum(span.type == "Add" for span in trace.spans) == 6  # that of the last, dead iteration too
        assert "Native" not in {span.type for span in trace.spans}
        report = tg.Report()
        await session.run(y, report=report)
        assert [loop.limited_by for loop in report.loops] != ["native"]


async def test_a_guard_sees_what_a_loop_computes(graph):
    x = tg.placeholder("float64", [])
    y = tg.while_loop(below(5), lambda i, y: (i + 1, tg.log(y - 1.0)), [0, x])[1]
    async with tg.Session(graph, settings=ON, check_numerics=True) as session:
        with pytest.raises(tg.TagloomError, match="Log"):
            await session.run(y, {x: F64(2.0)})


async def test_several_steps_at_once(graph):
    x = tg.placeholder("float64", [])
    y = tg.while_loop(below(50_000), lambda i, y: (i + 1, 0.5 * (y + x / y)), [0, x])[1]
    async with tg.Session(graph, settings=ON) as session:
        found = await asyncio.gather(*(session.run(y, {x: F64(k)}) for k in range(1, 6)))
    np.testing.assert_allclose(found, np.sqrt(np.arange(1.0, 6.0)))


async def test_second_and_third_order_of_loops_in_loops(graph):
    x = tg.placeholder("float64", [])

    def body(i, a):
        return i + 1, tg.while_loop(below(i + 1), lambda j, b: (j + 1, tg.sin(b) * x + a), [0, a])[1] * a

    found = [tg.while_loop(below(3), body, [0, x])[1]]
    for _ in range(3):
        found += tg.gradients(found[-1], [x])
    native, _ = await values(graph, found, {x: F64(0.7)}, ON)
    wanted, _ = await values(graph, found, {x: F64(0.7)}, MACHINE)
    np.testing.assert_array_equal(native, wanted)


async def test_a_step_prints_its_native_programs_and_why_a_loop_has_none(graph):
    n = tg.placeholder("int32", [])
    native = tg.while_loop(lambda i: i < n, lambda i: i + 1, [0], name="counts")

    def checked(i):
        with tg.control_dependencies([tg.assert_less(i, 100)]):
            return i + 1

    steps = tg.while_loop(lambda i: i < n, checked, [0], name="checks")
    async with tg.Session(graph, settings=ON) as session:
        text = session.make_step([native, steps], [n]).to_text()
    assert "# program counts" in text
    assert "# program checks" not in text
    assert "# loop checks: no native program: " in text


async def test_a_loop_runs_again_for_other_inputs(graph):
    n, x = tg.placeholder("int32", []), tg.placeholder("float32", None)
    y = tg.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 0.5 + 1.0), [0, x])
    async with tg.Session(graph, settings=ON) as session:
        step = session.make_step(y, feeds=[n, x])
        made = []
        for k, shape in enumerate([(2,), (2,), (), (3, 1), (2,), (), (3, 1), (0,)]):
            start = np.full(shape, k, "float32")
            made.append((k, start, *await step(k, start)))
        (loop,) = session.report().loops
    assert loop.limited_by == "native"
    for k, start, count, value in made:  # at the end, so that none has been written to since
        assert count == k
        np.testing.assert_array_equal(value, (start - 2) * 0.5**k + 2)


async def test_what_a_caller_writes_to_results_is_not_seen_by_the_next_run(graph):
    start = tg.placeholder("float32", [3])
    y = tg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + 1.0), [0, start], name="add")[1]
    async with tg.Session(graph, settings=ON) as session:
        for _ in range(3):
            (value,) = await session.run([y], {start: np.zeros(3, "float32")})
            np.testing.assert_array_equal(value, 3.0)
            value[:] = 7.0
        (loop,) = session.report().loops
        assert (loop.runs, loop.iterations) == (1, 4)


async def test_runs_under_way_are_nobody_elses(graph):
    n, x = tg.placeholder("int64", []), tg.placeholder("float64", [])
    y = tg.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 0.5 + 1.0), [np.int64(0), x])
    async with tg.Session(graph, settings=replace(ON, workers=1)) as session:
        step = session.make_step(y, feeds=[n, x])
        lengths = [1_500_000 * (k % 3) + k for k in range(9)]
        found = await asyncio.gather(*(step(length, np.float64(k)) for k, length in enumerate(lengths)))
    for k, (length, (count, value)) in enumerate(zip(lengths, found, strict=True)):
        assert count == length
        assert value == (2.0 if length > 100 else (k - 2) * 0.5**length + 2)


async def test_a_run_that_gave_up_is_not_kept(graph):
    by = tg.placeholder("int32", [])
    y = tg.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x + 12 // (by - i)), [0, 0])[1]
    async with tg.Session(graph, settings=ON) as session:
        step = session.make_step(y, feeds=[by])
        wanted = {8: 1 + 1 + 2 + 2, 5: 2 + 3 + 4 + 6}
        for divisor in (8, 2, 5, 8, 2, 8, 5):
            if divisor in wanted:
                assert await step(divisor) == wanted[divisor]
            else:
                with pytest.raises(tg.OpError, match="zero"):
                    await step(divisor)

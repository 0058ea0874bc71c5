"""Loops as kernels in CUDA C, compiled for this machine: what the loops give on the step machine, and on a CPU."""

import asyncio
import sys
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.native.cuda import run as launches
from tagloom.kernels.scheduler.state import live_counts

from tests.cuda.device import CompilingDevice
from tests.cuda.host import RawModule, compiler
from tests.cuda.loops import ELSEWHERE, FAILING, INEXACT, MIXED, PROGRAMS, WAITING, below, division, lstm
from tests.cuda.running import compare, fails, ran
from tests.strict_array_library.library import WAITS, Special
from tests.support.settings import ON

pytestmark = pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler")


@pytest.fixture(autouse=True)
async def device(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", Special())
    monkeypatch.setattr(RawModule, "launched", [])
    WAITS.reasons.clear()
    async with CompilingDevice() as device:
        yield device
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_the_same_values_as_on_a_cpu(program, backward, device, monkeypatch):
    monkeypatch.setattr(RawModule, "backward", backward)
    found, report = await ran(program, [device])
    wanted, _ = await ran(program, None, replace(ON, straight=False))
    compare(found, wanted, exactly=program not in INEXACT)
    assert {"native"} == {loop.limited_by for loop in report.loops}
    assert "native" in RawModule.launched
    assert WAITS.reasons == [] or program in WAITING


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("program", MIXED, ids=lambda program: program.__name__)
async def test_other_loops_read_what_kernels_have_saved(program, device):
    found, report = await ran(program, [device])
    compare(found, (await ran(program, None, replace(ON, straight=False)))[0])
    assert {"native", "variable"} == {loop.limited_by for loop in report.loops}


async def test_programs_of_a_cpu_that_go_to_a_gpu_are_left_to_the_step_machine(device):
    """Where a loop names no device, its program is that of the first device, and goes where its data is."""

    def program():
        x = tg.placeholder("float32", [3, 2])
        with tg.device("/gpu:0"):
            rows = tg.TensorArray("float32", 3, element_shape=[2], clear_after_read=False).unstack(x)
        y = tg.while_loop(below(3), lambda i, y: (i + 1, y + rows.gather([2, 0])), [0, tg.zeros([2, 2])])[1]
        return [y], {x: values}

    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    found, report = await ran(program, ["/cpu:0", device])
    compare(found, [3 * values[[2, 0]]])
    assert "GATHER has no form in CUDA C" in str(report)


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_launches_end_by_themselves_and_go_on(program, device, monkeypatch):
    whole, report = await ran(program, [device])
    once = RawModule.launched.count("native")
    monkeypatch.setattr(launches, "_LAUNCH", 0)
    parts, again = await ran(program, [device])
    assert RawModule.launched.count("native") - once > once
    compare(parts, whole)
    counts = [[(loop.name, loop.runs, loop.iterations) for loop in each.loops] for each in (report, again)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("program", [lstm, *PROGRAMS[-6:]], ids=lambda program: program.__name__)
async def test_room_for_saved_values_grows(program, device, monkeypatch):
    wanted, _ = await ran(program, [device])
    monkeypatch.setattr(launches, "_MOST_ROOM", 1)
    found, _ = await ran(program, [device])
    compare(found, wanted)


@pytest.mark.parametrize("program", ELSEWHERE, ids=lambda program: program.__name__)
async def test_what_is_left_to_the_step_machine(program, device):
    found, report = await ran(program, [device])
    wanted, _ = await ran(program, None)
    compare(found, wanted, exactly=False)
    assert any(loop.not_native and ELSEWHERE[program] in loop.not_native for loop in report.loops)


@pytest.mark.parametrize("program", FAILING, ids=lambda program: program.__name__)
async def test_an_error_is_that_of_the_step_machine(program, device):
    message = await fails(program, [device])
    assert RawModule.launched.count("native") == 1
    assert message == await fails(program, [device], replace(ON, straight=False))


async def test_a_program_that_gave_up_runs_again(device):
    with tg.Graph().as_default() as graph:
        y, feeds = division()
    (x,) = feeds
    async with tg.Session(graph, devices=[device], settings=ON) as session:
        with pytest.raises(tg.TagloomError):
            await session.run(y, feeds)
        assert await session.run(y, {x: np.int32(20)}) == sum(100 // (20 - i) for i in range(9))
        (loop,) = session.report().loops
        assert loop.limited_by == "native"


@pytest.mark.parametrize("end", ["cancel", "timeout"])
async def test_an_endless_loop_ends(end, device):
    with tg.Graph().as_default() as graph:
        y = tg.while_loop(lambda i: i >= 0, lambda i: tg.maximum(i - 1, 0), [5])
    async with tg.Session(graph, devices=[device], settings=ON) as session:
        if end == "timeout":
            with pytest.raises(tg.StepTimeout):
                await session.run(y, timeout=0.2)
            return
        step = asyncio.ensure_future(session.run(y))
        while not RawModule.launched:
            await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step


async def test_shapes_that_are_fed_are_other_kernels_up_to_a_number(device):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None])
        y = tg.while_loop(below(3), lambda i, y: (i + 1, y + x), [0, x])[1]
    async with tg.Session(graph, devices=[device], settings=replace(ON, specialize=False)) as session:
        for n in range(1, 12):
            np.testing.assert_array_equal(await session.run(y, {x: np.ones(n)}), np.full(n, 4))
        (loop,) = session.report().loops
    assert "8 kinds of inputs" in loop.not_native
    assert RawModule.launched.count("native") == 8

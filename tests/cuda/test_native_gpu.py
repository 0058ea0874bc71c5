"""Loops as kernels in CUDA C on a GPU, with the real CuPy: what a CPU gives, and what happens when they end early."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.native.cuda import run as launches

from tests.cuda.loops import FAILING, PROGRAMS
from tests.cuda.running import compare, fails, ran
from tests.support.settings import ON

pytestmark = pytest.mark.gpu
GPU = ["/gpu:0"]


@pytest.mark.parametrize("budget", [2e7, 0])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_the_same_values_as_on_a_cpu(program, budget, monkeypatch):
    monkeypatch.setattr(launches, "_LAUNCH", budget)
    found, report = await ran(program, GPU)
    wanted, _ = await ran(program, None, replace(ON, straight=False))
    compare(found, wanted, exactly=False)
    assert {"native"} == {loop.limited_by for loop in report.loops}


@pytest.mark.parametrize("program", FAILING, ids=lambda program: program.__name__)
async def test_an_error_is_that_of_the_step_machine(program):
    assert await fails(program, GPU) == await fails(program, GPU, replace(ON, straight=False))


async def test_an_endless_loop_ends_and_another_runs():
    with tg.Graph().as_default() as graph:
        n = tg.placeholder("int32", [])
        y = tg.while_loop(lambda i: i != n, lambda i: i + 1, [0])
    async with tg.Session(graph, devices=GPU, settings=ON) as session:
        with pytest.raises(tg.StepTimeout):
            await session.run(y, {n: np.int32(-1)}, timeout=0.5)
        assert await session.run(y, {n: np.int32(1000)}) == 1000


async def test_the_event_loop_goes_on():
    with tg.Graph().as_default() as graph:
        y = tg.while_loop(lambda i, _: i < 300_000, lambda i, x: (i + 1, x * 0.5 + 1.0), [0, tg.zeros([100])])
    async with tg.Session(graph, devices=GPU, settings=ON) as session:
        step, turns = asyncio.ensure_future(session.run(y)), 0
        while not step.done():
            await asyncio.sleep(0)
            turns += 1
        np.testing.assert_array_equal((await step)[1], np.full(100, 2, np.float32))
    assert turns > 3

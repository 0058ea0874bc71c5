"""Native loops mean the same as the step machine: as steps that are walked over, and compiled by LLVM.

``TAGFLOW_PROGRAMS`` sets the number of programs.
"""

import asyncio

import numpy as np
import tagflow as tg
from hypothesis import given, note
from hypothesis import strategies as st

from tests.property.executors import compare, run_session
from tests.property.gradient_programs import build_gradients
from tests.property.interpret import evaluate
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.translate import build
from tests.support.settings import ON

NATIVE = {"llvm": ON, "straight": ON.without("llvm")}
OFF = ON.without("straight")


@batches(100)
@batch_settings(100)
@given(mixed_programs(), st.sampled_from([1, 2, 32]))
def test_random_programs_as_native_loops(batch, program, window):
    async def check():
        expected = evaluate(program)
        built = build(program, window)
        feeds = built.feeds(program.values)
        for name, settings in NATIVE.items():
            async with tg.Session(built.graph, settings=settings) as session:
                compare(*await run_session(session, built, feeds), expected, name)

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())


@batches(30)
@batch_settings(30)
@given(smooth_programs(), st.sampled_from([1, 2, 32]))
def test_random_gradients_of_native_loops(batch, program, window):
    built, first, second = build_gradients(program, window)
    feeds = built.feeds(program.values)
    fetches = [*first, *second]

    async def run(settings):
        async with tg.Session(built.graph, settings=settings) as session:
            return await session.run(fetches, feeds)

    note(f"{show(program)}\n{program!r}")
    wanted = asyncio.run(run(OFF))
    for name, settings in NATIVE.items():
        for one, other in zip(asyncio.run(run(settings)), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)

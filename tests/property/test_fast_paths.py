"""Fast paths change no result: random programs with each of them off, and with none.

The programs are those of the tests of executors and gradients; ``TAGFLOW_PROGRAMS`` sets their number, as there.
"""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagflow as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagflow.base.settings import FAST_PATHS
from tagflow.kernels.scheduler.state import live_counts

from tests.property.executors import compare, run_session
from tests.property.gradient_programs import build_gradients
from tests.property.interpret import evaluate
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.translate import build
from tests.support.settings import ON

SWITCHES = {"none": ON} | {name: ON.without(name) for name in [*FAST_PATHS, "all"]}


async def run_switched(graph, run):
    """Yield what is off, and what running a session gives so, for each switch."""
    for off, settings in SWITCHES.items():
        async with tg.Session(graph, settings=settings) as session:
            yield off, await run(session)
        assert not any(live_counts()[key] for key in ("frames", "iterations", "values")), off


@batches(30)
@batch_settings(30)
@given(mixed_programs(), st.sampled_from([1, 2, 32]))
def test_random_programs_without_fast_paths(batch, program, window):
    async def check():
        expected = evaluate(program)
        built = build(program, window)
        feeds = built.feeds(program.values)
        async for off, found in run_switched(built.graph, lambda session: run_session(session, built, feeds)):
            compare(*found, expected, f"without {off}")

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())


@batches(10)
@batch_settings(10)
@given(smooth_programs(), st.sampled_from([1, 2, 32]))
def test_random_gradients_without_fast_paths(batch, program, window):
    async def check():
        built, first, second = build_gradients(program, window)
        feeds = built.feeds(program.values)
        run = run_switched(built.graph, lambda session: session.run([first, second], feeds))
        found = {off: results async for off, results in run}
        for off, results in found.items():
            for got, wanted in zip(results[0] + results[1], found["all"][0] + found["all"][1], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=f"without {off}")

    note(f"{show(program)}\n{program!r}")
    asyncio.run(check())


@pytest.mark.parametrize("names", [["fuse"], ["native", "loops"], ["all"]])
def test_what_is_switched_off(names):
    settings = replace(ON, drain_seconds=0.5).without(*names)
    off = [name for name, value in FAST_PATHS.items() if getattr(settings, name) == value]
    assert off == ([*FAST_PATHS] if names == ["all"] else names)
    assert settings.drain_seconds == 0.5


def test_a_fast_path_that_is_none():
    with pytest.raises(tg.GraphError, match="no such fast path") as caught:
        tg.Settings().without("fuze")
    assert "fuse" in str(caught.value.wanted)


def test_every_switch_is_a_fast_path():
    switches = {name for name, value in tg.Settings.__dataclass_fields__.items() if value.default is True}
    assert switches <= set(FAST_PATHS)

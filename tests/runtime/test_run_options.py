"""Options of a run: one object, shared by runs without options, and the watches that end with a refused run."""

import dataclasses
import sys

import pytest
import tagloom as tg
from tagloom.runtime.steps.run_options import NO_OPTIONS, RunOptions

from tests.support.waiting import turns

# Python functions that a call of a step without feeds enters until its end; the numbers may only fall.
MOST_FRAMES_OF_A_RUN = 76
MOST_FRAMES_OF_A_STEP = 40


def frames_entered(coroutine):
    """Return the names of the Python functions that a coroutine enters, where it ends without waiting."""
    found = []

    def note(frame, event, _):
        if event == "call":
            found.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        coroutine.send(None)
    except StopIteration:
        return found
    finally:
        sys.setprofile(before)
    raise AssertionError("the step has waited")


async def test_a_run_without_options_enters_no_more_functions_than_before(graph):
    nothing = tg.no_op()
    settings = tg.Settings(drain_seconds=10.0)  # the step ends in its first time slice
    async with tg.Session(graph, settings=settings) as session:
        step = session.make_step(nothing)
        await session.run(nothing)
        await step()
        await turns(2)  # a turn of the event loop in which no step has run
        assert len(frames_entered(session.run(nothing))) <= MOST_FRAMES_OF_A_RUN
        await turns(2)
        assert len(frames_entered(step())) <= MOST_FRAMES_OF_A_STEP


async def test_runs_without_options_share_one_object(graph, monkeypatch):
    x = tg.placeholder("float32", [])
    async with tg.Session(graph) as session:
        given = []
        run = session._steps.run

        def note(request, step, values, options):
            given.append(options)
            return run(request, step, values, options)

        monkeypatch.setattr(session._steps, "run", note)
        step = session.make_step(x, [x])
        await session.run(x, {x: 1.0})
        await step(1.0)
        await step(1.0, timeout=5.0, priority=1)
        report = tg.Report()
        await session.run(x, {x: 1.0}, report=report)
    assert given[:2] == [NO_OPTIONS, NO_OPTIONS]
    assert given[0] is given[1] is NO_OPTIONS
    assert given[2:] == [RunOptions(timeout=5.0, priority=1), RunOptions(report=report)]


def test_options_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        NO_OPTIONS.timeout = 1.0


async def test_a_refused_run_ends_its_watches(graph):
    x = tg.placeholder("float32", [])
    y = x + 1.0
    async with tg.Session(graph) as session:
        for options in ({"priority": "high"}, {"trace": True}, {"timeout": -1.0}):
            watch = tg.Watch(y)
            with pytest.raises(tg.GraphError):
                await session.run(y, {x: 1.0}, watch=watch, **options)
            assert [float(value) async for value in watch] == []

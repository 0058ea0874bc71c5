"""What a session counts and tells of its steps: statistics, on_step, reports of one step, peaks of memory."""

import asyncio
import logging

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON


class Service:
    """Steps that end in each way, and a gate that holds some of them."""

    def __init__(self):
        self.gate = asyncio.Event()
        with tg.Graph().as_default() as self.graph:
            self.x = tg.placeholder("float32", [], name="x")
            self.fine = tg.multiply(self.x, 2.0, name="fine")
            self.held = tg.py_function(self._hold, [self.x], "float32", name="held")
            self.broken = tg.py_function(self._fail, [], "float32", name="broken")

    async def _hold(self, x):
        await self.gate.wait()
        return x

    def _fail(self):
        raise ValueError("no")

    async def all_ways(self, session):
        """Run a step that ends in each way."""
        feeds = {self.x: 1.0}
        assert await session.run(self.fine, feeds) == 2.0
        with pytest.raises(tg.OpError):
            await session.run(self.broken)
        cancelled = asyncio.ensure_future(session.run(self.held, feeds))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        with pytest.raises(tg.StepTimeout):
            await session.run(self.held, feeds, timeout=0.01)


@pytest.fixture
def service():
    return Service()


async def test_how_steps_ended_is_counted(service, executor):
    async with tg.Session(service.graph, executor=executor) as session:
        await service.all_ways(session)
        async with await session.partial_run_setup(service.fine, [service.x]) as handle:
            assert await session.partial_run(handle, service.fine, {service.x: 2.0}) == 4.0
        async with await session.partial_run_setup(service.held, [service.x]):
            assert session.statistics().steps_running == 1
        left = asyncio.ensure_future(session.run(service.held, {service.x: 1.0}))
        await asyncio.sleep(0)
        found = session.statistics()
        assert (found.steps_started, found.steps_running) == (7, 1)
        assert (found.steps_finished, found.steps_failed) == (2, 1)
        assert (found.steps_cancelled, found.steps_timed_out) == (2, 1)
        assert found.steps_compiled == found.cached_steps == 5
        assert found.compile_seconds > 0
        assert found.waited_seconds == 0
    with pytest.raises(tg.SessionClosed):
        await left
    assert session.statistics().steps_cancelled == 3
    assert session.statistics().steps_running == 0


async def test_the_time_that_steps_wait_is_counted(service, executor):
    async with tg.Session(service.graph, executor=executor, max_steps=1) as session:
        first, second = (asyncio.ensure_future(session.run(service.held, {service.x: k})) for k in (1.0, 2.0))
        while not session.statistics().steps_waiting:
            await asyncio.sleep(0)
        service.gate.set()
        await asyncio.gather(first, second)
        assert session.statistics().waited_seconds > 0


@pytest.mark.parametrize("limit", [None, 1])
async def test_a_hook_is_told_of_each_step(service, executor, limit):
    records = []
    running = []

    def note(record):
        records.append(record)
        running.append(session.statistics().steps_running)

    async with tg.Session(service.graph, executor=executor, max_steps=limit, on_step=note) as session:
        await service.all_ways(session)
        names = [("fine:0",), ("broken:0",), ("held:0",), ("held:0",)]
        assert [record.fetches for record in records] == names
        assert [record.outcome for record in records] == ["finished", "failed", "cancelled", "timed out"]
        assert [type(record.error).__name__ for record in records[1:]] == ["OpError", "CancelledError", "StepTimeout"]
        assert records[0].error is None
        assert all(record.seconds > 0 and record.waited >= 0 for record in records)
        assert running == [0] * 4, "the step has ended then"
        async with await session.partial_run_setup([service.fine, service.x.op], [service.x]) as handle:
            await session.partial_run(handle, [service.fine, service.x.op], {service.x: 2.0})
        assert records[-1].fetches == ("fine:0", "x")
        assert records[-1].outcome == "finished"


async def test_what_a_hook_raises_is_logged(service, executor, caplog):
    def fail(record):
        raise ValueError(record.outcome)

    async with tg.Session(service.graph, executor=executor, on_step=fail) as session:
        with caplog.at_level(logging.ERROR, "tagloom"):
            assert await session.run(service.fine, {service.x: 1.0}) == 2.0
            with pytest.raises(tg.OpError):
                await session.run(service.broken)
    assert [str(record.exc_info[1]) for record in caplog.records] == ["finished", "failed"]


async def test_a_hook_is_no_coroutine_function(service):
    async def note(record):
        pass

    for wrong in (note, 3):
        with pytest.raises(tg.GraphError, match="on_step"):
            tg.Session(service.graph, on_step=wrong)


# ---- reports of one step


def loop(n, **options):
    return tg.while_loop(lambda i: i < n, lambda i: i + 1, [0], **options)


async def test_a_report_of_one_step_alone(graph, executor):
    n = tg.placeholder("int32", [])
    gates = {3: asyncio.Event(), 7: asyncio.Event()}

    async def wait(i, n):
        if i == 1:
            await gates[int(n)].wait()
        return i + 1

    y = tg.while_loop(lambda i: i < n, lambda i: tg.py_function(wait, [i, n], "int32", output_shapes=[]), [0])
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(y, feeds=[n])
        reports = {k: tg.Report() for k in gates}
        runs = {k: asyncio.ensure_future(step(k, report=report)) for k, report in reports.items()}
        for _ in range(8):
            await asyncio.sleep(0)
        assert reports[3] == reports[7] == tg.Report()
        for k in (7, 3):
            gates[k].set()
            assert await runs[k] == k
        for k, report in reports.items():
            assert [each.iterations for each in report.loops] == [k + 1]
            assert f"{k + 1} iterations" in str(report)
        gates[3].clear()
        report = tg.Report()
        with pytest.raises(tg.StepTimeout):
            await session.run(y, {n: 3}, timeout=0.01, report=report)
        assert report.loops[0].iterations == 2


async def test_a_report_over_devices(graph):
    with tg.device("/cpu:1"):
        y = loop(4)
    with tg.device("/cpu:0"):
        y = y + 1
    async with tg.Session(graph, devices=2) as session:
        report = tg.Report()
        assert await session.run([y, loop(3, name="other")], report=report) == [5, 3]
        assert {each.iterations for each in report.loops} == {4, 5}
        assert report.traffic


async def test_the_last_report_of_a_closed_session(graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        await session.run(loop(4))
        report = session.report()
    assert session.report() == report
    assert session.report().loops[0].iterations == 5
    assert tg.Session(graph).report() == tg.Report()


# ---- memory


async def test_peaks_begin_anew(graph, executor):
    x = tg.placeholder("float32", [None])
    y = tg.reduce_sum(tg.cumsum(x))
    async with tg.Session(graph, executor=executor, settings=ON) as session:
        await session.run(y, {x: np.zeros(100_000, np.float32)})
        assert session.statistics().peak_bytes > 400_000
        session.reset_peak_memory_stats()
        found = session.statistics()
        assert found.peak_bytes == found.live_bytes
        await session.run(y, {x: np.zeros(1000, np.float32)})
        assert 4000 < session.statistics().peak_bytes < 100_000

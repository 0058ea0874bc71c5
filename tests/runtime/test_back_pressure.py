"""A device that computes fast waits for one that is slow: what is under way between them stays within the windows."""

import asyncio

import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts

from tests.support.settings import ON

SIZE = 64  # elements of what is sent: 512 bytes


pytestmark = pytest.mark.usefixtures("graph", "collected")


def on(device):
    return tg.device(f"/cpu:{device}")


class Consumer:
    """Adds up what it is given, each time a turn of the event loop later, and looks at what waits meanwhile."""

    def __init__(self, stop_at=None):
        self.calls = self.most_waiting = 0
        self.stop_at, self.stopped = stop_at, asyncio.Event()

    async def __call__(self, total, x):
        self.calls += 1
        if self.calls == self.stop_at:
            self.stopped.set()
        await asyncio.sleep(0)
        self.most_waiting = max(self.most_waiting, rendezvous_of(self.session).waiting)
        return total + x[0]

    def add(self, total, x):
        return tg.py_function(self, [total, x], "float64", output_shapes=[])


def rendezvous_of(session):
    return session._steps.compiler.cache.last[1].rendezvous


def produce(consumer, trips, window, start=0.0):
    """Return a total over `trips` arrays, 1 in the first, made on one device and added up on the other."""

    def body(i, x, total):
        with on(0):
            x = x + 1.0
        with on(1):
            total = consumer.add(total, x)
        with on(0):
            return i + 1, x, total

    def more(i, *_):
        with on(0):
            return i < trips

    with on(0):
        x = tg.zeros([SIZE], "float64")
    with on(1):
        total = tg.identity(tg.constant(start, "float64"))
    return tg.while_loop(more, body, [tg.constant(0), x, total], parallel_iterations=window)[2]


def produce_in_rounds(consumer, rounds, trips, window):
    """Return a total as `produce` does, over so many rounds, which overlap."""

    def body(r, total):
        with on(0):
            r = r + 1
        return r, total + produce(consumer, trips, window)

    def more(r, _):
        with on(0):
            return r < rounds

    with on(1):
        total = tg.identity(tg.constant(0.0, "float64"))
    return tg.while_loop(more, body, [tg.constant(0), total], parallel_iterations=window)[1]


def total_of(trips):
    return trips * (trips + 1) / 2


def check_backlog(session, consumer, window):
    """Check that no edge ever held more than `window` messages, that one did, and what all held together."""
    traffic = rendezvous_of(session).traffic()
    assert max(each["most"] for each in traffic) == window
    assert all(each["waiting"] == 0 for each in traffic)
    assert 0 < consumer.most_waiting <= window * len(traffic)
    assert max(each.most_waiting for each in session.report().traffic) == window


@pytest.mark.parametrize("window", [1, 32])
async def test_a_producer_stays_within_its_window(window):
    consumer = Consumer()
    result = produce(consumer, 10_000, window)
    async with tg.Session(tg.get_default_graph(), devices=2, settings=ON) as consumer.session:
        assert await consumer.session.run(result) == total_of(10_000)
        check_backlog(consumer.session, consumer, window)
        memory = consumer.session.statistics().devices
        for figures in memory.values():
            assert figures.peak_bytes <= (2 * window + 4) * 8 * SIZE
    assert consumer.calls == 10_000


async def test_producers_in_rounds_stay_within_both_windows():
    consumer = Consumer()
    result = produce_in_rounds(consumer, 50, 100, 4)
    async with tg.Session(tg.get_default_graph(), devices=2, settings=ON) as consumer.session:
        assert await consumer.session.run(result) == 50 * total_of(100)
        check_backlog(consumer.session, consumer, 16)
    assert consumer.calls == 5_000


@pytest.mark.rule(121)
@pytest.mark.parametrize("build", [lambda c: produce(c, 10_000, 16), lambda c: produce_in_rounds(c, 100, 100, 4)])
async def test_a_backlog_goes_with_a_cancelled_step(build):
    consumer = Consumer(stop_at=500)
    result = build(consumer)
    async with tg.Session(tg.get_default_graph(), devices=2, settings=ON) as consumer.session:
        task = asyncio.create_task(consumer.session.run(result))
        await consumer.stopped.wait()
        assert rendezvous_of(consumer.session).waiting > 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rendezvous_of(consumer.session).waiting == 0
        assert not any(live_counts()[k] for k in ("frames", "iterations", "values"))
        assert consumer.session.statistics().live_bytes == 8 * SIZE  # the constant that x begins with
        assert consumer.calls == 500
        short = produce(consumer, 20, 16)
        assert await consumer.session.run(short) == total_of(20)

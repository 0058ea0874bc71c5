"""Steps that end in the middle of copies: failed, cancelled, late, closed. Nothing is left, and the next one works."""

import asyncio
import errno
import os
import random
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.resources import Resource
from tagloom.streams import CpuDevice, LatencyDevice, ManualDevice, VirtualClock

from tests.runtime.tasks import only_this_task
from tests.support.settings import ON
from tests.swap.loops import SIZE, feeds_of, gradient, plain
from tests.swap.observing import bytes_in_tiers, watched

LIMIT = 16 * SIZE
PLAIN = replace(ON, fold=False)  # small constants alone stay in memory
TIMES = {"Fused": 1.0, "Mul": 0.5, "HostToDevice": 1.5, "DeviceToHost": 1.5}
TIERS = ["host", "disk"]


def policy_for(tier, tmp_path, **options):
    fields = {"threshold": 0.3} | options
    return tg.SwapPolicy(**fields) if tier == "host" else tg.SwapPolicy(**fields, host_limit=1, disk=tmp_path)


@pytest.fixture
def program(graph):
    """What to fetch, what to feed, and what that gives."""
    fetch, feeds = gradient(plain), feeds_of(graph)

    async def run():
        async with tg.Session(graph, swap=True, settings=PLAIN) as session:
            return np.array(await session.run(fetch, feeds))  # in memory that nobody counts

    return fetch, feeds, asyncio.run(run())


def threads():
    return [each.name for each in threading.enumerate() if each.name.startswith(("tagloom disk", "tagloom /"))]


@asynccontextmanager
async def swapping(graph, program, device, policy):
    """Give a session on a device, and a function that checks that nothing is left and that the next step works."""
    fetch, feeds, expected = program
    async with tg.Session(graph, devices=[device], memory_limit=LIMIT, swap=policy, settings=PLAIN) as session:
        with watched() as swaps:

            async def check():
                assert not any(swap.copies for swap in swaps)
                assert only_this_task()
                assert session.statistics().steps_running == 0
                assert session.statistics().live_bytes < 100
                assert bytes_in_tiers(session) == 0
                found = await session.run(fetch, feeds, timeout=20)
                np.testing.assert_array_equal(found, expected)
                return sum(swap.counts.hits + swap.counts.misses for swap in swaps)

            yield session, check


# ---- copies that fail


class Breaking(CpuDevice):
    """A device on which one copy fails."""

    def __init__(self, name, stream, number):
        super().__init__(name)
        self.stream, self.number = stream, number

    def _copy(self, stream, copy):
        self.number -= stream == self.stream
        if self.number == 0 and stream == self.stream:
            return getattr(self, stream).submit(broken, kind="broken")
        return copy()

    def copy_all_out(self, pairs, **how):
        return self._copy("device_to_host", lambda: super(Breaking, self).copy_all_out(pairs, **how))

    def copy_all_in(self, pairs, **how):
        return self._copy("host_to_device", lambda: super(Breaking, self).copy_all_in(pairs, **how))


def broken():
    raise OSError(errno.EIO, "the bus is broken")


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("stream", ["device_to_host", "host_to_device"])
async def test_a_copy_that_fails(graph, program, tmp_path, tier, stream, number):
    policy = policy_for(tier, tmp_path, prefetch=0)
    async with (
        Breaking("/cpu:0", stream, number) as device,
        swapping(graph, program, device, policy) as (session, check),
    ):
        with pytest.raises(tg.SwapError, match=r"the bus is broken") as caught:
            await session.run(*program[:2], timeout=20)
        error = caught.value
        assert "a saved value of 16 KiB could not be copied" in error.what
        assert error.device.endswith("CPU:0")
        assert "SwapPolicy(disk=" in str(error)
        assert isinstance(error.__cause__, OSError)
        del caught, error
        assert await check()
    assert threads() == []


async def test_a_copy_ahead_that_fails_is_tried_again(graph, program):
    """Nobody waits for it, and when somebody does it comes."""
    policy = tg.SwapPolicy(threshold=0.5, prefetch=8)
    device = Breaking("/cpu:0", "host_to_device", 1 << 30)
    asked = count(1)
    bring = device.copy_all_in

    def copy_in(pairs, **how):
        device.number = 1 if next(asked) == 3 else 1 << 30
        return bring(pairs, **how)

    device.copy_all_in = copy_in
    async with device, swapping(graph, program, device, policy) as (session, check):
        with suppress(tg.SwapError):  # unless somebody waits just then
            np.testing.assert_array_equal(await session.run(*program[:2], timeout=20), program[2])
        assert next(asked) > 3
        device.copy_all_in = bring
        await check()


@pytest.mark.parametrize("number", [0, 1, 5])
async def test_a_full_disk(graph, program, tmp_path, monkeypatch, number):
    written = []
    pwrite = os.pwrite

    def write(descriptor, data, offset):
        written.append(len(data))
        if len(written) > number:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, data, offset)

    device = CpuDevice("/cpu:0")
    async with device, swapping(graph, program, device, policy_for("disk", tmp_path)) as (session, check):
        monkeypatch.setattr(os, "pwrite", write)
        with pytest.raises(tg.SwapError, match="No space left on device") as caught:
            await session.run(*program[:2], timeout=20)
        assert "could not be written to the file of swapped values" in caught.value.what
        assert "make room" in caught.value.hint
        del caught
        monkeypatch.setattr(os, "pwrite", pwrite)
        await check()
    assert list(tmp_path.iterdir()) == []
    assert threads() == []


async def test_a_disk_that_can_not_be_read(graph, program, tmp_path, monkeypatch):
    device = CpuDevice("/cpu:0")
    async with device, swapping(graph, program, device, policy_for("disk", tmp_path)) as (session, check):
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", lambda *_: broken())
            with pytest.raises(tg.SwapError, match="could not be copied back"):
                await session.run(*program[:2], timeout=20)
        await check()


async def test_short_writes_and_reads(graph, program, tmp_path, monkeypatch):
    pwrite, preadv = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: pwrite(descriptor, data[:5000], offset))
    monkeypatch.setattr(os, "preadv", lambda descriptor, into, offset: preadv(descriptor, [into[0][:3000]], offset))
    device = CpuDevice("/cpu:0")
    async with device, swapping(graph, program, device, policy_for("disk", tmp_path)) as (_, check):
        assert await check()


# ---- steps that are ended from outside


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("tier", TIERS)
async def test_cancelled_at_all_times(graph, program, tmp_path, tier):
    """In virtual time, in which a copy takes longer than what is computed meanwhile: before, in and after each."""
    async with VirtualClock() as clock:
        device = LatencyDevice("/cpu:0", seconds=TIMES, clock=clock)
        async with swapping(graph, program, device, policy_for(tier, tmp_path)) as (session, check):
            began = clock.now()
            await check()
            whole = clock.now() - began
            for number, moment in enumerate(np.arange(0.0, whole, 0.75)):
                step = asyncio.ensure_future(session.run(*program[:2]))
                await clock.sleep(moment)
                await turns(number % 4)
                step.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await step
                del step
                assert session.statistics().live_bytes < 100
                assert bytes_in_tiers(session) == 0
                assert only_this_task()
            await check()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("tier", TIERS)
async def test_cancelled_at_random(graph, program, tmp_path, tier, seed):
    rng = random.Random(seed)
    device = CpuDevice("/cpu:0")
    async with device, swapping(graph, program, device, policy_for(tier, tmp_path)) as (session, check):
        for _ in range(4):
            step = asyncio.ensure_future(session.run(*program[:2]))
            await asyncio.sleep(0.02 * rng.random() ** 2)
            step.cancel()
            result = (await asyncio.gather(step, return_exceptions=True))[0]
            assert isinstance(result, (asyncio.CancelledError, np.ndarray)), result
            del result, step
        await check()
    assert threads() == []


@pytest.mark.parametrize("tier", TIERS)
async def test_timeouts(graph, program, tmp_path, tier):
    device = CpuDevice("/cpu:0")
    async with device, swapping(graph, program, device, policy_for(tier, tmp_path)) as (session, check):
        late = 0
        for k in range(8):
            try:
                await session.run(*program[:2], timeout=0.0005 * k)
            except tg.StepTimeout:
                late += 1
        assert late
        await check()


def held(device, stream):
    """Say whether a copy has begun on a manual device's stream."""
    return getattr(device, stream).statistics().running > 0


async def until(condition, device, streams):
    """Let work end on some streams of a manual device until a condition holds."""
    while not condition():
        for stream in streams:
            if getattr(device, stream).statistics().running:
                getattr(device, stream).release()
        await asyncio.sleep(0)


HELD = {"device_to_host": ["compute", "host_to_device"], "host_to_device": ["compute", "device_to_host"]}


@pytest.mark.parametrize("stream", HELD)
@pytest.mark.parametrize("how", ["cancelled", "closed", "late"])
async def test_ended_in_the_middle_of_a_copy(graph, program, stream, how):
    """The step ends when the copy has, and the others on the stream were taken back."""
    device = ManualDevice("/cpu:0")
    async with (
        asyncio.timeout(20),
        device,
        swapping(graph, program, device, policy_for("host", None)) as (session, check),
    ):
        options = {"timeout": 0.3} if how == "late" else {}
        step = asyncio.ensure_future(session.run(*program[:2], **options))
        async with asyncio.timeout(5):
            await until(lambda: held(device, stream), device, HELD[stream])
        closing = asyncio.ensure_future(session.aclose()) if how == "closed" else None
        if how == "cancelled":
            step.cancel()
        late = asyncio.get_running_loop().time() + 0.3 * (how == "late")
        while asyncio.get_running_loop().time() < late or getattr(device, stream).statistics().waiting:
            await asyncio.sleep(0.001)  # works that wait for the copy are taken back
        assert not step.done()
        getattr(device, stream).release()
        with pytest.raises(
            {"cancelled": asyncio.CancelledError, "closed": tg.SessionClosed, "late": tg.StepTimeout}[how]
        ):
            await step
        del step
        if closing is None:
            device.release_all()
            await check()
        else:
            await closing
    assert device.live_bytes == 0


async def test_a_failing_operation_in_the_middle_of_copies(graph):
    def fail(k):
        return np.float32(1 // int(20 - k))

    def body(i, a):
        return i + 1, tg.tanh(a * x) + tg.py_function(fail, [i], "float32", output_shapes=[])

    x = tg.placeholder("float32", [4096], name="x")
    y = tg.while_loop(lambda i, _: i < 24, body, (0, x))[1]
    fetch, feeds = tg.gradients(tg.reduce_sum(y), [x])[0], feeds_of(graph)
    async with tg.Session(graph, memory_limit=LIMIT, swap=tg.SwapPolicy(threshold=0.3), settings=PLAIN) as session:
        for _ in range(3):
            with pytest.raises(tg.OpError, match="ZeroDivisionError"):
                await session.run(fetch, feeds)
            assert session.statistics().live_bytes < 100
            assert bytes_in_tiers(session) == 0
    assert threads() == []


async def test_an_exit_in_the_first_drain_leaves_no_copies(graph):
    """What is no Exception ends a step at once."""

    def leave(k):
        if k == 12:
            raise KeyboardInterrupt
        return np.float32(0)

    def body(i, a):
        return i + 1, tg.tanh(a * x) + tg.py_function(leave, [i], "float32", output_shapes=[])

    x = tg.placeholder("float32", [4096], name="x")
    y = tg.while_loop(lambda i, _: i < 24, body, (0, x))[1]
    fetch, feeds = tg.gradients(tg.reduce_sum(y), [x])[0], feeds_of(graph)
    settings = replace(PLAIN, drain_seconds=10.0)
    with watched() as swaps:
        async with tg.Session(
            graph, memory_limit=LIMIT, swap=tg.SwapPolicy(threshold=0.3), settings=settings
        ) as session:
            with pytest.raises(KeyboardInterrupt):
                await session.run(fetch, feeds)
            async with asyncio.timeout(5):
                while any(swap.copies for swap in swaps):
                    await asyncio.sleep(0.001)
            assert session.statistics().live_bytes < 100
            assert bytes_in_tiers(session) == 0


async def test_closing_a_session_again_and_when_cancelled(graph, program, tmp_path):
    session = tg.Session(graph, memory_limit=LIMIT, swap=policy_for("disk", tmp_path), settings=PLAIN)
    step = asyncio.ensure_future(session.run(*program[:2]))
    await turns(20)
    closing = asyncio.ensure_future(session.aclose())
    await turns(1)
    closing.cancel()
    await asyncio.wait([closing, step])
    await session.aclose()
    await session.aclose()
    with pytest.raises(tg.SessionClosed):
        await step
    assert threads() == []


@pytest.mark.parametrize("later", range(4))
async def test_a_close_that_is_cancelled_in_the_middle_of_a_copy(graph, program, tmp_path, caplog, later):
    """The file stays open for what the copy is to be written to, and is closed as the step ends."""
    device = ManualDevice("/cpu:0")
    options = {"memory_limit": LIMIT, "swap": policy_for("disk", tmp_path), "settings": PLAIN}
    async with asyncio.timeout(20), device:
        session = tg.Session(graph, devices=[device], **options)
        step = asyncio.ensure_future(session.run(*program[:2]))
        await until(lambda: held(device, "device_to_host"), device, HELD["device_to_host"])
        closing = asyncio.ensure_future(session.aclose())
        await turns(1)
        closing.cancel()
        device.device_to_host.release()
        await turns(later)
        device.release_all()
        with pytest.raises(tg.SessionClosed):
            await step
        assert only_this_task()
        assert threads() == []
        with pytest.raises(asyncio.CancelledError):
            await closing
        await session.aclose()
    assert caplog.records == []


async def test_a_close_that_is_cancelled_at_a_resource_releases_the_rest(graph, program, tmp_path):
    class Slow(Resource):
        label = "slow"

        async def aclose(self):
            began.set()
            await may_end.wait()

    began, may_end = asyncio.Event(), asyncio.Event()
    session = tg.Session(graph, memory_limit=LIMIT, swap=policy_for("disk", tmp_path), settings=PLAIN)
    await session.run(*program[:2])
    session.resources.get_or_create("slow", "slow", lambda _: Slow())
    assert threads()
    closing = asyncio.ensure_future(session.aclose())
    await began.wait()
    closing.cancel()
    await turns(3)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert threads() == []

"""Sessions on a device whose library compiles CUDA C, here for this machine: steps run by compiled kernels."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts
from tagloom.runtime.devices.device_values import DeviceValues
from tagloom.training import AdamOptimizer as Adam
from tagloom.training import MomentumOptimizer as Momentum

from tests.cuda.device import CompilingDevice
from tests.cuda.host import RawModule, compiler
from tests.runtime.device_programs import PROGRAMS, lstm
from tests.strict_array_library.library import WAITS, Special
from tests.support.settings import MACHINE, ON

pytestmark = pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler")


@pytest.fixture
async def device(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", Special())
    monkeypatch.setattr(RawModule, "launched", [])
    WAITS.reasons.clear()
    async with CompilingDevice() as device:
        yield device
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


async def ran(build, devices, settings=ON):
    with tg.Graph().as_default() as graph:
        fetches, feeds = build()
    async with tg.Session(graph, devices=devices, soft_placement=True, settings=settings) as session:
        return await session.run(fetches, feeds)


@pytest.mark.parametrize("build", PROGRAMS)
async def test_the_same_values(build, device):
    for found, wanted in zip(await ran(build, [device]), await ran(build, None), strict=True):
        assert found.dtype == wanted.dtype
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("optimizer", [lambda: Momentum(0.1, 0.9, use_nesterov=True), lambda: Adam(0.01)])
async def test_training(optimizer, device):
    data = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)
    trained = []
    for devices in (None, [device]):
        with tg.Graph().as_default() as graph:
            train, loss, x = lstm(optimizer())
            init = tg.global_variables_initializer()
        async with tg.Session(graph, devices=devices, settings=ON) as session:
            await session.run(init)
            losses = [(await session.run([loss, train], {x: data}))[0] for _ in range(4)]
            trained.append((losses, await session.read_variables()))
    (losses, variables), (found, others) = trained
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    for name, value in variables.items():
        np.testing.assert_allclose(others[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert set(RawModule.launched) == {"fused", "native"}
    assert WAITS.reasons == []


@pytest.mark.parametrize("optimizer", [lambda: Momentum(0.1, 0.9), lambda: Adam(0.01)])
async def test_who_has_read_variables_keeps_what_they_were(optimizer, device):
    with tg.Graph().as_default() as graph:
        w = tg.Variable(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), name="w")
        train = optimizer().minimize(tg.reduce_sum(tg.tanh(w * 2.0) * w))
        init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=[device], settings=ON) as session:
        await session.run(init)
        await session.run(train)
        kept = session.resources.snapshot()["variables"]
        before = await session.read_variables()
        RawModule.launched.clear()
        await session.run(train)
        after = await session.read_variables()
    assert "fused" in RawModule.launched
    for name in before:
        np.testing.assert_array_equal(device.call(kept[name].get), before[name])
        assert (after[name] != before[name]).any()


async def test_a_setting_turns_them_off(device):
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)

    def build():
        return [tg.tanh(tg.constant(x) * 2.0) + 1.0, tg.softmax(tg.constant(x) @ tg.constant(x.T))], {}

    settings = replace(ON, fold=False)
    await ran(build, [device], settings)
    assert sorted(set(RawModule.launched)) == ["fused", "softmax"]
    RawModule.launched.clear()
    await ran(build, [device], settings.without("native"))
    assert RawModule.launched == []


async def test_values_that_are_there_are_not_looked_at_again(device, monkeypatch):
    """Neither numbers that the host counts with nor arrays of the device ask for copies, of whatever number."""
    asked = []
    copy_in = DeviceValues.copy_in

    def counting(self, values):
        asked.append(len(values))
        return copy_in(self, values)

    monkeypatch.setattr(DeviceValues, "copy_in", counting)

    async def times(n):
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("float32", [3])
            y = tg.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, tg.tanh(a) * x), [0, x])[1]
        async with tg.Session(graph, devices=[device], settings=MACHINE) as session:
            asked.clear()
            await session.run(y, {x: np.ones(3, np.float32)})
        return len(asked)

    assert await times(40) == await times(4)

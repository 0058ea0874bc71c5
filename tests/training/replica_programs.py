"""A small model that replicas train on devices that take stated times."""

from contextlib import asynccontextmanager

import numpy as np
import tagloom as tg
from tagloom.streams import LatencyDevice, VirtualClock
from tagloom.training import GradientDescentOptimizer

RATE = 0.05
START = np.array([[1.0], [-2.0]], np.float32)


class Program:
    """Replica k fits ``x @ w`` to ``y``, which it is fed, on device k + 1; the model is on device 0."""

    def __init__(self, make, count, optimizer=None):
        with tg.Graph().as_default() as self.graph:
            with tg.device("/cpu:0"):
                self.w = tg.Variable(START, name="w")
                self.replicas = make(optimizer or GradientDescentOptimizer(RATE), count)
            self.x, self.y, self.losses = [], [], []
            for k in range(count):
                with tg.device(f"/cpu:{k + 1}"):
                    self.x.append(tg.placeholder("float32", [None, 2]))
                    self.y.append(tg.placeholder("float32", [None, 1]))
                    error = tg.matmul(self.x[k], self.w) - self.y[k]
                    self.losses.append(tg.reduce_mean(tg.square(error)))
                    self.replicas.minimize(self.losses[k])
            self.init = tg.global_variables_initializer()
        self.count = count

    def data(self, k):
        random = np.random.default_rng(k)
        return random.standard_normal((4, 2)).astype(np.float32), random.standard_normal((4, 1)).astype(np.float32)

    def feeds(self):
        return [dict(zip((self.x[k], self.y[k]), self.data(k), strict=True)) for k in range(self.count)]


def gradient(program, k, w):
    """Return the gradient of replica k, by NumPy."""
    x, y = program.data(k)
    return 2 * x.T @ (x @ w - y) / len(x)


@asynccontextmanager
async def running(program, *seconds, failures=None, seed=0, executor="machine"):
    """Yield a session on devices whose MatMul takes so long, and their clock; variables have their first values."""
    async with VirtualClock() as clock:
        devices = [LatencyDevice("/cpu:0", clock=clock)]
        for k in range(program.count):
            time = {"MatMul": seconds[min(k, len(seconds) - 1)]}
            fails = {"MatMul": failures[k]} if failures else None
            devices.append(LatencyDevice(f"/cpu:{k + 1}", seconds=time, failures=fails, seed=seed, clock=clock))
        async with tg.Session(program.graph, devices=devices, executor=executor) as session:
            await session.run(program.init)
            yield session, clock
        for device in devices:
            await device.aclose()

"""Models that are trained, saved and restored."""

import numpy as np
import tagloom as tg
from tagloom.training import AdamOptimizer

UNITS, BATCH = 6, 5


class Model:
    """A layer with dropout under Adam, in a loop, whose steps draw random numbers."""

    def __init__(self, seed=3):
        numbers = np.random.default_rng(1)
        with tg.Graph(seed=seed).as_default() as self.graph:
            self.x = tg.placeholder("float32", [BATCH, UNITS])
            self.w = tg.Variable(numbers.normal(size=[UNITS, UNITS]).astype(np.float32), name="w")
            self.b = tg.Variable(np.zeros(UNITS, np.float32), name="b")

            def cell(i, h):
                return i + 1, tg.tanh(tg.dropout(h, 0.8) @ self.w + self.b)

            _, state = tg.while_loop(lambda i, h: i < 3, cell, [0, self.x])
            self.count = tg.Variable(0, trainable=False, name="count")
            self.train = AdamOptimizer(0.05).minimize(tg.reduce_mean(tg.square(state - 0.3)), self.count)
            self.init = tg.global_variables_initializer()

    def batch(self, step):
        return np.random.default_rng(step).normal(size=[BATCH, UNITS]).astype(np.float32)

    async def run(self, session, first, last, after=None):
        """Train from one step to another."""
        for step in range(first, last):
            await session.run(self.train, {self.x: self.batch(step)})
            if after is not None:
                await after(step + 1)


def bits(values):
    """Return values by name as they can be compared."""
    return {name: (str(value.dtype), value.shape, value.tobytes()) for name, value in values.items()}


def variables(**values):
    """Return a graph with these variables."""
    with tg.Graph().as_default() as graph:
        for name, value in values.items():
            tg.Variable(value, name=name)
        graph.init = tg.global_variables_initializer()
    return graph

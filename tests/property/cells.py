"""Random cells in loops of all kinds: sums, products, concatenations and pieces of rows, weights and the state."""

from random import Random

import numpy as np
import tagloom as tg
from tagloom.compile.loops import liftable, split_matmul

LENGTH = 7


def make_every_product_worthwhile(monkeypatch):
    """Let passes lift and split products of any size."""
    for module in (liftable, split_matmul):
        monkeypatch.setattr(module, "WORTH", 1)


class Cells:
    """Builds one loop by chance, and draws what is fed."""

    def __init__(self, seed, batch=2, units=3, reads_arrays=True):
        self.random = Random(seed)
        self.batch, self.units, self.reads_arrays = batch, units, reads_arrays
        self.side = (batch, units)
        self.x = tg.placeholder("float64", [LENGTH, *self.side])
        self.context = tg.placeholder("float64", self.side)
        self.weights = [
            tg.placeholder("float64", s) for s in [(units, units)] * 3 + [(2 * units, units), (units, 2 * units)]
        ]
        self.ids = tg.placeholder("int32", [LENGTH, batch])
        self.table = tg.placeholder("float64", [5, units])
        self.count = tg.placeholder("int32", [])
        self.feeds = [self.x, self.context, *self.weights, self.ids, self.table, self.count]
        self.array = tg.TensorArray("float64", LENGTH, clear_after_read=False).unstack(self.x)

    def values(self, seed):
        random = np.random.default_rng(seed)
        drawn = [random.uniform(-1, 1, t.shape.as_tuple()) for t in self.feeds[:-3]]
        ids = random.integers(5, size=(LENGTH, self.batch)).astype(np.int32)
        return [*drawn, ids, random.uniform(-1, 1, (5, self.units)), np.int32(self.random.choice([3, LENGTH]))]

    def leaf(self, t, h):
        index = self.random.choice([t, t, t, LENGTH - 1 - t, self.up - t])
        return self.random.choice(
            [
                lambda: h,
                lambda: h,
                lambda: self.context,
                lambda: self.array.read(index) if self.reads_arrays else self.x[index],
                lambda: self.x[index],
                lambda: tg.gather(self.x, index),
                lambda: tg.gather(self.table, self.ids[t]),
                lambda: self.context * tg.cast(t, "float64"),
                lambda: tg.one_hot(self.ids[index], self.units, dtype="float64"),
            ]
        )()

    def expression(self, t, h, depth):
        """Return a matrix made of rows, the context, the counter and the state."""
        if depth == 0:
            return self.leaf(t, h)
        a, b = (self.expression(t, h, depth - 1) for _ in range(2))
        u, v, w, tall, wide = self.weights
        return self.random.choice(
            [
                lambda: tg.tanh(a) + b,
                lambda: a * b,
                lambda: a @ u + b @ v,
                lambda: tg.add_n([a @ u, a @ v, b @ w]),
                lambda: tg.matmul(a, u, transpose_b=True) * tg.matmul(a, v, transpose_b=True),
                lambda: tg.concat([a, b], 1) @ tall,
                lambda: tg.concat([b, a, self.context], 1) @ tg.concat([tall, w], 0),
                lambda: tg.transpose(tg.matmul(tall, tg.concat([a, b], 1), transpose_a=True, transpose_b=True)),
                lambda: tg.split(a @ wide, 2, axis=1)[0] + b,
                lambda: (a @ wide)[:, 1 : self.units + 1] * b,
                lambda: a - tg.reduce_mean(b, 1, keepdims=True),
                lambda: tg.softmax(a @ w) * b,
                lambda: tg.where(tg.greater(t, 2), a, b @ u),
                lambda: tg.reshape(tg.expand_dims(a, 0), self.side) + tg.reverse(b, [1]) @ v,
            ]
        )()

    def loop(self, **chosen):
        """Return the last state and gradients of a loop; `chosen` are options of the loop, by chance unless given."""
        self.up = self.random.choice([LENGTH - 1, 5])
        start, step = self.random.choice([(0, 1), (0, 1), (1, 1), (0, 2), (LENGTH - 1, -1)])
        bound = {
            "known": lambda t, h, _: t < LENGTH if step > 0 else t >= 0,
            "fed": lambda t, h, _: t < self.count if step > 0 else t > LENGTH - 1 - self.count,
            "state": lambda t, h, _: tg.logical_and(t < LENGTH if step > 0 else t >= 0, tg.reduce_sum(h) < 4.0),
        }[self.random.choice(["known", "fed", "state"])]
        depth = self.random.choice([1, 2, 3])
        out = tg.TensorArray("float64", LENGTH, element_shape=self.side)

        def body(t, h, out):
            h = tg.tanh(self.expression(t, h, depth))
            return t + step, h, out.write(t, h)

        options = {"checkpoint_every": 3} if self.random.random() < 0.1 else {}
        options |= {"swap_memory": True} if self.random.random() < 0.2 else {}
        _, h, out = tg.while_loop(bound, body, [start, tg.tanh(self.context), out], **(chosen or options))
        loss = tg.reduce_sum(tg.square(h)) + tg.reduce_sum(out.stack())
        return [h, *(g for g in tg.gradients(loss, [self.context, *self.weights, self.x]) if g is not None)]

"""Train a character model of eight LSTM layers, each on a device of its own, in one while_loop.

    python examples/model_parallel_lstm.py
    python examples/model_parallel_lstm.py --layers 4 --units 64 --steps 400

A layer works on a character as soon as the layer below has done so: while the first is at character 8, the last may be
at character 1. Nothing here says so; iterations of the loop overlap, and the devices speak through messages only. The
backward loop is cut in the same places, since a gradient goes where its operation is. The text is what Python's
`help()` prints (Yu et al., 2018, section 6.4, has this model on eight GPUs).
"""

import argparse
import asyncio
from dataclasses import dataclass
from itertools import islice

import numpy as np
import tagloom as tg
from tagloom.demo import Alphabet, load_text
from tagloom.demo.text import cut_epochs
from tagloom.training import AdamOptimizer


@dataclass(frozen=True)
class Size:
    """Of the model, and of the text that a step reads: `batch` streams of `length` characters."""

    layers: int = 8
    units: int = 48
    batch: int = 16
    length: int = 32


class Layer:
    """An LSTM on a device, whose output is added to its input, so that many of them can be stacked."""

    def __init__(self, number, units, random):
        self.device = f"/cpu:{number}"
        bias = np.zeros(4 * units, np.float32)
        bias[units : 2 * units] = 1  # the forget gate begins open
        with tg.device(self.device):
            self.weights = tg.Variable(normal(random, 2 * units, 4 * units), name=f"layer{number}/weights")
            self.bias = tg.Variable(bias, name=f"layer{number}/bias")

    def __call__(self, x, h, c):
        """Return the output and the next state, all of shape [batch, units]."""
        with tg.device(self.device):
            gates = tg.concat([x, h], 1) @ self.weights + self.bias
            i, f, o, candidate = tg.split(gates, 4, axis=1)
            c = tg.sigmoid(f) * c + tg.sigmoid(i) * tg.tanh(candidate)
            h = tg.sigmoid(o) * tg.tanh(c)
            return x + h, h, c


class Model:
    """The graph: what reads characters and says how well it foresaw the next ones, and what makes it better."""

    def __init__(self, characters, size, rate=4e-3, seed=0):
        random = np.random.default_rng(seed)
        shape = [size.length, size.batch]
        with tg.Graph().as_default() as self.graph:
            self.inputs, self.targets = (tg.placeholder("int32", shape, name) for name in ("inputs", "targets"))
            self.layers = [Layer(number, size.units, random) for number in range(size.layers)]
            with tg.device("/cpu:0"):
                embedding = tg.Variable(normal(random, characters, size.units), name="embedding")
                vectors = tg.gather(embedding, self.inputs)
            outputs = self.read(vectors, size)
            with tg.device(self.layers[-1].device):
                output = tg.Variable(normal(random, size.units, characters), name="output")
                logits = tg.reshape(outputs, [-1, size.units]) @ output
                labels = tg.reshape(self.targets, [-1])
                losses = tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                self.loss = tg.reduce_mean(losses)
            self.train = AdamOptimizer(rate).minimize(self.loss)
            self.initialize = tg.global_variables_initializer()

    def read(self, vectors, size):
        """Return the outputs of the last layer, [length, batch, units], each layer starting from zeros."""
        inputs = tg.TensorArray("float32", size.length).unstack(vectors)

        def body(t, states, outputs):
            x, after = inputs.read(t), []
            for layer, (h, c) in zip(self.layers, states, strict=True):
                x, h, c = layer(x, h, c)
                after.append((h, c))
            with tg.device(self.layers[-1].device):
                outputs = outputs.write(t, x)
            return t + 1, after, outputs

        zeros = tg.zeros([size.batch, size.units])
        start = [0, [(zeros, zeros) for _ in self.layers], tg.TensorArray("float32", size.length)]
        *_, outputs = tg.while_loop(lambda t, *_: t < size.length, body, start, name="time")
        return outputs.stack()


def normal(random, rows, columns):
    """Return random weights whose products keep the size of what they multiply."""
    return (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)


async def train(size, steps, devices, say=print, every=20):
    """Return the losses of `steps` steps, in nats per character, and the report of the last one."""
    text = load_text()
    alphabet = Alphabet.of(text)
    model = Model(len(alphabet), size)
    windows = cut_epochs(alphabet.encode(text), size.batch, size.length, seed=0)
    losses = []
    async with tg.Session(model.graph, devices=devices, soft_placement=devices < size.layers) as session:
        await session.run(model.initialize)
        step = session.make_step([model.loss, model.train], [model.inputs, model.targets])
        for window in islice(windows, steps):
            loss, _ = await step(window.inputs, window.targets)
            losses.append(float(loss))
            if len(losses) % every == 0:
                say(f"step {len(losses)}/{steps}: {np.mean(losses[-every:]):.3f} nats/char")
        return losses, session.report()


def describe(report):
    """Yield lines about the loops of a step, and about what went between devices."""
    yield from (str(loop) for loop in report.loops)
    messages, size = sum(t.messages for t in report.traffic), sum(t.bytes for t in report.traffic)
    yield f"{messages} messages of {size:,} bytes together went between {len(report.traffic)} pairs of devices"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=Size.layers)
    parser.add_argument("--units", type=int, default=Size.units)
    parser.add_argument("--batch", type=int, default=Size.batch)
    parser.add_argument("--length", type=int, default=Size.length)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--devices", type=int, help="fewer than layers: what has no device of its own shares others")
    options = parser.parse_args()
    size = Size(options.layers, options.units, options.batch, options.length)
    _, report = asyncio.run(train(size, options.steps, options.devices or size.layers))
    print("\nThe last step:", *describe(report), sep="\n")


if __name__ == "__main__":
    main()

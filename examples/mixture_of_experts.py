"""Train two recurrent layers with a mixture of experts between them, spread over devices (Yu et al., 2018, Figure 1).

    python examples/mixture_of_experts.py
    python examples/mixture_of_experts.py --experts 8 --batch 4

At each character a gate chooses one expert for every text of the batch. An expert is a network on a device of its own,
inside a `cond`: where no text chose it, it is not computed, its device gets one message that says so, and neither is
its share of the gradient. All of it stands in one while_loop, in whose iterations the devices may be far apart. The
text is what Python's `help()` prints.
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

LOWER, UPPER = "/cpu:0", "/cpu:1"  # of the recurrent layers; the experts have the devices after these


@dataclass(frozen=True)
class Size:
    """Of the model, and of the text that a step reads: `batch` streams of `length` characters."""

    experts: int = 6
    units: int = 64
    hidden: int = 128
    batch: int = 8
    length: int = 32

    @property
    def devices(self):
        """How many devices there are to use."""
        return 2 + self.experts


class Recurrent:
    """Gated recurrent units (Cho et al., 2014) on a device."""

    def __init__(self, device, units, random):
        self.device = device
        with tg.device(device):
            self.gates = tg.Variable(normal(random, 2 * units, 2 * units))
            self.candidate = tg.Variable(normal(random, 2 * units, units))

    def __call__(self, x, h):
        """Return the next state, which is also the output: [batch, units]."""
        with tg.device(self.device):
            forget, keep = tg.split(tg.sigmoid(tg.concat([x, h], 1) @ self.gates), 2, axis=1)
            return keep * h + (1.0 - keep) * tg.tanh(tg.concat([x, forget * h], 1) @ self.candidate)


class Expert:
    """A network of two layers on a device."""

    def __init__(self, number, size, random):
        self.device = f"/cpu:{2 + number}"
        with tg.device(self.device):
            self.into = tg.Variable(normal(random, size.units, size.hidden))
            self.out_of = tg.Variable(normal(random, size.hidden, size.units))

    def __call__(self, rows):
        """Return its answer to each row of [n, units]."""
        with tg.device(self.device):
            return tg.matmul(tg.relu(rows @ self.into), self.out_of, name="answer")


class Mixture:
    """Experts, and the gate that chooses the one whose answer is added to a row, in proportion to its probability."""

    def __init__(self, size, random):
        with tg.device(LOWER):
            self.gate = tg.Variable(normal(random, size.units, size.experts))
        self.experts = [Expert(number, size, random) for number in range(size.experts)]

    def __call__(self, x):
        """Return rows like `x`, [batch, units], and which experts were consulted, float32 [experts]."""
        with tg.device(LOWER):
            shares = tg.softmax(x @ self.gate)
            best = tg.argmax(shares, axis=1)
            answers, consulted = zip(*(self.consult(k, x, shares, best) for k in range(len(self.experts))), strict=True)
            return x + tg.add_n(answers), tg.cast(tg.stack(consulted), "float32")

    def consult(self, number, x, shares, best):
        """Return what an expert adds to each row, zeros where it was not chosen, and whether it was at all."""
        rows = tg.where(tg.equal(best, number))
        is_chosen = tg.size(rows) > 0

        def ask():
            share = tg.expand_dims(tg.gather_nd(shares[:, number], rows), 1)
            return tg.scatter_nd(rows, share * self.experts[number](tg.gather_nd(x, rows)), x.shape.as_tuple())

        return tg.cond(is_chosen, ask, lambda: tg.zeros_like(x), name=f"expert{number}"), is_chosen


class Model:
    """The graph: what reads characters and says how well it foresaw the next ones, and what makes it better."""

    def __init__(self, characters, size, rate=5e-3, seed=0):
        random = np.random.default_rng(seed)
        shape = [size.length, size.batch]
        with tg.Graph().as_default() as self.graph:
            self.inputs, self.targets = (tg.placeholder("int32", shape, name) for name in ("inputs", "targets"))
            self.lower, self.upper = (Recurrent(device, size.units, random) for device in (LOWER, UPPER))
            self.mixture = Mixture(size, random)
            with tg.device(LOWER):
                embedding = tg.Variable(normal(random, characters, size.units))
                vectors = tg.gather(embedding, self.inputs)
            outputs, self.consulted = self.read(vectors, size)
            with tg.device(UPPER):
                output = tg.Variable(normal(random, size.units, characters))
                logits = tg.reshape(outputs, [-1, size.units]) @ output
                labels = tg.reshape(self.targets, [-1])
                losses = tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                self.loss = tg.reduce_mean(losses)
            optimizer = AdamOptimizer(rate)
            gradients, variables = zip(*optimizer.compute_gradients(self.loss), strict=True)
            clipped, _ = tg.clip_by_global_norm(gradients, 1.0)
            self.train = optimizer.apply_gradients(zip(clipped, variables, strict=True))
            self.initialize = tg.global_variables_initializer()

    def read(self, vectors, size):
        """Return the outputs, [length, batch, units], and at how many characters each expert was consulted."""
        inputs = tg.TensorArray("float32", size.length).unstack(vectors)

        def body(t, low, high, consulted, outputs):
            low = self.lower(inputs.read(t), low)
            mixed, here = self.mixture(low)
            high = self.upper(mixed, high)
            with tg.device(UPPER):
                outputs = outputs.write(t, high)
            return t + 1, low, high, consulted + here, outputs

        zeros = tg.zeros([size.batch, size.units])
        start = [0, zeros, zeros, tg.zeros([size.experts]), tg.TensorArray("float32", size.length)]
        *_, consulted, outputs = tg.while_loop(lambda t, *_: t < size.length, body, start, name="time")
        return outputs.stack(), consulted


def normal(random, rows, columns):
    """Return random weights whose products keep the size of what they multiply."""
    return (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)


async def train(size, steps, devices=None, say=print, every=40, trace=None):
    """Train on Python's help texts.

    Returns
    -------
    losses : list of float
        Of each step, in nats per character.
    consulted : float32 array of shape [steps, experts]
        At how many characters of a step each expert was computed.
    report : tagloom.Report
        Of the last step.
    """
    text = load_text()
    alphabet = Alphabet.of(text)
    model = Model(len(alphabet), size)
    windows = cut_epochs(alphabet.encode(text), size.batch, size.length, seed=0)
    losses, consulted = [], []
    async with tg.Session(model.graph, devices=devices or size.devices, soft_placement=devices is not None) as session:
        await session.run(model.initialize)
        step = session.make_step([model.loss, model.consulted, model.train], [model.inputs, model.targets])
        for window in islice(windows, steps):
            loss, here, _ = await step(window.inputs, window.targets, trace=trace)
            losses.append(float(loss))
            consulted.append(here)
            if len(losses) % every == 0:
                shares = np.mean(consulted[-every:], axis=0) / size.length
                say(f"step {len(losses)}/{steps}: {np.mean(losses[-every:]):.3f} nats/char; experts {percent(shares)}")
        return losses, np.array(consulted), session.report()


def percent(shares):
    """Return shares in words."""
    return " ".join(f"{share:.0%}" for share in shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("experts", "units", "hidden", "batch", "length"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size, name))
    parser.add_argument("--steps", type=int, default=400)
    options = vars(parser.parse_args())
    steps = options.pop("steps")
    _, _, report = asyncio.run(train(Size(**options), steps))
    print("\nThe last step:", *report.traffic, sep="\n")


if __name__ == "__main__":
    main()

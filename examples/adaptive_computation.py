"""Learn the parity of bits by a network that decides for each row how long to think (Graves, 2016).

    python examples/adaptive_computation.py
    python examples/adaptive_computation.py --bits 6 --cost 0.003

Each row has as many bits as chance will have it. A cell sees all of them at every step, and says how likely it is done;
a row halts when these chances add up to one, and its answer is the mean of its steps' answers, weighted by them. The
loop ends with the row that thinks longest. What rows ponder is part of the loss: steps, and what is left of the chance
at the last of them, which has a gradient.
"""

import argparse
import asyncio
from dataclasses import dataclass

import numpy as np
import tagloom as tg
from tagloom.training import AdamOptimizer

HALTED = 0.99  # chances that add up to this are enough


@dataclass(frozen=True)
class Size:
    """Of the model, and of a batch of rows with 1 to `bits` bits."""

    units: int = 64
    batch: int = 128
    bits: int = 4
    most: int = 12


def draw(random, size):
    """Draw rows of -1 and 1, zero behind their ends, and whether the ones are odd in number."""
    signs = random.choice(np.float32([-1, 1]), (size.batch, size.bits))
    signs *= np.arange(size.bits) < random.integers(1, size.bits + 1, (size.batch, 1))
    return signs, (signs == 1).sum(1) % 2 == 1


class Model:
    """The graph: what ponders, and what makes it better."""

    def __init__(self, size, cost=1e-3, rate=1e-2, seed=0):
        self.size = size
        with tg.Graph().as_default() as self.graph:
            tg.set_random_seed(seed)
            self.bits = tg.placeholder("float32", [size.batch, size.bits])
            self.odd = tg.placeholder("bool", [size.batch])
            self.cell = tg.nn.GRUCell(size.units)
            self.out = tg.Variable(tg.random_normal([size.units, 2], stddev=0.3))  # answer, and whether it is done
            self.out_bias = tg.Variable(np.float32([0.0, 1.0]))  # at first rows think briefly
            answers, self.steps, ponder = self.think()
            labels = tg.cast(self.odd, "float32")
            self.loss = tg.reduce_mean(tg.sigmoid_cross_entropy_with_logits(labels=labels, logits=answers))
            self.right = tg.reduce_mean(tg.cast(tg.equal(answers > 0.0, self.odd), "float32"))
            total = self.loss + cost * tg.reduce_mean(ponder)
            optimizer = AdamOptimizer(rate)
            gradients, variables = zip(*optimizer.compute_gradients(total), strict=True)
            clipped, _ = tg.clip_by_global_norm(gradients, 1.0)
            self.train = optimizer.apply_gradients(zip(clipped, variables, strict=True))
            self.initialize = tg.global_variables_initializer()

    def think(self):
        """Return for each row its answer, how many steps it took, and what it pondered."""
        zeros = tg.zeros([self.size.batch])

        def body(t, state, chance, answer, steps, left):
            thinks = chance < HALTED
            first = tg.fill([self.size.batch, 1], tg.cast(tg.equal(t, 0), "float32"))
            output, after = self.cell(tg.concat([self.bits, first], 1), state)
            said, halt = (tg.squeeze(part, [1]) for part in tg.split(output @ self.out + self.out_bias, 2, axis=1))
            done = tg.sigmoid(halt)
            is_last = tg.logical_or(chance + done >= HALTED, tg.equal(t, self.size.most - 1))
            share = tg.where(is_last, 1.0 - chance, done)
            share = tg.where(thinks, share, zeros)
            left = tg.where(tg.logical_and(thinks, is_last), share, left)
            state = tg.where(thinks[:, None], after, state)
            steps = steps + tg.cast(thinks, "float32")
            return t + 1, state, tg.where(is_last, 1.0, chance + share), answer + share * said, steps, left

        start = (0, self.cell.zero_state(self.size.batch), zeros, zeros, zeros, zeros)
        *_, answer, steps, left = tg.while_loop(
            lambda t, state, chance, *_: tg.reduce_any(chance < HALTED), body, start, name="think"
        )
        return answer, steps, steps + left


async def train(size, steps, say=print, every=200, seed=0, **options):
    """Train on drawn rows.

    Returns
    -------
    losses : list of float
    right : float
        Share of right answers to rows drawn later.
    pondered : list of float
        Mean steps for rows of 1, 2, ... bits.
    report : tagloom.Report
        Of the last step of training.
    """
    model, random, losses = Model(size, seed=seed, **options), np.random.default_rng(seed), []
    async with tg.Session(model.graph) as session:
        await session.run(model.initialize)
        step = session.make_step([model.loss, model.right, model.steps, model.train], [model.bits, model.odd])
        for _ in range(steps):
            loss, right, pondered, _ = await step(*draw(random, size))
            losses.append(float(loss))
            if len(losses) % every == 0:
                say(
                    f"step {len(losses)}/{steps}: {loss:.3f} nats, {right:.0%} right, {pondered.mean():.1f} steps a row"
                )
        report = session.report()
        return losses, *(await tested(session, model, [draw(random, size) for _ in range(8)])), report


async def tested(session, model, batches):
    """Return the share of right answers, and the mean steps for rows of 1, 2, ... bits."""
    answer = session.make_step([model.right, model.steps], [model.bits, model.odd])
    found = [await answer(*batch) for batch in batches]
    counts = np.concatenate([(bits != 0).sum(1) for bits, _ in batches])
    steps = np.concatenate([steps for _, steps in found])
    pondered = [float(steps[counts == n].mean()) for n in range(1, model.size.bits + 1)]
    return float(np.mean([right for right, _ in found])), pondered


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("units", "batch", "bits", "most"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size, name))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--cost", type=float, default=1e-3)
    options = vars(parser.parse_args())
    steps, cost = options.pop("steps"), options.pop("cost")
    _, right, pondered, report = asyncio.run(train(Size(**options), steps, cost=cost))
    print(f"right of rows never seen: {right:.1%}; steps by number of bits:", *(f"{n:.1f}" for n in pondered))
    print(*report.loops, sep="\n")


if __name__ == "__main__":
    main()

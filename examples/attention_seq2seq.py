"""Learn to reverse or to sort sequences of digits, with attention (Bahdanau et al., 2015), and decode by beam search.

    python examples/attention_seq2seq.py
    python examples/attention_seq2seq.py --task sort

An encoder reads the digits; a decoder writes them in another order, and looks at each step at the places of its choice.
It is trained on the right digits as inputs, in one while_loop, and then writes on its own in another: the likeliest of
all symbols, or by a search of the likeliest sequences.
"""

import argparse
import asyncio
from dataclasses import dataclass

import numpy as np
import tagloom as tg
from tagloom.compat import tf1
from tagloom.training import AdamOptimizer

DIGITS = 10
START, END = DIGITS, DIGITS + 1
SYMBOLS = DIGITS + 2
TASKS = {"reverse": lambda digits: digits[::-1], "sort": np.sort}


@dataclass(frozen=True)
class Size:
    """Of the model, and of the sequences: from 1 to `length` digits."""

    units: int = 64
    batch: int = 64
    length: int = 6
    width: int = 3


@dataclass(frozen=True)
class Batch:
    """Digits of sequences, those that are to be written behind a start, the same before an end, and their number."""

    digits: np.ndarray
    before: np.ndarray
    after: np.ndarray
    lengths: np.ndarray

    @property
    def arrays(self):
        """What a step is fed."""
        return [self.digits, self.before, self.after, self.lengths]


def draw(random, size, task):
    """Draw a batch of a task; END fills up."""
    lengths = random.integers(1, size.length + 1, size.batch).astype(np.int32)
    digits = np.full((size.batch, size.length), END, np.int32)
    before, after = (np.full((size.batch, size.length + 1), END, np.int32) for _ in range(2))
    before[:, 0] = START
    for row, n in enumerate(lengths):
        digits[row, :n] = random.integers(DIGITS, size=n)
        before[row, 1 : n + 1] = after[row, :n] = TASKS[task](digits[row, :n])
    return Batch(digits, before, after, lengths)


class Model:
    """The graph: what trains, and what writes."""

    def __init__(self, size, rate=5e-3, seed=0):
        self.size = size
        with tg.Graph().as_default() as self.graph:
            tg.set_random_seed(seed)
            shapes = ([size.length], [size.length + 1], [size.length + 1], [])
            self.feeds = [tg.placeholder("int32", [size.batch, *shape]) for shape in shapes]
            digits, before, after, lengths = self.feeds
            self.embedding = tg.Variable(tg.random_normal([SYMBOLS, size.units], stddev=0.3))
            self.cell, self.decoder_cell = tg.nn.GRUCell(size.units), tg.nn.GRUCell(size.units)
            self.out = tg.Variable(tg.random_normal([size.units, SYMBOLS], stddev=0.1))
            memory, last = tg.nn.dynamic_rnn(self.cell, tg.gather(self.embedding, digits), lengths)
            self.attention = tf1.LuongAttention(size.units, memory, lengths)
            self.wrapper = tf1.AttentionWrapper(self.decoder_cell, self.attention, size.units)
            self.loss = self.trained(before, after, lengths, last)
            self.train = AdamOptimizer(rate).minimize(self.loss)
            self.greedy = self.written(last)
            self.searched = self.searched_for(lengths, last)
            self.initialize = tg.global_variables_initializer()

    def logits(self, attention):
        """Return scores of the symbols."""
        return attention @ self.out

    def begin(self, cell, last, rows):
        """Return the state in which a decoder begins: that in which the encoder ended."""
        return cell.zero_state(rows)._replace(cell_state=last)

    def trained(self, before, after, lengths, last):
        """Return the mean loss of the symbols that are to be written."""
        helper = tf1.TrainingHelper(tg.gather(self.embedding, before), lengths + 1)
        decoder = tf1.BasicDecoder(self.wrapper, helper, self.begin(self.wrapper, last, self.size.batch), self.logits)
        logits = tf1.dynamic_decode(decoder)[0].rnn_output
        wanted = after[:, : tg.shape(logits)[1]]
        losses = tg.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits)
        counts = tg.sequence_mask(lengths + 1, tg.shape(logits)[1], "float32")
        return tg.reduce_sum(losses * counts) / tg.reduce_sum(counts)

    def written(self, last):
        """Return what the decoder writes if it takes the likeliest symbol each time."""
        helper = tf1.GreedyEmbeddingHelper(self.embedding, tg.fill([self.size.batch], START), END)
        decoder = tf1.BasicDecoder(self.wrapper, helper, self.begin(self.wrapper, last, self.size.batch), self.logits)
        return tf1.dynamic_decode(decoder, maximum_iterations=self.size.length + 1)[0].sample_id

    def searched_for(self, lengths, last):
        """Return the best sequences that a beam search finds."""
        width, rows = self.size.width, self.size.batch
        tiled = tf1.tile_batch([self.attention.values, lengths, last], width)
        attention = tf1.LuongAttention(self.size.units, tiled[0], tiled[1])
        attention.keys = tf1.tile_batch(self.attention.keys, width)
        cell = tf1.AttentionWrapper(self.decoder_cell, attention, self.size.units)
        cell.layers = self.wrapper.layers
        start = tg.fill([rows], START)
        state = self.begin(cell, tiled[2], rows * width)
        decoder = tf1.BeamSearchDecoder(cell, self.embedding, start, END, state, width, self.logits)
        found = tf1.dynamic_decode(decoder, maximum_iterations=self.size.length + 1)[0]
        return found.predicted_ids[:, :, 0]


def exact(written, batch):
    """Return the share of sequences that were written without a mistake."""
    rows = zip(written, batch.after, batch.lengths, strict=True)
    return float(np.mean([np.array_equal(row[: n + 1], wanted[: n + 1]) for row, wanted, n in rows]))


async def train(size, steps, task="reverse", say=print, every=100, seed=0):
    """Train on drawn sequences; return the losses, and the exact shares of later ones, greedily and by beams."""
    model, random = Model(size, seed=seed), np.random.default_rng(seed)
    losses = []
    async with tg.Session(model.graph) as session:
        await session.run(model.initialize)
        step = session.make_step([model.loss, model.train], model.feeds)
        for _ in range(steps):
            loss, _ = await step(*draw(random, size, task).arrays)
            losses.append(float(loss))
            if len(losses) % every == 0:
                say(f"step {len(losses)}/{steps}: {np.mean(losses[-every:]):.3f} nats a symbol")
        return losses, *(await tested(session, model, [draw(random, size, task) for _ in range(8)]))


async def tested(session, model, batches):
    """Return the shares of sequences that are exact, greedily and by beams."""
    write = session.make_step([model.greedy, model.searched], model.feeds)
    shares = []
    for batch in batches:
        greedy, searched = await write(*batch.arrays)
        shares.append([exact(greedy, batch), exact(searched, batch)])
    return np.mean(shares, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(TASKS), default="reverse")
    for name in ("units", "batch", "length", "width"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size, name))
    parser.add_argument("--steps", type=int, default=1000)
    options = vars(parser.parse_args())
    steps, task = options.pop("steps"), options.pop("task")
    _, greedy, searched = asyncio.run(train(Size(**options), steps, task))
    print(f"exact of sequences never seen: {greedy:.1%} greedily, {searched:.1%} by a search")


if __name__ == "__main__":
    main()

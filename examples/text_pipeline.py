"""Train on lines of text that a pipeline reads, makes numbers of, shuffles and puts into batches of about one length.

    python examples/text_pipeline.py
    python examples/text_pipeline.py --directory run --steps 200   # once more with --steps 400 to go on from there

A line is prose of Python's documentation or code of its standard library; the model says which, by the mean of its
words' vectors. With a directory a run that was interrupted goes on as if it had not been: the place in the files, the
shuffle buffer and the half-full batches are in its checkpoints.
"""

import argparse
import asyncio
import importlib.util
import pydoc_data.topics
import re
import tempfile
import zlib
from pathlib import Path

import numpy as np
import tagloom as tg
from tagloom.training import AdamOptimizer, Checkpointer

WORDS = 4096  # vectors, which words share by their hashes
UNITS = 16
BOUNDARIES, SIZES = [4, 8, 16], [64, 64, 32, 16]  # lengths of lines, and lines in a batch
HELD_OUT = 5  # one of so many lines is for testing
SPEC = (tg.TensorSpec([None], "int32"), tg.TensorSpec([], "float32"))
MODULES = ("argparse", "json.decoder", "asyncio.events", "typing", "tarfile", "inspect")


def write_texts(directory):
    """Write prose.txt and code.txt."""
    prose = "\n".join(pydoc_data.topics.topics.values())
    code = "\n".join(Path(importlib.util.find_spec(name).origin).read_text("utf-8") for name in MODULES)
    for name, text in (("prose", prose), ("code", code)):
        Path(directory, f"{name}.txt").write_text(text, "utf-8")


def tokens(line):
    """Return the numbers of a line's words; 0 is for padding."""
    return [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in re.findall(r"\w+|[^\w\s]", line)]


def lines(directory, label):
    """Return pairs of a line's words and its label."""
    texts = tg.data.from_text(Path(directory, f"{label}.txt"))
    return texts.map(tokens).filter(bool).map(lambda words: (words, float(label == "code")), output=SPEC)


def both(directory, held_out):
    """Return the lines of both files in turn, for testing or for training."""
    pairs = tg.data.from_iterable(["prose", "code"]).interleave(lambda label: lines(directory, label), 2, output=SPEC)
    numbered = pairs.enumerate().filter(lambda pair: (pair[0] // 2 % HELD_OUT == 0) == held_out)
    return numbered.map(lambda pair: pair[1], output=SPEC)


def in_batches(pairs):
    """Return batches of lines of about one length."""
    return pairs.bucket_by_length(lambda pair: len(pair[0]), BOUNDARIES, SIZES)


def logits(table, weights, words):
    """Return how much each line of a batch looks like code."""
    is_word = tg.cast(tg.not_equal(words, 0), "float32")
    mean = tg.reduce_sum(tg.gather(table, words) * is_word[:, :, None], axis=1)
    return tg.reduce_sum(mean / tg.reduce_sum(is_word, axis=1)[:, None] * weights, axis=1)


def build(texts):
    """Return a graph, and what training and testing fetch."""
    with tg.Graph(seed=1).as_default() as graph:
        table = tg.Variable(tg.random_normal([WORDS, UNITS], stddev=0.1, seed=2), name="table")
        weights = tg.Variable(tg.random_normal([UNITS], stddev=0.1, seed=3), name="weights")
        words, is_code = in_batches(both(texts, False).shuffle(2000, seed=4).repeat()).prefetch(4).next(name="train")
        loss = tg.reduce_mean(
            tg.sigmoid_cross_entropy_with_logits(labels=is_code, logits=logits(table, weights, words))
        )
        train = AdamOptimizer(0.02).minimize(loss)
        words, is_code = in_batches(both(texts, True)).next(name="test")
        right = tg.equal(logits(table, weights, words) > 0.0, is_code > 0.5)
        return graph, (loss, train), right, tg.global_variables_initializer()


async def run(texts, directory, steps, say=print):
    """Train, from the newest checkpoint on if there is one; return losses and the part of lines that it tells apart."""
    graph, training, right, init = build(texts)
    losses, found = [], []
    async with Checkpointer(directory, every_steps=50) as checkpointer, tg.Session(graph) as session:
        await session.run(init)
        restored = await checkpointer.restore(session)
        for step in range(restored.step if restored else 0, steps):
            loss, _ = await session.run(training)
            losses.append(float(loss))
            await checkpointer.save_if_due(session, step + 1)
            if (step + 1) % 50 == 0:
                say(f"step {step + 1}: loss {np.mean(losses[-50:]):.3f}")
        try:
            while True:
                found.extend(await session.run(right))
        except tg.QueueClosed:
            say(f"{np.mean(found):.1%} of {len(found)} lines that it has not seen")
    return losses, float(np.mean(found))


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", help="of checkpoints, kept")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as texts:
        write_texts(texts)
        asyncio.run(run(texts, options.directory or f"{texts}/checkpoints", options.steps))


if __name__ == "__main__":
    main()

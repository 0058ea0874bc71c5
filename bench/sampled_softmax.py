"""A language model with 40,000 words (Abadi et al., 2016, section 6.4, Figure 9): a softmax over all, or over a sample.

LSTM-512-512 reads words; embeddings and the weights of the softmax are in shards, one on each device. Three ways to
train it: by a sample of 512 words ("tagloom"), whose rows of the weights travel; by all words ("full"), where of each
shard's logits only the logarithm of their sum travels; by all words as one would write it at first ("logits"), where
shards multiply and all logits go to one device. Sampling computes 78 times fewer logits than both.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed
from .lstm_train import cell

WORDS, SAMPLED = 40_000, 512
UNITS, LAYERS = 512, 2
BATCH, LENGTH = 16, 20
BYTES = "bytes_between_devices"
LOGITS = "logits for each word"
LSTM = "/cpu:0"


def sample(random: np.random.Generator, targets: np.ndarray) -> list[np.ndarray]:
    """Draw words without repetition, the frequent ones, which come first, more often.

    Returns
    -------
    list of array
        The words, how often a sample is expected to have each of the targets, and each of its words.
    """
    drawn = np.exp(random.random(64 * SAMPLED) * np.log(WORDS + 1)).astype(np.int64) - 1
    first = np.sort(np.unique(np.minimum(drawn, WORDS - 1), return_index=True)[1])[:SAMPLED]
    words, tries = drawn[first], int(first[-1]) + 1

    def expected(ids: np.ndarray) -> np.ndarray:
        chance = np.log((ids + 2) / (ids + 1)) / np.log(WORDS + 1)
        return -np.expm1(tries * np.log1p(-chance)).astype(np.float32)  # type: ignore[no-any-return]

    return [words, expected(targets.reshape(-1, 1)), expected(words)]


def text() -> np.ndarray:
    """Return words, [LENGTH + 1, BATCH], as frequent as in a language."""
    random = np.random.default_rng(0)
    return (np.exp(random.random((LENGTH + 1, BATCH)) * np.log(WORDS)) - 1).astype(np.int64)


def table(tg: Any, devices: int, *shape: int) -> Any:
    """Return a variable with a row for each word, dealt out to the devices in turn: frequent ones come first."""
    places = [f"/cpu:{number}" for number in range(devices)]
    draw = partial(tg.random_uniform, minval=-0.05, maxval=0.05)
    cut, options = tg.fixed_size_partitioner(devices), {"devices": places, "partition_strategy": "mod"}
    return tg.PartitionedVariable(draw, cut, shape=[WORDS, *shape], **options)


def outputs(tg: Any, vectors: Any) -> Any:
    """Return what the upper LSTM says of each word, [LENGTH * BATCH, UNITS]."""
    random = np.random.default_rng(2)
    size = (LAYERS, 2 * UNITS, 4 * UNITS)
    kernels = [tg.Variable(0.05 * each) for each in random.standard_normal(size, np.float32)]
    source, result = tg.TensorArray("float32", LENGTH).unstack(vectors), tg.TensorArray("float32", LENGTH)

    def body(t: Any, states: Any, result: Any) -> tuple[Any, ...]:
        below, after = source.read(t), []
        for kernel, (h, c) in zip(kernels, states, strict=True):
            below, c = cell(tg, tg.split(tg.matmul(tg.concat([below, h], 1), kernel), 4, axis=1), c)
            after.append((below, c))
        return t + 1, after, result.write(t, below)

    zeros = np.zeros((BATCH, UNITS), np.float32)
    *_, result = tg.while_loop(lambda t, *_: t < LENGTH, body, [0, [(zeros, zeros)] * LAYERS, result])
    return tg.reshape(result.stack(), [-1, UNITS])


def sampled(tg: Any, weights: Any, biases: Any, targets: Any, h: Any) -> tuple[Any, list[Any]]:
    """Return the loss by a sample, which is fed, and its placeholders."""
    shapes = [[SAMPLED], [LENGTH * BATCH, 1], [SAMPLED]]
    feeds = [tg.placeholder(d, s) for d, s in zip(("int64", "float32", "float32"), shapes, strict=True)]
    labels = tg.expand_dims(targets, 1)
    return tg.sampled_softmax_loss(weights, biases, labels, h, SAMPLED, WORDS, sampled_values=feeds), feeds


def full(tg: Any, weights: Any, biases: Any, targets: Any, h: Any) -> tuple[Any, list[Any]]:
    """Return the loss by all words."""
    return tg.full_softmax_loss(weights, biases, targets, h), []


def logits(tg: Any, weights: Any, biases: Any, targets: Any, h: Any) -> tuple[Any, list[Any]]:
    """Return the loss by all words, whose logits come together on one device."""
    found = []
    for w, b in zip(weights, biases, strict=True):
        with tg.device(w.device):
            found.append(tg.matmul(h, w, transpose_b=True) + b)
    count = len(found)
    labels = targets % count * (WORDS // count) + targets // count
    return tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tg.concat(found, 1)), []


def program(tg: Any, case: Case, softmax: Any) -> tuple[list[Any], list[Any], Any]:
    """Build the model; return its feeds, its fetches and what initializes it."""
    words, targets = tg.placeholder("int64", [LENGTH, BATCH]), tg.placeholder("int64", [LENGTH * BATCH])
    embeddings, weights = (table(tg, case["devices"], UNITS) for _ in range(2))
    biases = table(tg, case["devices"])
    with tg.device(LSTM):
        h = outputs(tg, tg.embedding_lookup(embeddings, words))
        losses, feeds = softmax(tg, weights, biases, targets, h)
        loss = tg.reduce_mean(losses)
    train = tg.training.GradientDescentOptimizer(0.5).minimize(loss)
    return [words, targets, *feeds], [loss, train], tg.global_variables_initializer()


async def trained(softmax: Any, case: Case, stack: AsyncExitStack) -> Observed:
    """Train on devices of one session, and note how many bytes travel in a step."""
    import tagloom as tg

    with tg.Graph(seed=1).as_default() as graph:
        feeds, fetches, initialize = program(tg, case, softmax)
    session = await stack.enter_async_context(tg.Session(graph, devices=case["devices"]))
    await session.run(initialize)
    step, given, random = session.make_step(fetches, feeds), text(), np.random.default_rng(3)
    values = [given[:-1], given[1:].reshape(-1)]
    figures: dict[str, list[float]] = {BYTES: []}

    async def run() -> list[Any]:
        drawn = sample(random, values[1]) if softmax is sampled else []
        loss, _ = await step(*values, *drawn)
        figures[BYTES].append(float(sum(each.bytes for each in session.report().traffic)))
        return [loss]

    count = SAMPLED + 1 if softmax is sampled else WORDS
    noted = {LOGITS: f"{count:,}, {WORDS / SAMPLED:.0f} times fewer" if softmax is sampled else f"{count:,}"}
    return Observed(run, figures, lambda: noted, compared=lambda values: [])  # a sample's loss is another


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Train by a sample."""
    return await trained(sampled, case, stack)


async def by_all(case: Case, stack: AsyncExitStack) -> Observed:
    """Train by all words, each shard's where it is."""
    return await trained(full, case, stack)


async def by_logits(case: Case, stack: AsyncExitStack) -> Observed:
    """Train by all words, with the logits in one place."""
    return await trained(logits, case, stack)


EXPERIMENT = Experiment(
    name="sampled_softmax",
    cases=tuple({"devices": count} for count in (1, 2, 4, 8)),
    quick_cases=({"devices": 1}, {"devices": 2}, {"devices": 8}),
    quick_seconds=100.0,
    engines={"tagloom": tagloom, "full": by_all, "logits": by_logits},
    metric="milliseconds",
    time_unit=1e3,
    figures=(BYTES,),
    notes=(LOGITS,),
)

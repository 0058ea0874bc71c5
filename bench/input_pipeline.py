"""Lines of text from a source that answers after 1 ms, made tokens and padded batches: one epoch is a step.

tagloom asks for `at_once` lines at the same time in its event loop, which is what a loop is for; the peer has two
worker processes, each of which waits for one line after the other. With two lines at once tagloom is as fast as its
timers are: 0.8 of the peer with uvloop's, which count in milliseconds. The lag of the loop is how late a sleeper beside
the pipeline wakes.
"""

from __future__ import annotations

import asyncio
import pydoc_data.topics
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed, Step
from .loop_lag import P99, WORST_NAP, observed

BATCH, LATENCY, WORKERS, PREFETCHED = 32, 1e-3, 2, 4
WORDS = re.compile(r"\w+")


def text(count: int) -> tuple[list[str], dict[str, int]]:
    """Return lines of real text, and a number for each of their words."""
    whole = "\n".join(pydoc_data.topics.topics.values())
    lines = [line for line in whole.splitlines() if WORDS.search(line)][:count]
    words = sorted({word for line in lines for word in WORDS.findall(line)})
    return lines, {word: number for number, word in enumerate(words, 1)}


def tokens(line: str, vocabulary: dict[str, int]) -> np.ndarray:
    """Return the numbers of a line's words."""
    return np.array([vocabulary[word] for word in WORDS.findall(line)], np.int32)


def figures(batches: list[np.ndarray]) -> list[np.ndarray]:
    """Return the shapes of batches, and sums that depend on each token and its place."""
    places = [np.arange(1, batch.size + 1, dtype=np.float64).reshape(batch.shape) for batch in batches]
    return [
        np.array([batch.shape for batch in batches], np.float64),
        np.array([float((batch * place).sum()) for batch, place in zip(batches, places, strict=True)]),
    ]


def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Go through a Dataset."""
    import tagloom as tg

    lines, vocabulary = text(case["lines"])

    async def fetch(number: int) -> str:
        await asyncio.sleep(LATENCY)
        return lines[number]

    data = (
        tg.data.from_iterable(range(len(lines)))
        .map(fetch, parallel=case["at_once"])
        .map(lambda line: tokens(line, vocabulary))
        .padded_batch(BATCH)
        .prefetch(PREFETCHED)
    )

    async def step() -> list[np.ndarray]:
        return figures([batch async for batch in data])

    return observed(step)


def torch(case: Case, stack: AsyncExitStack) -> Step:
    """Go through a DataLoader whose workers take turns with batches, and stay from epoch to epoch."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    lines, vocabulary = text(case["lines"])

    class Lines(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            for first in range(get_worker_info().id * BATCH, len(lines), WORKERS * BATCH):
                for line in lines[first : first + BATCH]:
                    time.sleep(LATENCY)
                    yield torch.from_numpy(tokens(line, vocabulary))

    loader = DataLoader(
        Lines(),
        batch_size=BATCH,
        num_workers=WORKERS,
        prefetch_factor=PREFETCHED // WORKERS,
        persistent_workers=True,
        multiprocessing_context="fork",
        collate_fn=lambda column: pad_sequence(column, batch_first=True),
    )

    def step() -> list[np.ndarray]:
        return figures([batch.numpy() for batch in loader])

    return step


EXPERIMENT = Experiment(
    name="input_pipeline",
    cases=({"lines": 2_048, "at_once": 32},),
    engines={"tagloom": tagloom, "torch": torch},
    metric="elements_per_second",
    amount=lambda case: float(case["lines"]),
    figures=(P99,),
    notes=(WORST_NAP,),
)

"""Draws of many random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .large_programs import ROW, Build, Program, rows, sizes


def drawn(build: Callable[[Any, Any], Any]) -> Build:
    """Return what builds a random operation of a fed shape."""

    def program(n: int) -> Program:
        import tagloom as tg

        shape = tg.placeholder("int32", [2])
        return Program(build(tg, shape), {shape: sizes(n // ROW, ROW)})

    return program


def categorical(n: int) -> Program:
    """Return draws of four classes for each row."""
    import tagloom as tg

    logits, count = tg.placeholder("float32"), tg.placeholder("int32", [])
    return Program(tg.categorical(logits, count), {logits: rows(n // 4), count: np.int32(4)})


def shuffled(n: int) -> Program:
    """Return rows in another order."""
    import tagloom as tg

    x = tg.placeholder("float32")
    return Program(tg.random_shuffle(x), {x: rows(n)})


def sampled(n: int) -> Program:
    """Return candidates, each drawn on its own by its probability."""
    import tagloom as tg

    counts = [int(count) for count in 1 + np.arange(1000) % 7]
    labels = tg.zeros([1, 1], "int64")
    drawn = tg.fixed_unigram_candidate_sampler(labels, 1, n, False, len(counts), unigrams=counts)
    return Program(drawn.sampled_candidates)


def different(n: int) -> Program:
    """Return candidates that all differ, half of the classes."""
    import tagloom as tg

    classes = n // 10
    return Program(tg.log_uniform_candidate_sampler(tg.zeros([1, 1], "int64"), 1, classes // 2, True, classes)[0])


KEY = [3, 7]


def categorical_by_key(n: int) -> Program:
    """Return draws by a key of four classes for each row."""
    import tagloom as tg

    logits, count = tg.placeholder("float32"), tg.placeholder("int32", [])
    return Program(tg.stateless_categorical(logits, count, KEY), {logits: rows(n // 4), count: np.int32(4)})


def shuffled_by_key(n: int) -> Program:
    """Return rows in another order, by a key."""
    import tagloom as tg

    x = tg.placeholder("float32")
    return Program(tg.stateless_shuffle(x, KEY), {x: rows(n)})


def keys(n: int) -> Program:
    """Return many keys made of one."""
    import tagloom as tg

    return Program(tg.stateless_split(KEY, n))


RANDOM: dict[str, Build] = {
    "Categorical": categorical,
    "RandomCandidates": sampled,
    "RandomCandidates: different": different,
    "RandomGamma": drawn(lambda tg, shape: tg.random_gamma(shape, 0.5)),
    "RandomPoisson": drawn(lambda tg, shape: tg.random_poisson(3.0, shape)),
    "RandomShuffle": shuffled,
    "RandomStandardNormal": drawn(lambda tg, shape: tg.random_normal(shape)),
    "RandomUniform": drawn(lambda tg, shape: tg.random_uniform(shape)),
    "RandomUniformInt": drawn(lambda tg, shape: tg.random_uniform(shape, maxval=9, dtype="int32")),
    "KeySplit": keys,
    "StatelessCategorical": categorical_by_key,
    "StatelessGamma": drawn(lambda tg, shape: tg.stateless_random_gamma(shape, KEY, 0.5)),
    "StatelessNormal": drawn(lambda tg, shape: tg.stateless_random_normal(shape, KEY)),
    "StatelessPoisson": drawn(lambda tg, shape: tg.stateless_random_poisson(shape, KEY, 3.0)),
    "StatelessShuffle": shuffled_by_key,
    "StatelessTruncatedNormal": drawn(lambda tg, shape: tg.stateless_truncated_normal(shape, KEY)),
    "StatelessUniform": drawn(lambda tg, shape: tg.stateless_random_uniform(shape, KEY)),
    "StatelessUniformInt": drawn(lambda tg, shape: tg.stateless_random_uniform(shape, KEY, maxval=9, dtype="int32")),
    "TruncatedNormal": drawn(lambda tg, shape: tg.truncated_normal(shape)),
}

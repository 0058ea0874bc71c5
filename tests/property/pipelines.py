"""Random pipelines, each with what it means in plain Python."""

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tagloom import data


@dataclass(frozen=True)
class Program:
    """A Dataset, and a function of epochs that returns the list of its elements."""

    dataset: Any
    model: Any
    text: str

    def then(self, dataset, model, text):
        """Return a longer one; `model` is given the list."""
        return Program(dataset, lambda epochs: model(self.model(epochs), epochs), f"{self.text}.{text}")


def sources(length):
    """Yield programs of the numbers below `length`."""

    async def waiting():
        for i in range(length):
            if i % 3 == 1:
                await asyncio.sleep(0)
            yield i

    made = {
        "iterable": data.from_iterable(range(length)),
        "in_thread": data.from_iterable(lambda: iter(range(length)), threads=True),
        "async": data.from_async(waiting),
        "arrays": data.from_arrays(np.arange(length)),
    }
    return [Program(dataset, lambda epochs: list(range(length)), f"{name}({length})") for name, dataset in made.items()]


def double(x):
    return 2 * int(x) + 1


async def double_later(x):
    for _ in range(int(x) % 4):
        await asyncio.sleep(0)
    return double(x)


def drawn(x, rng):
    return int(x) + int(rng.integers(100))


def some(x):
    return int(x) % 3 != 0


def shuffled(values, size, seed):
    """Return values in the order that the documents tell."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    buffer, found = list(values[:size]), []
    for value in values[size:]:
        place = int(random.random() * size)
        found.append(buffer[place])
        buffer[place] = value
    while buffer:
        place = int(random.random() * len(buffer))
        buffer[place], buffer[-1] = buffer[-1], buffer[place]
        found.append(buffer.pop())
    return found


def interleaved(values, cycle, block):
    """Return the numbers below the remainder by 4 of each value, `block` of each of `cycle` in turn."""
    waiting, places, found = [range(int(v) % 4) for v in values], [None] * cycle, []
    turn = given = idle = 0
    while idle < cycle:
        if places[turn] is None and waiting:
            places[turn] = iter(waiting.pop(0))
        if places[turn] is None:
            turn, given, idle = (turn + 1) % cycle, 0, idle + 1
            continue
        value = next(places[turn], None)
        if value is None:
            places[turn], given, idle = None, 0, 0
            continue
        found.append(value)
        given, idle = given + 1, 0
        if given == block:
            turn, given = (turn + 1) % cycle, 0
    return found


def repeated(program, count):
    def model(epochs):
        return [x for epoch in range(count) for x in program.model((*epochs, epoch))]

    return Program(program.dataset.repeat(count), model, f"{program.text}.repeat({count})")


def mixed_with_itself(program):
    pairs = data.zip_datasets(program.dataset, program.dataset.skip(1))
    return program.then(
        pairs.map(lambda pair: int(pair[0]) + 2 * int(pair[1])),
        lambda values, _: [a + 2 * b for a, b in pairwise(values)],
        "zipped()",
    )


counts = st.integers(1, 7)


@st.composite
def longer(draw, programs):
    """Draw a pipeline with one transformation more."""
    p = draw(programs)
    d, n = p.dataset, draw(counts)
    seed, reshuffle = draw(st.integers(0, 9)), draw(st.booleans())

    def draws(values, epochs):
        return [drawn(x, np.random.default_rng([seed, *epochs, i])) for i, x in enumerate(values)]

    def shuffle(values, epochs):
        return shuffled(values, n, [seed, *epochs] if reshuffle else [seed])

    choices = [
        lambda: p.then(d.map(double), lambda v, _: list(map(double, v)), "map(double)"),
        lambda: p.then(d.map(double, parallel=n, threads=True), lambda v, _: list(map(double, v)), f"in_threads({n})"),
        lambda: p.then(d.map(double_later, parallel=n), lambda v, _: list(map(double, v)), f"map(later, {n})"),
        lambda: p.then(d.map(drawn, seed=seed), draws, f"map(drawn, {seed})"),
        lambda: p.then(d.filter(some), lambda v, _: list(filter(some, v)), "filter(some)"),
        lambda: p.then(d.shuffle(n, seed, reshuffle), shuffle, f"shuffle({n}, {seed}, {reshuffle})"),
        lambda: p.then(d.prefetch(n), lambda v, _: v, f"prefetch({n})"),
        lambda: p.then(d.take(n), lambda v, _: v[:n], f"take({n})"),
        lambda: p.then(d.skip(n), lambda v, _: v[n:], f"skip({n})"),
        lambda: repeated(p, n % 3),
        lambda: mixed_with_itself(p),
        lambda: p.then(
            d.interleave(lambda x: data.from_iterable(range(int(x) % 4)), n, 1 + seed % 2),
            lambda v, _: interleaved(v, n, 1 + seed % 2),
            f"interleave({n}, {1 + seed % 2})",
        ),
    ]
    return draw(st.sampled_from(choices))()


def in_batches(values, size, drop):
    found = [values[i : i + size] for i in range(0, len(values), size)]
    return [each for each in found if len(each) == size or not drop]


def in_buckets(values, boundary, size):
    """Return padded batches of lists of lengths below, and from, a boundary."""
    buckets, found = {}, []
    for value in values:
        row = [1] * (int(value) % 6)
        key = len(row) >= boundary
        buckets.setdefault(key, []).append(row)
        if len(buckets[key]) == size:
            found.append(padded(buckets.pop(key)))
    return found + [padded(rows) for rows in buckets.values()]


def padded(rows):
    longest = max(map(len, rows))
    return [row + [0] * (longest - len(row)) for row in rows]


@st.composite
def pipelines(draw):
    """Draw a pipeline that perhaps ends with batches."""
    programs = st.integers(0, 12).flatmap(lambda length: st.sampled_from(sources(length)))
    for _ in range(draw(st.integers(0, 4))):
        programs = longer(programs)
    p = draw(programs)
    d, n, drop = p.dataset.map(int), draw(counts), draw(st.booleans())
    ends = [
        lambda: p,
        lambda: p.then(d.batch(n, drop), lambda v, _: in_batches(v, n, drop), f"batch({n}, {drop})"),
        lambda: p.then(d.enumerate(n), lambda v, _: list(enumerate(v, n)), f"enumerate({n})"),
        lambda: p.then(
            d.map(lambda x: np.ones(x % 6, np.int64)).bucket_by_length(len, [n], n),
            lambda v, _: in_buckets(v, n, n),
            f"buckets({n})",
        ),
    ]
    return draw(st.sampled_from(ends))()

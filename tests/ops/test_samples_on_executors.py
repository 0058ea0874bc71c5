"""Every sample of every operation against what it expects: by both executors and in threads."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.ops.samples import SAMPLES, build, expectation, flat, same
from tests.support.cases import each
from tests.support.settings import ON

HOW = {
    "machine": {},
    "reference": {"executor": "reference"},
    "threads": {"settings": replace(ON, workers=3, offload_seconds=0.0, fold=False)},  # however short a kernel is
}
BATCH = 128


async def run_all(how):
    """Return the results of each sample in order, many samples to a step."""
    results = []
    for start in range(0, len(SAMPLES), BATCH):
        with tg.Graph().as_default() as graph:
            feeds, fetches = {}, []
            for definition, sample in (p.values for p in SAMPLES[start : start + BATCH]):
                op = build(definition, sample, lambda array: tg.placeholder(np.asarray(array).dtype))
                feeds.update(zip(op.inputs, flat(sample.inputs), strict=True))
                fetches.append(list(op.outputs))
        async with tg.Session(graph, **how) as session:
            results += await session.run(fetches, feeds)
    return results


@pytest.fixture(scope="module")
def results():
    return {name: asyncio.run(run_all(how)) for name, how in HOW.items()}


@each("k", [pytest.param(k, id=p.id) for k, p in enumerate(SAMPLES)])
def test_all_give_what_is_expected(results, k):
    definition, sample = SAMPLES[k].values
    machine, reference, threads = (results[name][k] for name in HOW)
    assert len(machine) == len(expectation(sample)), definition.type
    for ours, theirs, elsewhere, wanted in zip(machine, reference, threads, expectation(sample), strict=True):
        same(ours, wanted)
        for other in (theirs, elsewhere):
            assert ours.dtype == other.dtype
            assert ours.shape == other.shape
            np.testing.assert_array_equal(ours, other)

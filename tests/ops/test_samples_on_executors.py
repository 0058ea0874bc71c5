"""Every sample of every operation, run by both executors with its inputs fed, against what the sample expects."""

import asyncio

import numpy as np
import pytest
import tagflow as tg

from tests.ops.samples import SAMPLES, build, expectation, flat, same

EXECUTORS = ("machine", "reference")
BATCH = 128


async def run_all(executor):
    """Return the results of each sample in order, many samples to a step."""
    results = []
    for start in range(0, len(SAMPLES), BATCH):
        with tg.Graph().as_default() as graph:
            feeds, fetches = {}, []
            for definition, sample in (p.values for p in SAMPLES[start : start + BATCH]):
                op = build(definition, sample, lambda array: tg.placeholder(np.asarray(array).dtype))
                feeds.update(zip(op.inputs, flat(sample.inputs), strict=True))
                fetches.append(list(op.outputs))
        async with tg.Session(graph, executor=executor) as session:
            results += await session.run(fetches, feeds)
    return results


@pytest.fixture(scope="module")
def results():
    return {executor: asyncio.run(run_all(executor)) for executor in EXECUTORS}


@pytest.mark.parametrize("k", range(len(SAMPLES)), ids=[p.id for p in SAMPLES])
def test_both_executors_give_what_is_expected(results, k):
    definition, sample = SAMPLES[k].values
    machine, reference = (results[executor][k] for executor in EXECUTORS)
    assert len(machine) == len(expectation(sample)), definition.type
    for ours, theirs, wanted in zip(machine, reference, expectation(sample), strict=True):
        same(ours, wanted)
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)

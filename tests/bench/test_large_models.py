"""The experiments with large tables compute what they say, at small sizes."""

import inspect
from contextlib import AsyncExitStack

import numpy as np
import pytest

from bench import embedding, sampled_softmax


async def run(factory, case, steps=1):
    """Return the values of all steps, and the step."""
    async with AsyncExitStack() as stack:
        step = factory(case, stack)
        step = await step if inspect.isawaitable(step) else step
        return [np.asarray((await step())[0]) for _ in range(steps)], step


def losses_of(case, steps):
    """Return the losses of the steps after each batch has been seen once, in NumPy."""
    target = np.random.default_rng(1).standard_normal((embedding.BATCH, embedding.WIDTH))
    table, first, second = np.zeros((3, case["rows"], embedding.WIDTH))
    drawn, losses = list(embedding.batches(case)), []
    for time, ids in enumerate(drawn + drawn[:steps], 1):
        away = table[ids] - target
        losses.append(np.mean(away**2))
        slope = 2 * away / away.size
        if case["optimizer"] == "sgd":
            table[ids] -= embedding.RATE * slope
            continue
        first[ids] = 0.9 * first[ids] + 0.1 * slope
        second[ids] = 0.999 * second[ids] + 0.001 * slope**2
        rate = embedding.RATE * np.sqrt(1 - 0.999**time) / (1 - 0.9**time)
        table[ids] -= rate * first[ids] / (np.sqrt(second[ids]) + 1e-8)
    return losses[len(drawn) :]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
async def test_rows_are_trained(optimizer):
    case = {"optimizer": optimizer, "rows": 500}
    assert all(len(set(ids)) == embedding.BATCH for ids in embedding.batches(case))
    found, _ = await run(embedding.tagloom, case, steps=3)
    np.testing.assert_allclose(found, losses_of(case, 3), rtol=2e-4)


def test_a_large_table_is_compared_with_a_small_one():
    small, large = embedding.cases(10, 1000)[:2]
    assert list(embedding.sizes([(small, 2.0), (large, 2.5)])) == [(large, "rows_10", 0.8)]


@pytest.fixture
def little(monkeypatch):
    """Make the model small."""
    for name, size in {"WORDS": 48, "SAMPLED": 6, "UNITS": 4, "BATCH": 2, "LENGTH": 3}.items():
        monkeypatch.setattr(sampled_softmax, name, size)


@pytest.mark.usefixtures("little")
async def test_all_words_are_the_same_however_they_are_computed():
    alone, step = await run(sampled_softmax.by_all, {"devices": 1}, steps=4)
    assert step.figures == {sampled_softmax.BYTES: [0.0] * 4}
    assert alone[3] < alone[0]
    np.testing.assert_allclose(alone[0], np.log(48), rtol=1e-2)
    together, far = await run(sampled_softmax.by_logits, {"devices": 2}, steps=4)
    apart, near = await run(sampled_softmax.by_all, {"devices": 2}, steps=4)
    np.testing.assert_allclose(apart, together, rtol=1e-5)
    assert 0 < near.figures[sampled_softmax.BYTES][0] < far.figures[sampled_softmax.BYTES][0]


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("devices", [1, 3])
async def test_a_sample_trains_too(devices):
    losses, step = await run(sampled_softmax.tagloom, {"devices": devices}, steps=30)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert all((count > 0) == (devices > 1) for count in step.figures[sampled_softmax.BYTES])
    assert step.notes() == {sampled_softmax.LOGITS: "7, 8 times fewer"}
    assert step.compared(losses) == []


@pytest.mark.usefixtures("little")
def test_a_sample_has_no_word_twice_and_says_what_to_expect():
    random, targets = np.random.default_rng(0), np.arange(48)
    counts = np.zeros(48)
    for _ in range(2000):
        words, by_target, by_word = sampled_softmax.sample(random, targets)
        assert len(set(words)) == 6
        np.testing.assert_array_equal(by_target[words, 0], by_word)
        counts[words] += 1
    assert np.abs(counts / 2000 - sum_of_chances(random, targets)).max() < 0.05


def sum_of_chances(random, targets):
    """Return the mean of what is expected of each word."""
    return np.mean([sampled_softmax.sample(random, targets)[1][:, 0] for _ in range(500)], axis=0)

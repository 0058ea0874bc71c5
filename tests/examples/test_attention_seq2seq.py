"""A decoder with attention learns to write digits in another order, and both ways of decoding write them."""

import numpy as np
import pytest

from examples.attention_seq2seq import END, START, Batch, Size, draw, exact, train

SMALL = Size(units=24, batch=32, length=3, width=2)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("task", ["reverse", "sort"])
async def test_it_learns(task):
    losses, greedy, searched = await train(SMALL, 250, task, say=str)
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) / 4
    assert greedy > 0.8
    assert searched > 0.8


def test_what_is_to_be_written_stands_behind_a_start_and_before_an_end():
    batch = draw(np.random.default_rng(0), SMALL, "sort")
    for digits, before, after, n in zip(*batch.arrays, strict=True):
        wanted = sorted(digits[:n])
        assert before.tolist() == [START, *wanted, *[END] * (3 - n)]
        assert after.tolist() == [*wanted, *[END] * (4 - n)]


def test_a_sequence_is_exact_with_its_end():
    batch = Batch(None, None, np.int32([[3, END, END], [4, 5, END]]), np.int32([1, 2]))
    assert exact(np.int32([[3, END, 9], [4, 5, END]]), batch) == 1
    assert exact(np.int32([[3, 3], [4, 5]]), batch) == 0

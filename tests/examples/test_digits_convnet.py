"""A small network reads digits that it has not seen, and a network that sees no order reads none."""

from dataclasses import replace

import numpy as np
import pytest

from examples.digits_convnet import Size, load_digits, train

SMALL = Size(filters=8, hidden=32, epochs=4, rate=4e-3)


@pytest.fixture(scope="module")
def digits():
    return load_digits()


async def test_it_reads_digits_that_were_held_out(digits):
    lines = []
    found = await train(digits, SMALL, say=lines.append)
    assert found > 0.94
    assert len(lines) == SMALL.epochs
    assert lines[-1].startswith("epoch 4: loss 0.")


async def test_it_learns_from_the_images(digits):
    blank = replace(digits, images=np.zeros_like(digits.images))
    assert await train(blank, replace(SMALL, epochs=1), say=str) < 0.3

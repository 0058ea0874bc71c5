"""A small model tells code from prose, and a run in two parts is one run."""

import pytest

from examples.text_pipeline import run, write_texts
from tests.support.tiers import choose


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    directory = tmp_path_factory.mktemp("texts")
    write_texts(directory)
    return directory


async def test_it_tells_code_from_prose_and_goes_on_where_it_was(texts, tmp_path):
    lines, steps = [], choose(thorough=150, default=60)
    losses, right = await run(texts, tmp_path / "whole", steps, say=lines.append)
    assert len(lines) == steps // 50 + 1
    assert right > choose(0.75, 0.6)  # 56 in 100 lines are code
    begin, _ = await run(texts, tmp_path / "parts", steps - 5, say=str)
    rest, again = await run(texts, tmp_path / "parts", steps, say=str)
    saved = (steps - 5) // 50 * 50  # every 50 steps
    assert begin[:saved] + rest == losses
    assert again == right

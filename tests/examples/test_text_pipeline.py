"""A small model tells code from prose, and a run in two parts is one run."""

import pytest

from examples.text_pipeline import run, write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    directory = tmp_path_factory.mktemp("texts")
    write_texts(directory)
    return directory


async def test_it_tells_code_from_prose_and_goes_on_where_it_was(texts, tmp_path):
    lines = []
    losses, right = await run(texts, tmp_path / "whole", 150, say=lines.append)
    assert len(lines) == 4
    assert right > 0.75  # 56 in 100 lines are code
    begin, _ = await run(texts, tmp_path / "parts", 70, say=str)
    rest, again = await run(texts, tmp_path / "parts", 150, say=str)
    assert begin[:50] + rest == losses
    assert again == right

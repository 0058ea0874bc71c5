"""The example of figure 1: what is read, trained and saved, also when it is killed."""

import asyncio

from examples.pipeline import Size, run, run_and_kill
from tests.support.tiers import choose

SMALL = Size(steps=60)


def quiet(*text, **options):
    pass


def test_it_learns_and_goes_on_where_it_was(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for directory in (whole, parts):
        directory.mkdir()
    digest, accuracy = asyncio.run(run(whole, SMALL, quiet))
    asyncio.run(run(parts, Size(steps=25), quiet))
    assert asyncio.run(run(parts, SMALL, quiet)) == (digest, accuracy)
    assert accuracy > 0.4


def test_a_run_that_was_killed_ends_with_the_same_bits():
    killed, undisturbed = run_and_kill(Size(steps=40), kills=choose(thorough=2, default=1), say=quiet)
    assert killed == undisturbed
    assert killed.startswith("weights ")

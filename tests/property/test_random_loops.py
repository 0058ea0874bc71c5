"""Random cells in loops of all kinds: whatever is lifted, split, merged or done in blocks, results are the same."""

import os
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import TensorArrayError

from tests.property.cells import Cells, make_every_product_worthwhile
from tests.support.running import machine_results
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

PASSES = ("hoist", "hoist_bytes", "block_bytes", "merge_products", "narrow", "batch", "accumulate")
OFF = ON.without(*PASSES)
BLOCKS = replace(ON, hoist_bytes=0, block_bytes=1 << 10)
PROGRAMS = int(os.environ.get("TAGLOOM_PROGRAMS", "100"))


@pytest.fixture(autouse=True)
def every_product_is_worth_it(monkeypatch):
    make_every_product_worthwhile(monkeypatch)


def results(cells, fetches, settings, values):
    """Return what fetches are, or which error ends the step; which of several comes first may differ."""
    try:
        return machine_results(fetches, cells.feeds, values, settings)
    except (IndexError, ValueError, TensorArrayError) as error:
        return type(error)


@pytest.mark.sampled(every=25)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_results_are_the_same_however_a_loop_is_made_fast(seed):
    cells = Cells(seed)
    fetches = [tg.convert_to_tensor(f) for f in cells.loop()]
    values = cells.values(seed)
    wanted = results(cells, fetches, OFF, values)
    for settings in (ON, BLOCKS):
        found = results(cells, fetches, settings, values)
        if isinstance(wanted, type):
            assert isinstance(found, type)
            continue
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)
